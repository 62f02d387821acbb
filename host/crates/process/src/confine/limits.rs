//! Limits the resources of this process and of all processes that it starts.
//!
//! These are the limits that need no control group: rlimits, niceness and the OOM score. The module
//! also protects the process from other processes of the same user. Start from [`Limits`].

use std::io;

use serde::{Deserialize, Serialize};

#[cfg(target_os = "linux")]
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::tree::meminfo_bytes;

/// Resource limits of one command and of all processes that it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Maximum memory in bytes: a limit on each process, and also on all processes together.
    pub memory_bytes: u64,
    /// Maximum number of processes and threads that exist at the same time.
    pub processes: u64,
    /// Maximum size in bytes of each file that the command writes.
    pub file_bytes: u64,
    /// Maximum number of bytes by which the free disk space may shrink while the command runs.
    pub disk_bytes: u64,
    /// Maximum size in bytes of the temporary directory, if that is in memory.
    pub temporary_bytes: u64,
}

impl Default for Limits {
    /// Returns limits that suffice for the build of a large program and its tests, or for a
    /// browser, but prevent too many processes from freezing the machine.
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
        let memory = meminfo_bytes("MemTotal:").unwrap_or(16 << 30);
        Self {
            memory_bytes: memory / 4 * 3,
            processes: (PROCESS_LIMIT_PER_CPU * processors)
                .clamp(MIN_COMMAND_PROCESS_LIMIT, MAX_COMMAND_PROCESS_LIMIT),
            file_bytes: 16 << 30,
            disk_bytes: 64 << 30,
            temporary_bytes: (memory / 4).min(4 << 30),
        }
    }
}

/// Maximum number of processes and threads of a command: the number per processor, and the least
/// and greatest value of the product. A compiler may start one process per processor, each with one
/// thread per processor; a browser has about 300 processes and threads on any machine.
const PROCESS_LIMIT_PER_CPU: u64 = 128;
const MIN_COMMAND_PROCESS_LIMIT: u64 = 512;
const MAX_COMMAND_PROCESS_LIMIT: u64 = 4096;

/// Niceness of commands. With 5, a command that competes with a program of normal priority gets a
/// quarter of a processor. With 10, it would get a tenth, and one of several concurrent builds
/// would hardly progress.
pub(super) const COMMAND_NICENESS: i32 = 5;

/// Number from which the kernel subtracts `RLIMIT_NICE` to get the lowest niceness that a process
/// may set.
#[cfg(target_os = "linux")]
const RLIMIT_NICE_CONVERSION_BASE: u64 = 20;

/// Addition to the process limit on kernels that count the user's other processes and threads
/// together with those of a command. Suffices for a complete desktop session.
const SAME_USER_PROCESSES_ALLOWANCE: u64 = 12_288;

impl Limits {
    /// Returns the process limit to set on kernels that also count the user's other processes.
    #[must_use]
    pub fn per_user_process_limit(&self) -> u64 {
        self.processes.saturating_add(SAME_USER_PROCESSES_ALLOWANCE)
    }
}

/// Protects the environment, memory and descriptors of this process from other processes of the
/// same user, and disables core dumps, which may contain keys. Child processes are not affected.
#[cfg(target_os = "linux")]
pub fn deny_process_inspection() {
    // Ignore a failure: there is no other way to protect the process.
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
}

/// Does nothing: Rind denies other processes the access to this process on Linux only.
#[cfg(not(target_os = "linux"))]
pub fn deny_process_inspection() {}

/// Makes the kernel kill this process when its parent exits.
#[cfg(target_os = "linux")]
pub fn die_with_parent() {
    use rustix::process::{Signal, set_parent_process_death_signal};
    // Ignore a failure: the other limits still apply.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
}

/// Does nothing, because only Linux can kill a process when its parent exits.
#[cfg(not(target_os = "linux"))]
pub fn die_with_parent() {}

/// Applies the limits to this process, which is about to become the confined program.
/// `shares_processes` is whether the kernel also counts other processes of the user.
#[cfg(target_os = "linux")]
pub(super) fn limit_program_resources(limits: &Limits, shares_processes: bool) -> io::Result<()> {
    // A core dump would contain the memory of the process.
    lower_resource_limit(Resource::Core, 0)?;
    let processes = if shares_processes {
        limits.per_user_process_limit()
    } else {
        limits.processes
    };
    lower_resource_limit(Resource::Nproc, processes)?;
    // Prevents the program from raising its priority again.
    lower_resource_limit(
        Resource::Nice,
        RLIMIT_NICE_CONVERSION_BASE - u64::from(COMMAND_NICENESS.unsigned_abs()),
    )?;
    lower_resource_limit(Resource::Rtprio, 0)?;
    lower_resource_limit(Resource::Fsize, limits.file_bytes)
}

/// Makes the kernel kill this process and its descendants before the host when memory runs out.
#[cfg(target_os = "linux")]
pub(super) fn prefer_this_process_for_oom_kill() {
    let _ = std::fs::write("/proc/self/oom_score_adj", "500");
}

/// Limits the writable memory in bytes and the CPU time in seconds of this process.
///
/// The address space is not limited: the allocator reserves address space per thread without using
/// it, so the same work would fail on a machine with more processors.
#[cfg(target_os = "linux")]
pub fn limit_memory_and_cpu(bytes: u64, cpu_seconds: u64) -> io::Result<()> {
    lower_resource_limit(Resource::Data, bytes)?;
    lower_resource_limit(Resource::Cpu, cpu_seconds)
}

/// Lowers a limit permanently; never raises one.
#[cfg(target_os = "linux")]
fn lower_resource_limit(resource: Resource, most: u64) -> io::Result<()> {
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

/// Does nothing, because comparable resource limits exist on Linux only.
#[cfg(not(target_os = "linux"))]
pub fn limit_memory_and_cpu(_bytes: u64, _cpu_seconds: u64) -> io::Result<()> {
    Ok(())
}
