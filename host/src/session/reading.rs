//! Entries of a session with the numbers of their lines, read from outside.
//!
//! Owns how a session or the session of a subagent is found below the store without following
//! links, and that a damaged line is told and hides no other. Takes no lock, so the session may be
//! open in another process. Start from [`SessionStore::read_lines`].

use std::io::{Seek, SeekFrom};
use std::path::PathBuf;

use super::children::AGENTS;
use super::entry::{Body, Entry, VERSION};
use super::guarded::{self, Line, Lines, MAX_LINE_BYTES};
use super::log::FILE;
use super::{Error, SessionStore};

/// An entry and the number of its line, from 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Numbered {
    /// Number of the line in the file.
    pub line: u64,
    /// Entry on the line.
    pub entry: Entry,
}

/// Readable entries of a session.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    /// Entries in order.
    pub entries: Vec<Numbered>,
    /// Messages about the lines that cannot be read.
    pub notices: Vec<String>,
    /// Whether the last line has no line feed, because a write is unfinished or still running.
    pub is_torn: bool,
}

/// Reader of a session that another process may be appending to.
#[derive(Debug)]
pub struct SessionTail {
    path: PathBuf,
    /// Offset up to which lines were read, and their number.
    offset: u64,
    n_lines: u64,
}

impl SessionTail {
    /// Returns the entries that were appended since the last call. A last line without a line feed
    /// is left for the next call: its write may still be running.
    ///
    /// # Errors
    /// The file cannot be read, is of a newer version, or is shorter than what was read of it.
    pub fn read_more(&mut self) -> Result<Reading, Error> {
        self.read_from_here(false)
    }

    fn read_from_here(&mut self, takes_torn: bool) -> Result<Reading, Error> {
        let path = &self.path;
        let failed = |source| Error::read_error(path, source);
        let (mut file, meta) = guarded::open(path).map_err(failed)?;
        if meta.len() < self.offset {
            let why = "it was cut or replaced while it was being followed; start again";
            return Err(failed(std::io::Error::other(why)));
        }
        file.seek(SeekFrom::Start(self.offset)).map_err(failed)?;
        let mut lines = Lines::new(file, MAX_LINE_BYTES);
        let mut reading = Reading::default();
        loop {
            let line = lines.next().map_err(failed)?;
            let parsed = match line {
                None => break,
                Some(Line::Torn(_)) if !takes_torn => {
                    reading.is_torn = true;
                    break;
                }
                Some(Line::Whole(text)) => Entry::parse_line(text),
                Some(Line::Torn(text)) => {
                    reading.is_torn = true;
                    Entry::parse_line(text)
                }
                Some(Line::TooLong(n)) => Err(format!(
                    "it has {n} bytes, at most {MAX_LINE_BYTES} are read"
                )),
            };
            let line = self.n_lines + lines.number;
            match parsed {
                Ok(entry) => {
                    if let Body::Session { version: found, .. } = entry.body
                        && found > VERSION
                    {
                        let path = path.clone();
                        return Err(Error::Newer { path, found });
                    }
                    reading.entries.push(Numbered { line, entry });
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
}

impl SessionStore {
    /// Returns the entries of a session, or of a subagent as `ID/agents/AGENT`, with the numbers of
    /// their lines.
    pub fn read_lines(&self, id: &str) -> Result<Reading, Error> {
        self.tail(id)?.read_from_here(true)
    }

    /// Returns a reader that begins at the first line of a session.
    pub fn tail(&self, id: &str) -> Result<SessionTail, Error> {
        let path = self.folder_of(id)?.join(FILE);
        Ok(SessionTail {
            path,
            offset: 0,
            n_lines: 0,
        })
    }

    /// Returns the ids of the subagents and holders that have a session below this one, as
    /// `ID/agents/AGENT`.
    pub fn agents_of(&self, id: &str) -> Result<Vec<String>, Error> {
        let agents = self.sessions().children(&self.address(id)?)?.into_iter();
        Ok(agents
            .map(|agent| format!("{id}/{AGENTS}/{agent}"))
            .collect())
    }

    /// Returns the folder of a session, or of a subagent as `ID/agents/AGENT`. Each folder on the
    /// way must be a folder and no link.
    pub fn folder_of(&self, id: &str) -> Result<PathBuf, Error> {
        self.files()?.folder_of(&self.address(id)?)
    }
}
