//! Reads the entries of a session with their line numbers, without opening the session for writing.
//!
//! Ensures that a damaged line is reported and hides no other line. Takes no lock, so the session
//! may be open in another process. Start from [`SessionStore::read_entries_with_line_numbers`].

use std::io::{self, Cursor, Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::sync::Arc;

use super::children::SUBAGENTS_FOLDER_NAME;
use super::entry::{Body, Entry, SESSION_FORMAT_VERSION};
use super::guarded::{self, LimitedFileLine, LimitedLineReader, MAX_SESSION_LINE_BYTES};
use super::log::SESSION_FILE_NAME;
use super::storage::{FramePosition, SessionAddress, Sessions};
use super::store::session_display_path;
use super::{Error, SessionStore};

/// An entry and the number of its line in the session file.
#[derive(Clone, Debug, PartialEq)]
pub struct NumberedEntry {
    /// Number of the line in the session file, from 1.
    pub line: u64,
    /// Entry that the line contains.
    pub entry: Entry,
}

/// Entries that were read from a session, and notices about unreadable lines.
#[derive(Clone, Debug, Default)]
pub struct NumberedEntriesAndNotices {
    /// Entries in order.
    pub entries: Vec<NumberedEntry>,
    /// Messages about the lines that cannot be read.
    pub notices: Vec<String>,
    /// Whether the last line has no line feed, because a write is unfinished or still running.
    pub is_torn: bool,
}

/// Reader of a session that another process may be appending to.
#[derive(Debug)]
pub struct SessionTailReader {
    source: SessionLineSource,
    /// Path of the session's file, or a name for messages.
    path: PathBuf,
    /// Offset in the file, in bytes, up to which lines were read. `n_lines` is the number of lines
    /// before it.
    offset: u64,
    n_lines: u64,
}

/// Source from which a [`SessionTailReader`] reads lines.
#[derive(Debug)]
enum SessionLineSource {
    /// The file at `path`; each call reads only the new lines.
    File,
    /// A store that keeps no files. Each call reads the session from its beginning, because only
    /// the session's writer knows positions in the store.
    Store(Arc<dyn Sessions>, SessionAddress),
}

impl SessionTailReader {
    /// Returns the entries that were appended since the last call. A last line without a line feed
    /// is left for the next call: its write may still be running.
    ///
    /// # Errors
    /// The file cannot be read, is of a newer version, or has become shorter than what was already
    /// read.
    pub fn read_more(&mut self) -> Result<NumberedEntriesAndNotices, Error> {
        self.read_from_offset(false)
    }

    fn read_from_offset(&mut self, takes_torn: bool) -> Result<NumberedEntriesAndNotices, Error> {
        let mut lines = LimitedLineReader::new(self.open_at_offset()?, MAX_SESSION_LINE_BYTES);
        let path = &self.path;
        let failed = |source| Error::read_error(path, source);
        let mut reading = NumberedEntriesAndNotices::default();
        loop {
            let line = lines.next().map_err(failed)?;
            let parsed = match line {
                None => break,
                Some(LimitedFileLine::Torn(_)) if !takes_torn => {
                    reading.is_torn = true;
                    break;
                }
                Some(LimitedFileLine::Whole(text)) => Entry::parse_line(text),
                Some(LimitedFileLine::Torn(text)) => {
                    reading.is_torn = true;
                    Entry::parse_line(text)
                }
                Some(LimitedFileLine::TooLong(n)) => Err(format!(
                    "the line has {n} bytes, at most {MAX_SESSION_LINE_BYTES} are supported"
                )),
            };
            let line = self.n_lines + lines.number;
            match parsed {
                Ok(entry) => {
                    if let Body::Session { version: found, .. } = entry.body
                        && found > SESSION_FORMAT_VERSION
                    {
                        let path = path.clone();
                        return Err(Error::Newer { path, found });
                    }
                    reading.entries.push(NumberedEntry { line, entry });
                }
                Err(why) => reading.notices.push(format!(
                    "{}:{line}: this line cannot be read and is skipped: {why}",
                    path.display()
                )),
            }
        }
        self.offset += lines.ended_at;
        self.n_lines += lines.number - u64::from(reading.is_torn);
        Ok(reading)
    }

    /// Opens the session for reading at `offset`, after the lines that were already read.
    fn open_at_offset(&self) -> Result<Box<dyn Read>, Error> {
        let failed = |source| Error::read_error(&self.path, source);
        let was_cut = || {
            let why = "it was cut or replaced while it was being followed; start again";
            failed(io::Error::other(why))
        };
        match &self.source {
            SessionLineSource::File => {
                let (mut file, meta) = guarded::open_regular_file(&self.path).map_err(failed)?;
                if meta.len() < self.offset {
                    return Err(was_cut());
                }
                file.seek(SeekFrom::Start(self.offset)).map_err(failed)?;
                Ok(Box::new(file))
            }
            SessionLineSource::Store(sessions, at) => {
                let bytes = sessions.read(at, FramePosition::START)?;
                if (bytes.len() as u64) < self.offset {
                    return Err(was_cut());
                }
                let mut lines = Cursor::new(bytes);
                lines.set_position(self.offset);
                Ok(Box::new(lines))
            }
        }
    }
}

impl SessionStore {
    /// Returns the entries of the session `id`, with the numbers of their lines. The id of a
    /// subagent is `ID/agents/AGENT`.
    pub fn read_entries_with_line_numbers(
        &self,
        id: &str,
    ) -> Result<NumberedEntriesAndNotices, Error> {
        self.open_session_tail_reader(id)?.read_from_offset(true)
    }

    /// Returns a reader that begins at the first line of a session.
    pub fn open_session_tail_reader(&self, id: &str) -> Result<SessionTailReader, Error> {
        let (source, path) = match self.require_file_backend() {
            Ok(files) => {
                let folder = files.checked_session_folder(&self.session_address(id)?)?;
                (SessionLineSource::File, folder.join(SESSION_FILE_NAME))
            }
            Err(_) => {
                let at = self.session_address(id)?;
                let name = session_display_path(&**self.session_backend(), &at);
                (
                    SessionLineSource::Store(self.session_backend().clone(), at),
                    name,
                )
            }
        };
        Ok(SessionTailReader {
            source,
            path,
            offset: 0,
            n_lines: 0,
        })
    }

    /// Returns the ids of the sessions below this one, as `ID/agents/AGENT`: those of its
    /// subagents, and of the agents that hold its archived turns.
    pub fn session_agent_ids(&self, id: &str) -> Result<Vec<String>, Error> {
        let agents = self
            .session_backend()
            .children(&self.session_address(id)?)?
            .into_iter();
        Ok(agents
            .map(|agent| format!("{id}/{SUBAGENTS_FOLDER_NAME}/{agent}"))
            .collect())
    }

    /// Returns the folder of a session, or of a subagent as `ID/agents/AGENT`. Fails if any
    /// component of the path below the store's root is a symlink.
    pub fn session_folder(&self, id: &str) -> Result<PathBuf, Error> {
        self.require_file_backend()?
            .checked_session_folder(&self.session_address(id)?)
    }
}
