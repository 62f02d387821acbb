//! Finds plugins, and decides which of two plugins with the same name is loaded.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::manifest::FILE_NAME;
use super::{astray, files};
use crate::grant::Trust;
use crate::grant::held::InMemoryFolder;

/// Directory in which plugins are searched, or directory of one plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginSearchPath {
    /// Trust in the plugins that are found at `path`.
    pub trust: Trust,
    /// Directory of plugins, or directory of a single plugin.
    pub path: PathBuf,
}

impl PluginSearchPath {
    /// Creates a search path. Plugins that are found at it get its trust.
    pub fn new(trust: Trust, path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        Self { trust, path }
    }
}

/// Directory that contains a manifest, or files that look like a plugin without a manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FoundPlugin {
    /// Trust in the plugin, which is that of its source.
    pub trust: Trust,
    /// Directory from which the plugin is loaded.
    pub folder: PathBuf,
}

/// Lists the plugin directories in `sources`, most trusted first, then plugins in memory, then by
/// path. A source is a directory of plugins; a missing one contains none. A local source may also
/// be a plugin itself. If a local source is neither a plugin nor contains plugins, the source
/// itself is listed, so that the error about its missing manifest is shown. Directories that the
/// in-memory copy `held` contains are read from it and not from disk.
///
/// All code finds plugins through this function, so the operator is asked about exactly the plugins
/// that are loaded.
#[must_use]
pub fn discover_plugins(
    sources: &[PluginSearchPath],
    held: Option<&InMemoryFolder>,
) -> Vec<FoundPlugin> {
    let mut found = Vec::new();
    for source in sources {
        let folders = list_plugin_folders(source, held);
        if folders.is_empty() && source.trust == Trust::Local {
            found.push(FoundPlugin {
                trust: source.trust,
                folder: source.path.clone(),
            });
        }
        found.extend(folders.into_iter().map(|folder| FoundPlugin {
            trust: source.trust,
            folder,
        }));
    }
    sort_plugins_by_precedence(&mut found, held);
    found.dedup();
    found
}

/// Sorts plugins so that the first of several with the same name is the one to load: most trusted
/// first, then plugins in memory, then by path. The core plugins are embedded in the program and
/// read from memory, so no directory on disk can replace a core plugin by using its name.
pub(super) fn sort_plugins_by_precedence(found: &mut [FoundPlugin], held: Option<&InMemoryFolder>) {
    let is_on_disk = |folder: &Path| !held.is_some_and(|held| held.is_path_inside(folder));
    found
        .sort_by_cached_key(|found| (found.trust, is_on_disk(&found.folder), found.folder.clone()));
}

fn list_plugin_folders(source: &PluginSearchPath, held: Option<&InMemoryFolder>) -> Vec<PathBuf> {
    let has_manifest = |folder: &Path| files::is_regular_file(&folder.join(FILE_NAME), held);
    // Only a local source may have a manifest itself: in any other source, such a manifest would
    // hide all plugin directories next to it.
    if source.trust == Trust::Local && has_manifest(&source.path) {
        return vec![source.path.clone()];
    }
    let mut folders = files::list_subfolders(&source.path, held);
    // Keep a directory without a manifest that is clearly meant to be a plugin, so that the loader
    // reports it.
    folders.retain(|folder| has_manifest(folder) || astray::is_likely_plugin_folder(folder, held));
    folders
}
