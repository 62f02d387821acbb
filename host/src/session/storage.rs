//! Defines the traits that a store of sessions implements.
//!
//! The traits express the needs of an agent's sessions and do not depend on how a store works: no
//! file names, no byte offsets, no locks. A store keeps frames (one or more complete lines of a
//! session) in order, allows at most one writer for each session, and keeps large values by the
//! hash of their content. The files of [`FileSessionBackend`](super::FileSessionBackend) are the
//! default, and [`MemorySessions`](super::MemorySessions) keeps sessions for the lifetime of a
//! process. The crate `rind-session-test` checks a store against these traits.
//!
//! All methods may block. Start from [`Sessions`].

use std::collections::BTreeSet;
use std::fmt::{self, Debug};
use std::path::PathBuf;
use std::sync::Arc;

use super::Error;
use super::children::{self, SUBAGENTS_FOLDER_NAME};
use super::guarded::is_session_id;

pub(super) mod files;
pub(super) mod memory;

/// Address of a session in a store: `ID`, or `ID/agents/AGENT` for the session of a subagent, at
/// any depth.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionAddress(Arc<str>);

impl SessionAddress {
    /// Parses an address; `None` if the text is not a valid one. Ids come from files and from
    /// users, so each part is checked before it becomes a name in a store.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (root, below) = match text.split_once('/') {
            Some((root, below)) => (root, Some(below)),
            None => (text, None),
        };
        let is_valid = is_session_id(root)
            && below.is_none_or(|below| children::parse_subagent_path(below).is_some());
        is_valid.then(|| Self(text.into()))
    }

    /// Returns the address of a subagent of this session; `None` if the id is not valid.
    #[must_use]
    pub fn subagent_address(&self, agent: &str) -> Option<Self> {
        let child = || Self(format!("{}/{SUBAGENTS_FOLDER_NAME}/{agent}", self.0).into());
        children::is_agent_id(agent).then(child)
    }

    /// Returns the address as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the address as a shared text, which is cheap to clone.
    #[must_use]
    pub fn as_shared_str(&self) -> &Arc<str> {
        &self.0
    }

    /// Returns the id of the root session, to which the subagent belongs.
    #[must_use]
    pub fn root_session_id(&self) -> &str {
        self.0.split('/').next().unwrap_or(&self.0)
    }

    /// Returns the ids in the address: first the root session, then each nested subagent.
    pub fn ids_from_root(&self) -> impl Iterator<Item = &str> {
        self.0.split('/').step_by(2)
    }

    /// Returns the error for an attempt to create a session at this address although one exists
    /// there.
    #[must_use]
    pub fn already_exists_error(&self) -> Error {
        Error::Exists {
            id: self.as_str().to_owned(),
        }
    }

    /// Whether this session is `other` or a subagent below it.
    #[must_use]
    pub fn is_within_session(&self, other: &Self) -> bool {
        let below = self.0.strip_prefix(&*other.0);
        below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

impl fmt::Display for SessionAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Debug for SessionAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Debug::fmt(&*self.0, f)
    }
}

/// Position in the frames of a session: between two frames, or at the beginning or the end.
///
/// Positions of one session are ordered like its frames. Only the store that created a position
/// knows the meaning of its number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FramePosition(u64);

impl FramePosition {
    /// Position before the first frame.
    pub const START: Self = Self(0);

    /// Creates a position from a number that the store chose.
    #[must_use]
    pub fn from_u64(number: u64) -> Self {
        Self(number)
    }

    /// Returns the number from which the store created the position.
    #[must_use]
    pub fn as_u64(self) -> u64 {
        self.0
    }
}

/// Log of a session's frames, open for its only writer. Dropping the journal lets another writer
/// open the session.
pub trait Journal: Send {
    /// Appends a frame: one or more complete lines. Frames that were buffered by
    /// [`append_with_next`](Self::append_with_next) are written before it; an empty frame writes
    /// only those.
    ///
    /// # Errors
    /// Either nothing of the frame was written, and the caller may retry. Or an earlier frame was
    /// lost: its error is returned once, and from then on the journal appends nothing more.
    fn append(&mut self, frame: &[u8]) -> Result<(), Error>;

