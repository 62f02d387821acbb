//! Errors of files of the workspace, in words for the model.

use std::io;

/// Error while using a file of the workspace. The texts are for the model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkspaceError {
    /// The path leads out of the workspace.
    #[error(
        "`{path}` is outside the workspace: use a path within it (no `..` above it, no link that leads out)"
    )]
    Escape {
        /// The path as it was given.
        path: String,
    },
    /// No file at the path.
    #[error("`{path}` does not exist")]
    Missing {
        /// The path as it was given.
        path: String,
    },
    /// The path is a folder, a device or a pipe.
    #[error("`{path}` is not a file")]
    NotAFile {
        /// The path as it was given.
        path: String,
    },
    /// The path is not a folder.
    #[error("`{path}` is not a folder")]
    NotAFolder {
        /// The path as it was given.
        path: String,
    },
    /// The file must not be written.
    #[error("`{path}` is read-only")]
    ReadOnly {
        /// The path as it was given.
        path: String,
    },
    /// A file that decides what git runs.
    #[error(
        "`{path}` is in the folder of a git repository, or would make a repository of a folder: what is there decides what git \
         runs, and files there cannot be written by this tool. Use git commands, or ask the user to change it"
    )]
    Repository {
        /// The path as it was given.
        path: String,
    },
    /// The file is larger than the caller takes.
    #[error("`{path}` has {bytes} bytes, more than the {cap} that this tool takes")]
    TooLarge {
        /// The path as it was given.
        path: String,
        /// Size in bytes.
        bytes: u64,
        /// The most the caller takes.
        cap: u64,
    },
    /// The system refused.
    #[error("`{path}`: {source}")]
    Io {
        /// The path as it was given.
        path: String,
        /// Error of the system.
        #[source]
        source: io::Error,
    },
    /// The call was cancelled.
    #[error("cancelled")]
    Cancelled,
    /// Looking took too long.
    #[error("stopped: it took longer than {seconds} s; narrow it by path, glob or pattern")]
    TooLong {
        /// Deadline in seconds.
        seconds: u64,
    },
    /// The host failed.
    #[error("the host failed while it worked on files: {0}")]
    Host(String),
}

impl WorkspaceError {
    pub(super) fn from_io(path: &str, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::NotFound => Self::Missing { path },
            io::ErrorKind::NotADirectory => Self::NotAFolder { path },
            io::ErrorKind::IsADirectory => Self::NotAFile { path },
            // The folder handle reports an escape without a system error number; a refused permission has one.
            io::ErrorKind::PermissionDenied if source.raw_os_error().is_none() => {
                Self::Escape { path }
            }
            _ => Self::Io { path, source },
        }
    }
}
