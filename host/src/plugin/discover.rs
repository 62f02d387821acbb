//! Where plugins are looked for, and what wins when a name is found twice.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::manifest::FILE_NAME;
use crate::grant::Trust;

/// A folder that is searched, or that is a plugin itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Trust of what is found there.
    pub trust: Trust,
    /// The folder.
    pub path: PathBuf,
}

/// A folder with a manifest in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Found {
    /// Its trust.
    pub trust: Trust,
    /// The plugin's folder.
    pub folder: PathBuf,
}

/// The plugin folders in `sources`, most trusted first, then by name. A source may be a plugin itself or a folder of
/// plugins; one that is not there has none, but a local one that holds none is reported as itself, so that the error
/// about its missing manifest is seen.
#[must_use]
pub fn discover(sources: &[Source]) -> Vec<Found> {
    let mut found = Vec::new();
    for source in sources {
        let folders = plugin_folders(&source.path);
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
    found.sort_by(|a, b| (a.trust, &a.folder).cmp(&(b.trust, &b.folder)));
    found.dedup();
    found
}

fn plugin_folders(path: &Path) -> Vec<PathBuf> {
    if path.join(FILE_NAME).is_file() {
        return vec![path.to_owned()];
    }
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .filter(|folder| folder.join(FILE_NAME).is_file())
        .collect()
}
