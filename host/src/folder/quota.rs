//! Enforces the quota of a plugin's `data` directory. Its usage is counted once and then updated by
//! every write.
//!
//! The `files` import, WASI, and all instances of a plugin in the process share one count. File
//! lengths are counted, not blocks, so that a sparse file counts with the size to which it could
//! grow. A file with several hard links counts once in bytes, and once per name in files.
//!
//! Start from [`DataFolderUsage`].

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, MetadataExt as _};

use super::FolderError;
use crate::lock::lock_ignoring_poison;

/// Limits on the contents of a plugin's data directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FolderQuota {
    /// Maximum total size of all files in the directory, in bytes.
    pub bytes: u64,
    /// Maximum number of files, directories and links in the plugin's data directory.
    pub files: u64,
}

impl FolderQuota {
    /// Default maximum size of all files in a plugin's data directory, in bytes.
    pub const DEFAULT_MAX_BYTES: u64 = 64 << 20;
    /// Maximum number of bytes that a manifest may ask for.
    pub const MAX_REQUESTABLE_BYTES: u64 = 1 << 30;
    /// Maximum number of files if the manifest asks for no other.
    pub const DEFAULT_MAX_FILES: u64 = 10_000;
    /// Maximum number of files that a manifest may ask for. Files are counted before the first
    /// write of a process, which takes a second for 50,000 folders with a file each.
    pub const MAX_REQUESTABLE_FILES: u64 = 100_000;

    /// Returns the quota that a manifest's `[limits]` ask for, or the default.
    #[must_use]
    pub fn from_manifest_limits(bytes: Option<u64>, files: Option<u64>) -> Self {
        Self {
            bytes: bytes
                .unwrap_or(Self::DEFAULT_MAX_BYTES)
                .min(Self::MAX_REQUESTABLE_BYTES),
            files: files
                .unwrap_or(Self::DEFAULT_MAX_FILES)
                .min(Self::MAX_REQUESTABLE_FILES),
        }
    }
}

/// Minimum time between two counts of a full directory. It is counted again because other programs
/// may have removed files.
const MIN_RECOUNT_INTERVAL: Duration = Duration::from_millis(250);

/// Maximum depth of counted directories. A deeper directory exceeds any quota.
const MAX_COUNTED_FOLDER_DEPTH: usize = 128;

/// Device and inode, which identify a file under all of its names.
type FileIdentity = (u64, u64);

fn read_file_identity(file: &File) -> io::Result<FileIdentity> {
    let metadata = file.metadata()?;
    Ok((metadata.dev(), metadata.ino()))
}

/// Counter of the space that the files of one plugin's data directory use.
#[derive(Debug)]
pub struct DataFolderUsage {
    folder: PathBuf,
    quota: FolderQuota,
    state: Mutex<DataFolderUsageCounts>,
}

#[derive(Debug, Default)]
struct DataFolderUsageCounts {
    bytes: u64,
    files: u64,
    counted: Option<Instant>,
    /// Whether the actual usage may be lower than counted: a charge was refused, or a file was
    /// removed while open or truncated during a write.
    is_stale: bool,
    /// Files that are open. Removing such a file frees no space until its last handle is closed.
    open: Vec<(FileIdentity, Weak<File>)>,
    /// Files to which a write is in progress. Truncating such a file does not reduce the counted
    /// usage, because the write may take effect before or after the truncation.
    writing: Vec<(FileIdentity, Weak<()>)>,
}

impl DataFolderUsage {
    /// Returns the usage of `folder`, which all callers in this process share. The quota of the
    /// first caller applies.
    #[must_use]
    pub fn shared_usage_of_folder(folder: PathBuf, quota: FolderQuota) -> Arc<Self> {
        static COUNTS: Mutex<Option<HashMap<PathBuf, Weak<DataFolderUsage>>>> = Mutex::new(None);
        let mut counts = lock_ignoring_poison(&COUNTS);
        let counts = counts.get_or_insert_default();
        counts.retain(|_, usage| usage.strong_count() > 0);
        if let Some(usage) = counts.get(&folder).and_then(Weak::upgrade) {
            return usage;
        }
        let usage = Arc::new(Self {
            folder: folder.clone(),
            quota,
            state: Mutex::default(),
        });
        counts.insert(folder, Arc::downgrade(&usage));
        usage
    }

