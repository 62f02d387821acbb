//! Files of a skill's bundle: held in memory, or on the disk where the bundle was found.

use std::path::{Path, PathBuf};

use super::model::Skill;

impl Skill {
    /// Path of a file of the bundle; `None` for names that lead out of it. Links are for whoever opens it.
    #[must_use]
    pub fn within(&self, name: &Path) -> Option<PathBuf> {
        use std::path::Component::{CurDir, Normal};
        let is_inner = name.components().all(|c| matches!(c, Normal(_) | CurDir));
        (is_inner && !self.is_flat).then(|| self.dir.join(name))
    }

    /// Whether its bundle still lies where it was found: nobody put another folder or a link there since.
    #[must_use]
    pub fn is_in_place(&self) -> bool {
        let real = self.real_dir.canonicalize();
        self.held.is_some() || real.is_ok_and(|real| real == self.real_dir)
    }

    /// Whether the bundle has a file or a folder of this name.
    #[must_use]
    pub fn has(&self, name: &Path) -> bool {
        let Some(path) = self.within(name) else {
            return false;
        };
        match &self.held {
            None => path.exists(),
            Some(held) => {
                held.file(&path).is_some()
                    || !held.file_names_in(&path).is_empty()
                    || !held.folders_in(&path).is_empty()
            }
        }
    }

    /// Names of the files in a folder of the bundle, sorted.
    #[must_use]
    pub fn file_names_in(&self, folder: &str) -> Vec<String> {
        let Some(path) = self.within(Path::new(folder)) else {
            return Vec::new();
        };
        if let Some(held) = &self.held {
            return held.file_names_in(&path);
        }
        let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}
