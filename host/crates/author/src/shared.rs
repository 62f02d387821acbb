//! Target directory that the Rust plugins of this machine share, so that the SDK is compiled only
//! once and not for each plugin.
//!
//! There is one directory per toolchain and version of the SDK, below the cache directory. Only a
//! plugin that has its own workspace, with no other crate in it than an SDK that Rind unpacked, is
//! compiled there: cargo names the artifacts of such crates by their path within the workspace, so
//! helper crates of two plugins would overwrite each other's artifacts. Settings of cargo and of the
//! environment take precedence.
//!
//! Start from [`LockedSharedTargetFolder::open`].

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tokio_util::sync::CancellationToken;

use super::build::ProgressCallback;

/// Age of the last use after which a shared target directory is removed.
const MAX_UNUSED_TARGET_FOLDER_AGE: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Interval between two attempts to lock the directory.
const FOLDER_LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(200);

/// Extension of the lock files, which are next to the directories. The modification time of a lock
/// file is the time of the directory's last use.
const LOCK_EXTENSION: &str = "lock";

/// A shared target directory, locked while this value exists. Cargo's own lock is not enough: cargo
/// releases it before the component is read, and the components of two plugins may have the same
/// file name.
pub(super) struct LockedSharedTargetFolder {
    pub(super) folder: PathBuf,
    _lock: File,
}

impl LockedSharedTargetFolder {
    /// Opens the directory below `builds` whose name is derived from `key`. Waits while another
    /// build has it locked. Returns `None` if the directory cannot be created or locked, as on some
    /// network file systems, or if the build was cancelled.
    pub(super) async fn open(
        builds: &Path,
        key: &[&str],
        progress: &ProgressCallback,
        cancel: &CancellationToken,
    ) -> Option<Self> {
        let mut hasher = blake3::Hasher::new();
        for part in key {
            hasher.update(&part.len().to_le_bytes());
            hasher.update(part.as_bytes());
        }
        let folder = builds.join(&hasher.finalize().to_hex()[..16]);
        fs::create_dir_all(&folder).ok()?;
        // Canonicalize, because compiler flags contain the path of the directory: with another
        // spelling of the path, cargo would compile everything again.
        let folder = folder.canonicalize().ok()?;
        let lock = open_lock_file(&folder)?;
        let mut has_told = false;
        loop {
            match lock.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if !cancel.is_cancelled() => {}
                Err(_) => return None,
            }
            if !has_told {
                progress("waiting for another build of a plugin");
                has_told = true;
            }
            tokio::time::sleep(FOLDER_LOCK_RETRY_INTERVAL).await;
        }
        // Ignore an error: without the time of use, the directory is at worst removed too early.
        let _ = lock.set_modified(SystemTime::now());
        remove_unused_build_folders(builds);
        Some(Self {
            folder,
            _lock: lock,
        })
    }

    /// Whether the artifacts of a package were compiled from the sources that `sources` identifies.
    /// Cargo does not notice that the sources are in another directory, or that files were replaced
    /// by older ones.
    pub(super) fn is_package_compiled_from_sources(&self, package: &str, sources: &str) -> bool {
        fs::read_to_string(self.sources_record_path(package)).is_ok_and(|found| found == sources)
    }

    /// Records the digest of the sources from which the package's artifacts were compiled.
    pub(super) fn record_compiled_sources(&self, package: &str, sources: &str) {
        // Ignore an error: without the record, the next build compiles the package again.
        let _ = fs::write(self.sources_record_path(package), sources);
    }

    fn sources_record_path(&self, package: &str) -> PathBuf {
        self.folder.join(format!("{package}.sources"))
    }
}

fn open_lock_file(folder: &Path) -> Option<File> {
    let mut options = File::options();
    options.create(true).append(true);
    options.open(folder.with_extension(LOCK_EXTENSION)).ok()
}