    /// Adds to the usage if the quota allows all of it; otherwise changes nothing. May read the
    /// directory tree, so it must not run on an async thread; [`Self::charge_open_file_growth`]
    /// never does that.
    pub fn charge_quota(&self, bytes: u64, files: u64) -> Result<(), FolderError> {
        let mut state = lock_ignoring_poison(&self.state);
        let is_due = |state: &DataFolderUsageCounts| {
            state
                .counted
                .is_none_or(|at| at.elapsed() > MIN_RECOUNT_INTERVAL)
        };
        if state.counted.is_none() || state.is_stale && is_due(&state) {
            self.recount_usage(&mut state);
        }
        if self.try_add_usage(&mut state, bytes, files) {
            return Ok(());
        }
        if is_due(&state) {
            self.recount_usage(&mut state);
            if self.try_add_usage(&mut state, bytes, files) {
                return Ok(());
            }
        }
        Err(self.quota_exceeded_error())
    }

    /// Whether the usage of the directory was counted, and the counted usage is still valid.
    #[must_use]
    pub fn has_valid_count(&self) -> bool {
        let state = lock_ignoring_poison(&self.state);
        state.counted.is_some() && !state.is_stale
    }

    /// Adds the growth of a file that is already open to the usage if the quota allows all of it;
    /// otherwise changes nothing.
    pub fn charge_open_file_growth(&self, bytes: u64) -> Result<(), FolderError> {
        if self.try_add_usage(&mut lock_ignoring_poison(&self.state), bytes, 0) {
            Ok(())
        } else {
            Err(self.quota_exceeded_error())
        }
    }

    /// Subtracts bytes and files that were freed from the usage of the quota.
    pub fn subtract_freed_usage(&self, bytes: u64, files: u64) {
        let mut state = lock_ignoring_poison(&self.state);
        state.bytes = state.bytes.saturating_sub(bytes);
        state.files = state.files.saturating_sub(files);
    }

    /// Registers an open file, so that removing the file frees quota only after the file is closed.
    pub fn register_open_file(&self, file: &Arc<File>) {
        let Ok(identity) = read_file_identity(file) else {
            return;
        };
        let mut state = lock_ignoring_poison(&self.state);
        state.open.retain(|(_, file)| file.strong_count() > 0);
        state.open.push((identity, Arc::downgrade(file)));
    }

    /// Registers a write in progress, until the returned value is dropped. Call it before charging
    /// the write.
    #[must_use]
    pub fn register_write_in_progress(&self, file: &File) -> Option<Arc<()>> {
        let identity = read_file_identity(file).ok()?;
        let mark = Arc::new(());
        let mut state = lock_ignoring_poison(&self.state);
        state.writing.retain(|(_, mark)| mark.strong_count() > 0);
        state.writing.push((identity, Arc::downgrade(&mark)));
        Some(mark)
    }

    /// Subtracts `bytes` from the usage after an open file was truncated. If a write to the file is
    /// in progress, nothing is subtracted, and the directory is counted again later.
    pub fn credit_truncation(&self, file: &File, bytes: u64) {
        let identity = read_file_identity(file);
        let mut state = lock_ignoring_poison(&self.state);
        let is_it = |(written, mark): &(FileIdentity, Weak<()>)| {
            mark.strong_count() > 0 && identity.as_ref().is_ok_and(|own| own == written)
        };
        if identity.is_err() || state.writing.iter().any(is_it) {
            state.is_stale = true;
        } else {
            state.bytes = state.bytes.saturating_sub(bytes);
        }
    }

    /// Returns the number of bytes that are freed when one name of a file is removed: 0 while the
    /// file is open or has other names.
    pub(super) fn bytes_freed_by_removal(&self, metadata: &cap_std::fs::Metadata) -> u64 {
        let identity = (metadata.dev(), metadata.ino());
        let mut state = lock_ignoring_poison(&self.state);
        let is_it = |(open, file): &(FileIdentity, Weak<File>)| {
            *open == identity && file.strong_count() > 0
        };
        let is_open = state.open.iter().any(is_it);
        state.is_stale |= is_open;
        if is_open || metadata.nlink() > 1 || !metadata.is_file() {
            0
        } else {
            metadata.len()
        }
    }