    /// Buffers a frame, and writes it together with the next one or at the next
    /// [`take_unsynced`](Self::take_unsynced). Use this for small frames that nothing depends on:
    /// if the process is killed before, the frame is lost.
    ///
    /// # Errors
    /// Like [`append`](Self::append), for buffered frames that had to be written to make room.
    fn append_with_next(&mut self, frame: &[u8]) -> Result<(), Error>;

    /// Writes the buffered frames.
    ///
    /// # Errors
    /// Like [`append`](Self::append); the frames stay buffered.
    fn write_waiting(&mut self) -> Result<(), Error> {
        self.append(&[])
    }

    /// Returns the position after the last frame, buffered frames included.
    fn end(&self) -> FramePosition;

    /// Returns the length of all frames in bytes, buffered frames included.
    fn bytes(&self) -> u64;

    /// Writes the buffered frames, and returns a handle to wait until all frames are durable;
    /// `None` if they already are. The caller waits without holding the journal, so that others can
    /// append in the meantime.
    ///
    /// # Errors
    /// Like [`append`](Self::append).
    fn take_unsynced(&mut self) -> Result<Option<Box<dyn UnsyncedFrames>>, Error>;

    /// Checks that no frame was lost for which a caller waited with
    /// [`UnsyncedFrames::wait_for_sync`].
    ///
    /// # Errors
    /// A frame was lost.
    fn check(&self) -> Result<(), Error>;

    /// Blocks until every frame survives a power failure.
    ///
    /// # Errors
    /// Like [`append`](Self::append).
    fn sync(&mut self) -> Result<(), Error> {
        if let Some(frames) = self.take_unsynced()? {
            frames.wait_for_sync();
        }
        self.check()
    }
}

/// Frames that a power failure could still lose.
pub trait UnsyncedFrames: Send {
    /// Blocks until the frames are durable or known to be lost; [`Journal::check`] reports which.
    fn wait_for_sync(self: Box<Self>);
}

/// Kind of the large values that a store keeps for a session in one [`Blobs`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BlobKind {
    /// Values that messages refer to, such as images. Those of subagents are stored with the root
    /// session.
    Content,
    /// Large values of plugins' state.
    State,
}

/// Values of a session, named by the BLAKE3 hash of their content in 64 hexadecimal digits.
pub trait Blobs: Debug + Send + Sync {
    /// Stores a value. When this returns, the value survives a power failure. Does nothing if the
    /// value is already stored.
    ///
    /// # Errors
    /// The name is not a hash, or the value cannot be written.
    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), Error>;

    /// Returns a value, and checks that its content matches its name.
    ///
    /// # Errors
    /// The value is missing or corrupt.
    fn get(&self, name: &str) -> Result<Vec<u8>, Error>;

    /// Returns the length of a value in bytes; `None` if there is no value of this name.
    fn length(&self, name: &str) -> Option<u64>;

    /// Returns the total length of all values, in bytes.
    ///
    /// # Errors
    /// The values cannot be listed.
    fn total(&self) -> Result<u64, Error>;

    /// Returns the names of all values, sorted.
    ///
    /// # Errors
    /// The values cannot be listed.
    fn names(&self) -> Result<Vec<String>, Error>;

    /// Declares that the session no longer refers to a value. A store may remove the value now,
    /// later or never.
    fn release(&self, name: &str);

    /// Returns the error for a value whose content does not match its name.
    fn damaged_blob_error(&self, name: &str) -> Error;
}

/// Journal and lines of a session that was opened to be continued.
pub struct OpenedJournal {
    /// Journal of the session, positioned after its last complete frame of lines.
    pub journal: Box<dyn Journal>,
    /// All lines of the session.
    pub lines: Vec<u8>,
    /// Messages about repairs, for the user.
    pub notices: Vec<String>,
}

