//! Whether a project is trusted: what it brings in `.rind` counts only as it was when the operator said yes.
//!
//! The folder is in the workspace, where plugins and commands may write. Its digest is kept with the yes, in the user's own
//! folder, so whoever changes it gains nothing until the operator agrees again.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::disk::{lock_beside, replace_private};

/// Most files in a project's folder that are looked at.
const MAX_FILES: usize = 10_000;

/// Most bytes in a project's folder that are looked at. Ten Python components fit.
const MAX_BYTES: u64 = 256 << 20;

/// How deep folders are looked into.
const MAX_DEPTH: usize = 16;

/// Why a project cannot be trusted, or trust in it cannot be kept.
#[derive(Debug, thiserror::Error)]
#[error("{}: {message}", path.display())]
pub struct ProjectError {
    /// The folder or file.
    pub path: PathBuf,
    /// What is wrong and what to do.
    pub message: String,
}

fn refuse(path: &Path, message: impl Into<String>) -> ProjectError {
    ProjectError {
        path: path.to_owned(),
        message: message.into(),
    }
}

/// Digest of everything in a folder: names, and bytes of files. A link or anything else that is neither a file nor a folder
/// is refused: what it leads to could change while the digest stays.
///
/// # Errors
/// The folder cannot be read, holds a link, or holds too much.
pub fn digest(folder: &Path) -> Result<String, ProjectError> {
    let own =
        fs::symlink_metadata(folder).map_err(|e| refuse(folder, format!("cannot be read: {e}")))?;
    if !own.is_dir() {
        return Err(refuse(
            folder,
            "is a link or no folder; a project whose .rind lies elsewhere cannot be trusted",
        ));
    }
    let mut files = Vec::new();
    collect(folder, &mut Vec::new(), &mut files)?;
    files.sort();
    let mut hasher = blake3::Hasher::new();
    let mut bytes_left = MAX_BYTES;
    for names in files {
        let path: PathBuf = folder.join(names.iter().collect::<PathBuf>());
        let read = |e: std::io::Error| refuse(&path, format!("cannot be read: {e}"));
        let file = File::open(&path).map_err(read)?;
        let mut content = Vec::new();
        let n_read = file
            .take(bytes_left + 1)
            .read_to_end(&mut content)
            .map_err(read)?;
        bytes_left = bytes_left
            .checked_sub(n_read as u64)
            .ok_or_else(|| refuse(folder, format!("has more than {} MiB", MAX_BYTES >> 20)))?;
        // Lengths go before texts, so that no two folders run together into the same bytes.
        for part in names.iter().map(String::as_bytes).chain([&content[..]]) {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        hasher.update(&[0xff; 8]);
    }
    Ok(format!("blake3:{}", hasher.finalize().to_hex()))
}

fn collect(
    folder: &Path,
    above: &mut Vec<String>,
    files: &mut Vec<Vec<String>>,
) -> Result<(), ProjectError> {
    if above.len() >= MAX_DEPTH {
        return Err(refuse(
            folder,
            format!("is deeper than {MAX_DEPTH} folders"),
        ));
    }
    let read = |e: std::io::Error| refuse(folder, format!("cannot be read: {e}"));
    for entry in fs::read_dir(folder).map_err(read)? {
        let entry = entry.map_err(read)?;
        let path = entry.path();
        let Ok(name) = entry.file_name().into_string() else {
            return Err(refuse(&path, "has a name that is not UTF-8"));
        };
        // Of the entry itself: links are not followed.
        let kind = entry.file_type().map_err(read)?;
        above.push(name);
        if kind.is_dir() {
            collect(&path, above, files)?;
        } else if kind.is_file() {
            if files.len() >= MAX_FILES {
                return Err(refuse(folder, format!("has more than {MAX_FILES} files")));
            }
            files.push(above.clone());
        } else {
            return Err(refuse(
                &path,
                "is neither a file nor a folder; a project that holds such things in .rind cannot be trusted",
            ));
        }
        above.pop();
    }
    Ok(())
}

/// How a project stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProjectTrust {
    /// It was never trusted.
    New,
    /// It was trusted, and what it brings has changed since.
    Changed {
        /// When it was trusted, RFC 3339.
        since: String,
    },
    /// It is trusted as it is.
    Trusted,
}

/// A trusted project.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrustedProject {
    /// Digest of its `.rind` when it was trusted.
    pub digest: String,
    /// When that was, RFC 3339.
    pub since: String,
}

