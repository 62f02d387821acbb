//! Defines the errors of operations on files and directories.

use std::io;

use crate::beneath::PATH_ESCAPE_ERROR;

/// Error of an operation on a file or directory. The texts are for the plugin and for the trace,
/// and contain no paths of the host.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FolderError {
    /// The path is malformed, for this reason.
    #[error("{0}")]
    Invalid(&'static str),
    /// The path is in no directory that was granted to the plugin.
    #[error(
        "the path is in no folder that was granted to the plugin; `[filesystem]` in plugin.toml asks for folders"
    )]
    NotGranted,
    /// The path, or a symlink in it, resolves to a location outside the granted directory.
    #[error("the path leads out of the granted folder")]
    Escape,
    /// The directory was granted for reading only.
    #[error("the folder was granted to read, not to write")]
    ReadOnly,
    /// The path decides which programs Rind or git runs: `.rind` configures Rind, `.git` names
    /// programs for git, and a file named `HEAD` can turn a directory into a repository. Plugins
    /// must not write there.
    #[error(
        "`.rind`, `.git`, other repositories and files named `HEAD` control Rind and git in this project; plugins cannot \
         write there"
    )]
    Reserved,
    /// The granted directory contains one of Rind's own directories, or is inside one.
    #[error(
        "`{folder}` is not given to plugins: it contains, or is inside, a folder in which Rind keeps its own files; work in another \
         folder, or grant one below it"
    )]
    Protected {
        /// Granted directory, as the plugin's manifest names it.
        folder: String,
    },
    /// The granted path is a file: permissions are for directories.
    #[error(
        "`{folder}` is a file, and permissions are for folders; ask for the folder that holds it, under `[filesystem]` in plugin.toml"
    )]
    GrantedFile {
        /// Granted path, as the plugin's manifest names it.
        folder: String,
    },
    /// The operation involves two separately granted directories.
    #[error(
        "the file or folder would be moved from one granted folder to another, which is not possible; \
         copy it instead"
    )]
    Crosses,
    /// The file is a pipe, a device or a socket.
    #[error("the path is a pipe, a device or a socket; only files and folders are opened")]
    Special,
    /// The path has too many symlinks, probably in a cycle.
    #[error("the path leads through too many symlinks, perhaps in a loop")]
    Loop,
    /// The call exceeded a limit, which the text names.
    #[error("{0}")]
    TooMuch(String),
    /// The quota of the plugin's data directory is used up.
    #[error(
        "the plugin's data folder is full: {bytes} bytes in {files} files are kept; remove some, or ask for more with `data` \
         and `files` under `[limits]` in plugin.toml, up to 1 GiB and 100,000 files"
    )]
    Full {
        /// Maximum total size of all files in the plugin's data directory, in bytes.
        bytes: u64,
        /// Maximum number of files and directories in the plugin's data directory.
        files: u64,
    },
    /// The operating system reported an error.
    #[error("{}", error_text_without_errno(.0))]
    Io(#[from] io::Error),
    #[error("internal error of the host in a file operation")]
    Host,
}

impl FolderError {
    /// Whether the host refused the operation. If false, the operation was allowed but failed.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        match self {
            Self::NotGranted
            | Self::Escape
            | Self::ReadOnly
            | Self::Reserved
            | Self::Protected { .. }
            | Self::Crosses
            | Self::Special
            | Self::Loop
            | Self::Full { .. } => true,
            Self::Io(error) => error.kind() == io::ErrorKind::PermissionDenied,
            Self::Invalid(_) | Self::GrantedFile { .. } | Self::TooMuch(_) | Self::Host => false,
        }
    }
}

impl From<rustix::io::Errno> for FolderError {
    fn from(errno: rustix::io::Errno) -> Self {
        match errno {
            PATH_ESCAPE_ERROR => Self::Escape,
            rustix::io::Errno::LOOP => Self::Loop,
            errno => Self::Io(errno.into()),
        }
    }
}

/// Returns the error message without the error number that the standard library appends.
fn error_text_without_errno(error: &io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error") {
        Some((text, _)) => text.to_lowercase(),
        None => text,
    }
}
