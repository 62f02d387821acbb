//! Installs a plugin or skill atomically into the directory that contains all plugins or skills, or
//! removes one from it.
//!
//! New files are first written completely into a hidden temporary directory inside that directory,
//! which discovery ignores. If a package is replaced, one system call exchanges the old and the new
//! directory. A session that starts meanwhile finds one of the two, so a guard plugin is never
//! missing. The lock file names the version on disk, and is therefore written while
//! [`package_change_lock_path`] is locked.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use anyhow::Context;
use tempfile::TempDir;

use super::contents::{FileContentsByPath, write_files_to_new_folder};
use rind_lib::disk::{create_private_folder, exchange_folders};
use rind_lib::grant::held::InMemoryFolder;

/// Prefix of the names of directories that exist only during an installation.
const TEMPORARY_INSTALL_FOLDER_PREFIX: &str = ".install-";

/// Name of the directory, inside the directory of plugins or skills, for files that the user wrote
/// and that an installation replaced. Discovery ignores it.
const REPLACED_USER_FILES_FOLDER_NAME: &str = ".kept";

/// Plugin or skill that is written completely but not yet in its final location.
#[derive(Debug)]
pub struct StagedInstall {
    _temporary: TempDir,
    pub folder: PathBuf,
}

/// Returns the path of the file that is locked for a few milliseconds while a directory and its
/// entry in the lock file do not match.
pub(crate) fn package_change_lock_path(all: &Path) -> PathBuf {
    all.with_extension("exchange.lock")
}

/// Blocks sessions from reading installed packages until the returned file is dropped.
pub fn lock_out_package_readers(all: &Path) -> anyhow::Result<File> {
    let path = package_change_lock_path(all);
    let lock = || {
        let file = File::create(&path)?;
        file.lock()?;
        io::Result::Ok(file)
    };
    lock().with_context(|| format!("cannot lock {}", path.display()))
}

/// Writes files into the directory `name` in a hidden temporary directory of `all`, where they can
/// be checked before they are installed.
pub fn stage_files(
    files: &FileContentsByPath,
    name: &str,
    all: &Path,
) -> anyhow::Result<StagedInstall> {
    let make = || {
        // Do not chmod through a symlink: the owner of its target chose the permissions.
        if !all.is_symlink() {
            create_private_folder(all)?;
        }
        tempfile::Builder::new()
            .prefix(TEMPORARY_INSTALL_FOLDER_PREFIX)
            .tempdir_in(all)
    };
    let temporary = make().with_context(|| format!("cannot write {}", all.display()))?;
    let folder = temporary.path().join(name);
    write_files_to_new_folder(files, &folder)?;
    Ok(StagedInstall {
        _temporary: temporary,
        folder,
    })
}

/// Moves a file or directory to a location that discovery ignores. Returns the new path.
pub fn move_to_backup_folder(place: &Path, all: &Path) -> anyhow::Result<PathBuf> {
    let keep = || {
        let kept = all.join(REPLACED_USER_FILES_FOLDER_NAME);
        create_private_folder(&kept)?;
        let name = place.file_name().unwrap_or_default().to_string_lossy();
        let kept = kept.join(format!("{name}-{}", rind_lib::clock::new_uuid_v7()));
        fs::rename(place, &kept)?;
        io::Result::Ok(kept)
    };
    keep().with_context(|| {
        format!(
            "cannot move {} to {REPLACED_USER_FILES_FOLDER_NAME} in the same folder",
            place.display()
        )
    })
}

impl StagedInstall {
    /// Replaces the temporary directory in an error message by `source`, which the user knows and
    /// can open.
    pub fn replace_staging_path_in_message(&self, message: &str, source: &Path) -> String {
        let (folder, source) = (self.folder.display(), source.display());
        message.replace(&folder.to_string(), &source.to_string())
    }

    /// Moves the files to `place`. Files that were at `place` before are removed.
    pub fn move_staged_install_to(self, place: &Path) -> anyhow::Result<()> {
        let put = match place.symlink_metadata() {
            Ok(_) => exchange_folders(&self.folder, place),
            Err(_) => fs::rename(&self.folder, place),
        };
        put.with_context(|| format!("cannot put it at {}", place.display()))
    }
}

/// Returns the digest of a directory; `None` if it cannot be read.
pub fn compute_folder_digest(place: &Path) -> Option<String> {
    let held = InMemoryFolder::read(place).ok()?;
    Some(held.digest().to_owned())
}

/// Removes a file or directory atomically, without following symlinks. Returns whether it existed.
pub fn remove_installed_path(place: &Path, all: &Path) -> anyhow::Result<bool> {
    let remove = || {
        let folder = tempfile::Builder::new()
            .prefix(TEMPORARY_INSTALL_FOLDER_PREFIX)
            .tempdir_in(all)?;
        match fs::rename(place, folder.path().join("removed")) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            moved => moved.map(|()| true),
        }
    };
    match remove() {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        removed => removed.with_context(|| format!("cannot remove {}", place.display())),
    }
}

/// Removes the temporary directories of interrupted installations. The caller must hold the lock
/// that allows one installation at a time.
pub fn remove_temporary_folders(all: &Path) {
    let entries = fs::read_dir(all).into_iter().flatten().flatten();
    for entry in entries {
        if entry
            .file_name()
            .to_string_lossy()
            .starts_with(TEMPORARY_INSTALL_FOLDER_PREFIX)
        {
            // A directory that cannot be removed does no harm, and the next command tries again.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
