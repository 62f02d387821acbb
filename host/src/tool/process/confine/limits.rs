//! Resource limits of this process and all it starts.

use std::io;

use serde::{Deserialize, Serialize};

#[cfg(target_os = "linux")]
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::tool::process::tree::memory_of_machine_bytes;

/// Bounds of one command and everything it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Most memory of all its processes together, and of each, in bytes.
    pub memory_bytes: u64,
    /// Most processes and threads.
    pub processes: u64,
    /// Largest file, in bytes.
    pub file_bytes: u64,
    /// Most of the free space of the disks that it may write to, in bytes.
    pub disk_bytes: u64,
    /// Most that its temporary folder may hold in memory, where it is a folder in memory; in bytes.
    pub temporary_bytes: u64,
}

impl Default for Limits {
    /// Leaves room for the build of a large program and its tests, or for a browser, and not for so
    /// many processes that the machine stands still.
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
        let memory = memory_of_machine_bytes("MemTotal:").unwrap_or(16 << 30);
        Self {
            memory_bytes: memory / 4 * 3,
            processes: (PROCESSES_FOR_PROCESSOR * processors).clamp(MIN_PROCESSES, MAX_PROCESSES),
            file_bytes: 16 << 30,
            disk_bytes: 64 << 30,
            temporary_bytes: (memory / 4).min(4 << 30),
        }
    }
}

/// Limits of processes and threads of a command: per processor, minimum and maximum. A compiler
/// starts one thread per processor in each of as many processes; a browser has about 300 on any
/// machine.
const PROCESSES_FOR_PROCESSOR: u64 = 128;
const MIN_PROCESSES: u64 = 512;
const MAX_PROCESSES: u64 = 4096;

/// Niceness of commands. Competing with a program of normal priority, a command gets a quarter of a
/// processor. With niceness 10 it would get a tenth, and one of several concurrent builds would
/// hardly progress.
pub(super) const NICENESS: i32 = 5;

/// Maximum of the niceness rlimit. The kernel subtracts the rlimit from it to get the lowest
/// niceness.
#[cfg(target_os = "linux")]
const MAX_NICENESS_LIMIT: u64 = 20;

/// Room for the user's other processes and threads, where the kernel counts them together with those of a command: a whole
/// desktop.
const OTHER_PROCESSES: u64 = 12_288;

impl Limits {
    /// Most processes of a user whose other ones the kernel counts together with those of a command.
    #[must_use]
    pub fn processes_among_others(&self) -> u64 {
        self.processes.saturating_add(OTHER_PROCESSES)
    }
}

/// Keeps this process's environment, memory and descriptors from other processes of the same user, and makes it leave no
/// core dump: there may be keys in it. What it starts is not affected.
#[cfg(target_os = "linux")]
pub fn hide_process() {
    // Fails for no reason that anything could be done about.
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
}

/// Does nothing: only Linux supports it.
#[cfg(not(target_os = "linux"))]
pub fn hide_process() {}

/// Ends this process when the one that started it ends, however that comes.
#[cfg(target_os = "linux")]
pub fn end_with_parent() {
    use rustix::process::{Signal, set_parent_process_death_signal};
    // Without it there are still the limits.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
}

/// Does nothing: only Linux supports it.
#[cfg(not(target_os = "linux"))]
pub fn end_with_parent() {}

/// The limits of a confined program. `shares_processes`: whether the kernel counts other processes of the user too.
#[cfg(target_os = "linux")]
pub(super) fn cap_program(limits: &Limits, shares_processes: bool) -> io::Result<()> {
    // A dump would hold whatever was in memory.
    cap(Resource::Core, 0)?;
    let processes = if shares_processes {
        limits.processes_among_others()
    } else {
        limits.processes
    };
    cap(Resource::Nproc, processes)?;
    // Prevents the program from raising its priority again.
    cap(
        Resource::Nice,
        MAX_NICENESS_LIMIT - u64::from(NICENESS.unsigned_abs()),
    )?;
    cap(Resource::Rtprio, 0)?;
    cap(Resource::Fsize, limits.file_bytes)
}

/// Makes the kernel end this process and what it starts, rather than the host, when memory runs out.
#[cfg(target_os = "linux")]
pub(super) fn end_first_when_memory_runs_out() {
    let _ = std::fs::write("/proc/self/oom_score_adj", "500");
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

/// Does nothing: comparable limits exist on Linux only.
#[cfg(not(target_os = "linux"))]
pub fn cap_memory_and_time(_bytes: u64, _cpu_seconds: u64) -> io::Result<()> {
    Ok(())
}
