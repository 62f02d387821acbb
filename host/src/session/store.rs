//! The store of all sessions of a user: creates, finds, lists, forks and reads them.
//!
//! Owns the meaning of session ids as the user gives them: a whole id, a unique prefix, `last`, or
//! `ID/agents/AGENT` for a subagent. Reading and listing take no lock, so they also work while
//! another process writes to the session. A file that cannot be parsed as a session must not fail
//! the list.
//!
//! The module must not know the meaning of entries beyond the rows and summaries that it returns.
//! Start from [`SessionStore`].

use std::fs::DirBuilder;
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use super::blobs::Blobs;
use super::children;
use super::entry::{Body, Entry, VERSION};
use super::guarded::{self, Line, Lines, MAX_LINE_BYTES, is_new_session_id, is_session_id};
use super::live::Session;
use super::log::{DiskWait, FILE, write_private};
use super::state::copy_blobs;
use super::{Error, SessionSpec};
use crate::disk::{TemporaryFolder, private_folder, rename_new};

/// Maximum number of lines that are read per session for the list: the first input is near the top.
const ROW_LINES: usize = 64;

/// Name prefix of the folders in which copies of sessions are made.
const FORKED: &str = ".forked-";

/// Handle of the folder with all sessions. Holds no file open.
#[derive(Clone, Debug)]
pub struct SessionStore {
    root: PathBuf,
    wait: DiskWait,
}

/// A session in the list.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct SessionRow {
    /// Id of the session.
    pub id: String,
    /// Time of creation, in milliseconds since 1970.
    pub created: i64,
    /// Time of the last write, in milliseconds since 1970.
    pub updated: i64,
    /// Folder the agent worked in.
    pub workspace: String,
    /// Name of the model that the session started with.
    pub model: String,
    /// First input of the session, if there is one.
    pub first_input: Option<String>,
    /// Command of the program that opened the session for its own request; such a session is never
    /// resolved as `last`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aside: Option<String>,
    /// Length of the file, in bytes.
    pub bytes: u64,
}

/// A resolved session, with its workspace and the provider and model of its last use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// Id of the session.
    pub id: String,
    /// Folder the agent worked in.
    pub workspace: PathBuf,
    /// Name of the provider of the last use.
    pub provider: String,
    /// Name of the model of the last use.
    pub model: String,
}

