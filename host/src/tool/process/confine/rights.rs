//! Rights of root that a command does not need. Only who is root has any, and the helper in a user namespace of its own.
//!
//! The kernel lets some of them past its own checks: who may watch performance may read the environment of every process,
//! confined or not.

use std::ffi::{c_int, c_ulong};
use std::io;

use super::kernel;

/// `PR_CAPBSET_DROP`: no program that is started from here on gets the right.
const DROP_FROM_BOUNDS: c_int = 24;

/// `PR_CAP_AMBIENT` with `PR_CAP_AMBIENT_CLEAR_ALL`: nothing is handed on to programs of users other than root.
const AMBIENT: (c_int, c_ulong) = (47, 4);

/// Rights over the user's own files, with which root can install and unpack as usual: `CAP_CHOWN`, `CAP_DAC_OVERRIDE`,
/// `CAP_FOWNER`, `CAP_FSETID`, `CAP_SETGID`, `CAP_SETUID` and `CAP_NET_BIND_SERVICE`.
const KEPT: &[c_ulong] = &[0, 1, 3, 4, 6, 7, 10];

/// Sentinel: one past the last capability; the kernel refuses those that it does not have.
const MAX_CAPABILITY: c_ulong = 64;

/// Gives up all rights but a few, from the next `exec` on. A refusal means that there was nothing to drop, or no right to:
/// what holds in the end is tried out, not taken from here.
pub(super) fn drop_all() {
    let (ambient, clear_all) = AMBIENT;
    let _ = kernel::ask_of_process(ambient, clear_all);
    for right in (0..MAX_CAPABILITY).filter(|right| !KEPT.contains(right)) {
        let _ = kernel::ask_of_process(DROP_FROM_BOUNDS, right);
    }
}

/// Drops all capabilities of this process but those that root keeps, which are what the program gets.
pub(super) fn drop_own() -> io::Result<()> {
    let is_root = rustix::process::geteuid().is_root();
    kernel::keep_capabilities(if is_root { KEPT } else { &[] })
}

/// Gives up every right of this process. What it started keeps its own.
pub(super) fn drop_rest() -> io::Result<()> {
    kernel::keep_capabilities(&[])
}
