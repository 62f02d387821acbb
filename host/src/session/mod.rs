//! Stores sessions: the append-only entries of each session, by default in a file, and the state
//! that follows from the entries.
//!
//! Owns the format of entries, the stores that keep them (see [`Sessions`]), the lock, crash
//! repair, the conversation, the blobs that messages refer to and the session state of plugins. It
//! does not know the agent loop: the agent decides which entries to write and when the data must be
//! on the disk.
//!
//! Invariants: an entry is never changed or deleted once it is written, and at most one process
//! writes to a session. An entry that cannot be parsed is skipped with a notice and stays in the
//! file.
//!
//! Start from [`SessionStore`], then [`Session`].
//!
//! The first lines of a file, broken here for width; in the file each entry is one line:
//!
//! ```json
//! {"id":"a","parent":null,"time":1769851800000,"type":"session","version":1,"workspace":"/srv",
//!  "provider":"openai","model":"gpt-5"}
//! {"id":"b","parent":"a","time":1769851800001,"type":"turn-start","turn":1,"input":"go",
//!  "source":"terminal"}
//! {"id":"c","parent":"b","time":1769851800002,"type":"message","message":{"id":"m","role":"user",
//!  "content":[{"type":"text","text":"go"}]}}
//! ```

mod blobs;
mod bundle;
mod children;
mod doctor;
mod entry;
mod forked;
mod guarded;
mod head;
mod heads;
mod interrupted;
mod left_holders;
mod left_out;
mod live;
mod log;
mod moved;
mod named;
mod owning;
mod parts;
mod reading;
mod search;
mod state;
mod storage;
mod store;
mod synced;
mod transcript;
mod undo;
mod view;

pub use blobs::{MAX_BLOB_BYTES, MAX_TOTAL_BLOB_BYTES_PER_SESSION, SessionBlobs};
pub use bundle::{
    ImportedSessionIdAndNotices, SessionExportFormat, SessionToExport, import_session,
    prepare_session_export, write_private_file_atomically,
};
pub use children::{SessionAddressAndStore, SubagentSession};
pub use doctor::{
    SessionExamination, SessionFault, SessionStorageUsage, examine_session, repair_session,
};
pub(crate) use entry::USER_ENDED_SKILL_REASON;
pub use entry::{
    ActivatedSkill, AllowedPart, Body, Entry, Holder, PluginActionReport, PromptRow,
    SESSION_FORMAT_VERSION, TurnDueForArchiving, UsedOrApprovedSkill, entry_json_schema,
};
pub(crate) use guarded::open_regular_file_with_options as open_guarded;
pub use guarded::{MAX_SESSION_LINE_BYTES, is_session_id};
pub use head::{SessionState, SessionSummary};
pub use heads::SessionSummaryList;
pub(crate) use interrupted::{InterruptedToolCall, REPEATED_CALL_REASON};
pub use interrupted::{InterruptedTurn, TurnForInputId};
pub(crate) use left_holders::remove_unfinished_archived_turn_holders;
pub(crate) use left_out::{CompactedTurn, find_compacted_turns};
pub use live::Session;
pub(crate) use log::set_private_permissions;
pub use owning::{SessionSizeAndLastUse, select_sessions_to_remove};
pub use parts::SessionFileKind;
pub use reading::{NumberedEntriesAndNotices, NumberedEntry, SessionTailReader};
pub use search::{SearchMatch, SessionSearchHitOrNotice, SessionSearchPattern, search_sessions};
pub use state::{
    MAX_INLINE_STATE_VALUE_BYTES, MAX_STATE_BYTES_PER_PLUGIN, MAX_STATE_BYTES_WRITTEN_PER_PLUGIN,
    MAX_STATE_KEY_BYTES, MAX_STATE_VALUE_BYTES,
};
pub use storage::files::FileSessionBackend;
pub use storage::memory::MemorySessions;
pub use storage::{
    BlobKind, Blobs, FramePosition, Journal, OpenedJournal, SessionAddress, SessionListItem,
    SessionPage, Sessions, UnsyncedFrames,
};
pub use store::{SessionRow, SessionStore, SessionWorkspaceAndModel};
pub(crate) use undo::UNDONE_TURN_REASON as UNDONE;
pub use undo::UndoneTurn;
pub use view::{CallView, Decision, SessionView, TurnEventContent, TurnEventView, TurnView};

use std::io;
use std::path::{Path, PathBuf};

/// Maximum number of session ids that an error message lists.
const MAX_SESSION_IDS_IN_ERROR: usize = 3;

