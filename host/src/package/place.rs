//! Puts a plugin into the folder of plugins, or takes it out, in one step each.
//!
//! A plugin is complete in a folder within the folder of plugins, a level deeper than plugins are looked for, before it takes
//! its place. Where one was there before, the two are exchanged: a session that begins meanwhile finds the one or the other, and
//! a guard is never missing. The lock file says which one is right, so that it is written under the same lock:
//! [`exchange_lock`].

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use anyhow::Context;
use tempfile::TempDir;

use super::contents::Contents;
use crate::disk::{exchange, private_folder};

/// Beginning of the names of folders that plugins are made in.
const PREFIX: &str = ".install-";

/// A plugin that is complete and not in its place yet.
#[derive(Debug)]
pub(crate) struct Staged {
    _folder: TempDir,
    /// Folder of the plugin.
    pub(crate) plugin: PathBuf,
}

/// A plugin that is in its place, with what was there before.
#[derive(Debug)]
pub(crate) struct Placed {
    staged: Staged,
    place: PathBuf,
    had_earlier: bool,
}

/// File that is locked while a plugin and its line in the lock file do not fit together, for a few milliseconds.
pub(crate) fn exchange_lock(plugins: &Path) -> PathBuf {
    plugins.with_extension("exchange.lock")
}

/// Keeps sessions from reading what is installed until it is dropped.
pub(crate) fn exchanging(plugins: &Path) -> anyhow::Result<File> {
    let path = exchange_lock(plugins);
    let lock = || {
        let file = File::create(&path)?;
        file.lock()?;
        io::Result::Ok(file)
    };
    lock().with_context(|| format!("cannot lock {}", path.display()))
}

/// Writes a plugin where it can be checked, in a folder of `plugins`.
pub(crate) fn stage(contents: &Contents, plugins: &Path) -> anyhow::Result<Staged> {
    let make = || {
        private_folder(plugins)?;
        tempfile::Builder::new().prefix(PREFIX).tempdir_in(plugins)
    };
    let folder = make().with_context(|| format!("cannot write {}", plugins.display()))?;
    let plugin = folder.path().join(&contents.manifest.name);
    contents.write(&plugin)?;
    Ok(Staged {
        _folder: folder,
        plugin,
    })
}

impl Staged {
    /// Puts the plugin in its place.
    pub(crate) fn put(self, place: &Path) -> anyhow::Result<Placed> {
        let had_earlier = place.symlink_metadata().is_ok();
        let put = if had_earlier {
            exchange(&self.plugin, place)
        } else {
            fs::rename(&self.plugin, place)
        };
        put.with_context(|| format!("cannot put the plugin at {}", place.display()))?;
        Ok(Placed {
            place: place.to_owned(),
            staged: self,
            had_earlier,
        })
    }
}

impl Placed {
    /// Puts back what was there before.
    pub(crate) fn undo(self) -> io::Result<()> {
        if self.had_earlier {
            exchange(&self.place, &self.staged.plugin)
        } else {
            fs::rename(&self.place, &self.staged.plugin)
        }
    }
}

/// Takes a plugin away in one step; whether there was one.
pub(crate) fn remove(place: &Path, plugins: &Path) -> anyhow::Result<bool> {
    let remove = || {
        let folder = tempfile::Builder::new()
            .prefix(PREFIX)
            .tempdir_in(plugins)?;
        match fs::rename(place, folder.path().join("plugin")) {
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
pub(crate) fn clean_up(plugins: &Path) {
    let entries = fs::read_dir(plugins).into_iter().flatten().flatten();
    for entry in entries {
        if entry.file_name().to_string_lossy().starts_with(PREFIX) {
            // What stays has no effect, and the next one tries again.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
