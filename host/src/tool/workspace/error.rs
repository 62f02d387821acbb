//! Errors of file access in the workspace, worded for the model.

use std::io;

use crate::beneath::PATH_ESCAPE_ERROR;

/// Error of file access in the workspace, usually with the path that the caller passed. The texts
/// are for the model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkspaceError {
    /// The path leads out of the workspace.
    #[error(
        "`{0}` is outside the workspace: use a path within it (no `..` above it, no link that leads out)"
    )]
    Escape(String),
    /// The path is, or leads into, a folder that belongs to Rind, such as its settings.
    #[error(
        "`{0}` is in a folder of Rind's own, with its settings, permissions and sessions: no tool reads or changes it"
    )]
    Hidden(String),
    /// No file exists at the path.
    #[error("`{0}` does not exist")]
    Missing(String),
    /// The path is a folder, a device or a pipe.
    #[error("`{0}` is not a file")]
    NotAFile(String),
    /// The path does not lead to a folder.
    #[error("`{0}` is not a folder")]
    NotAFolder(String),
    /// The file is read-only and was not written.
    #[error("`{0}` is read-only")]
    ReadOnly(String),
    /// The file changed since the call read it.
    #[error(
        "`{0}` changed while it was being written, by another program or person. Nothing was written. Read it again, and \
         make the change in what is there now"
    )]
    Changed(String),
    /// The file decides which programs git runs.
    #[error(
        "`{0}` is in the git folder of a repository, or would turn a folder into a repository. A file there decides what git \
         runs, so this tool does not write it. Use git commands, or ask the user to change it"
    )]
    Repository(String),
    /// The file is larger than the caller's limit.
    #[error("`{path}` has {bytes} bytes, and this tool accepts at most {cap}")]
    TooLarge {
        /// Path that the caller passed.
        path: String,
        /// Size of the file, in bytes.
        bytes: u64,
        /// Limit of the caller, in bytes.
        cap: u64,
    },
    /// The operating system reported an error.
    #[error("`{path}`: {source}")]
    Io {
        /// Path that the caller passed.
        path: String,
        /// Error from the operating system.
        #[source]
        source: io::Error,
    },
    /// The call was cancelled.
    #[error("cancelled")]
    Cancelled,
    /// Reading in the workspace took longer than its deadline.
    #[error("stopped: the search took longer than {seconds} s; narrow it by path, glob or pattern")]
    TooLong {
        /// Deadline of the work, in seconds.
        seconds: u64,
    },
    /// The host failed, for example by a panic.
    #[error("internal error of the host during a file operation: {0}")]
    Host(String),
}

impl WorkspaceError {
    pub(super) fn from_io(path: &str, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::NotFound => Self::Missing(path),
            io::ErrorKind::NotADirectory => Self::NotAFolder(path),
            io::ErrorKind::IsADirectory => Self::NotAFile(path),
            _ if source.raw_os_error() == Some(PATH_ESCAPE_ERROR.raw_os_error()) => {
                Self::Escape(path)
            }
            _ => Self::Io { path, source },
        }
    }
}
