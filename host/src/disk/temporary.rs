//! Temporary folders that are removed even when the process that made them is killed: by the next process that makes one.
//!
//! The owner of a folder has a lock on it, which the kernel takes away when the owner ends, however that happens. A process id in
//! the name would not do: ids are used again, and a container that shares the folder counts its own.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{Mode, OFlags};
use tempfile::{Builder, TempDir};

/// Begins the name of a folder that has no lock yet. It gets its final name once it is locked, so that no other process can
/// find it without its lock.
const UNLOCKED: &str = ".unlocked-";

/// A private temporary folder, which is removed when this is dropped or its process has ended.
#[derive(Debug)]
pub(crate) struct TemporaryFolder {
    path: PathBuf,
    _lock: File,
}

impl TemporaryFolder {
    /// Makes a folder in the machine's temporary folder. See [`Self::new_in`].
    pub(crate) fn new(prefix: &str) -> io::Result<Self> {
        let unlocked = format!("{UNLOCKED}{prefix}");
        Self::named(prefix, Builder::new().prefix(&unlocked).tempdir()?)
    }

    /// Makes a folder in `above` whose name begins with `prefix`. The first one of a process removes the folders with that
    /// prefix whose owners have ended.
    pub(crate) fn new_in(prefix: &str, above: &Path) -> io::Result<Self> {
        let unlocked = format!("{UNLOCKED}{prefix}");
        Self::named(prefix, Builder::new().prefix(&unlocked).tempdir_in(above)?)
    }

    /// Locks a folder and gives it its name.
    fn named(prefix: &str, folder: TempDir) -> io::Result<Self> {
        let above = folder.path().parent().unwrap_or(Path::new("/"));
        if is_first(prefix, above) {
            sweep(prefix, above);
        }
        let held = open(folder.path())?;
        match held.try_lock() {
            Ok(()) => {}
            // A file system without locks: such a folder is never swept.
            Err(TryLockError::Error(_)) => {}
            Err(TryLockError::WouldBlock) => return Err(io::ErrorKind::ResourceBusy.into()),
        }
        let name = folder.path().file_name().unwrap_or_default();
        let name = name.to_string_lossy();
        let path = above.join(name.trim_start_matches(UNLOCKED));
        // Nothing is lost with an empty folder of that name, which has no owner.
        fs::rename(folder.path(), &path)?;
        // The folder is at another path now, where this value removes it.
        let _ = folder.keep();
        Ok(Self { path, _lock: held })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        // A later process sweeps up what cannot be removed now.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Whether this process has not swept these folders yet.
fn is_first(prefix: &str, above: &Path) -> bool {
    static SWEPT: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
    let place = above.join(prefix);
    let mut swept = SWEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let is_first = !swept.contains(&place);
    if is_first {
        swept.push(place);
    }
    is_first
}

/// Removes folders whose owners have ended. What is somebody else's, a link, a file or in use stays.
fn sweep(prefix: &str, above: &Path) {
    let user = rustix::process::geteuid().as_raw();
    for entry in fs::read_dir(above).into_iter().flatten().flatten() {
        if !entry.file_name().to_string_lossy().starts_with(prefix) {
            continue;
        }
        let path = entry.path();
        let Ok(held) = open(&path) else { continue };
        let is_own = held.metadata().is_ok_and(|found| found.uid() == user);
        // The lock is kept while the folder is removed: another process that sweeps passes it over.
        if is_own && held.try_lock().is_ok() {
            let _ = fs::remove_dir_all(&path);
        }
    }
}

/// Opens a folder, and nothing that a link at its path leads to.
fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_processes_that_were_killed_are_swept_and_nothing_else_is() {
        let above = tempfile::tempdir().unwrap();
        let at = |name: &str| above.path().join(name);
        let made = |name: &str| {
            fs::create_dir_all(at(name).join("deep")).unwrap();
            fs::write(at(name).join("deep/file"), "text").unwrap();
            at(name)
        };
        let left = made("rind-x-left");
        let (other, elsewhere) = (made("rind-y-left"), made("elsewhere"));
        std::os::unix::fs::symlink(&elsewhere, at("rind-x-link")).unwrap();
        fs::write(at("rind-x-file"), "text").unwrap();
        let used = made("rind-x-used");
        let owner = open(&used).unwrap();
        owner.try_lock().unwrap();

        let first = TemporaryFolder::new_in("rind-x-", above.path()).unwrap();
        assert!(!left.exists());
        assert!(other.join("deep/file").exists() && elsewhere.join("deep/file").exists());
        assert!(at("rind-x-link").is_symlink() && at("rind-x-file").exists());
        assert!(used.join("deep/file").exists());
        // The lock holds in this process as it does for others.
        sweep("rind-x-", above.path());
        assert!(first.path().exists());
        let own = first.path().to_owned();
        fs::write(own.join("file"), "text").unwrap();
        drop(first);
        assert!(!own.exists());
        drop(owner);
        sweep("rind-x-", above.path());
        assert!(!used.exists());
        let unlocked = fs::read_dir(above.path()).unwrap().flatten();
        let mut unlocked = unlocked.map(|entry| entry.file_name().to_string_lossy().into_owned());
        assert!(!unlocked.any(|name| name.starts_with(UNLOCKED)));
    }
}
