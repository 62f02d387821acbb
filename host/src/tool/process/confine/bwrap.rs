//! The same namespaces and view, created by the program `bwrap`. Some systems allow namespaces for
//! `bwrap` only.

use std::path::Path;

use super::view::{Mount, What};

/// Returns the start of a `bwrap` command line. The program appended to it runs inside the view, as
/// the first process of its PID namespace.
pub(super) fn command(bwrap: &Path, helper: &Path, mounts: &[Mount], network: bool) -> Vec<String> {
    let mut command = vec![bwrap.to_string_lossy().into_owned()];
    let mut add = |words: &[&dyn AsRef<Path>]| {
        // A lossy conversion is safe: serializing the policy fails for paths that are not UTF-8.
        command.extend(
            words
                .iter()
                .map(|word| word.as_ref().to_string_lossy().into_owned()),
        );
    };
    add(&[&"--unshare-all", &"--die-with-parent", &"--as-pid-1"]);
    if network {
        add(&[&"--share-net"]);
    }
    for Mount { at, what } in mounts {
        match what {
            What::ReadOnly(source) => add(&[&"--ro-bind", source, at]),
            What::Writable(source) => add(&[&"--bind", source, at]),
            What::Device(source) => add(&[&"--dev-bind", source, at]),
            What::Folder => add(&[&"--dir", at]),
            What::Link(to) => add(&[&"--symlink", to, at]),
            What::Memory(bytes) => {
                let bytes = bytes.to_string();
                add(&[&"--perms", &"1777", &"--size", &bytes, &"--tmpfs", at]);
            }
            What::Processes => add(&[&"--proc", at]),
        }
    }
    add(&[
        &"--ro-bind",
        &helper,
        &helper,
        &"--remount-ro",
        &"/",
        &"--",
        &helper,
    ]);
    command
}
