//! Replaces the files of a folder with those of a snapshot. Fetches all files of the snapshot into
//! a folder beside it and checks them, before it removes the first present file. Start from
//! [`stage`] and [`swap`].

use std::io::{self, Write};
use std::path::Path;

use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt, Permissions, PermissionsExt};

use super::manifest::{FolderManifest, OWN};
use super::scan::MODE;

/// Folder within the worker's own folder with the files that were fetched.
const NEXT: &str = "next";

/// Folder within the worker's own folder with files that are in no snapshot.
const ASIDE: &str = "unsaved";

/// Maximum number of folders in [`ASIDE`]; older ones are removed.
const MAX_ASIDE: usize = 5;

/// Mode of folders that can be filled: all rights for the owner.
const OPEN: u32 = 0o700;

/// Reason why the files of a snapshot could not be fetched.
pub(super) enum StageError {
    /// The folder cannot be read or written.
    Folder(String),
    /// The snapshot is invalid, so no worker can restore it.
    Snapshot(String),
    /// The store could not return a content.
    Store(rind_lib::session::Error),
}

impl StageError {
    fn of_path(path: &str, error: &io::Error) -> Self {
        use io::ErrorKind::{
            AlreadyExists, InvalidFilename, InvalidInput, NotADirectory, NotFound,
        };
        let text = format!("{path}: {error}");
        // The target folder is new, so these errors are caused by a path in the manifest.
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

/// Opens the worker's own folder. Restores it and its mode first, because a command may have
/// removed the folder or changed the mode.
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

/// Gives the owner all rights to a folder. Returns the previous mode if it had to be changed.
fn open_rights(folder: &Dir, name: &Path) -> io::Result<Option<u32>> {
    let mode = folder.metadata(name)?.permissions().mode();
    if mode & OPEN == OPEN {
        return Ok(None);
    }
    folder.set_permissions(name, Permissions::from_mode((mode & MODE) | OPEN))?;
    Ok(Some(mode & MODE))
}

/// Fetches all files of a snapshot into the folder [`NEXT`]. `content` returns a file's content by
/// its hash.
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

/// Replaces the files of the folder by the fetched ones. After an error, the folder has a part of
/// each.
pub(super) fn swap(folder: &Dir, manifest: &FolderManifest) -> io::Result<()> {
    for name in names(folder)? {
        remove(folder, Path::new(&name))?;
    }
    let next = folder.open_dir(Path::new(OWN).join(NEXT))?;
    for entry in next.entries()? {
        let name = entry?.file_name();
        next.rename(&name, folder, &name)?;
    }
    // Set the innermost modes first: a folder without rights for its owner cannot be entered.
    for stored in manifest.folders.iter().rev() {
        let mode = Permissions::from_mode(stored.mode & MODE);
        folder.set_permissions(&stored.path, mode)?;
    }
    Ok(())
}

/// Moves the files of the folder into a new folder `name` in [`ASIDE`]. Returns the path of the new
/// folder, relative to `folder`; `None` if there are no files.
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
            // Removes the new folder only if it is empty. Files that were moved before the error
            // stay there.
            let _ = all.remove_dir(name);
            return Err(error);
        }
    }
    // Remove old ones last, so that an error before does not lose any of them.
    if let Err(error) = remove_old(&all) {
        tracing::warn!(%error, "files that were set aside long ago were not removed");
    }
    let path = Path::new(OWN).join(ASIDE).join(name);
    Ok(Some(path.display().to_string()))
}

/// Moves a file, a link or a folder. A folder without rights for its owner cannot be moved, so it
/// gets these rights for the move.
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

/// Returns the names in the folder, except the worker's own folder.
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

/// Removes a file, a link, or a folder with its content.
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