    fn quota_exceeded_error(&self) -> FolderError {
        FolderError::Full {
            bytes: self.quota.bytes,
            files: self.quota.files,
        }
    }

    fn try_add_usage(&self, state: &mut DataFolderUsageCounts, bytes: u64, files: u64) -> bool {
        let total = (
            state.bytes.saturating_add(bytes),
            state.files.saturating_add(files),
        );
        // An operation that needs no more space is allowed even if the directory is over its quota.
        let is_fine = (bytes == 0 || total.0 <= self.quota.bytes)
            && (files == 0 || total.1 <= self.quota.files);
        if is_fine {
            (state.bytes, state.files) = total;
        } else {
            state.is_stale = true;
        }
        is_fine
    }

    fn recount_usage(&self, state: &mut DataFolderUsageCounts) {
        let mut seen = HashSet::new();
        let mut total = (0, 0);
        if let Ok(folder) = Dir::open_ambient_dir(&self.folder, ambient_authority()) {
            self.add_folder_usage(&folder, MAX_COUNTED_FOLDER_DEPTH, &mut seen, &mut total);
        }
        for (identity, file) in &state.open {
            if let Some(metadata) = file.upgrade().and_then(|file| file.metadata().ok())
                && metadata.nlink() == 0
                && seen.insert(*identity)
            {
                total.0 += metadata.len();
            }
        }
        (state.bytes, state.files) = total;
        state.counted = Some(Instant::now());
        state.is_stale = false;
    }

    fn add_folder_usage(
        &self,
        folder: &Dir,
        depth: usize,
        seen: &mut HashSet<FileIdentity>,
        total: &mut (u64, u64),
    ) {
        let Ok(entries) = folder.entries() else {
            return;
        };
        for entry in entries.flatten() {
            let Ok(metadata) = entry.metadata() else {
                continue;
            };
            total.1 += 1;
            // Stop counting at twice the maximum number of files, which exceeds the quota anyway.
            if total.1 > self.quota.files.saturating_mul(2) {
                return;
            }
            if metadata.is_dir() {
                match entry.open_dir() {
                    Ok(_) if depth == 0 => total.0 = u64::MAX / 2,
                    Ok(folder) => self.add_folder_usage(&folder, depth - 1, seen, total),
                    Err(_) => {}
                }
            } else if metadata.is_file()
                && (metadata.nlink() == 1 || seen.insert((metadata.dev(), metadata.ino())))
            {
                total.0 += metadata.len();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shortening_a_file_that_is_being_written_to_frees_nothing_before_it_is_counted() {
        let folder = tempfile::tempdir().unwrap();
        let quota = FolderQuota {
            bytes: 100,
            files: 10,
        };
        let usage = DataFolderUsage::shared_usage_of_folder(folder.path().to_owned(), quota);
        let file = File::create(folder.path().join("a")).unwrap();
        usage.charge_quota(0, 1).unwrap();
        usage.charge_open_file_growth(60).unwrap();
        let mark = usage.register_write_in_progress(&file);
        usage.credit_truncation(&file, 60);
        // The pending write takes effect now.
        file.set_len(60).unwrap();
        assert!(usage.charge_open_file_growth(60).is_err());
        drop(mark);
        file.set_len(0).unwrap();
        usage.credit_truncation(&file, 60);
        assert!(usage.charge_open_file_growth(60).is_ok());
    }

    #[test]
    fn folders_files_and_links_are_counted_and_the_bytes_of_a_file_once() {
        let folder = tempfile::tempdir().unwrap();
        let below = folder.path().join("a/b");
        std::fs::create_dir_all(&below).unwrap();
        std::fs::write(below.join("file"), [0; 60]).unwrap();
        std::fs::hard_link(below.join("file"), folder.path().join("a/second")).unwrap();
        std::os::unix::fs::symlink("/", folder.path().join("link")).unwrap();
        let quota = FolderQuota {
            bytes: 100,
            files: 6,
        };
        let usage = DataFolderUsage::shared_usage_of_folder(folder.path().to_owned(), quota);
        assert!(usage.charge_quota(41, 0).is_err());
        assert!(usage.charge_quota(40, 1).is_ok());
        assert!(usage.charge_quota(0, 1).is_err());
    }
}