/// Session in the list that a store returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionListItem {
    /// Id of the session.
    pub id: String,
    /// Time of the last write, in milliseconds since 1970.
    pub updated: i64,
    /// Total length of the session's lines, in bytes.
    pub bytes: u64,
}

/// Page of a store's list of sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionPage {
    /// Sessions, sorted by id.
    pub sessions: Vec<SessionListItem>,
    /// Value of `after` for the next call of [`Sessions::list`]; `None` after the last session.
    pub next: Option<String>,
}

/// Store that keeps sessions, such as a folder of files.
pub trait Sessions: Debug + Send + Sync {
    /// Returns a name of the store for messages, such as its folder.
    fn name(&self) -> String;

    /// Creates an empty session. Fails if there is a session of this address.
    ///
    /// # Errors
    /// [`Error::Exists`], or the store cannot be written.
    fn create(&self, at: &SessionAddress) -> Result<Box<dyn Journal>, Error>;

    /// Creates a session with these lines. This default appends the lines after the creation. A
    /// store whose readers could see only a part of the lines meanwhile should override it.
    ///
    /// # Errors
    /// Like [`create`](Self::create).
    fn create_with_lines(&self, at: &SessionAddress, lines: &[u8]) -> Result<(), Error> {
        let mut journal = self.create(at)?;
        journal.append(lines)?;
        journal.sync()
    }

    /// Opens a session to continue it, and repairs its end: a truncated last line is removed and
    /// kept elsewhere, or reported.
    ///
    /// # Errors
    /// [`Error::Locked`] if another writer has it open, [`Error::Unknown`] if there is none, or the
    /// store cannot be read.
    fn open(&self, at: &SessionAddress) -> Result<OpenedJournal, Error>;

    /// Returns the lines of a session from a position on. The session may be open, here or
    /// elsewhere; its last line may then be truncated.
    ///
    /// # Errors
    /// [`Error::Unknown`] if there is none, or the store cannot be read.
    fn read(&self, at: &SessionAddress, from: FramePosition) -> Result<Vec<u8>, Error>;

    /// Whether a session with this address exists.
    fn contains(&self, at: &SessionAddress) -> bool;

    /// Returns the store of those values of a session that are of this kind.
    fn blobs(&self, at: &SessionAddress, kind: BlobKind) -> Arc<dyn Blobs>;

    /// Returns a local folder for files about the session that no other machine needs, for example
    /// the files that undo changes of a workspace. `None` if the store keeps no such files.
    fn folder(&self, _at: &SessionAddress) -> Option<PathBuf> {
        None
    }

    /// Returns the ids of the direct subagents of a session that have a session of their own,
    /// sorted.
    ///
    /// # Errors
    /// The store cannot be read.
    fn children(&self, at: &SessionAddress) -> Result<Vec<String>, Error>;

    /// Removes a session with its values and subagents. Readers find the complete session or none.
    ///
    /// # Errors
    /// [`Error::Locked`] if a writer has it open, [`Error::Unknown`] if there is none, or the store
    /// cannot be written.
    fn remove(&self, at: &SessionAddress) -> Result<(), Error>;

    /// Lists at most `limit` sessions in the order of their ids, starting after the id `after`.
    ///
    /// # Errors
    /// The store cannot be read.
    fn list(&self, after: Option<&str>, limit: usize) -> Result<SessionPage, Error>;

    /// Creates the session `to` with these lines, with copies of the values of the session `from`,
    /// and with copies of the sessions of those subagents that `agents` names, including their
    /// values and their own subagents. Readers find the complete copy or none. The session `from`
    /// may be open.
    ///
    /// # Errors
    /// Like [`create`](Self::create) and [`read`](Self::read).
    fn fork(
        &self,
        from: &SessionAddress,
        to: &SessionAddress,
        lines: &[u8],
        agents: &BTreeSet<String>,
    ) -> Result<(), Error>;
}
