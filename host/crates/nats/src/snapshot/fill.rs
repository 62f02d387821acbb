//! Replaces the files of a folder by those of a snapshot: all of them are fetched and checked beside the
//! folder's own files before the first of these is removed. Start from [`stage`] and [`swap`].

use std::io::{self, Write};
use std::path::Path;

use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt, Permissions, PermissionsExt};

use super::manifest::{FolderManifest, OWN};
use super::scan::MODE;

/// Folder with files that were fetched, below that of the worker.
const NEXT: &str = "next";

/// Folder with files that were not stored, below that of the worker.
const ASIDE: &str = "unsaved";

/// Number of folders with such files that are kept.
const MAX_ASIDE: usize = 5;

/// Mode of folders while they are filled.
const OPEN: u32 = 0o700;

/// Reason why a snapshot was not fetched.
pub(super) enum StageError {
    /// The folder of the worker.
    Folder(String),
    /// The snapshot itself, which no worker can restore.
    Snapshot(String),
    /// The store, which gave no content.
    Store(rind_lib::session::Error),
}

impl StageError {
    fn of_path(path: &str, error: &io::Error) -> Self {
        use io::ErrorKind::{
            AlreadyExists, InvalidFilename, InvalidInput, NotADirectory, NotFound,
        };
        let text = format!("{path}: {error}");
        // The folder is new: a path that does not fit into it is the fault of the list.
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

/// Opens the worker's own part of the folder, which a command may have removed or closed.
pub(super) fn open_own(folder: &Dir) -> io::Result<Dir> {
    open_rights(folder, Path::new("."))?;
    match folder.symlink_metadata(OWN) {
        Ok(metadata) if metadata.is_dir() => {}
        Ok(_) => {
            return Err(io::Error::other(format!(
                "{OWN} is no folder; remove it, and the worker makes a new one"
            )));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            tracing::warn!("{OWN} was removed, with all that was set aside in it; it is made anew");
            folder.create_dir(OWN)?;
        }
        Err(error) => return Err(error),
    }
    open_rights(folder, Path::new(OWN))?;
    folder.open_dir(OWN)
}

/// Gives the owner all rights to a folder. Returns the mode before, if it was another.
fn open_rights(folder: &Dir, name: &Path) -> io::Result<Option<u32>> {
    let mode = folder.metadata(name)?.permissions().mode();
    if mode & OPEN == OPEN {
        return Ok(None);
    }
    folder.set_permissions(name, Permissions::from_mode((mode & MODE) | OPEN))?;
    Ok(Some(mode & MODE))
}

/// Fetches all files of a snapshot. `content` returns a content by its hash.
pub(super) fn stage(
    folder: &Dir,
    manifest: &FolderManifest,
    content: &dyn Fn(&str) -> Result<Vec<u8>, StageError>,
) -> Result<(), StageError> {
    let own = open_own(folder).map_err(of_folder)?;
    remove(&own, Path::new(NEXT)).map_err(of_folder)?;
    own.create_dir(NEXT).map_err(of_folder)?;
    let next = own.open_dir(NEXT).map_err(of_folder)?;
    for stored in &manifest.folders {
        let made = next.create_dir(&stored.path);
        made.map_err(|error| StageError::of_path(&stored.path, &error))?;
    }
    for stored in &manifest.files {
        let failed = |error: io::Error| StageError::of_path(&stored.path, &error);
        let bytes = content(&stored.hash)?;
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        let mut file = next.open_with(&stored.path, &options).map_err(failed)?;
        file.write_all(&bytes).map_err(failed)?;
        let mode = Permissions::from_mode(stored.mode & MODE);
        file.set_permissions(mode).map_err(failed)?;
    }
    for stored in &manifest.links {
        let made = next.symlink(&stored.target, &stored.path);
        made.map_err(|error| StageError::of_path(&stored.path, &error))?;
    }
    Ok(())
}

/// Replaces the files of the folder by those that were staged. An error leaves some of both.
pub(super) fn swap(folder: &Dir, manifest: &FolderManifest) -> io::Result<()> {
    for name in names(folder)? {
        remove(folder, Path::new(&name))?;
    }
    let next = folder.open_dir(Path::new(OWN).join(NEXT))?;
    for entry in next.entries()? {
        let name = entry?.file_name();
        next.rename(&name, folder, &name)?;
    }
    // The innermost first: a folder without rights cannot be entered.
    for stored in manifest.folders.iter().rev() {
        let mode = Permissions::from_mode(stored.mode & MODE);
        folder.set_permissions(&stored.path, mode)?;
    }
    Ok(())
}

/// Moves the files of the folder to a new one for files that were not stored. Returns its path below the
/// folder; `None` if there are no files.
pub(super) fn set_aside(folder: &Dir, name: &str) -> io::Result<Option<String>> {
    let names = names(folder)?;
    if names.is_empty() {
        return Ok(None);
    }
    let own = open_own(folder)?;
    own.create_dir_all(ASIDE)?;
    let all = own.open_dir(ASIDE)?;
    all.create_dir(name)?;
    let aside = all.open_dir(name)?;
    for moved in &names {
        if let Err(error) = move_entry(folder, &aside, Path::new(moved)) {
            // Without an entry in it, it is removed; what was moved before stays in it.
            let _ = all.remove_dir(name);
            return Err(error);
        }
    }
    // Only now: an error before must cost none of the earlier ones.
    if let Err(error) = remove_old(&all) {
        tracing::warn!(%error, "files that were set aside long ago were not removed");
    }
    let path = Path::new(OWN).join(ASIDE).join(name);
    Ok(Some(path.display().to_string()))
}

/// Moves a file, a link or a folder. A folder without rights for its owner cannot be moved as it is.
fn move_entry(from: &Dir, to: &Dir, name: &Path) -> io::Result<()> {
    let is_folder = from.symlink_metadata(name)?.is_dir();
    let closed = match is_folder {
        true => open_rights(from, name)?,
        false => None,
    };
    let moved = from.rename(name, to, name);
    if let Some(mode) = closed {
        let at = if moved.is_ok() { to } else { from };
        at.set_permissions(name, Permissions::from_mode(mode))?;
    }
    moved
}

fn remove_old(all: &Dir) -> io::Result<()> {
    let mut aside: Vec<_> = all
        .entries()?
        .filter_map(|entry| Some(entry.ok()?.file_name()))
        .collect();
    aside.sort();
    let n_old = aside.len().saturating_sub(MAX_ASIDE);
    for old in aside.iter().take(n_old) {
        remove(all, Path::new(old))?;
    }
    Ok(())
}

/// Returns the names in the folder without that of the worker.
pub(super) fn names(folder: &Dir) -> io::Result<Vec<std::ffi::OsString>> {
    let mut names = Vec::new();
    for entry in folder.entries()? {
        let name = entry?.file_name();
        if name != OWN {
            names.push(name);
        }
    }
    Ok(names)
}

/// Removes a file, a link or a folder with all that is in it.
fn remove(folder: &Dir, name: &Path) -> io::Result<()> {
    match folder.symlink_metadata(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(metadata) if metadata.is_dir() => {
            folder.set_permissions(name, Permissions::from_mode(OPEN))?;
            let below = folder.open_dir(name)?;
            for entry in below.entries()? {
                remove(&below, Path::new(&entry?.file_name()))?;
            }
            folder.remove_dir(name)
        }
        Ok(_) => folder.remove_file(name),
    }
}

fn of_folder(error: io::Error) -> StageError {
    StageError::Folder(error.to_string())
}
