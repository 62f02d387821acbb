//! Finds the files of a skill's bundle, which are in memory, or on disk in the directory where the
//! bundle was found.

use std::path::{Path, PathBuf};

use super::model::Skill;

impl Skill {
    /// Returns the path of a file in the bundle; `None` if the name leads out of the bundle or the
    /// skill is a flat file. The caller must handle symlinks when it opens the file.
    #[must_use]
    pub fn path_in_bundle(&self, name: &Path) -> Option<PathBuf> {
        use std::path::Component::{CurDir, Normal};
        let is_inner = name.components().all(|c| matches!(c, Normal(_) | CurDir));
        (is_inner && !self.is_flat).then(|| self.dir.join(name))
    }

    /// Whether the path of the bundle still exists and does not lead through a symlink that was
    /// created since the bundle was found. Another directory that was moved to the same path is not
    /// detected. Always `true` for a bundle in memory.
    #[must_use]
    pub fn is_path_unchanged(&self) -> bool {
        let real = self.real_dir.canonicalize();
        self.held.is_some() || real.is_ok_and(|real| real == self.real_dir)
    }

    /// Whether the bundle contains a file or directory of this name.
    #[must_use]
    pub fn bundle_contains(&self, name: &Path) -> bool {
        let Some(path) = self.path_in_bundle(name) else {
            return false;
        };
        match &self.held {
            None => path.exists(),
            Some(held) => {
                held.file_content(&path).is_some()
                    || !held.file_names_in(&path).is_empty()
                    || !held.subfolders_in(&path).is_empty()
            }
        }
    }

    /// Returns the sorted names of the files in a directory of the bundle.
    #[must_use]
    pub fn file_names_in(&self, folder: &str) -> Vec<String> {
        let Some(path) = self.path_in_bundle(Path::new(folder)) else {
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
