//! The same confinement of files by `bwrap`, for kernels without Landlock: a view in which nothing else is there.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The beginning of a command line: what follows it runs within the view.
pub(super) fn command(
    bwrap: &Path,
    helper: &Path,
    write: &[PathBuf],
    read: &[PathBuf],
    network: bool,
    cwd: &Path,
) -> Vec<OsString> {
    let mut command = vec![OsString::from(bwrap), "--unshare-all".into()];
    if network {
        command.push("--share-net".into());
    }
    let mut bind = |how: &str, path: &Path| {
        command.extend([how.into(), path.into(), path.into()]);
    };
    // Links such as `/bin` are followed by `bwrap`: the folder behind them is mounted under their name.
    for path in read.iter().filter(|path| !path.starts_with("/proc")) {
        bind("--ro-bind-try", path);
    }
    bind("--ro-bind", helper);
    for (kind, path) in [("--proc", "/proc"), ("--dev", "/dev")] {
        command.extend([kind.into(), path.into()]);
    }
    // Last, so that a workspace within one of the folders above can be written.
    for path in write {
        command.extend(["--bind".into(), path.into(), path.into()]);
    }
    command.extend(["--chdir".into(), cwd.into(), "--".into()]);
    command
}
