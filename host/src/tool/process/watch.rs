//! Looks from time to time at how much memory and disk a confined process tree takes: no limit of the kernel bounds either
//! for a whole tree without rights that a user does not have everywhere.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Pid;

use super::confine::Confinement;
use super::tree::{descendants, memory_bytes};

/// Period of the checks.
const PERIOD: Duration = Duration::from_millis(250);

/// Least free space of a disk that had as much when the process started; others have to work too.
const KEPT_FREE_BYTES: u64 = 512 << 20;

/// A bound that a process tree ran into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exceeded {
    /// All its processes together had more memory than this many bytes.
    Memory(u64),
    /// The free space of a disk that it writes to went down to this many bytes.
    Disk(u64),
}

impl fmt::Display for Exceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory(bytes) => write!(
                f,
                "its processes took more than {} MiB of memory (`memory_mb` in [sandbox] of config.toml)",
                bytes >> 20
            ),
            Self::Disk(bytes) => write!(
                f,
                "it left less than {} MiB free on the disk (`disk_mb` in [sandbox] of config.toml)",
                bytes >> 20
            ),
        }
    }
}

/// The bounds of one process tree.
pub(super) struct Watch {
    leader: Option<Pid>,
    memory_bytes: u64,
    /// Folders, with how much must stay free on their disk.
    disks: Vec<(PathBuf, u64)>,
}

impl Watch {
    /// Creates a watch; without a confinement, or a first process that the others are found by, it watches nothing.
    pub(super) fn new(
        confinement: Option<&Confinement>,
        leader: Option<Pid>,
        temporary: Option<&Path>,
    ) -> Self {
        let mut disks = Vec::new();
        if let Some(confinement) = confinement {
            let may = confinement.limits.disk_bytes;
            let write = confinement.write.iter().map(PathBuf::as_path);
            for folder in write.chain(temporary) {
                if let Some(free) = free_bytes(folder) {
                    disks.push((folder.to_owned(), floor(free, may)));
                }
            }
        }
        Self {
            leader: leader.filter(|_| confinement.is_some()),
            memory_bytes: confinement
                .map_or(u64::MAX, |confinement| confinement.limits.memory_bytes),
            disks,
        }
    }

    /// Comes back when a bound is passed.
    pub(super) async fn exceeded(&self) -> Exceeded {
        let Some(leader) = self.leader else {
            return std::future::pending().await;
        };
        loop {
            tokio::time::sleep(PERIOD).await;
            let processes = descendants(leader);
            let memory: u64 = processes
                .iter()
                .map(|process| memory_bytes(process.pid))
                .sum();
            if memory > self.memory_bytes {
                return Exceeded::Memory(self.memory_bytes);
            }
            let full = self
                .disks
                .iter()
                .find(|(folder, floor)| free_bytes(folder).is_some_and(|free| free < *floor));
            if let Some((_, floor)) = full {
                return Exceeded::Disk(*floor);
            }
        }
    }
}

/// Returns the least free space for so much free space at the start. A disk that is nearly full is not the command's fault:
/// then it is half of that.
fn floor(free: u64, may: u64) -> u64 {
    free.saturating_sub(may).max(KEPT_FREE_BYTES.min(free / 2))
}

fn free_bytes(folder: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(folder).ok()?;
    Some(disk.f_bavail.saturating_mul(disk.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_may_take_its_share_and_never_the_last_of_a_disk() {
        const GIB: u64 = 1 << 30;
        assert_eq!(floor(100 * GIB, 64 * GIB), 36 * GIB);
        assert_eq!(floor(10 * GIB, 64 * GIB), GIB / 2);
        assert_eq!(floor(GIB / 4, 64 * GIB), GIB / 8);
    }
}
