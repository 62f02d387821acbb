//! Private files and folders, atomic replacement, and locks.
//!
//! Owns how files are created and replaced, so that only their owner can read them and readers
//! never see a partially written file. It must not know where files belong (see `paths`) or their
//! content. A power failure may lose the new content of a file, unless the doc of the function that
//! wrote the file says that it waits for the disk.
//!
//! Start from [`create_private_folder`] and [`replace_private_file`].

mod present;
mod temporary;

use std::fs::{self, DirBuilder, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use tempfile::NamedTempFile;

pub use present::{is_dangling_symlink, open_if_present, read_if_present};
pub use temporary::{TemporaryFolder, keep_temp_files_outside_workspace};

/// Permission bits that give the group or other users access to a file.
const GROUP_AND_OTHERS_BITS: u32 = 0o077;

/// Creates a folder and its missing parents with access for the owner only. Removes the access of
/// group and others from an existing folder; never adds any.
pub fn create_private_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)?;
    let mode = fs::metadata(folder)?.permissions().mode();
    if mode & GROUP_AND_OTHERS_BITS == 0 {
        return Ok(());
    }
    fs::set_permissions(
        folder,
        PermissionsExt::from_mode(mode & !GROUP_AND_OTHERS_BITS),
    )
}

/// Replaces a file atomically, so that only its owner can read it. A power failure may still lose
/// the new content.
pub fn replace_private_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = create_temporary_file(path)?;
    file.write_all(bytes)?;
    file.persist(path).map(drop).map_err(|e| e.error)
}

/// Replaces a file atomically like [`replace_private_file`], and waits until the content is on
/// disk. Used for files without which the program cannot start.
pub fn replace_private_file_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = create_temporary_file(path)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(path).map(drop).map_err(|e| e.error)
}

/// Creates a temporary file next to `path`, which the caller renames to `path`. Only the owner can
/// access the file, before and after the rename.
fn create_temporary_file(path: &Path) -> io::Result<NamedTempFile> {
    let folder = path.parent().unwrap_or(Path::new("."));
    tempfile::Builder::new()
        .prefix(&temporary_file_prefix(path))
        .tempfile_in(folder)
}

/// Returns the prefix for the names of temporary files that will replace `path`.
fn temporary_file_prefix(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    format!(".{name}.tmp-")
}

/// Acquires the lock of the file at `path`, which is released when the returned file is dropped. If
/// another process has the lock, calls `waits` and then waits for the lock. The lock is on a
/// separate file in the same folder, because the file at `path` is replaced on every write.
///
/// Creates the folder if it is missing. Removes temporary files that a killed process left behind;
/// therefore, only a process with the lock may write the file.
pub fn acquire_file_lock(path: &Path, waits: impl FnOnce()) -> io::Result<fs::File> {
    let folder = path.parent().unwrap_or(Path::new("."));
    create_private_folder(folder)?;
    let lock = fs::File::create(path.with_extension("lock"))?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            waits();
            lock.lock()?;
        }
        Err(TryLockError::Error(error)) => return Err(error),
    }
    let prefix = temporary_file_prefix(path);
    for entry in fs::read_dir(folder)?.flatten() {
        if entry.file_name().to_string_lossy().starts_with(&prefix) {
            // A temporary file that cannot be removed is harmless, and the next lock holder tries
            // again.
            let _ = fs::remove_file(entry.path());
        }
    }
    Ok(lock)
}

/// Exchanges two folders, atomically if the file system supports it: then a concurrent reader
/// always finds a folder at both paths.
pub fn exchange_folders(one: &Path, other: &Path) -> io::Result<()> {
    match renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
            exchange_folders_by_renames(one, other, |from, to| fs::rename(from, to))
        }
        exchanged => exchanged.map_err(io::Error::from),
    }
}

