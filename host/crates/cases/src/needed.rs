//! Finds the plugins that a tested plugin needs: its dependencies, and the plugins that define the
//! extension points that it implements.
//!
//! Needed plugins are searched in sibling directories, the usual layout of a repository. This
//! module does not load plugins; the loader reports the missing ones.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rind_lib::plugin::manifest::{FILE_NAME, Manifest};

/// Plugins that the tested plugin depends on, by name.
#[derive(Debug, Default)]
pub struct RequiredPlugins {
    /// Directories of the required plugins that were found.
    pub found: BTreeMap<String, PathBuf>,
    /// Needed plugins that were not found, each with the directory next to the tested plugin's in
    /// which Rind searched for it.
    pub(super) missing: BTreeMap<String, PathBuf>,
}

impl RequiredPlugins {
    /// Finds the plugins that the plugin in `folder` needs directly or indirectly.
    pub fn find_required_plugins(folder: &Path) -> Self {
        let mut needed = Self::default();
        let Ok(folder) = folder.canonicalize() else {
            return needed;
        };
        // Skip a manifest that cannot be read, because the plugin loader reports it.
        let mut open: Vec<Manifest> = Manifest::read(&folder, None).into_iter().collect();
        while let Some(manifest) = open.pop() {
            let owners = manifest.implements.keys();
            let owners = owners.filter_map(|point| point.split_once('.').map(|(owner, _)| owner));
            let names = manifest.dependencies.keys().map(String::as_str);
            for name in names.chain(owners) {
                let beside = folder.with_file_name(name);
                if beside == folder || needed.found.contains_key(name) {
                    continue;
                }
                let read = Manifest::read(&beside, None);
                let is_other = read.as_ref().is_ok_and(|read| read.name != name);
                if is_other || !beside.join(FILE_NAME).is_file() {
                    needed.missing.insert(name.to_owned(), beside);
                } else {
                    needed.found.insert(name.to_owned(), beside);
                    open.extend(read);
                }
            }
        }
        needed
    }

    /// Describes where missing plugins were searched, as the end of an error message; empty if no
    /// plugin is missing.
    pub(super) fn missing_plugins_hint(&self) -> String {
        let places: Vec<String> = self
            .missing
            .values()
            .map(|folder| format!("`{}`", folder.display()))
            .collect();
        match places.is_empty() {
            true => String::new(),
            false => format!(
                "; cases load the plugins that a plugin needs from the folders beside its own, and there is no {}",
                places.join(", no ")
            ),
        }
    }
}
