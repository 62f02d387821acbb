//! Polls the memory and disk use of a confined process tree. The kernel can limit these for a
//! complete tree only with privileges that some users lack.
//!
//! Start from [`ProcessTreeLimitMonitor`].

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::Pid;

use super::confine::ConfinementPermissions;
use super::tree::{
    find_living_descendants, meminfo_bytes, process_memory_bytes, proportional_memory_bytes,
};

const RESOURCE_CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// Minimum free disk space in bytes that is left for other programs, if there was at least twice as
/// much when the process started.
const MIN_FREE_DISK_BYTES: u64 = 512 << 20;

/// Limit whose excess stops a process tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExceededProcessLimit {
    /// The processes together used more memory than this many bytes.
    Memory(u64),
    /// The shared memory of the machine grew by more than this many bytes. Such memory can outlive
    /// every process that wrote it.
    SharedMemory(u64),
    /// The free space of a disk to which the process may write fell below this many bytes.
    Disk(u64),
}

/// Section of the settings with the limits of programs that have no section of their own.
const SANDBOX_LIMITS_SETTINGS_SECTION: &str = "sandbox";

impl ExceededProcessLimit {
    /// Describes the exceeded limit. `memory_section` is the section of `config.toml` with the
    /// setting `memory_mb`.
    #[must_use]
    pub fn describe(&self, memory_section: &str) -> String {
        match self {
            Self::Memory(bytes) => format!(
                "its processes took more than {} MiB of memory (`memory_mb` in [{memory_section}] of config.toml)",
                bytes >> 20
            ),
            Self::SharedMemory(bytes) => format!(
                "the shared memory of the machine grew by more than {} MiB while it ran (`memory_mb` in [{memory_section}] of config.toml, plus its folders that are kept in memory)",
                bytes >> 20
            ),
            Self::Disk(bytes) => format!(
                "it left less than {} MiB free on the disk (`disk_mb` in [{SANDBOX_LIMITS_SETTINGS_SECTION}] of config.toml)",
                bytes >> 20
            ),
        }
    }
}

impl fmt::Display for ExceededProcessLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.describe(SANDBOX_LIMITS_SETTINGS_SECTION))
    }
}

/// Monitor of the limits of one process tree; `None` if there are no limits to monitor.
pub(super) struct ProcessTreeLimitMonitor(Option<Arc<ProcessTreeResourceLimits>>);

struct ProcessTreeResourceLimits {
    leader: Pid,
    memory_bytes: u64,
    /// Size of the machine's shared memory at the start of the process, and the maximum growth
    /// since then, both in bytes.
    shared_bytes: (u64, u64),
    /// Directories, each with the minimum free space of its disk in bytes.
    disks: Vec<(PathBuf, u64)>,
}

impl ProcessTreeLimitMonitor {
    /// Creates a monitor. Without a confinement or a `leader`, whose descendants are monitored, it
    /// never reports an exceeded limit.
    ///
    /// # Errors
    /// The runtime is shutting down.
    pub(super) async fn new(
        confinement: Option<&ConfinementPermissions>,
        leader: Option<Pid>,
        temporary: Option<&Path>,
    ) -> io::Result<Self> {
        let Some((confinement, leader)) = confinement.cloned().zip(leader) else {
            return Ok(Self(None));
        };
        let temporary = temporary.map(Path::to_owned);
        let bounds = move || {
            let limits = &confinement.limits;
            let folders = confinement.write.iter().map(PathBuf::as_path);
            let folders: Vec<&Path> = folders.chain(temporary.as_deref()).collect();
            let disk = |folder: &&Path| {
                let free = available_disk_bytes(folder)?;
                Some((
                    (*folder).to_owned(),
                    min_free_disk_bytes(free, limits.disk_bytes),
                ))
            };
            let in_memory = confinement.max_in_memory_folder_bytes();
            let on_disks = if folders.iter().any(|folder| is_memory_file_system(folder)) {
                limits.disk_bytes
            } else {
                0
            };
            let growth = limits.memory_bytes.saturating_add(in_memory);
            Arc::new(ProcessTreeResourceLimits {
                leader,
                memory_bytes: limits.memory_bytes,
                shared_bytes: (shared_memory_bytes(), growth.saturating_add(on_disks)),
                disks: folders.iter().filter_map(disk).collect(),
            })
        };
        let bounds = tokio::task::spawn_blocking(bounds).await;
        Ok(Self(Some(bounds.map_err(io::Error::other)?)))
    }

