//! Moves a plugin or skill atomically into the directory of all plugins or skills, or out of it.
//!
//! New files are first written completely into a hidden temporary directory inside that directory,
//! which discovery ignores. If a package is replaced, the old and the new directory are exchanged
//! in one system call. A session that starts meanwhile finds one or the other, so a guard plugin is
//! never missing. The lock file names the right one and is therefore written while the same lock,
//! [`exchange_lock`], is held.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use anyhow::Context;
use tempfile::TempDir;

use super::contents::{Files, write_files};
use rind_lib::disk::{exchange_paths, private_folder};
use rind_lib::grant::held::HeldFolder;

/// Prefix of the names of temporary directories.
const PREFIX: &str = ".install-";

/// Directory inside the directory of plugins or skills that keeps files that the user wrote and an
/// installation replaced. Discovery ignores it.
const KEPT: &str = ".kept";

/// Plugin or skill that is written completely but not yet in its final location.
#[derive(Debug)]
pub struct StagedInstall {
    _temporary: TempDir,
    pub folder: PathBuf,
}

/// Returns the path of the file that is locked for a few milliseconds while a directory and its
/// entry in the lock file do not match.
pub(crate) fn exchange_lock(all: &Path) -> PathBuf {
    all.with_extension("exchange.lock")
}

/// Locks out sessions that read installed packages until the returned file is dropped.
pub fn lock_exchange(all: &Path) -> anyhow::Result<File> {
    let path = exchange_lock(all);
    let lock = || {
        let file = File::create(&path)?;
        file.lock()?;
        io::Result::Ok(file)
    };
    lock().with_context(|| format!("cannot lock {}", path.display()))
}

/// Writes files into the directory `name` in a hidden temporary directory of `all`, where they can
/// be checked before they are installed.
pub fn stage_files(files: &Files, name: &str, all: &Path) -> anyhow::Result<StagedInstall> {
    let make = || {
        // Do not chmod through a symlink: the owner of its target chose the permissions.
        if !all.is_symlink() {
            private_folder(all)?;
        }
        tempfile::Builder::new().prefix(PREFIX).tempdir_in(all)
    };
    let temporary = make().with_context(|| format!("cannot write {}", all.display()))?;
    let folder = temporary.path().join(name);
    write_files(files, &folder)?;
    Ok(StagedInstall {
        _temporary: temporary,
        folder,
    })
}

/// Moves a file or directory to a location that discovery ignores. Returns the new path.
pub fn keep_aside(place: &Path, all: &Path) -> anyhow::Result<PathBuf> {
    let keep = || {
        let kept = all.join(KEPT);
        private_folder(&kept)?;
        let name = place.file_name().unwrap_or_default().to_string_lossy();
        let kept = kept.join(format!("{name}-{}", rind_lib::clock::new_id()));
        fs::rename(place, &kept)?;
        io::Result::Ok(kept)
    };
    keep().with_context(|| {
        format!(
            "cannot move {} to {KEPT} in the same folder",
            place.display()
        )
    })
}

impl StagedInstall {
    /// Replaces the temporary directory in an error message by `source`, which the user knows and
    /// can open.
    pub fn in_words_of(&self, message: &str, source: &Path) -> String {
        let (folder, source) = (self.folder.display(), source.display());
        message.replace(&folder.to_string(), &source.to_string())
    }

    /// Moves the files to `place`. Files that were at `place` before are removed.
    pub fn put_in_place(self, place: &Path) -> anyhow::Result<()> {
        let put = match place.symlink_metadata() {
            Ok(_) => exchange_paths(&self.folder, place),
            Err(_) => fs::rename(&self.folder, place),
        };
        put.with_context(|| format!("cannot put it at {}", place.display()))
    }
}

/// Returns the digest of a directory; `None` if it cannot be read.
pub fn place_digest(place: &Path) -> Option<String> {
    let held = HeldFolder::read(place).ok()?;
    Some(held.digest().to_owned())
}

/// Removes a file or directory atomically, without following symlinks. Returns whether it existed.
pub fn remove_place(place: &Path, all: &Path) -> anyhow::Result<bool> {
    let remove = || {
        let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(all)?;
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
pub fn clean_up(all: &Path) {
    let entries = fs::read_dir(all).into_iter().flatten().flatten();
    for entry in entries {
        if entry.file_name().to_string_lossy().starts_with(PREFIX) {
            // A directory that cannot be removed has no effect; the next command tries again.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
