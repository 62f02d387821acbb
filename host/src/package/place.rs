//! Puts a plugin into the folder of plugins, or a skill into that of skills, or takes it out, in one step each.
//!
//! It is complete in a hidden folder within that folder, where none is looked for, before it takes its place. Where one was there
//! before, the two are exchanged: a session that begins meanwhile finds the one or the other, and a guard is never missing. The
//! lock file says which one is right, so that it is written under the same lock: [`exchange_lock`].

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use anyhow::Context;
use tempfile::TempDir;

use super::contents::{Files, write};
use crate::disk::{exchange, private_folder};
use crate::grant::held::HeldFolder;

/// Beginning of the names of folders that one is made in before it takes its place.
const PREFIX: &str = ".install-";

/// Folder for what somebody wrote and that had to make room, in the folder of all of a kind. Nothing in it is looked for.
const KEPT: &str = ".kept";

/// A plugin or skill that is complete and not in its place yet.
#[derive(Debug)]
pub(crate) struct Staged {
    _temporary: TempDir,
    pub(crate) folder: PathBuf,
}

/// File that is locked while a folder and its line in the lock file do not fit together, for a few milliseconds.
pub(crate) fn exchange_lock(all: &Path) -> PathBuf {
    all.with_extension("exchange.lock")
}

/// Keeps sessions from reading what is installed until it is dropped.
pub(crate) fn exchanging(all: &Path) -> anyhow::Result<File> {
    let path = exchange_lock(all);
    let lock = || {
        let file = File::create(&path)?;
        file.lock()?;
        io::Result::Ok(file)
    };
    lock().with_context(|| format!("cannot lock {}", path.display()))
}

/// Writes files where they can be checked, in a folder `name` within a hidden one of `all`.
pub(crate) fn stage(files: &Files, name: &str, all: &Path) -> anyhow::Result<Staged> {
    let make = || {
        // What a link leads to has its permissions from whoever made the link.
        if !all.is_symlink() {
            private_folder(all)?;
        }
        tempfile::Builder::new().prefix(PREFIX).tempdir_in(all)
    };
    let temporary = make().with_context(|| format!("cannot write {}", all.display()))?;
    let folder = temporary.path().join(name);
    write(files, &folder)?;
    Ok(Staged {
        _temporary: temporary,
        folder,
    })
}

/// Moves away what is in a place, whatever it is, to where nothing looks for it. Returns the path of it then.
pub(crate) fn keep(place: &Path, all: &Path) -> anyhow::Result<PathBuf> {
    let keep = || {
        let kept = all.join(KEPT);
        private_folder(&kept)?;
        let name = place.file_name().unwrap_or_default().to_string_lossy();
        let kept = kept.join(format!("{name}-{}", crate::clock::new_id()));
        fs::rename(place, &kept)?;
        io::Result::Ok(kept)
    };
    keep().with_context(|| format!("cannot move {} to {KEPT} beside it", place.display()))
}

impl Staged {
    /// Replaces the temporary folder in a message by the source, which is what the reader knows and can look at.
    pub(crate) fn in_words_of(&self, message: &str, source: &Path) -> String {
        let (folder, source) = (self.folder.display(), source.display());
        message.replace(&folder.to_string(), &source.to_string())
    }

    /// Puts it in its place. What was there before goes.
    pub(crate) fn put(self, place: &Path) -> anyhow::Result<()> {
        let put = match place.symlink_metadata() {
            Ok(_) => exchange(&self.folder, place),
            Err(_) => fs::rename(&self.folder, place),
        };
        put.with_context(|| format!("cannot put it at {}", place.display()))
    }
}

/// Returns the digest of what is in a place, if that can be read.
pub(crate) fn digest(place: &Path) -> Option<String> {
    let held = HeldFolder::read(place).ok()?;
    Some(held.digest().to_owned())
}

/// Takes what is in a place away in one step; whether there was something. Links in it are not followed.
pub(crate) fn remove(place: &Path, all: &Path) -> anyhow::Result<bool> {
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

/// Removes what an installation that was interrupted left behind. Only for the one who has the lock.
pub(crate) fn clean_up(all: &Path) {
    let entries = fs::read_dir(all).into_iter().flatten().flatten();
    for entry in entries {
        if entry.file_name().to_string_lossy().starts_with(PREFIX) {
            // What stays has no effect, and the next one tries again.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
