//! Replaces the files of a folder with the files of a snapshot. Fetches and checks all files of the
//! snapshot before the first existing file is removed. Start from
//! [`fetch_snapshot_files`] and [`replace_with_fetched_files`].

use std::io::{self, Write};
use std::path::Path;

use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt, Permissions, PermissionsExt};

use super::manifest::{FolderManifest, WORKER_PRIVATE_FOLDER_NAME};
use super::scan::SNAPSHOT_FILE_MODE_MASK;

/// Name of the subfolder of [`WORKER_PRIVATE_FOLDER_NAME`] into which the files of a snapshot are
/// fetched.
const FETCHED_SNAPSHOT_FOLDER_NAME: &str = "next";

/// Subfolder of [`WORKER_PRIVATE_FOLDER_NAME`] for files that were in the folder but are in no
/// snapshot.
const UNSAVED_FILES_FOLDER_NAME: &str = "unsaved";

/// Maximum number of folders in [`UNSAVED_FILES_FOLDER_NAME`]. Beyond it, the oldest folders are
/// removed.
const MAX_FOLDERS_OF_UNSAVED_FILES: usize = 5;

/// Mode bits that a folder needs so that files in it can be replaced: all rights for the owner.
const WRITABLE_FOLDER_MODE_BITS: u32 = 0o700;

/// Reason why the files of a snapshot could not be fetched.
pub(super) enum SnapshotFetchError {
    /// The folder with the session's files cannot be read or written; contains the reason.
    Folder(String),
    /// The snapshot is invalid, so no worker can restore it.
    Snapshot(String),
    /// The store could not return the content of a file.
    Store(rind_lib::session::Error),
}

impl SnapshotFetchError {
    fn from_path_error(path: &str, error: &io::Error) -> Self {
        use io::ErrorKind::{
            AlreadyExists, InvalidFilename, InvalidInput, NotADirectory, NotFound,
        };
        let text = format!("{path}: {error}");
        // Treat these errors as faults of the snapshot's list of files: the target folder is new,
        // so only a wrong path in that list can cause them.
        let of_list = [
            AlreadyExists,
            InvalidFilename,
            InvalidInput,
            NotADirectory,
            NotFound,
        ];
        match of_list.contains(&error.kind()) {
            true => Self::Snapshot(text),
            false => Self::Folder(text),
        }
    }
}

/// Opens the worker's own folder [`WORKER_PRIVATE_FOLDER_NAME`]. First creates the folder and
/// restores its mode if needed, because a command may have removed the folder or changed the mode.
pub(super) fn open_worker_private_folder(folder: &Dir) -> io::Result<Dir> {
    grant_owner_rights(folder, Path::new("."))?;
    match folder.symlink_metadata(WORKER_PRIVATE_FOLDER_NAME) {
        Ok(metadata) if metadata.is_dir() => {}
        Ok(_) => {
            return Err(io::Error::other(format!(
                "{WORKER_PRIVATE_FOLDER_NAME} is not a folder; remove it, and the worker creates a new one"
            )));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            tracing::warn!(
                "{WORKER_PRIVATE_FOLDER_NAME} was removed, with all that was set aside in it; it is made anew"
            );
            folder.create_dir(WORKER_PRIVATE_FOLDER_NAME)?;
        }
        Err(error) => return Err(error),
    }
    grant_owner_rights(folder, Path::new(WORKER_PRIVATE_FOLDER_NAME))?;
    folder.open_dir(WORKER_PRIVATE_FOLDER_NAME)
}

/// Gives the owner all rights to a folder. Returns the previous mode if it had to be changed.
fn grant_owner_rights(folder: &Dir, name: &Path) -> io::Result<Option<u32>> {
    let mode = folder.metadata(name)?.permissions().mode();
    if mode & WRITABLE_FOLDER_MODE_BITS == WRITABLE_FOLDER_MODE_BITS {
        return Ok(None);
    }
    folder.set_permissions(
        name,
        Permissions::from_mode((mode & SNAPSHOT_FILE_MODE_MASK) | WRITABLE_FOLDER_MODE_BITS),
    )?;
    Ok(Some(mode & SNAPSHOT_FILE_MODE_MASK))
}

/// Fetches all files of a snapshot into the folder [`FETCHED_SNAPSHOT_FOLDER_NAME`]. `content`
/// returns a file's content by its hash.
pub(super) fn fetch_snapshot_files(
    folder: &Dir,
    manifest: &FolderManifest,
    content: &dyn Fn(&str) -> Result<Vec<u8>, SnapshotFetchError>,
) -> Result<(), SnapshotFetchError> {
    let own = open_worker_private_folder(folder).map_err(folder_error)?;
    remove_entry(&own, Path::new(FETCHED_SNAPSHOT_FOLDER_NAME)).map_err(folder_error)?;
    own.create_dir(FETCHED_SNAPSHOT_FOLDER_NAME)
        .map_err(folder_error)?;
    let next = own
        .open_dir(FETCHED_SNAPSHOT_FOLDER_NAME)
        .map_err(folder_error)?;
    for stored in &manifest.folders {
        let made = next.create_dir(&stored.path);
        made.map_err(|error| SnapshotFetchError::from_path_error(&stored.path, &error))?;
    }
    for stored in &manifest.files {
        let failed = |error: io::Error| SnapshotFetchError::from_path_error(&stored.path, &error);
        let bytes = content(&stored.hash)?;
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        let mut file = next.open_with(&stored.path, &options).map_err(failed)?;
        file.write_all(&bytes).map_err(failed)?;
        let mode = Permissions::from_mode(stored.mode & SNAPSHOT_FILE_MODE_MASK);
        file.set_permissions(mode).map_err(failed)?;
    }
    for stored in &manifest.links {
        let made = next.symlink(&stored.target, &stored.path);
        made.map_err(|error| SnapshotFetchError::from_path_error(&stored.path, &error))?;
    }
    Ok(())
}

