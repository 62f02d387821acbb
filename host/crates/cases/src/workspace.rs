//! Creates the temporary directories of a test run: a home, and a workspace with the files of the
//! case.

use std::collections::BTreeMap;
use std::io;
use std::path::{Component, Path, PathBuf};

use super::folder::TestCaseFolder;
use super::run::RunError;
use rind_lib::paths::RindPaths;

/// Maximum size of a workspace file that is compared, in bytes.
const MAX_COMPARED_FILE_BYTES: u64 = 1 << 20;

/// Temporary directories for one session of a test case: its home and its workspace. They are
/// removed on drop.
pub(super) struct TemporaryCaseDirectories {
    _kept: tempfile::TempDir,
    /// Directory that contains the home directory and the workspace of the case.
    pub(super) root: PathBuf,
    /// Workspace: the directory in which the agent works.
    pub(super) path: PathBuf,
    /// Paths that the host uses, in the home and the workspace.
    pub(super) paths: RindPaths,
}

impl TemporaryCaseDirectories {
    /// Creates the directories, and the given files in the workspace.
    ///
    /// # Errors
    /// A directory cannot be created, or a file is outside the workspace.
    pub(super) fn new(files: &BTreeMap<String, String>) -> Result<Self, RunError> {
        let kept = tempfile::Builder::new().prefix("rind-case-").tempdir()?;
        let root = kept.path().canonicalize()?;
        let (home, path) = (root.join("home"), root.join("workspace"));
        std::fs::create_dir_all(&home)?;
        std::fs::create_dir_all(&path)?;
        for (name, text) in files {
            write_workspace_file(&path, name, text.as_bytes())?;
        }
        Ok(Self {
            paths: RindPaths::from_single_root(&home, &path),
            _kept: kept,
            root,
            path,
        })
    }

    /// Copies `fixtures` into the workspace: each maps a path in the workspace to a file in the
    /// directory `tests` of the plugin in `folder`.
    ///
    /// # Errors
    /// A file is missing, or its path leads out of `tests` or out of the workspace.
    pub(super) fn copy_fixtures(
        &self,
        folder: &Path,
        fixtures: &BTreeMap<String, String>,
    ) -> Result<(), RunError> {
        if fixtures.is_empty() {
            return Ok(());
        }
        let tests = TestCaseFolder::open_tests_of_bundle(folder, true)?;
        let missing = || io::Error::from(io::ErrorKind::NotFound);
        for (path, from) in fixtures {
            let read = tests.as_ref().ok_or_else(missing);
            let read = read.and_then(|tests| tests.read_fixture(from));
            let bytes = read.map_err(|source| RunError::Fixture {
                path: from.clone(),
                source,
            })?;
            write_workspace_file(&self.path, path, &bytes)?;
        }
        Ok(())
    }

    /// Returns the text files of the workspace by path, except very large ones.
    pub(super) fn read_text_files(&self) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        let mut folders: Vec<PathBuf> = vec![self.path.clone()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
                let path = entry.path();
                let Ok(metadata) = path.symlink_metadata() else {
                    continue;
                };
                if metadata.is_dir() {
                    folders.push(path);
                } else if metadata.is_file()
                    && metadata.len() <= MAX_COMPARED_FILE_BYTES
                    && let Ok(text) = std::fs::read_to_string(&path)
                {
                    let name = path.strip_prefix(&self.path).unwrap_or(&path);
                    found.insert(name.display().to_string(), text);
                }
            }
        }
        found
    }
}

fn write_workspace_file(workspace: &Path, path: &str, bytes: &[u8]) -> Result<(), RunError> {
    let is_inside = Path::new(path)
        .components()
        .all(|part| matches!(part, Component::Normal(_)));
    if path.is_empty() || !is_inside {
        return Err(RunError::Outside(path.to_owned()));
    }
    let file = workspace.join(path);
    std::fs::create_dir_all(file.parent().unwrap_or(workspace))?;
    Ok(std::fs::write(file, bytes)?)
}
