//! Defines the error type of the guard.

use std::io;
use std::path::{Path, PathBuf};

/// Failure of a file operation of the guard, or of the request to its daemon.
#[derive(Debug, thiserror::Error)]
pub enum GuardFileOrDaemonError {
    /// A file or folder of the guard or of the agent cannot be used.
    #[error("{}: {why}", path.display())]
    File {
        /// Path of the file or folder.
        path: PathBuf,
        /// Reason why it cannot be used, followed by the remedy if there is one.
        why: String,
    },
    /// The daemon did not answer, or could not be started.
    #[error("{0}")]
    Daemon(String),
}

impl GuardFileOrDaemonError {
    pub(crate) fn file_error(path: &Path, why: impl ToString) -> Self {
        Self::File {
            path: path.to_owned(),
            why: why.to_string(),
        }
    }

    pub(crate) fn daemon_error(what: &str, error: &io::Error) -> Self {
        Self::Daemon(format!("{what}: {error}"))
    }
}
