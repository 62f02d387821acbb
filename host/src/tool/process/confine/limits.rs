//! Resource limits of this process and all it starts.

use std::io;

#[cfg(target_os = "linux")]
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Most processes and threads of the user. The kernel counts all of them, not only those of one command, so this has to leave
/// room for a whole desktop; it ends a fork bomb before it ends the machine.
#[cfg(target_os = "linux")]
const MAX_PROCESSES: u64 = 16_384;

/// Largest file. Disk images and build outputs stay below; a command that writes for ever does not fill every disk.
#[cfg(target_os = "linux")]
const MAX_FILE_BYTES: u64 = 32 << 30;

/// Keeps this process's environment, memory and descriptors from other processes of the same user, and makes it leave no
/// core dump: there may be keys in it. What it starts is not affected.
#[cfg(target_os = "linux")]
pub fn hide_process() {
    // Fails for no reason that anything could be done about.
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
}

/// Only Linux has it.
#[cfg(not(target_os = "linux"))]
pub fn hide_process() {}

/// Ends this process when the one that started it ends, however that comes.
#[cfg(target_os = "linux")]
pub fn end_with_parent() {
    use rustix::process::{Signal, set_parent_process_death_signal};
    // Without it there are still the limits.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
}

/// Only Linux has it.
#[cfg(not(target_os = "linux"))]
pub fn end_with_parent() {}

/// The limits of a confined program.
#[cfg(target_os = "linux")]
pub(super) fn cap_program() -> io::Result<()> {
    // A dump would hold whatever was in memory.
    cap(Resource::Core, 0)?;
    cap(Resource::Nproc, MAX_PROCESSES)?;
    cap(Resource::Fsize, MAX_FILE_BYTES)
}

/// Caps the memory that this process may write to, and its processor time.
///
/// Not the address space: every thread's allocator sets some aside without using it, so that the same work would fail on a
/// machine with more processors.
#[cfg(target_os = "linux")]
pub fn cap_memory_and_time(bytes: u64, cpu_seconds: u64) -> io::Result<()> {
    cap(Resource::Data, bytes)?;
    cap(Resource::Cpu, cpu_seconds)
}

/// Lowers a limit for good; never raises one.
#[cfg(target_os = "linux")]
fn cap(resource: Resource, most: u64) -> io::Result<()> {
    let held = getrlimit(resource);
    let lower = |limit: Option<u64>| Some(limit.map_or(most, |limit| limit.min(most)));
    setrlimit(
        resource,
        Rlimit {
            current: lower(held.current),
            maximum: lower(held.maximum),
        },
    )?;
    Ok(())
}

/// Limits that count memory the same way are only to be had on Linux.
#[cfg(not(target_os = "linux"))]
pub fn cap_memory_and_time(_bytes: u64, _cpu_seconds: u64) -> io::Result<()> {
    Ok(())
}