/// Exchanges two folders on a file system without an atomic exchange, by moving `other` to a
/// temporary folder first. If a rename fails, the earlier renames are undone, so that nothing is
/// left behind.
fn exchange_folders_by_renames(
    one: &Path,
    other: &Path,
    mut rename: impl FnMut(&Path, &Path) -> io::Result<()>,
) -> io::Result<()> {
    // Use a fresh directory, because a killed process may have left one behind.
    let private = tempfile::Builder::new()
        .prefix(&temporary_file_prefix(other))
        .tempdir_in(other.parent().unwrap_or(Path::new(".")))?;
    let aside = private.path().join("earlier");
    let steps = [(other, &*aside), (one, other), (&*aside, one)];
    for (n_done, (from, to)) in steps.into_iter().enumerate() {
        let Err(error) = rename(from, to) else {
            continue;
        };
        let mut done = steps.into_iter().take(n_done).rev();
        if let Err(undoing) = done.try_for_each(|(from, to)| rename(to, from)) {
            // Keep the temporary folder, because it contains the folder that was at `other`.
            let _ = private.keep();
            return Err(io::Error::other(format!(
                "{error}; the earlier folder could not be moved back: {undoing}; the folder that was at {} is now at {}",
                other.display(),
                aside.display()
            )));
        }
        return Err(error);
    }
    Ok(())
}

/// Renames a file or folder. Fails if `to` exists.
pub fn rename_without_replace(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // The file system does not support this flag. The fallback may replace a file that was
        // created after the check; it replaces a folder only if the folder is empty.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => match to.symlink_metadata() {
            Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
            Err(_) => fs::rename(from, to),
        },
        renamed => renamed.map_err(io::Error::from),
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
        create_private_folder(&folder).unwrap();
        assert_eq!(
            (mode(&root.path().join("a")), mode(&folder)),
            (0o700, 0o700)
        );
        fs::set_permissions(&folder, PermissionsExt::from_mode(0o755)).unwrap();
        create_private_folder(&folder).unwrap();
        assert_eq!(mode(&folder), 0o700, "a folder that is there is tightened");
        fs::set_permissions(&folder, PermissionsExt::from_mode(0o555)).unwrap();
        create_private_folder(&folder).unwrap();
        assert_eq!(mode(&folder), 0o500, "and never opened");
        fs::set_permissions(&folder, PermissionsExt::from_mode(0o700)).unwrap();

        let file = folder.join("f");
        fs::write(&file, "before").unwrap();
        replace_private_file(&file, b"after").unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"after");
        assert_eq!(mode(&file), 0o600);
    }

    #[test]
    fn a_lock_tells_who_waits_and_clears_what_a_stopped_owner_left() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("x.toml");
        let held = acquire_file_lock(&path, || unreachable!()).unwrap();
        let (told, tells) = std::sync::mpsc::channel();
        let other = path.clone();
        let waiting =
            std::thread::spawn(move || acquire_file_lock(&other, || told.send(()).unwrap()));
        tells.recv().unwrap();
        let left = create_temporary_file(&path)
            .unwrap()
            .into_temp_path()
            .keep()
            .unwrap();
        drop(held);
        waiting.join().unwrap().unwrap();
        assert!(!left.exists());
    }

    #[test]
    fn folders_are_exchanged_without_the_system_call_or_left_as_they_were() {
        let root = tempfile::tempdir().unwrap();
        let [one, other] = ["one", "other.d"].map(|name| root.path().join(name));
        for folder in [&one, &other] {
            fs::create_dir(folder).unwrap();
            fs::write(folder.join("is"), folder.as_os_str().as_encoded_bytes()).unwrap();
        }
        let is = |folder: &Path, was: &Path| {
            let found = fs::read(folder.join("is")).unwrap();
            assert_eq!(found, was.as_os_str().as_encoded_bytes());
            assert_eq!(fs::read_dir(root.path()).unwrap().count(), 2);
        };
        for n_fails in 0..3 {
            let mut n = 0;
            let failed = exchange_folders_by_renames(&one, &other, |from, to| {
                n += 1;
                match n - 1 == n_fails {
                    true => Err(io::Error::other("out of luck")),
                    false => fs::rename(from, to),
                }
            });
            assert_eq!(failed.unwrap_err().to_string(), "out of luck");
            is(&one, &one);
            is(&other, &other);
        }
        exchange_folders_by_renames(&one, &other, |from, to| fs::rename(from, to)).unwrap();
        is(&one, &other);
        is(&other, &one);

        // A folder whose rename cannot be undone is named and stays.
        let mut n = 0;
        let lost = exchange_folders_by_renames(&one, &other, |from, to| {
            n += 1;
            match n {
                1 => fs::rename(from, to),
                _ => Err(io::Error::other("out of luck")),
            }
        });
        let lost = lost.unwrap_err().to_string();
        let (_, kept) = lost.rsplit_once(" is now at ").unwrap();
        is(Path::new(kept), &one);
    }
}
