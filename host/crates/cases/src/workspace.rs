//! Temporary directories of a run: a home and a workspace with its files.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use super::run::RunError;
use rind_lib::paths::Paths;

/// Maximum size of a workspace file that is compared, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Fresh directories of one session, removed on drop.
pub(super) struct CaseWorkspace {
    _kept: tempfile::TempDir,
    /// Directory that contains both.
    pub(super) root: PathBuf,
    /// Working directory of the agent.
    pub(super) path: PathBuf,
    /// Directories of the host.
    pub(super) paths: Paths,
}

impl CaseWorkspace {
    /// Creates the directories, and the given files in the workspace.
    ///
    /// # Errors
    /// A directory cannot be created, or a file is outside of the workspace.
    pub(super) fn new(files: &BTreeMap<String, String>) -> Result<Self, RunError> {
        let kept = tempfile::Builder::new().prefix("rind-case-").tempdir()?;
        let root = kept.path().canonicalize()?;
        let (home, path) = (root.join("home"), root.join("workspace"));
        std::fs::create_dir_all(&home)?;
        std::fs::create_dir_all(&path)?;
        for (name, text) in files {
            write_file(&path, name, text)?;
        }
        Ok(Self {
            paths: Paths::under(&home, &path),
            _kept: kept,
            root,
            path,
        })
    }

    /// Reads the text files of the workspace, by path.
    pub(super) fn files(&self) -> BTreeMap<String, String> {
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
                    && metadata.len() <= MAX_FILE_BYTES
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

fn write_file(workspace: &Path, path: &str, text: &str) -> Result<(), RunError> {
    let is_inside = Path::new(path)
        .components()
        .all(|part| matches!(part, Component::Normal(_)));
    if path.is_empty() || !is_inside {
        return Err(RunError::Outside(path.to_owned()));
    }
    let file = workspace.join(path);
    std::fs::create_dir_all(file.parent().unwrap_or(workspace))?;
    Ok(std::fs::write(file, text)?)
}
