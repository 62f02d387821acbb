//! Temporary folders that are removed even if the process that created them is killed: the next
//! process that creates one removes them.
//!
//! The owner of a folder holds a lock on it, which the kernel releases whenever the owner ends. A
//! process id in the folder's name would not be enough: ids are reused, and a container that shares
//! the parent folder has its own pid namespace.
//!
//! Invariant: a folder with its final name is locked as long as its owner runs, if the file system
//! has locks. The module must not know the content of a folder. Start from [`TemporaryFolder`].

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use rustix::fs::{Mode, OFlags};
use tempfile::{Builder, TempDir};

use super::create_private_folder;

/// Name prefix of a folder that is not locked yet. A folder gets its final name only after it is
/// locked, so that no other process removes it as abandoned before.
const LOCK_PENDING_FOLDER_NAME_PREFIX: &str = ".unlocked-";

/// Age from which an unlocked folder with the prefix [`LOCK_PENDING_FOLDER_NAME_PREFIX`] counts as
/// abandoned by a killed process. Locking a new folder takes microseconds.
const MAX_LOCK_PENDING_FOLDER_AGE: Duration = Duration::from_secs(600);

/// A private temporary folder. It is removed when this value is dropped or, if that does not
/// happen, by a later process.
#[derive(Debug)]
pub struct TemporaryFolder {
    path: PathBuf,
    _lock: File,
}

impl TemporaryFolder {
    /// Creates a folder in the system's temporary folder. See [`Self::new_in`].
    pub fn new(prefix: &str) -> io::Result<Self> {
        let unlocked = format!("{LOCK_PENDING_FOLDER_NAME_PREFIX}{prefix}");
        Self::lock_and_rename_folder(prefix, Builder::new().prefix(&unlocked).tempdir()?)
    }

    /// Creates a folder in `above` whose name begins with `prefix`. The first call in a process for
    /// the same `prefix` and `above` also removes folders with that prefix whose owners have ended.
    pub fn new_in(prefix: &str, above: &Path) -> io::Result<Self> {
        let unlocked = format!("{LOCK_PENDING_FOLDER_NAME_PREFIX}{prefix}");
        Self::lock_and_rename_folder(prefix, Builder::new().prefix(&unlocked).tempdir_in(above)?)
    }

    /// Locks a folder and renames it to its final name.
    fn lock_and_rename_folder(prefix: &str, folder: TempDir) -> io::Result<Self> {
        let above = folder.path().parent().unwrap_or(Path::new("/"));
        if claim_abandoned_folder_removal(prefix, above) {
            remove_abandoned_folders(prefix, above);
        }
        let held = open_lock_file(folder.path())?;
        match held.try_lock() {
            Ok(()) => {}
            // The file system has no locks, so the folder will never be swept.
            Err(TryLockError::Error(_)) => {}
            Err(TryLockError::WouldBlock) => return Err(io::ErrorKind::ResourceBusy.into()),
        }
        let name = folder.path().file_name().unwrap_or_default();
        let name = name.to_string_lossy();
        let path = above.join(name.trim_start_matches(LOCK_PENDING_FOLDER_NAME_PREFIX));
        // The rename replaces an existing folder of that name only if it is empty, so nothing is
        // lost.
        fs::rename(folder.path(), &path)?;
        // The folder was renamed, so `TempDir` must not remove it; `TemporaryFolder` removes it on
        // drop.
        let _ = folder.keep();
        Ok(Self { path, _lock: held })
    }

