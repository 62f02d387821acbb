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

/// Fetches all files of a snapshot. `content` returns a content by its hash.
pub(super) fn stage(
    folder: &Dir,
    manifest: &FolderManifest,
    content: &dyn Fn(&str) -> Result<Vec<u8>, String>,
) -> Result<(), String> {
    let own = folder.open_dir(OWN).map_err(text)?;
    remove(&own, Path::new(NEXT)).map_err(text)?;
    own.create_dir(NEXT).map_err(text)?;
    let next = own.open_dir(NEXT).map_err(text)?;
    for stored in &manifest.folders {
        let made = next.create_dir(&stored.path);
        made.map_err(|error| format!("{}: {error}", stored.path))?;
    }
    for stored in &manifest.files {
        let failed = |error: io::Error| format!("{}: {error}", stored.path);
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
        made.map_err(|error| format!("{}: {error}", stored.path))?;
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
    let all = Path::new(OWN).join(ASIDE);
    folder.create_dir_all(&all)?;
    let all_folder = folder.open_dir(&all)?;
    let mut before: Vec<_> = all_folder
        .entries()?
        .filter_map(|entry| Some(entry.ok()?.file_name()))
        .collect();
    before.sort();
    let n_old = (before.len() + 1).saturating_sub(MAX_ASIDE);
    for old in before.iter().take(n_old) {
        remove(&all_folder, Path::new(old))?;
    }
    all_folder.create_dir(name)?;
    let aside = all_folder.open_dir(name)?;
    for name in names {
        folder.rename(&name, &aside, &name)?;
    }
    Ok(Some(all.join(name).display().to_string()))
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

fn text(error: io::Error) -> String {
    error.to_string()
}
