//! Files and folders that only their owner may read, and folders that take the place of others.
//!
//! Owns how they are made; where they are is for `paths` to say and what is in them for their users. Start from
//! [`private_folder`].

mod present;
mod temporary;

use std::fs::{self, DirBuilder, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use tempfile::NamedTempFile;

pub(crate) use present::{open_if_present, read_if_present};
pub(crate) use temporary::TemporaryFolder;

/// Bits of a mode that give rights to others than the owner.
const OF_OTHERS: u32 = 0o077;

/// Creates a folder and its missing parents, accessible to its owner only; takes the rights of others from an existing one, and
/// gives none.
pub(crate) fn private_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)?;
    let mode = fs::metadata(folder)?.permissions().mode();
    if mode & OF_OTHERS == 0 {
        return Ok(());
    }
    fs::set_permissions(folder, PermissionsExt::from_mode(mode & !OF_OTHERS))
}

/// Puts a whole file in place, or leaves what was there; only its owner may read it. A power cut may still lose it.
pub(crate) fn replace_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = temporary(path)?;
    file.write_all(bytes)?;
    file.persist(path).map(drop).map_err(|e| e.error)
}

/// Puts a whole file in place as [`replace_private`] does, and waits until it is on the disk: what everything stops without.
#[cfg(feature = "cli")]
pub(crate) fn replace_private_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = temporary(path)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(path).map(drop).map_err(|e| e.error)
}

/// Makes a temporary file for what is to be at a path. It is made for its owner only, and keeps that under its final name.
fn temporary(path: &Path) -> io::Result<NamedTempFile> {
    let folder = path.parent().unwrap_or(Path::new("."));
    tempfile::Builder::new()
        .prefix(&prefix(path))
        .tempfile_in(folder)
}

/// Beginning of the names of temporary files for what is to be at a path.
fn prefix(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    format!(".{name}.tmp-")
}

/// Waits for the lock that goes with a file, until what is returned is dropped, and calls `waits` if another has it. The lock is
/// a file of its own beside it, because the file itself is replaced when it is written. Makes the folder, and removes what an
/// owner of the lock left behind that was stopped while it wrote the file: whoever writes it must have the lock.
pub(crate) fn lock_beside(path: &Path, waits: impl FnOnce()) -> io::Result<fs::File> {
    let folder = path.parent().unwrap_or(Path::new("."));
    private_folder(folder)?;
    let lock = fs::File::create(path.with_extension("lock"))?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            waits();
            lock.lock()?;
        }
        Err(TryLockError::Error(error)) => return Err(error),
    }
    let prefix = prefix(path);
    for entry in fs::read_dir(folder)?.flatten() {
        if entry.file_name().to_string_lossy().starts_with(&prefix) {
            // What stays has no effect, and the next one tries again.
            let _ = fs::remove_file(entry.path());
        }
    }
    Ok(lock)
}

/// Puts two folders each in the place of the other, in one step where the file system can: whoever looks meanwhile finds one in
/// each place.
pub(crate) fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    match renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE) {
        // The file system cannot; then the earlier one steps aside first.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
            let aside = one.with_extension("earlier");
            fs::rename(other, &aside)?;
            fs::rename(one, other).inspect_err(|_| {
                let _ = fs::rename(&aside, other);
            })?;
            fs::rename(&aside, one)
        }
        exchanged => exchanged.map_err(io::Error::from),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn folders_and_files_are_their_owners_only() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("a/b");
        private_folder(&folder).unwrap();
        assert_eq!(
            (mode(&root.path().join("a")), mode(&folder)),
            (0o700, 0o700)
        );
        fs::set_permissions(&folder, PermissionsExt::from_mode(0o755)).unwrap();
        private_folder(&folder).unwrap();
        assert_eq!(mode(&folder), 0o700, "a folder that is there is tightened");
        fs::set_permissions(&folder, PermissionsExt::from_mode(0o555)).unwrap();
        private_folder(&folder).unwrap();
        assert_eq!(mode(&folder), 0o500, "and never opened");
        fs::set_permissions(&folder, PermissionsExt::from_mode(0o700)).unwrap();

        let file = folder.join("f");
        fs::write(&file, "before").unwrap();
        replace_private(&file, b"after").unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"after");
        assert_eq!(mode(&file), 0o600);
    }

    #[test]
    fn a_lock_tells_who_waits_and_clears_what_a_stopped_owner_left() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("x.toml");
        let held = lock_beside(&path, || unreachable!()).unwrap();
        let (told, tells) = std::sync::mpsc::channel();
        let other = path.clone();
        let waiting = std::thread::spawn(move || lock_beside(&other, || told.send(()).unwrap()));
        tells.recv().unwrap();
        let left = temporary(&path).unwrap().into_temp_path().keep().unwrap();
        drop(held);
        waiting.join().unwrap().unwrap();
        assert!(!left.exists());
    }
}