    /// Returns the path of the temporary folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        // If the folder cannot be removed now, a later process removes it.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Makes this process create its temporary files outside `workspace`, if the system's temporary
/// folder (`TMPDIR`, usually `/tmp`) is inside the workspace. Otherwise a command that runs in the
/// workspace could change the input of a guard after it was written and before it is read. They are
/// then created in `/tmp` or `/var/tmp` or, if these are inside the workspace too, in `own`, which
/// must be one of Rind's own folders.
///
/// Call it before the process creates temporary files. The first call that changes the folder
/// determines it for the whole process.
///
/// # Errors
/// None of these folders is outside the workspace and writable.
pub fn keep_temp_files_outside_workspace(workspace: &Path, own: &Path) -> io::Result<()> {
    let workspace = workspace.canonicalize()?;
    // Check the nearest existing parent of a folder that does not exist, because a command could
    // create the folder.
    let is_inside = |folder: &Path| {
        let mut above = folder.ancestors();
        let real = above.find_map(|folder| folder.canonicalize().ok());
        real.is_some_and(|real| real.starts_with(&workspace))
    };
    if !is_inside(&tempfile::env::temp_dir()) {
        return Ok(());
    }
    let usual = ["/tmp", "/var/tmp"].map(Path::new);
    let mut usual = usual.into_iter().filter(|folder| !is_inside(folder));
    let outside = usual.find(|folder| TempDir::new_in(folder).is_ok());
    let place = match outside {
        Some(folder) => folder,
        // Tools cannot access Rind's own folders, even if these are inside the workspace.
        None => {
            create_private_folder(own)?;
            own
        }
    };
    tempfile::env::override_temp_dir(place).map_err(|_| {
        io::Error::other(
            "the temporary folder of this process was already moved into the workspace",
        )
    })
}

/// Whether this process creates a folder with this prefix in this parent folder for the first time.
/// If so, abandoned folders there were not removed yet.
fn claim_abandoned_folder_removal(prefix: &str, above: &Path) -> bool {
    static SWEPT_TEMPORARY_FOLDER_PREFIXES: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
    let place = above.join(prefix);
    let mut swept = SWEPT_TEMPORARY_FOLDER_PREFIXES
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    let is_first = !swept.contains(&place);
    if is_first {
        swept.push(place);
    }
    is_first
}

/// Removes the folders with this prefix in `above` whose owners have ended. Skips files, symlinks,
/// folders of other users, and folders in use.
fn remove_abandoned_folders(prefix: &str, above: &Path) {
    let user = rustix::process::geteuid().as_raw();
    for entry in fs::read_dir(above).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let path = entry.path();
        if let Some(name) = name.strip_prefix(LOCK_PENDING_FOLDER_NAME_PREFIX) {
            if name.starts_with(prefix) && is_abandoned_folder(&path) {
                // Remove the folder only if it is empty: its owner writes nothing into it before
                // locking it.
                let _ = fs::remove_dir(&path);
            }
            continue;
        }
        if !name.starts_with(prefix) {
            continue;
        }
        let Ok(held) = open_lock_file(&path) else {
            continue;
        };
        let is_own = held.metadata().is_ok_and(|found| found.uid() == user);
        // Keep the folder locked while it is removed, so that other processes skip it.
        if is_own && held.try_lock().is_ok() {
            let _ = fs::remove_dir_all(&path);
        }
    }
}

/// Whether an unlocked folder is so old that no process is about to lock it.
fn is_abandoned_folder(path: &Path) -> bool {
    let changed = path.symlink_metadata().and_then(|found| found.modified());
    let age = changed.map(|changed| SystemTime::now().duration_since(changed));
    matches!(age, Ok(Ok(age)) if age > MAX_LOCK_PENDING_FOLDER_AGE)
}

/// Opens a folder to lock it; fails if the path is a symlink.
fn open_lock_file(path: &Path) -> io::Result<File> {
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
        let owner = open_lock_file(&used).unwrap();
        owner.try_lock().unwrap();

        let (old, new, full) = (
            at(".unlocked-rind-x-1"),
            at(".unlocked-rind-x-2"),
            made(".unlocked-rind-x-3"),
        );
        for folder in [&old, &new] {
            fs::create_dir(folder).unwrap();
        }
        for folder in [&old, &full] {
            let before = SystemTime::now() - 2 * MAX_LOCK_PENDING_FOLDER_AGE;
            open_lock_file(folder)
                .unwrap()
                .set_modified(before)
                .unwrap();
        }

        let first = TemporaryFolder::new_in("rind-x-", above.path()).unwrap();
        assert!(!left.exists() && !old.exists());
        assert!(new.exists() && full.join("deep/file").exists());
        assert!(other.join("deep/file").exists() && elsewhere.join("deep/file").exists());
        assert!(at("rind-x-link").is_symlink() && at("rind-x-file").exists());
        assert!(used.join("deep/file").exists());
        // A lock also excludes other descriptors in the same process.
        remove_abandoned_folders("rind-x-", above.path());
        assert!(first.path().exists());
        let own = first.path().to_owned();
        fs::write(own.join("file"), "text").unwrap();
        drop(first);
        assert!(!own.exists());
        drop(owner);
        remove_abandoned_folders("rind-x-", above.path());
        assert!(!used.exists());
        let unlocked = fs::read_dir(above.path()).unwrap().flatten();
        let unlocked = unlocked.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let n_unlocked = unlocked
            .filter(|name| name.starts_with(LOCK_PENDING_FOLDER_NAME_PREFIX))
            .count();
        assert_eq!(
            n_unlocked, 2,
            "the one that is new, and the one that is not empty"
        );
    }
}