/// Workspace, provider and model of a session, which are written to the header of its file.
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
    /// Reading a file of the session failed.
    #[error("cannot read {}", path.display())]
    Read {
        /// Path of the session file.
        path: PathBuf,
        /// Error of the operating system.
        #[source]
        source: io::Error,
    },
    /// A file cannot be written. Everything written before is still in the file.
    #[error("cannot write {}", path.display())]
    Write {
        /// Path of the session file.
        path: PathBuf,
        /// Error of the operating system.
        #[source]
        source: io::Error,
    },
    /// An entry cannot be encoded as JSON.
    #[error("cannot write an entry of the session as JSON")]
    Encode(#[from] serde_json::Error),
    /// Another process holds the lock of the session.
    #[error(
        "the session {} is open in another process{}; end that process first",
        path.display(),
        pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default()
    )]
    Locked {
        /// Folder of the session.
        path: PathBuf,
        /// Id of the process that holds the lock, if it is known.
        pid: Option<u32>,
    },
    /// The file was written by a newer version of the program.
    #[error("{} has version {found} of the format and this version of rind knows {SESSION_FORMAT_VERSION}; update rind", path.display())]
    Newer {
        /// Path of the session file.
        path: PathBuf,
        /// Version of the format in which the file was written.
        found: u32,
    },
    /// The turn to undo was partly replaced by a summary.
    #[error("turn {turn} cannot be undone: a summary has replaced a part of it")]
    Summarized {
        /// Number of the turn that cannot be undone.
        turn: u32,
    },
    /// There is no session in the store.
    #[error("there is no session in {} yet; the first turn begins one", root.display())]
    NoneYet {
        /// Folder that contains all sessions.
        root: PathBuf,
    },
    /// The id for a new session is already in use.
    #[error("there is a session `{id}` already; to continue it: --resume {id}")]
    Exists {
        /// Requested id of the new session.
        id: String,
    },
    /// The id for a new session is invalid.
    #[error(
        "`{}` cannot be the id of a session: an id has 1 to 96 letters, digits, `-`, `_` and `.`, does not begin with `.`, and \
         is not `last`",
        crate::text::escape_and_truncate_line(id, 96)
    )]
    InvalidId {
        /// Requested id of the new session.
        id: String,
    },
    /// No session has this id.
    #[error("there is no session `{wanted}` in {}", root.display())]
    Unknown {
        /// Id or prefix that the user gave.
        wanted: String,
        /// Folder that contains all sessions.
        root: PathBuf,
    },
    /// No session belongs to this workspace, although there are sessions of other folders.
    #[error(
        "no session has worked in {} yet; the last one anywhere is {last}, in {elsewhere}: give that id, or work \
         in that folder",
        workspace.display()
    )]
    Elsewhere {
        /// Path of the workspace.
        workspace: PathBuf,
        /// Id of the session that was used last, in another folder.
        last: String,
        /// Folder in which that session worked.
        elsewhere: String,
    },
    /// The given prefix matches several session ids.
    #[error(
        "`{wanted}` matches {} sessions, the last used {}; give more of the id, see `rind session list`",
        found.len(),
        found.iter().take(MAX_SESSION_IDS_IN_ERROR).map(String::as_str).collect::<Vec<_>>().join(", ")
    )]
    Ambiguous {
        /// Prefix that the user gave.
        wanted: String,
        /// Matching ids, the last used first.
        found: Vec<String>,
    },
    /// The operation works on the files of sessions, and this store has none.
    #[error("the sessions in {store} are not files, and this command searches files only")]
    NotFiles {
        /// Name of the store.
        store: String,
    },
    /// Another writer has opened and continued the session, so this writer must stop.
    #[error("another program has continued the session {id}; open it again to continue")]
    Fenced {
        /// Id of the session.
        id: String,
    },
    /// A store that keeps no files failed.
    #[error("the store {store} failed")]
    Store {
        /// Name of the store.
        store: String,
        /// Error of the store.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A blob is corrupt: its hash does not match its name.
    #[error("{} is corrupt: its hash does not match its name", path.display())]
    Blob {
        /// Path of the blob.
        path: PathBuf,
    },
    /// A blob exceeds the limit for one blob or for the session.
    #[error("{size} bytes cannot be stored: {what}")]
    BlobLimit {
        /// Size of the refused blob, in bytes.
        size: u64,
        /// Description of the limit that the blob exceeds.
        what: String,
    },
    /// A session cannot be exported or imported.
    #[error("{what} cannot be exported or imported: {why}")]
    Bundle {
        /// Session that cannot be exported, or file that cannot be imported.
        what: String,
        /// Reason why the export or import is impossible.
        why: String,
    },
    /// A plugin exceeded a limit of its session state.
    #[error("plugin `{plugin}` exceeded a limit of its session state: {what}")]
    Limit {
        /// Name of the plugin.
        plugin: String,
        /// Description of the exceeded limit.
        what: String,
    },
}

impl Error {
    fn read_error(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        Self::Read { path, source }
    }

    fn write_error(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        Self::Write { path, source }
    }
}