impl SessionStore {
    /// Returns the store in the folder `root`, which does not need to exist yet.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self {
            root: root.into(),
            wait: DiskWait::default(),
        }
    }

    /// Creates sessions without waiting until their data is on the disk. For sessions that are
    /// removed when the host ends: a power failure may lose their last entries.
    #[must_use]
    pub fn unsynced(self) -> Self {
        let wait = DiskWait::Skips;
        Self { wait, ..self }
    }

    /// Returns the folder that contains all sessions.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Creates a session.
    pub fn create(&self, spec: &SessionSpec) -> Result<Session, Error> {
        let (id, folder) = self.new_folder()?;
        Session::create(None, &id, &folder, spec, self.wait)
    }

    /// Creates a session with an id that the caller chose. The id must be new.
    pub fn create_named(&self, id: &str, spec: &SessionSpec) -> Result<Session, Error> {
        if !is_new_session_id(id) {
            return Err(Error::InvalidId { id: id.to_owned() });
        }
        private_folder(&self.root).map_err(|source| Error::write_error(&self.root, source))?;
        let folder = self.root.join(id);
        // Fails where anything has this name, a dangling link too.
        let created = DirBuilder::new().mode(0o700).create(&folder);
        created.map_err(|source| match source.kind() {
            ErrorKind::AlreadyExists => Error::Exists { id: id.to_owned() },
            _ => Error::write_error(&folder, source),
        })?;
        Session::create(None, id, &folder, spec, self.wait)
    }

    /// Opens the session with this id, or creates it. A folder that a killed process left without a
    /// session in it is used.
    pub(crate) fn open_or_create(&self, id: &str, spec: &SessionSpec) -> Result<Session, Error> {
        if !is_new_session_id(id) {
            return Err(Error::InvalidId { id: id.to_owned() });
        }
        private_folder(&self.root).map_err(|source| Error::write_error(&self.root, source))?;
        let folder = self.root.join(id);
        match DirBuilder::new().mode(0o700).create(&folder) {
            Err(source) if source.kind() != ErrorKind::AlreadyExists => {
                return Err(Error::write_error(&folder, source));
            }
            _ => {}
        }
        match folder.join(FILE).symlink_metadata() {
            Ok(_) => Session::open(id, &folder, spec),
            Err(_) => Session::create(None, id, &folder, spec, self.wait),
        }
    }

    /// Returns the row of the session with this whole id, without a list of the others.
    pub(crate) fn find_row(&self, id: &str) -> Option<SessionRow> {
        let path = is_session_id(id).then(|| self.root.join(id).join(FILE))?;
        session_row(id.to_owned(), &path)
    }

    /// Creates a session that starts with the entries of the session `id`: with all of them, or
    /// with those up to and including the entry `until`. The original session is not changed and
    /// may be open.
    pub fn fork(
        &self,
        id: &str,
        until: Option<&str>,
        spec: &SessionSpec,
    ) -> Result<Session, Error> {
        let (mut entries, _) = self.read(id)?;
        if let Some(until) = until {
            let at = entries.iter().position(|entry| entry.id == until);
            let at = at.ok_or_else(|| self.unknown_session(&format!("{id}/{until}")))?;
            entries.truncate(at + 1);
        }
        let mut lines = Vec::new();
        for entry in &entries {
            lines.extend(entry.line()?);
        }
        let new = crate::clock::new_session_id();
        let folder = self.root.join(&new);
        let failed = |source| Error::write_error(&folder, source);
        // The copy gets its name once it is whole, so that a stopped fork leaves no half of one.
        let aside = TemporaryFolder::new_in(FORKED, &self.root).map_err(failed)?;
        let half = aside.path().join(&new);
        private_folder(&half).map_err(failed)?;
        let path = half.join(FILE);
        write_private(&path, &lines).map_err(|source| Error::write_error(&path, source))?;
        copy_blobs(&self.root.join(id), &half)?;
        Blobs::new(&self.root.join(id)).copy_to(&half)?;
        children::copy_children(&self.root.join(id), &half, &entries)?;
        rename_new(&half, &folder).map_err(failed)?;
        drop(aside);
        let session = Session::open(&new, &folder, spec)?;
        session.append(Body::Forked {
            from: id.to_owned(),
        })?;
        session.sync()?;
        Ok(session)
    }

    fn new_folder(&self) -> Result<(String, PathBuf), Error> {
        let id = crate::clock::new_session_id();
        let folder = self.root.join(&id);
        private_folder(&folder).map_err(|source| Error::write_error(&folder, source))?;
        Ok((id, folder))
    }

    /// Opens a session to continue it. `id` must be a whole id, as [`SessionStore::resolve`]
    /// returns it.
    pub fn resume(&self, id: &str, spec: &SessionSpec) -> Result<Session, Error> {
        Session::open(id, &self.root.join(id), spec)
    }

    /// Returns all sessions, the last written first. Skips folders that do not contain a session.
    pub fn list(&self) -> Result<Vec<SessionRow>, Error> {
        let folders = self.folders()?.into_iter();
        let rows = folders.filter_map(|(id, folder)| session_row(id, &folder.join(FILE)));
        let mut rows: Vec<SessionRow> = rows.collect();
        rows.sort_by(|a, b| (b.updated, &b.id).cmp(&(a.updated, &a.id)));
        Ok(rows)
    }

    /// Returns the id of the only session whose id equals or starts with `wanted`. `last` is the
    /// most recently written session that is not an aside (see [`SessionRow::aside`]).
    pub fn resolve(&self, wanted: &str) -> Result<String, Error> {
        let mut rows = self.list()?;
        if wanted == "last" {
            rows.retain(|row| row.aside.is_none());
            rows.truncate(1);
            let last = rows.pop().map(|row| row.id);
            return last.ok_or_else(|| self.unknown_session(wanted));
        }
        let mut ids: Vec<String> = rows.into_iter().map(|row| row.id).collect();
        ids.retain(|id| !wanted.is_empty() && id.starts_with(wanted));
        if let Some(exact) = ids.iter().find(|id| *id == wanted) {
            return Ok(exact.clone());
        }
        match ids.len() {
            0 | 1 => ids.pop().ok_or_else(|| self.unknown_session(wanted)),
            _ => Err(Error::Ambiguous {
                wanted: wanted.to_owned(),
                found: ids,
            }),
        }
    }

    /// Resolves like [`SessionStore::resolve`], except that `last` is the last session of the
    /// folder `workspace`.
    pub fn resolve_in(&self, wanted: &str, workspace: &Path) -> Result<String, Error> {
        if wanted != "last" {
            return self.resolve(wanted);
        }
        let mut rows = self.list()?;
        rows.retain(|row| row.aside.is_none());
        let is_here = |row: &&SessionRow| Path::new(&row.workspace) == workspace;
        if let Some(row) = rows.iter().find(is_here) {
            return Ok(row.id.clone());
        }
        match rows.into_iter().next() {
            Some(row) => Err(Error::Elsewhere {
                workspace: workspace.to_owned(),
                last: row.id,
                elsewhere: row.workspace,
            }),
            None => Err(Error::NoneYet {
                root: self.root.clone(),
            }),
        }
    }

    fn unknown_session(&self, wanted: &str) -> Error {
        Error::Unknown {
            wanted: wanted.to_owned(),
            root: self.root.clone(),
        }
    }

    /// Returns workspace, provider and model of a session's last use. Reads the whole file but
    /// parses only the relevant lines.
    pub fn about(&self, id: &str) -> Result<Resolved, Error> {
        let mut about = Resolved {
            id: id.to_owned(),
            workspace: PathBuf::new(),
            provider: String::new(),
            model: String::new(),
        };
        for entry in self.entries_with(id, &[b"\"session\"", b"\"resumed\""])? {
            match entry.body {
                Body::Session {
                    workspace,
                    provider,
                    model,
                    ..
                } => {
                    about.workspace = workspace.into();
                    (about.provider, about.model) = (provider, model);
                }
                Body::Resumed { provider, model } => {
                    (about.provider, about.model) = (provider, model);
                }
                _ => {}
            }
        }
        Ok(about)
    }

    /// Returns the entries of a session whose lines contain one of `texts`. Searching the bytes
    /// first avoids parsing most lines.
    fn entries_with(&self, id: &str, texts: &[&[u8]]) -> Result<Vec<Entry>, Error> {
        let path = self.root.join(id).join(FILE);
        let bytes = guarded::read(&path).map_err(|source| Error::read_error(&path, source))?;
        let holds = |line: &[u8], text: &[u8]| line.windows(text.len()).any(|part| part == text);
        let lines = bytes.split(|byte| *byte == b'\n');
        let matching = lines.filter(|line| texts.iter().any(|text| holds(line, text)));
        Ok(matching
            .filter_map(|line| Entry::parse_line(line).ok())
            .collect())
    }

    /// Resolves like [`SessionStore::resolve_in`] and also accepts `ID/agents/AGENT`, the session
    /// of a subagent, which can only be read.
    pub fn resolve_any(&self, wanted: &str, workspace: &Path) -> Result<String, Error> {
        let Some((id, below)) = wanted.split_once('/') else {
            return self.resolve_in(wanted, workspace);
        };
        let id = self.resolve_in(id, workspace)?;
        let found = children::child_path(below).map(|path| self.root.join(&id).join(path));
        if found.is_some_and(|folder| folder.join(FILE).is_file()) {
            return Ok(format!("{id}/{below}"));
        }
        Err(self.unknown_session(wanted))
    }

    /// Returns a text that a session, or the session of a subagent of it, keeps under this id.
    pub fn read_text(&self, session: &str, id: &str) -> Result<String, Error> {
        let root = session.split('/').next().unwrap_or(session);
        let path = self.root.join(root);
        let bytes = Blobs::new(&path).get(id)?;
        String::from_utf8(bytes).map_err(|_| Error::Blob { path })
    }

    /// Returns every readable entry of a session, and notices about the unreadable ones. Does not
    /// open the session for writing.
    pub fn read(&self, id: &str) -> Result<(Vec<Entry>, Vec<String>), Error> {
        let path = self.root.join(id).join(FILE);
        let bytes = guarded::read(&path).map_err(|source| Error::read_error(&path, source))?;
        parse_entries(&path, &bytes)
    }
}

