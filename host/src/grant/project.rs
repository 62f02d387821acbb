//! Stores which projects the operator trusts: the content of `.rind` is used only in the version
//! that the operator trusted.
//!
//! `.rind` is in the workspace, where plugins and commands may write. It is read once (see
//! [`InMemoryFolder`]), and its digest is stored with the approval in the user's own directory. A
//! later change therefore has no effect until the operator agrees again.
//!
//! Start from [`TrustedProjects`].
//!
//! [`InMemoryFolder`]: super::held::InMemoryFolder

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::disk::{acquire_file_lock, read_if_present, replace_private_file};

/// Error while trusting a project or storing that trust.
#[derive(Debug, thiserror::Error)]
#[error("{}: {message}", path.display())]
pub struct ProjectTrustError {
    /// Path of the folder or file that has the problem.
    pub path: PathBuf,
    /// Problem with the project or the file of trusted projects, and its remedy.
    pub message: String,
}

pub(super) fn project_trust_error(path: &Path, message: impl Into<String>) -> ProjectTrustError {
    ProjectTrustError {
        path: path.to_owned(),
        message: message.into(),
    }
}

/// State of the user's trust in a project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProjectTrust {
    /// The project was never trusted.
    New,
    /// The project was trusted, but its files have changed since then.
    Changed {
        /// Time at which the user trusted the project, as an RFC 3339 text.
        since: String,
    },
    Trusted,
}

/// Record of a project that the user trusts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrustedProject {
    /// Digest of the project's `.rind` when the user trusted the project.
    pub digest: String,
    /// Time at which the user trusted the project, as an RFC 3339 text.
    pub since: String,
}

/// Maximum size of the file of trusted projects, in bytes. An entry has some hundred bytes.
const MAX_TRUSTED_PROJECTS_FILE_BYTES: u64 = 16 << 20;

/// File of trusted projects, keyed by the canonical path of the workspace.
#[derive(Clone, Debug)]
pub struct TrustedProjects {
    path: PathBuf,
    projects: BTreeMap<PathBuf, TrustedProject>,
}

impl TrustedProjects {
    /// Reads the trusted projects in `path`; none if the file does not exist.
    ///
    /// # Errors
    /// The file cannot be read or is corrupt.
    pub fn read(path: &Path) -> Result<Self, ProjectTrustError> {
        let projects = match read_if_present(path, MAX_TRUSTED_PROJECTS_FILE_BYTES) {
            Ok(None) => BTreeMap::new(),
            Err(e) => return Err(project_trust_error(path, format!("cannot be read: {e}"))),
            Ok(Some(text)) => serde_json::from_str(&text).map_err(|e| {
                project_trust_error(
                    path,
                    format!(
                        "is corrupt ({e}); move it away, and every project is asked about again"
                    ),
                )
            })?,
        };
        Ok(Self {
            path: path.to_owned(),
            projects,
        })
    }

    /// Returns the trusted projects, by path of the workspace.
    #[must_use]
    pub fn all(&self) -> &BTreeMap<PathBuf, TrustedProject> {
        &self.projects
    }

    /// Returns whether the project in `workspace`, whose `.rind` has this digest, is trusted.
    #[must_use]
    pub fn find_workspace_trust(&self, workspace: &Path, digest: &str) -> ProjectTrust {
        match self.projects.get(workspace) {
            None => ProjectTrust::New,
            Some(known) if known.digest == digest => ProjectTrust::Trusted,
            Some(known) => ProjectTrust::Changed {
                since: known.since.clone(),
            },
        }
    }

    /// Trusts the current content of a project.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn trust_workspace(
        &mut self,
        workspace: &Path,
        digest: String,
        since: String,
    ) -> Result<(), ProjectTrustError> {
        self.update_trusted_projects(|projects| {
            projects.insert(workspace.to_owned(), TrustedProject { digest, since });
        })
    }

    /// Revokes the trust in a project. Returns whether it was trusted.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn revoke_trust(&mut self, workspace: &Path) -> Result<bool, ProjectTrustError> {
        let mut was_trusted = false;
        self.update_trusted_projects(|projects| {
            was_trusted = projects.remove(workspace).is_some()
        })?;
        Ok(was_trusted)
    }

    fn update_trusted_projects(
        &mut self,
        change: impl FnOnce(&mut BTreeMap<PathBuf, TrustedProject>),
    ) -> Result<(), ProjectTrustError> {
        let path = self.path.clone();
        let write =
            |e: std::io::Error| project_trust_error(&path, format!("cannot be written: {e}"));
        let _lock = acquire_file_lock(&path, || {}).map_err(write)?;
        let mut projects = Self::read(&path)?.projects;
        change(&mut projects);
        let bytes =
            serde_json::to_vec_pretty(&projects).map_err(|e| write(std::io::Error::other(e)))?;
        replace_private_file(&path, &bytes).map_err(write)?;
        self.projects = projects;
        Ok(())
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn a_project_is_trusted_as_it_was() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("data/projects.json");
        let mut projects = TrustedProjects::read(&path).unwrap();
        let project = Path::new("/p");
        assert_eq!(
            projects.find_workspace_trust(project, "1"),
            ProjectTrust::New
        );
        projects
            .trust_workspace(project, "1".into(), "then".into())
            .unwrap();
        let mut again = TrustedProjects::read(&path).unwrap();
        assert_eq!(
            again.find_workspace_trust(project, "1"),
            ProjectTrust::Trusted
        );
        let changed = ProjectTrust::Changed {
            since: "then".into(),
        };
        assert_eq!(again.find_workspace_trust(project, "2"), changed);
        assert!(again.revoke_trust(project).unwrap());
        assert!(!again.revoke_trust(project).unwrap());
    }
}
