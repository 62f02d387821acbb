//! Sessions on disk: an append-only file of entries for each, and what they add up to.
//!
//! Owns the format, the lock, the repair of what a crash left, the conversation, the bytes that messages refer to and the
//! plugins' session state. It must not know who talks to whom: the agent decides what is written and when it must be on the
//! disk. Nothing that was written is changed or lost; what cannot be read is left out with a notice.
//!
//! Start from [`SessionStore`], then [`Session`].

mod blobs;
mod children;
mod entry;
mod live;
mod log;
mod state;
mod store;
mod synced;
mod transcript;
mod undo;

pub use blobs::{Blobs, MAX_BLOB_BYTES, MAX_BLOBS_BYTES};
pub use children::{Child, SessionFolder};
pub(crate) use entry::DONE;
pub use entry::{
    Body, DueTurn, Entry, Holder, LastingSkill, PromptRow, RememberedSkill, Report, VERSION,
};
pub use live::Session;
pub use state::{
    INLINE_BYTES, MAX_KEY_BYTES, MAX_PLUGIN_BYTES, MAX_VALUE_BYTES, MAX_WRITTEN_BYTES,
};
pub use store::{Resolved, SessionRow, SessionStore};
pub use undo::Undone;

use std::io;
use std::path::{Path, PathBuf};

/// Most ids that an error names.
const MAX_NAMED: usize = 3;

/// Description of a session: it is written to the file, so that a reader knows who took part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionSpec {
    /// Folder the agent works in.
    pub workspace: PathBuf,
    /// Name of the provider.
    pub provider: String,
    /// Name of the model.
    pub model: String,
}

/// Error while opening, reading or writing a session.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// Path of the session file.
        path: PathBuf,
        /// Error of the system.
        #[source]
        source: io::Error,
    },
    /// A file cannot be written. Everything written before is still there.
    #[error("cannot write {}", path.display())]
    Write {
        /// Path of the session file.
        path: PathBuf,
        /// Error of the system.
        #[source]
        source: io::Error,
    },
    /// An entry cannot be put as JSON.
    #[error("cannot write an entry of the session as JSON")]
    Encode(#[from] serde_json::Error),
    /// Another process writes to the session.
    #[error(
        "the session {} is open in another process{}; end that one first",
        path.display(),
        pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default()
    )]
    Locked {
        /// Folder of the session.
        path: PathBuf,
        /// Id of the process that has it.
        pid: Option<u32>,
    },
    /// The file was written by a newer version.
    #[error("{} has version {found} of the format and this version of rind knows {VERSION}; update rind", path.display())]
    Newer {
        /// Path of the session file.
        path: PathBuf,
        /// Version of the file.
        found: u32,
    },
    /// A summary stands for a part of the turn that is to be taken out.
    #[error("turn {turn} cannot be taken out: a summary has replaced a part of it")]
    Summarized {
        /// Number of the turn.
        turn: u32,
    },
    /// There is no session at all.
    #[error("there is no session in {} yet; the first turn begins one", root.display())]
    NoneYet {
        /// Folder that the sessions are in.
        root: PathBuf,
    },
    /// No session has this id.
    #[error("there is no session `{wanted}` in {}", root.display())]
    Unknown {
        /// Id that was asked for.
        wanted: String,
        /// The folder of all sessions.
        root: PathBuf,
    },
    /// The last session is of another folder.
    #[error(
        "no session has worked in {} yet; the last one anywhere is {last}, in {elsewhere}: give that id, or work \
         in that folder",
        workspace.display()
    )]
    Elsewhere {
        /// Path of the workspace.
        workspace: PathBuf,
        /// The last session of another folder.
        last: String,
        /// Folder of the last session.
        elsewhere: String,
    },
    /// Several sessions have ids that start so.
    #[error(
        "`{wanted}` matches {} sessions, the last used {}; give more of the id, see `rind session list`",
        found.len(),
        found.iter().take(MAX_NAMED).map(String::as_str).collect::<Vec<_>>().join(", ")
    )]
    Ambiguous {
        /// Id that was asked for.
        wanted: String,
        /// The ids, the last used first.
        found: Vec<String>,
    },
    /// A blob does not hold what its name says.
    #[error("{} was changed: its content does not fit its name", path.display())]
    Blob {
        /// Path of the session file.
        path: PathBuf,
    },
    /// Content that is not text is too large to keep.
    #[error("{size} bytes are not kept: {what}")]
    BlobLimit {
        /// Size in bytes.
        size: u64,
        /// Limit that was exceeded.
        what: String,
    },
    /// A plugin went over a limit.
    #[error("plugin `{plugin}` exceeded a limit of its session state: {what}")]
    Limit {
        /// Name of the plugin.
        plugin: String,
        /// Limit that was exceeded.
        what: String,
    },
}

impl Error {
    fn read(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        Self::Read { path, source }
    }

    fn write(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        Self::Write { path, source }
    }
}
