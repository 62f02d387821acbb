//! The same namespaces and view, made by the program `bwrap`: some systems give namespaces to it and to nobody else.

use std::path::Path;

use super::view::{Mount, What};

/// The beginning of a command line: what follows it runs within the view, as its first process.
pub(super) fn command(bwrap: &Path, helper: &Path, mounts: &[Mount], network: bool) -> Vec<String> {
    let mut command = vec![bwrap.to_string_lossy().into_owned()];
    let mut add = |words: &[&dyn AsRef<Path>]| {
        // What is not UTF-8 is refused when the policy is made.
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
