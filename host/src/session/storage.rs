//! Storage of sessions: the traits that a store implements.
//!
//! Owns the needs of an agent's sessions, and nothing of how a store works: no paths, no byte
//! offsets, no locks. A store keeps frames (one or more whole lines of a session) in order,
//! has one writer for each session at most, and keeps large values by the hash of their content.
//! The files of [`SessionFiles`](super::SessionFiles) are the default, and
//! [`MemorySessions`](super::MemorySessions) keeps sessions for the time of a process. The crate
//! `rind-session-test` checks a store against these traits.
//!
//! All methods may block. Start from [`Sessions`].

use std::collections::BTreeSet;
use std::fmt::{self, Debug};
use std::path::PathBuf;
use std::sync::Arc;

use super::Error;
use super::children::{self, AGENTS};
use super::guarded::is_session_id;

pub(super) mod files;
pub(super) mod memory;

/// Address of a session in a store: `ID`, or `ID/agents/AGENT` for the session of a subagent, at any
/// depth.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionAddress(Arc<str>);

impl SessionAddress {
    /// Parses an address; `None` if it has another form. Ids come from files and from people, so
    /// each part is checked before it becomes a name in a store.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (root, below) = match text.split_once('/') {
            Some((root, below)) => (root, Some(below)),
            None => (text, None),
        };
        let is_valid =
            is_session_id(root) && below.is_none_or(|below| children::child_path(below).is_some());
        is_valid.then(|| Self(text.into()))
    }

    /// Returns the address of a subagent of this session; `None` if the id is not valid.
    #[must_use]
    pub fn child(&self, agent: &str) -> Option<Self> {
        let child = || Self(format!("{}/{AGENTS}/{agent}", self.0).into());
        children::is_agent_id(agent).then(child)
    }

    /// Returns the address as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the address as text that can be shared.
    #[must_use]
    pub fn shared(&self) -> &Arc<str> {
        &self.0
    }

    /// Returns the id of the session that all subagents belong to.
    #[must_use]
    pub fn root(&self) -> &str {
        self.0.split('/').next().unwrap_or(&self.0)
    }

    /// Lists the ids on the way: the session, then each subagent.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.0.split('/').step_by(2)
    }

    /// Returns the error for a second session of this address.
    #[must_use]
    pub fn exists_error(&self) -> Error {
        Error::Exists {
            id: self.as_str().to_owned(),
        }
    }

    /// Whether this session is `other` or a subagent below it.
    #[must_use]
    pub fn is_in(&self, other: &Self) -> bool {
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

/// Position in a session: after all frames that come before it.
///
/// Positions of one session are ordered as its frames are. Only the store that made one knows the
/// meaning of the number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(u64);

impl Position {
    /// Position before the first frame.
    pub const START: Self = Self(0);

    /// Creates a position of a number of the store.
    #[must_use]
    pub fn new(number: u64) -> Self {
        Self(number)
    }

    /// Returns the number that the store made the position of.
    #[must_use]
    pub fn number(self) -> u64 {
        self.0
    }
}

/// The frames of a session, open for its only writer. Dropping it lets another writer open the
/// session.
pub trait Journal: Send {
    /// Appends a frame: one or more whole lines. Frames that [wait](Self::append_with_next) go
    /// before it; an empty frame appends these alone.
    ///
    /// # Errors
    /// Nothing of the frame is kept, and the caller may retry; or an earlier frame did not survive,
    /// which is reported once with its reason, and nothing is appended any more.
    fn append(&mut self, frame: &[u8]) -> Result<(), Error>;

    /// Appends a frame together with the next one or at the next
    /// [`take_unsynced`](Self::take_unsynced). For small frames that nothing depends on: if the
    /// process is killed before, the frame is lost.
    ///
    /// # Errors
    /// Like [`append`](Self::append), for frames that had to be written to make room.
    fn append_with_next(&mut self, frame: &[u8]) -> Result<(), Error>;

    /// Appends the frames that wait.
    ///
    /// # Errors
    /// Like [`append`](Self::append); the frames still wait.
    fn write_waiting(&mut self) -> Result<(), Error> {
        self.append(&[])
    }

    /// Returns the position after every frame, those that wait among them.
    fn end(&self) -> Position;

    /// Returns the length of all frames, those that wait among them, in bytes.
    fn bytes(&self) -> u64;

    /// Writes the buffered frames, and returns a handle to wait until they are durable; `None` if
    /// they are already. The caller waits without the journal, so that others can append in the
    /// meantime.
    ///
    /// # Errors
    /// Like [`append`](Self::append).
    fn take_unsynced(&mut self) -> Result<Option<Box<dyn UnsyncedFrames>>, Error>;

    /// Returns the error of frames that were waited for and did not survive.
    ///
    /// # Errors
    /// There is one.
    fn check(&self) -> Result<(), Error>;

    /// Blocks until every frame survives a power failure.
    ///
    /// # Errors
    /// Like [`append`](Self::append).
    fn sync(&mut self) -> Result<(), Error> {
        if let Some(frames) = self.take_unsynced()? {
            frames.wait();
        }
        self.check()
    }
}

/// Frames that a power failure could still lose.
pub trait UnsyncedFrames: Send {
    /// Blocks until the frames are safe or are known to be lost: [`Journal::check`] tells which.
    fn wait(self: Box<Self>);
}

/// Kind of the values that a set of [`Blobs`] keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BlobKind {
    /// Values that messages refer to. Those of subagents are kept with the root session.
    Content,
    /// Large values of plugins' state.
    State,
}