/// Replaces the files of the folder by the fetched files. After an error, the folder may contain
/// both old and fetched files.
pub(super) fn replace_with_fetched_files(
    folder: &Dir,
    manifest: &FolderManifest,
) -> io::Result<()> {
    for name in list_names_outside_worker_folder(folder)? {
        remove_entry(folder, Path::new(&name))?;
    }
    let next = folder
        .open_dir(Path::new(WORKER_PRIVATE_FOLDER_NAME).join(FETCHED_SNAPSHOT_FOLDER_NAME))?;
    for entry in next.entries()? {
        let name = entry?.file_name();
        next.rename(&name, folder, &name)?;
    }
    // Set the innermost modes first: a folder without rights for its owner cannot be entered.
    for stored in manifest.folders.iter().rev() {
        let mode = Permissions::from_mode(stored.mode & SNAPSHOT_FILE_MODE_MASK);
        folder.set_permissions(&stored.path, mode)?;
    }
    Ok(())
}

/// Moves the files of the folder into a new folder `name` in [`UNSAVED_FILES_FOLDER_NAME`]. Returns
/// the path of the new folder, relative to `folder`; `None` if there are no files.
pub(super) fn move_files_into_unsaved_files_folder(
    folder: &Dir,
    name: &str,
) -> io::Result<Option<String>> {
    let names = list_names_outside_worker_folder(folder)?;
    if names.is_empty() {
        return Ok(None);
    }
    let own = open_worker_private_folder(folder)?;
    own.create_dir_all(UNSAVED_FILES_FOLDER_NAME)?;
    let all = own.open_dir(UNSAVED_FILES_FOLDER_NAME)?;
    all.create_dir(name)?;
    let aside = all.open_dir(name)?;
    for moved in &names {
        if let Err(error) = move_entry(folder, &aside, Path::new(moved)) {
            // Remove the new folder if it is empty. Files that were moved before the error stay
            // there.
            let _ = all.remove_dir(name);
            return Err(error);
        }
    }
    // Remove the oldest folders with files that were set aside only now, so that they are kept if
    // an earlier step fails.
    if let Err(error) = remove_oldest_folders(&all) {
        tracing::warn!(%error, "files that were set aside long ago were not removed");
    }
    let path = Path::new(WORKER_PRIVATE_FOLDER_NAME)
        .join(UNSAVED_FILES_FOLDER_NAME)
        .join(name);
    Ok(Some(path.display().to_string()))
}

/// Moves a file, a link or a folder. A folder without owner rights cannot be moved, so its owner
/// gets all rights during the move.
fn move_entry(from: &Dir, to: &Dir, name: &Path) -> io::Result<()> {
    let is_folder = from.symlink_metadata(name)?.is_dir();
    let closed = match is_folder {
        true => grant_owner_rights(from, name)?,
        false => None,
    };
    let moved = from.rename(name, to, name);
    if let Some(mode) = closed {
        let at = if moved.is_ok() { to } else { from };
        at.set_permissions(name, Permissions::from_mode(mode))?;
    }
    moved
}

fn remove_oldest_folders(all: &Dir) -> io::Result<()> {
    let mut aside: Vec<_> = all
        .entries()?
        .filter_map(|entry| Some(entry.ok()?.file_name()))
        .collect();
    aside.sort();
    let n_old = aside.len().saturating_sub(MAX_FOLDERS_OF_UNSAVED_FILES);
    for old in aside.iter().take(n_old) {
        remove_entry(all, Path::new(old))?;
    }
    Ok(())
}

/// Returns the names in the folder, except the worker's own folder.
pub(super) fn list_names_outside_worker_folder(
    folder: &Dir,
) -> io::Result<Vec<std::ffi::OsString>> {
    let mut names = Vec::new();
    for entry in folder.entries()? {
        let name = entry?.file_name();
        if name != WORKER_PRIVATE_FOLDER_NAME {
            names.push(name);
        }
    }
    Ok(names)
}

/// Removes a file, a link, or a folder with its content.
fn remove_entry(folder: &Dir, name: &Path) -> io::Result<()> {
    match folder.symlink_metadata(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(metadata) if metadata.is_dir() => {
            folder.set_permissions(name, Permissions::from_mode(WRITABLE_FOLDER_MODE_BITS))?;
            let below = folder.open_dir(name)?;
            for entry in below.entries()? {
                remove_entry(&below, Path::new(&entry?.file_name()))?;
            }
            folder.remove_dir(name)
        }
        Ok(_) => folder.remove_file(name),
    }
}

fn folder_error(error: io::Error) -> SnapshotFetchError {
    SnapshotFetchError::Folder(error.to_string())
}
