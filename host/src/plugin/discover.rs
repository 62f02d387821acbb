//! Finds plugins, and decides between two of the same name.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::manifest::FILE_NAME;
use super::{astray, files};
use crate::grant::Trust;
use crate::grant::held::HeldFolder;

/// A folder that is searched, or that is a plugin itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Trust of what is found there.
    pub trust: Trust,
    /// Path of the plugin's folder.
    pub path: PathBuf,
}

impl Source {
    /// Creates a source with the trust of what is found there.
    pub fn new(trust: Trust, path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        Self { trust, path }
    }
}

/// A folder with a manifest in it, or with something that is meant for a plugin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Found {
    /// Trust of the plugins in it.
    pub trust: Trust,
    /// The plugin's folder.
    pub folder: PathBuf,
}

/// The plugin folders in `sources`, most trusted first, then by name. A source is a folder of plugins, and one that is not
/// there has none. A local one may also be a plugin itself, and is reported as itself when it holds none, so that the error
/// about its missing manifest is seen. What lies in a folder that is `held` is taken from there.
///
/// This is the only place that says which plugins there are: what a person is asked about is what it found.
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
    sort(&mut found, held);
    found.dedup();
    found
}

/// Sorts plugins so that of two with the same name the first one is loaded: the most trusted first, then those in memory, then
/// by path. The program carries its core in memory, so no folder on the disk removes a plugin of the core by its name.
pub(super) fn sort(found: &mut [Found], held: Option<&HeldFolder>) {
    let is_on_disk = |folder: &Path| !held.is_some_and(|held| held.covers(folder));
    found
        .sort_by_cached_key(|found| (found.trust, is_on_disk(&found.folder), found.folder.clone()));
}

fn plugin_folders(source: &Source, held: Option<&HeldFolder>) -> Vec<PathBuf> {
    let has_manifest = |folder: &Path| files::is_there(&folder.join(FILE_NAME), held);
    // Elsewhere a manifest beside the folders of plugins would hide all of them behind itself.
    if source.trust == Trust::Local && has_manifest(&source.path) {
        return vec![source.path.clone()];
    }
    let mut folders = files::folders_in(&source.path, held);
    // One without a manifest that is meant for a plugin is left out in loading, which says so.
    folders.retain(|folder| has_manifest(folder) || astray::is_plugin(folder, held));
    folders
}
