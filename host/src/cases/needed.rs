//! Plugins that the one of a case needs: those that it depends on, and those whose points it implements.
//!
//! They are looked for beside it, as plugins lie in a repository. It must not know how they are loaded: what is not found, the
//! loader misses.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::plugin::manifest::{FILE_NAME, Manifest};

/// Plugins that another needs, by name, each with the folder where it is looked for.
#[derive(Debug, Default)]
pub(crate) struct Needed {
    /// Folders that were found.
    pub(crate) found: BTreeMap<String, PathBuf>,
    /// Folders that are not there.
    pub(super) missing: BTreeMap<String, PathBuf>,
}

impl Needed {
    /// Finds what the plugin in `folder` needs, and what that needs in turn.
    pub(crate) fn of(folder: &Path) -> Self {
        let mut needed = Self::default();
        let Ok(folder) = folder.canonicalize() else {
            return needed;
        };
        // A manifest that cannot be read is the loader's to tell of.
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

    /// Says where plugins were looked for that are not there; nothing when all are.
    pub(super) fn hint(&self) -> String {
        let places: Vec<String> = self
            .missing
            .values()
            .map(|folder| format!("`{}`", folder.display()))
            .collect();
        match places.is_empty() {
            true => String::new(),
            false => format!(
                "; cases load what a plugin needs from the folders beside it, and there is no {}",
                places.join(", no ")
            ),
        }
    }
}