/// Removes build directories that have not been used for [`MAX_UNUSED_TARGET_FOLDER_AGE`].
fn remove_unused_build_folders(builds: &Path) {
    for entry in fs::read_dir(builds).into_iter().flatten().flatten() {
        let folder = entry.path();
        if !folder.is_dir() {
            continue;
        }
        let lock = folder.with_extension(LOCK_EXTENSION);
        let used = lock.metadata().and_then(|file| file.modified());
        let is_old = used.is_ok_and(|used| {
            used.elapsed()
                .is_ok_and(|age| age > MAX_UNUSED_TARGET_FOLDER_AGE)
        });
        // A build that is waiting for this lock will create the directory again.
        if is_old && open_lock_file(&folder).is_some_and(|file| file.try_lock().is_ok()) {
            let _ = fs::remove_dir_all(&folder);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[tokio::test]
    async fn one_build_at_a_time_has_the_folder_and_others_wait() {
        let root = tempfile::tempdir().unwrap();
        let said = Arc::new(Mutex::new(Vec::new()));
        let lines = said.clone();
        let progress: ProgressCallback =
            Arc::new(move |line| lines.lock().unwrap().push(line.to_owned()));
        let cancel = CancellationToken::new();
        let open = |key| {
            let (root, progress, cancel) =
                (root.path().to_owned(), progress.clone(), cancel.clone());
            async move { LockedSharedTargetFolder::open(&root, &[key], &progress, &cancel).await }
        };
        let first = open("a").await.unwrap();
        assert_ne!(open("b").await.unwrap().folder, first.folder);
        assert!(said.lock().unwrap().is_empty());
        let second = tokio::spawn(open("a"));
        tokio::time::sleep(FOLDER_LOCK_RETRY_INTERVAL).await;
        assert!(!second.is_finished());
        assert_eq!(said.lock().unwrap().len(), 1);
        let folder = first.folder.clone();
        drop(first);
        let second = second.await.unwrap().unwrap();
        assert_eq!(second.folder, folder);
        let third = tokio::spawn(open("a"));
        cancel.cancel();
        assert!(third.await.unwrap().is_none());
    }

    #[tokio::test]
    async fn folders_of_long_ago_are_removed_unless_they_are_in_use() {
        let root = tempfile::tempdir().unwrap();
        let (progress, cancel) = (
            Arc::new(|_: &str| {}) as ProgressCallback,
            CancellationToken::new(),
        );
        let open = |key| LockedSharedTargetFolder::open(root.path(), key, &progress, &cancel);
        let used = open(&["used"]).await.unwrap();
        let unused = open(&["unused"]).await.unwrap().folder;
        let long_ago = SystemTime::now() - 2 * MAX_UNUSED_TARGET_FOLDER_AGE;
        for folder in [&used.folder, &unused] {
            let lock = File::open(folder.with_extension(LOCK_EXTENSION)).unwrap();
            lock.set_modified(long_ago).unwrap();
        }
        open(&["other"]).await.unwrap();
        assert!(used.folder.is_dir() && !unused.exists());
        assert!(open(&["unused"]).await.unwrap().folder.is_dir());
    }

    #[tokio::test]
    async fn other_sources_of_a_package_are_noticed() {
        let root = tempfile::tempdir().unwrap();
        let (progress, cancel) = (
            Arc::new(|_: &str| {}) as ProgressCallback,
            CancellationToken::new(),
        );
        let target = LockedSharedTargetFolder::open(root.path(), &["a"], &progress, &cancel);
        let target = target.await.unwrap();
        assert!(
            !target.is_package_compiled_from_sources("one", "a"),
            "nothing is known"
        );
        target.record_compiled_sources("one", "a");
        assert!(target.is_package_compiled_from_sources("one", "a"));
        assert!(!target.is_package_compiled_from_sources("one", "b"));
        assert!(!target.is_package_compiled_from_sources("two", "a"));
    }
}
