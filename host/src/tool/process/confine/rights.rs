//! Rights of root that a command does not need. Only who is root has any, and the helper in a user namespace of its own.
//!
//! The kernel lets some of them past its own checks: who may watch performance may read the environment of every process,
//! confined or not.

use std::io;

use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set,
    configure_capability_in_ambient_set, remove_capability_from_bounding_set, set_capabilities,
};

/// Rights over the user's own files, with which root can install and unpack as usual.
const KEPT: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::NET_BIND_SERVICE);

/// Gives up all rights but a few, from the next `exec` on. A refusal means that there was nothing to drop, or no right to:
/// what holds in the end is tried out, not taken from here.
pub(super) fn drop_all() {
    let _ = clear_ambient_capability_set();
    // All that a kernel could have: it refuses those that it does not.
    for right in (0..u64::BITS).map(|bit| CapabilitySet::from_bits_retain(1 << bit)) {
        if !KEPT.contains(right) {
            let _ = remove_capability_from_bounding_set(right);
        }
    }
}

/// Drops all capabilities of this process but those that root keeps, which are what the program gets.
pub(super) fn drop_own() -> io::Result<()> {
    let is_root = rustix::process::geteuid().is_root();
    let kept = if is_root {
        KEPT
    } else {
        CapabilitySet::empty()
    };
    set(kept, CapabilitySet::empty())
}

/// Gives up every right of this process. What it started keeps its own.
pub(super) fn drop_rest() -> io::Result<()> {
    set(CapabilitySet::empty(), CapabilitySet::empty())
}

/// Gives up all capabilities but these, and hands them on to what is started, also by who is not root in this namespace.
pub(super) fn hand_on(capabilities: CapabilitySet) -> io::Result<()> {
    set(capabilities, capabilities)?;
    for capability in capabilities.iter() {
        configure_capability_in_ambient_set(capability, true)?;
    }
    Ok(())
}

fn set(kept: CapabilitySet, inheritable: CapabilitySet) -> io::Result<()> {
    let sets = CapabilitySets {
        effective: kept,
        permitted: kept,
        inheritable,
    };
    Ok(set_capabilities(None, sets)?)
}
