//! Builds the command line that confines a program with `bwrap`. Then `bwrap` creates the
//! namespaces and the view of the file system, not the module `namespaces`. Some systems allow only
//! `bwrap` to create namespaces.

use std::path::Path;

use super::view::{FileViewMount, MountSource};

/// Returns the beginning of a `bwrap` command line. The arguments appended to it are passed to the
/// helper, which runs inside the view as the first process of its PID namespace.
pub(super) fn bwrap_command(
    bwrap: &Path,
    helper: &Path,
    mounts: &[FileViewMount],
    network: bool,
) -> Vec<String> {
    let mut command = vec![bwrap.to_string_lossy().into_owned()];
    let mut add = |words: &[&dyn AsRef<Path>]| {
        // A lossy conversion is safe here: the policy contains the same paths, and serializing the
        // policy fails if a path is not UTF-8.
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
    for FileViewMount { at, what } in mounts {
        match what {
            MountSource::ReadOnly(source) => add(&[&"--ro-bind", source, at]),
            MountSource::Writable(source) => add(&[&"--bind", source, at]),
            MountSource::Device(source) => add(&[&"--dev-bind", source, at]),
            MountSource::Folder => add(&[&"--dir", at]),
            MountSource::Link(to) => add(&[&"--symlink", to, at]),
            MountSource::Memory(bytes) => {
                let bytes = bytes.to_string();
                add(&[&"--perms", &"1777", &"--size", &bytes, &"--tmpfs", at]);
            }
            MountSource::Processes => add(&[&"--proc", at]),
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
