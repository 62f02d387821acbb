//! Files and folders that only their owner may read, and folders that take the place of others.
//!
//! Owns how they are made; where they are is for `paths` to say and what is in them for their users. Start from
//! [`private_folder`].

use std::fs::{self, DirBuilder};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

/// Creates a folder and its missing parents, accessible to its owner only; restricts an existing one.
pub(crate) fn private_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)?;
    fs::set_permissions(folder, PermissionsExt::from_mode(0o700))
}

/// Puts a whole file in place, or leaves what was there; only its owner may read it. A power cut may still lose it.
pub(crate) fn replace_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    // A temporary file is made for its owner only, and keeps that under its final name.
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(bytes)?;
    file.persist(path).map(drop).map_err(|e| e.error)
}

/// Puts a whole file in place as [`replace_private`] does, and waits until it is on the disk: what everything stops without.
#[cfg(feature = "cli")]
pub(crate) fn replace_private_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(path).map(drop).map_err(|e| e.error)
}

/// Waits for the lock that goes with a file, until what is returned is dropped. The lock is a file of its own beside it,
/// because the file itself is replaced when it is written. Makes the folder.
pub(crate) fn lock_beside(path: &Path) -> io::Result<fs::File> {
    private_folder(path.parent().unwrap_or(Path::new(".")))?;
    let lock = fs::File::create(path.with_extension("lock"))?;
    lock.lock()?;
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

        let file = folder.join("f");
        fs::write(&file, "before").unwrap();
        replace_private(&file, b"after").unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"after");
        assert_eq!(mode(&file), 0o600);
    }
}