    /// Waits until the processes exceed a limit, and returns that limit.
    pub(super) async fn find_exceeded_limit(&self) -> ExceededProcessLimit {
        let Some(bounds) = &self.0 else {
            return std::future::pending().await;
        };
        loop {
            tokio::time::sleep(RESOURCE_CHECK_INTERVAL).await;
            let bounds = bounds.clone();
            // Use a blocking thread, because a disk may be slow to answer. An error means that the
            // runtime is shutting down.
            let exceeded = tokio::task::spawn_blocking(move || bounds.find_exceeded_limit()).await;
            if let Ok(Some(exceeded)) = exceeded {
                return exceeded;
            }
        }
    }
}

impl ProcessTreeResourceLimits {
    fn find_exceeded_limit(&self) -> Option<ExceededProcessLimit> {
        let processes = find_living_descendants(self.leader);
        let sum =
            |of: fn(Pid) -> u64| -> u64 { processes.iter().map(|process| of(process.pid)).sum() };
        if sum(process_memory_bytes) > self.memory_bytes
            && sum(proportional_memory_bytes) > self.memory_bytes
        {
            return Some(ExceededProcessLimit::Memory(self.memory_bytes));
        }
        let (at_start, growth) = self.shared_bytes;
        if shared_memory_bytes() > at_start.saturating_add(growth) {
            return Some(ExceededProcessLimit::SharedMemory(growth));
        }
        let is_full = |(folder, floor): &&(PathBuf, u64)| {
            available_disk_bytes(folder).is_some_and(|free| free < *floor)
        };
        let full = self.disks.iter().find(is_full);
        full.map(|(_, floor)| ExceededProcessLimit::Disk(*floor))
    }
}

/// Returns the minimum free space in bytes of a disk that had `free` bytes at the start, of which
/// the command may use `may`. Even on a nearly full disk, the command may use half of the free
/// space.
fn min_free_disk_bytes(free: u64, may: u64) -> u64 {
    free.saturating_sub(may)
        .max(MIN_FREE_DISK_BYTES.min(free / 2))
}

/// Returns the bytes of the machine's memory that are shared between processes or contain in-memory
/// files.
fn shared_memory_bytes() -> u64 {
    meminfo_bytes("Shmem:").unwrap_or(0)
}

fn available_disk_bytes(folder: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(folder).ok()?;
    Some(disk.f_bavail.saturating_mul(disk.f_frsize))
}

#[cfg(target_os = "linux")]
fn is_memory_file_system(folder: &Path) -> bool {
    /// Value of `TMPFS_MAGIC`, by which the kernel identifies in-memory file systems.
    const TMPFS_FILE_SYSTEM_MAGIC: rustix::fs::FsWord = 0x0102_1994;
    rustix::fs::statfs(folder).is_ok_and(|disk| disk.f_type == TMPFS_FILE_SYSTEM_MAGIC)
}

#[cfg(not(target_os = "linux"))]
fn is_memory_file_system(_folder: &Path) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_may_take_its_share_and_never_the_last_of_a_disk() {
        const GIB: u64 = 1 << 30;
        assert_eq!(min_free_disk_bytes(100 * GIB, 64 * GIB), 36 * GIB);
        assert_eq!(min_free_disk_bytes(10 * GIB, 64 * GIB), GIB / 2);
        assert_eq!(min_free_disk_bytes(GIB / 4, 64 * GIB), GIB / 8);
    }
}
