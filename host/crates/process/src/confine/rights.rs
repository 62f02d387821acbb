//! Drops capabilities that a command does not need. Capabilities exist only in processes of root,
//! and in the helper inside its own user namespace.
//!
//! Some capabilities bypass other checks of the kernel: for example, a process with `CAP_PERFMON`
//! may read the environment of every process, whether confined or not.

use std::io;

use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set,
    configure_capability_in_ambient_set, remove_capability_from_bounding_set, set_capabilities,
};

/// Capabilities that a program of root keeps, so that root can install and unpack files as usual.
const KEPT_ROOT_CAPABILITIES: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::NET_BIND_SERVICE);

/// Drops all capabilities but those in [`KEPT_ROOT_CAPABILITIES`] from the bounding set, which
/// takes effect at the next `exec`. Errors are ignored, because the kernel also reports an error if
/// there is nothing to drop; the test of the confinement (`probe`) checks the actual result.
pub(super) fn limit_capability_bounding_set() {
    let _ = clear_ambient_capability_set();
    // Try every capability bit: the kernel refuses bits that it does not know.
    for right in (0..u64::BITS).map(|bit| CapabilitySet::from_bits_retain(1 << bit)) {
        if !KEPT_ROOT_CAPABILITIES.contains(right) {
            let _ = remove_capability_from_bounding_set(right);
        }
    }
}

/// Drops all capabilities of this process except those that the program shall inherit:
/// [`KEPT_ROOT_CAPABILITIES`] if this user is root, otherwise none.
pub(super) fn drop_uninherited_capabilities() -> io::Result<()> {
    let is_root = rustix::process::geteuid().is_root();
    let kept = if is_root {
        KEPT_ROOT_CAPABILITIES
    } else {
        CapabilitySet::empty()
    };
    set_process_capabilities(kept, CapabilitySet::empty())
}

/// Drops every capability of this process. Processes that it has already started keep theirs.
pub(super) fn drop_every_capability() -> io::Result<()> {
    set_process_capabilities(CapabilitySet::empty(), CapabilitySet::empty())
}

/// Drops all capabilities of this process except `capabilities`. Processes that this process starts
/// inherit `capabilities`, even if this user is not root in the namespace.
pub(super) fn keep_only_capabilities(capabilities: CapabilitySet) -> io::Result<()> {
    set_process_capabilities(capabilities, capabilities)?;
    for capability in capabilities.iter() {
        configure_capability_in_ambient_set(capability, true)?;
    }
    Ok(())
}

fn set_process_capabilities(kept: CapabilitySet, inheritable: CapabilitySet) -> io::Result<()> {
    let sets = CapabilitySets {
        effective: kept,
        permitted: kept,
        inheritable,
    };
    Ok(set_capabilities(None, sets)?)
}