/// Parses the lines of a file. A line that cannot be parsed is skipped with a notice and stays in
/// the file, so that a person can inspect it.
pub(super) fn parse_entries(path: &Path, bytes: &[u8]) -> Result<(Vec<Entry>, Vec<String>), Error> {
    let (mut entries, mut notices) = (Vec::new(), Vec::new());
    for (number, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        match Entry::parse_line(line) {
            Ok(entry) => {
                if let Body::Session { version: found, .. } = entry.body
                    && found > VERSION
                {
                    let path = path.to_owned();
                    return Err(Error::Newer { path, found });
                }
                entries.push(entry);
            }
            Err(why) => notices.push(format!(
                "{}:{}: this line cannot be read and is skipped: {why}",
                path.display(),
                number + 1
            )),
        }
    }
    Ok((entries, notices))
}

fn session_row(id: String, path: &Path) -> Option<SessionRow> {
    let (file, meta) = guarded::open(path).ok()?;
    let updated = meta.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    let mut row = SessionRow {
        id,
        created: 0,
        updated: i64::try_from(updated.as_millis()).ok()?,
        workspace: String::new(),
        model: String::new(),
        first_input: None,
        aside: None,
        bytes: meta.len(),
    };
    let mut lines = Lines::new(file, MAX_LINE_BYTES);
    for _ in 0..ROW_LINES {
        let entry = match lines.next() {
            Ok(Some(Line::Whole(line) | Line::Torn(line))) => Entry::parse_line(line),
            Ok(Some(Line::TooLong(_))) => continue,
            Ok(None) | Err(_) => break,
        };
        let Ok(entry) = entry else {
            continue;
        };
        match entry.body {
            Body::Session {
                workspace, model, ..
            } => {
                row.created = entry.time;
                row.workspace = workspace;
                row.model = model;
            }
            Body::Aside { by } => row.aside = Some(by),
            Body::TurnStart { input, .. } => {
                row.first_input = Some(input);
                break;
            }
            _ => {}
        }
    }
    Some(row)
}
