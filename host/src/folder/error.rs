//! Errors of operations on files and folders.

use std::io;

use crate::beneath::ESCAPE;

/// Error of an operation on a file or folder. The texts are for the plugin and for the trace; they name no path of the host.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FolderError {
    /// The path makes no sense.
    #[error("{0}")]
    Invalid(&'static str),
    /// No granted folder holds the path.
    #[error(
        "it is in no folder that was granted to the plugin; `[filesystem]` in plugin.toml asks for folders"
    )]
    NotGranted,
    /// The path, or a link on it, leads out of the folder.
    #[error("it leads out of the granted folder")]
    Escape,
    /// The folder was granted to read.
    #[error("the folder was granted to read, not to write")]
    ReadOnly,
    /// `.rind` decides what runs and what is asked, and `.git` what git runs, so plugins do not write there. A file `HEAD` makes
    /// a repository of any folder.
    #[error(
        "`.rind`, `.git`, other repositories and files named `HEAD` control Rind and git in this project; plugins cannot \
         write there"
    )]
    Reserved,
    /// The granted folder has one of Rind's own in it, or lies in one.
    #[error(
        "`{folder}` is not given to plugins: it holds or lies in a folder that Rind keeps its own files in; work in another \
         folder, or grant one below it"
    )]
    Protected {
        /// The granted folder, as it is written in a manifest.
        folder: String,
    },
    /// Two folders that were granted apart.
    #[error("it leads from one granted folder to another; copy it instead")]
    Crosses,
    /// A pipe, a device or a socket.
    #[error("it is a pipe, a device or a socket; only files and folders are opened")]
    Special,
    /// Too many links, one of them probably to itself.
    #[error("there are too many links on the way")]
    Loop,
    /// One call asked for more than is given at once.
    #[error("{0}")]
    TooMuch(String),
    /// The plugin's own folder has no room left.
    #[error(
        "the plugin's data folder is full: {bytes} bytes in {files} files are kept; `data` and `files` under `[limits]` in \
         plugin.toml ask for more"
    )]
    Full {
        /// Bytes that it may hold.
        bytes: u64,
        /// Files and folders that it may hold.
        files: u64,
    },
    /// The system refused.
    #[error("{}", plain(.0))]
    Io(#[from] io::Error),
    #[error("internal error during work on files")]
    Host,
}

impl FolderError {
    /// Whether it was refused; otherwise it was allowed and did not work.
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
            Self::Invalid(_) | Self::TooMuch(_) | Self::Host => false,
        }
    }
}

impl From<rustix::io::Errno> for FolderError {
    fn from(errno: rustix::io::Errno) -> Self {
        match errno {
            ESCAPE => Self::Escape,
            rustix::io::Errno::LOOP => Self::Loop,
            errno => Self::Io(errno.into()),
        }
    }
}

/// Returns the system's message without the number in brackets that the standard library adds.
fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error") {
        Some((text, _)) => text.to_lowercase(),
        None => text,
    }
}