/// Values of a session by the BLAKE3 hash of their content, as 64 hexadecimal digits.
pub trait Blobs: Debug + Send + Sync {
    /// Stores a value. When this returns, the value survives a power failure. Does nothing if the
    /// value is already stored.
    ///
    /// # Errors
    /// The name is not a hash, or the value cannot be written.
    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), Error>;

    /// Returns a value whose content fits its name.
    ///
    /// # Errors
    /// The value is missing or was changed.
    fn get(&self, name: &str) -> Result<Vec<u8>, Error>;

    /// Returns the length of a value in bytes; `None` if there is none of this name.
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

    /// Returns the error for a value whose content does not fit its name.
    fn damaged(&self, name: &str) -> Error;
}

/// A session that was opened to be continued.
pub struct OpenedJournal {
    /// The journal, positioned after its last whole frame.
    pub journal: Box<dyn Journal>,
    /// All lines of the session.
    pub lines: Vec<u8>,
    /// Messages about repairs, for the user.
    pub notices: Vec<String>,
}

/// A session in a list of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedSession {
    /// Id of the session.
    pub id: String,
    /// Time of the last write, in milliseconds since 1970.
    pub updated: i64,
    /// Length of its lines, in bytes.
    pub bytes: u64,
}

/// A part of the list of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionPage {
    /// Sessions, by id.
    pub sessions: Vec<ListedSession>,
    /// Value for the next call; `None` after the last session.
    pub next: Option<String>,
}

/// A store of sessions.
pub trait Sessions: Debug + Send + Sync {
    /// Returns a name of the store for messages, such as its folder.
    fn name(&self) -> String;

    /// Creates a session without a line. Fails where there is one of this address.
    ///
    /// # Errors
    /// [`Error::Exists`], or the store cannot be written.
    fn create(&self, at: &SessionAddress) -> Result<Box<dyn Journal>, Error>;

    /// Creates a session with these lines. A store in which a reader could see a part of them should
    /// do better than this default, which appends them after the creation.
    ///
    /// # Errors
    /// Like [`create`](Self::create).
    fn create_whole(&self, at: &SessionAddress, lines: &[u8]) -> Result<(), Error> {
        let mut journal = self.create(at)?;
        journal.append(lines)?;
        journal.sync()
    }

    /// Opens a session to continue it, and repairs its end: a truncated line is removed and kept
    /// elsewhere, or reported.
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
    fn read(&self, at: &SessionAddress, from: Position) -> Result<Vec<u8>, Error>;

    /// Whether there is a session of this address.
    fn contains(&self, at: &SessionAddress) -> bool;

    /// Returns the values of a session.
    fn blobs(&self, at: &SessionAddress, kind: BlobKind) -> Arc<dyn Blobs>;

    /// Returns a folder of this machine for files about the session that no other machine needs,
    /// for example the files that undo changes of a workspace. `None` if the store keeps no such
    /// files.
    fn folder(&self, _at: &SessionAddress) -> Option<PathBuf> {
        None
    }

    /// Returns the ids of the subagents that have a session below this one, sorted.
    ///
    /// # Errors
    /// The store cannot be read.
    fn children(&self, at: &SessionAddress) -> Result<Vec<String>, Error>;

    /// Removes a session with its values and subagents. A reader finds all of it or nothing.
    ///
    /// # Errors
    /// [`Error::Locked`] if a writer has it open, [`Error::Unknown`] if there is none, or the store
    /// cannot be written.
    fn remove(&self, at: &SessionAddress) -> Result<(), Error>;

    /// Lists at most `limit` sessions by id, those after the id `after`.
    ///
    /// # Errors
    /// The store cannot be read.
    fn list(&self, after: Option<&str>, limit: usize) -> Result<SessionPage, Error>;

    /// Creates the session `to` with these lines, the values of the session `from`, and those of
    /// its subagents that `agents` names, with all that is below them. A reader finds all of it or
    /// nothing. The session `from` may be open.
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
