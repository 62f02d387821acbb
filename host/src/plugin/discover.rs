//! Finds plugins, and decides which of two plugins with the same name is loaded.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::manifest::FILE_NAME;
use super::{astray, files};
use crate::grant::Trust;
use crate::grant::held::HeldFolder;

/// Directory that is searched for plugins, or that is a plugin itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Trust of the plugins found there.
    pub trust: Trust,
    /// Path of the plugin's folder.
    pub path: PathBuf,
}

impl Source {
    /// Creates a source; plugins found in it get its trust.
    pub fn new(trust: Trust, path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        Self { trust, path }
    }
}

/// Directory with a manifest, or with files that are meant to be a plugin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Found {
    /// Trust of the plugins in the source.
    pub trust: Trust,
    /// The plugin's folder.
    pub folder: PathBuf,
}

/// Lists the plugin directories in `sources`, most trusted first, then by name. A source is a
/// directory of plugins; a missing one contains none. A local source may also be a plugin itself,
/// and is listed as itself when it contains no plugins, so that the error about its missing
/// manifest is shown. Directories covered by `held` are read from memory.
///
/// No other code finds plugins, so the operator is asked about exactly the plugins that are loaded.
#[must_use]
pub fn discover(sources: &[Source], held: Option<&HeldFolder>) -> Vec<Found> {
    let mut found = Vec::new();
    for source in sources {
        let folders = plugin_folders(source, held);
        if folders.is_empty() && source.trust == Trust::Local {
            found.push(Found {
                trust: source.trust,
                folder: source.path.clone(),
            });
        }
        found.extend(folders.into_iter().map(|folder| Found {
            trust: source.trust,
            folder,
        }));
    }
    sort_found(&mut found, held);
    found.dedup();
    found
}

/// Sorts plugins so that the first of several with the same name is the one to load: most trusted
/// first, then plugins in memory, then by path. The program carries its core plugins in memory, so
/// no directory on disk can replace a core plugin by taking its name.
pub(super) fn sort_found(found: &mut [Found], held: Option<&HeldFolder>) {
    let is_on_disk = |folder: &Path| !held.is_some_and(|held| held.covers(folder));
    found
        .sort_by_cached_key(|found| (found.trust, is_on_disk(&found.folder), found.folder.clone()));
}

fn plugin_folders(source: &Source, held: Option<&HeldFolder>) -> Vec<PathBuf> {
    let has_manifest = |folder: &Path| files::is_there(&folder.join(FILE_NAME), held);
    // In other sources, do not accept a manifest next to the plugin directories: it would hide all
    // of them.
    if source.trust == Trust::Local && has_manifest(&source.path) {
        return vec![source.path.clone()];
    }
    let mut folders = files::folders_in(&source.path, held);
    // A directory without a manifest that is clearly meant to be a plugin is kept: the loader
    // reports it.
    folders.retain(|folder| has_manifest(folder) || astray::is_plugin(folder, held));
    folders
}