/// The file of trusted projects, by the canonical path of the workspace.
#[derive(Clone, Debug)]
pub struct Projects {
    path: PathBuf,
    projects: BTreeMap<PathBuf, TrustedProject>,
}

impl Projects {
    /// Reads the trusted projects in `path`; none when it is not there.
    ///
    /// # Errors
    /// The file cannot be read or is damaged.
    pub fn read(path: &Path) -> Result<Self, ProjectError> {
        let projects = match fs::read(path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => BTreeMap::new(),
            Err(e) => return Err(refuse(path, format!("cannot be read: {e}"))),
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|e| {
                refuse(
                    path,
                    format!("is damaged ({e}); move it away to be asked again for every project"),
                )
            })?,
        };
        Ok(Self {
            path: path.to_owned(),
            projects,
        })
    }

    /// All of them.
    #[must_use]
    pub fn all(&self) -> &BTreeMap<PathBuf, TrustedProject> {
        &self.projects
    }

    /// How a project stands whose `.rind` has this digest.
    #[must_use]
    pub fn of(&self, workspace: &Path, digest: &str) -> ProjectTrust {
        match self.projects.get(workspace) {
            None => ProjectTrust::New,
            Some(known) if known.digest == digest => ProjectTrust::Trusted,
            Some(known) => ProjectTrust::Changed {
                since: known.since.clone(),
            },
        }
    }

    /// Trusts a project as it is now.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn trust(
        &mut self,
        workspace: &Path,
        digest: String,
        since: String,
    ) -> Result<(), ProjectError> {
        self.change(|projects| {
            projects.insert(workspace.to_owned(), TrustedProject { digest, since });
        })
    }

    /// Takes trust in a project back. Returns whether it was trusted.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn forget(&mut self, workspace: &Path) -> Result<bool, ProjectError> {
        let mut was_trusted = false;
        self.change(|projects| was_trusted = projects.remove(workspace).is_some())?;
        Ok(was_trusted)
    }

    fn change(
        &mut self,
        change: impl FnOnce(&mut BTreeMap<PathBuf, TrustedProject>),
    ) -> Result<(), ProjectError> {
        let path = self.path.clone();
        let write = |e: std::io::Error| refuse(&path, format!("cannot be written: {e}"));
        let _lock = lock_beside(&path).map_err(write)?;
        let mut projects = Self::read(&path)?.projects;
        change(&mut projects);
        let bytes =
            serde_json::to_vec_pretty(&projects).map_err(|e| write(std::io::Error::other(e)))?;
        replace_private(&path, &bytes).map_err(write)?;
        self.projects = projects;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, name: &str, text: &str) {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn any_change_in_the_folder_changes_its_digest() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "plugins/a/plugin.toml", "name = \"a\"");
        write(root.path(), "config.toml", "x");
        let first = digest(root.path()).unwrap();
        assert_eq!(digest(root.path()).unwrap(), first);
        let changes: [&dyn Fn(); 4] = [
            &|| write(root.path(), "config.toml", "y"),
            &|| write(root.path(), "plugins/b", ""),
            &|| fs::rename(root.path().join("plugins/b"), root.path().join("plugins/c")).unwrap(),
            &|| write(root.path(), "plugins/a/plugin.toml", "name = \"b\""),
        ];
        let mut seen = vec![first];
        for change in changes {
            change();
            let now = digest(root.path()).unwrap();
            assert!(!seen.contains(&now));
            seen.push(now);
        }
    }

    #[test]
    fn a_link_in_the_folder_is_refused() {
        let root = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/etc", root.path().join("plugins")).unwrap();
        let error = digest(root.path()).unwrap_err().to_string();
        assert!(error.contains("neither a file nor a folder"), "{error}");
        let error = digest(&root.path().join("plugins"))
            .unwrap_err()
            .to_string();
        assert!(error.contains("lies elsewhere"), "{error}");
    }

    #[test]
    fn a_project_is_trusted_as_it_was() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("data/projects.json");
        let mut projects = Projects::read(&path).unwrap();
        let project = Path::new("/p");
        assert_eq!(projects.of(project, "1"), ProjectTrust::New);
        projects.trust(project, "1".into(), "then".into()).unwrap();
        let mut again = Projects::read(&path).unwrap();
        assert_eq!(again.of(project, "1"), ProjectTrust::Trusted);
        let changed = ProjectTrust::Changed {
            since: "then".into(),
        };
        assert_eq!(again.of(project, "2"), changed);
        assert!(again.forget(project).unwrap());
        assert!(!again.forget(project).unwrap());
    }
}
