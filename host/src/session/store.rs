//! The store of all sessions of a user: creates, finds, lists, forks and reads them.
//!
//! Owns the meaning of session ids as the user gives them: a full id, a unique prefix, `last`, or
//! `ID/agents/AGENT` for a subagent. Reading and listing take no lock, so they also work while
//! another process writes to the session. A file that cannot be parsed as a session must not fail
//! the list.
//!
//! The module must not know the meaning of entries beyond the rows and summaries that it returns.
//! Start from [`SessionStore`].

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::UNIX_EPOCH;

use super::entry::{Body, Entry, SESSION_FORMAT_VERSION};
use super::guarded::{
    self, LimitedFileLine, LimitedLineReader, MAX_SESSION_LINE_BYTES, is_assignable_session_id,
    is_session_id,
};
use super::head::SessionSummary;
use super::live::Session;
use super::log::SESSION_FILE_NAME;
use super::storage::files::FileSessionBackend;
use super::storage::{BlobKind, Blobs, FramePosition, SessionAddress, SessionListItem, Sessions};
use super::{Error, SessionSpec};

/// Maximum number of lines that are read per session for the list: the first input is near the top.
const MAX_LINES_READ_FOR_LISTING: usize = 64;

/// Number of sessions that one request to a store lists (a page).
const SESSIONS_PER_LIST_PAGE: usize = 500;

/// All sessions of a user, in the files of a folder or in another store. Holds no file open.
#[derive(Clone, Debug)]
pub struct SessionStore {
    sessions: Arc<dyn Sessions>,
    /// Same store as `sessions`, if it keeps sessions in files; `None` otherwise.
    files: Option<FileSessionBackend>,
    /// Summaries of sessions that the last call of [`SessionStore::list_session_summaries`]
    /// returned, if the store keeps no files.
    kept_heads: SessionSummaryCache,
}

/// Cached summaries of sessions, by session id.
type SessionSummaryCache = Arc<Mutex<BTreeMap<String, SessionSummary>>>;

/// Summary of one session in [`SessionStore::list`].
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
    /// Name of the program's command that opened the session for its own purpose; such a session is
    /// never resolved as `last`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aside: Option<String>,
    /// Length of the session file, in bytes.
    pub bytes: u64,
}

/// Workspace of a session, and the provider and model of its last use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionWorkspaceAndModel {
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
        Self::from_files(FileSessionBackend::new(root))
    }

    /// Creates a session store on a backend that does not keep sessions in files. Operations that
    /// need files, such as search and repair, fail with [`Error::NotFiles`].
    #[must_use]
    pub fn with_backend(sessions: Arc<dyn Sessions>) -> Self {
        Self {
            sessions,
            files: None,
            kept_heads: SessionSummaryCache::default(),
        }
    }

    pub(super) fn from_files(files: FileSessionBackend) -> Self {
        Self {
            sessions: Arc::new(files.clone()),
            files: Some(files),
            kept_heads: SessionSummaryCache::default(),
        }
    }

    /// Configures the store to create sessions without waiting until their data is on the disk. Use
    /// this for sessions that are removed when the host ends: a power failure may lose their last
    /// entries. Has no effect on a store without files.
    #[must_use]
    pub fn without_disk_sync(self) -> Self {
        match self.files {
            Some(files) => Self::from_files(files.without_disk_sync()),
            None => self,
        }
    }

    /// Returns the underlying store.
    #[must_use]
    pub fn session_backend(&self) -> &Arc<dyn Sessions> {
        &self.sessions
    }

    pub(super) fn cached_session_summaries(&self) -> &Mutex<BTreeMap<String, SessionSummary>> {
        &self.kept_heads
    }

    /// Returns the underlying store if it keeps files, and an error otherwise.
    pub(super) fn require_file_backend(&self) -> Result<&FileSessionBackend, Error> {
        let not_files = || Error::NotFiles {
            store: self.sessions.name(),
        };
        self.files.as_ref().ok_or_else(not_files)
    }

    /// Returns the ids of all folders in the store that may be sessions, sorted.
    pub fn session_ids(&self) -> Result<Vec<String>, Error> {
        Ok(self
            .session_folders()?
            .into_iter()
            .map(|(id, _)| id)
            .collect())
    }

    /// Returns the folders of all sessions with their ids, sorted by id.
    pub(super) fn session_folders(&self) -> Result<Vec<(String, PathBuf)>, Error> {
        self.require_file_backend()?.list_session_folders()
    }

    /// Returns the address of a session, or of a subagent as `ID/agents/AGENT`.
    pub(super) fn session_address(&self, id: &str) -> Result<SessionAddress, Error> {
        SessionAddress::parse(id).ok_or_else(|| self.session_not_found_error(id))
    }

    /// Creates a session.
    pub fn create(&self, spec: &SessionSpec) -> Result<Session, Error> {
        self.create_with_id(&crate::clock::new_session_id(), spec)
    }

    /// Creates a session with an id that the caller chose. The id must be new.
    pub fn create_with_id(&self, id: &str, spec: &SessionSpec) -> Result<Session, Error> {
        let address = parse_new_session_id(id)?;
        Session::create(None, address, self.sessions.clone(), spec)
    }

    /// Opens the session with this id, or creates it.
    pub(crate) fn open_or_create(&self, id: &str, spec: &SessionSpec) -> Result<Session, Error> {
        let address = parse_new_session_id(id)?;
        match self.sessions.contains(&address) {
            true => Session::open(address, self.sessions.clone(), spec),
            false => Session::create(None, address, self.sessions.clone(), spec),
        }
    }

    /// Returns the summary of the session with this full id. A store of files reads only this
    /// session.
    pub(crate) fn find_session_row(&self, id: &str) -> Option<SessionRow> {
        if !is_session_id(id) {
            return None;
        }
        match &self.files {
            Some(files) => summarize_session_file(
                id.to_owned(),
                &files.root_folder().join(id).join(SESSION_FILE_NAME),
            ),
            None => self.list().ok()?.into_iter().find(|row| row.id == id),
        }
    }

    /// Opens a session to continue it. `id` must be a full id, as
    /// [`SessionStore::resolve_session_id`] returns it.
    pub fn resume(&self, id: &str, spec: &SessionSpec) -> Result<Session, Error> {
        Session::open(self.session_address(id)?, self.sessions.clone(), spec)
    }

    /// Returns all sessions, the most recently written first. Skips folders that do not contain a
    /// session.
    pub fn list(&self) -> Result<Vec<SessionRow>, Error> {
        let mut rows = match &self.files {
            Some(files) => {
                let folders = files.list_session_folders()?.into_iter();
                let rows = folders.filter_map(|(id, folder)| {
                    summarize_session_file(id, &folder.join(SESSION_FILE_NAME))
                });
                rows.collect()
            }
            None => self.list_non_file_backend_sessions()?,
        };
        rows.sort_by(|a, b| (b.updated, &b.id).cmp(&(a.updated, &a.id)));
        Ok(rows)
    }

    /// Returns the summaries of all sessions of a store that keeps no files.
    fn list_non_file_backend_sessions(&self) -> Result<Vec<SessionRow>, Error> {
        let mut rows = Vec::new();
        for listed in self.list_valid_sessions()? {
            let lines = self
                .sessions
                .read(&self.session_address(&listed.id)?, FramePosition::START)?;
            rows.push(build_session_row(listed, &lines[..]));
        }
        Ok(rows)
    }

    /// Lists the sessions that have a valid id, page by page.
    pub(super) fn list_valid_sessions(&self) -> Result<Vec<SessionListItem>, Error> {
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let page = self
                .sessions
                .list(after.as_deref(), SESSIONS_PER_LIST_PAGE)?;
            let named = page.sessions.into_iter();
            all.extend(named.filter(|listed| SessionAddress::parse(&listed.id).is_some()));
            after = page.next;
            if after.is_none() {
                return Ok(all);
            }
        }
    }

    /// Checks that there is a session of this full id, or of a subagent as `ID/agents/AGENT`.
    ///
    /// # Errors
    /// There is no such session.
    pub fn check_session_exists(&self, id: &str) -> Result<(), Error> {
        match self.sessions.contains(&self.session_address(id)?) {
            true => Ok(()),
            false => Err(self.session_not_found_error(id)),
        }
    }

    /// Returns the id of the session whose id equals `wanted`, or of the only one whose id starts
    /// with it. `last` is the most recently written session that is not an aside (see
    /// [`SessionRow::aside`]).
    pub fn resolve_session_id(&self, wanted: &str) -> Result<String, Error> {
        // Skip the list for a full id, because the list reads the beginning of every session.
        let full = SessionAddress::parse(wanted).filter(|_| is_assignable_session_id(wanted));
        if full.is_some_and(|at| self.sessions.contains(&at) && self.is_regular_session_file(&at)) {
            return Ok(wanted.to_owned());
        }
        let mut rows = self.list()?;
        if wanted == "last" {
            rows.retain(|row| row.aside.is_none());
            rows.truncate(1);
            let last = rows.pop().map(|row| row.id);
            return last.ok_or_else(|| self.session_not_found_error(wanted));
        }
        let mut ids: Vec<String> = rows.into_iter().map(|row| row.id).collect();
        ids.retain(|id| !wanted.is_empty() && id.starts_with(wanted));
        if let Some(exact) = ids.iter().find(|id| *id == wanted) {
            return Ok(exact.clone());
        }
        match ids.len() {
            0 | 1 => ids
                .pop()
                .ok_or_else(|| self.session_not_found_error(wanted)),
            _ => Err(Error::Ambiguous {
                wanted: wanted.to_owned(),
                found: ids,
            }),
        }
    }

    /// Whether the folder and the file of a session are not symlinks but a real folder and a
    /// regular file. Returns true if the store keeps no files.
    fn is_regular_session_file(&self, at: &SessionAddress) -> bool {
        let Some(folder) = self.sessions.folder(at) else {
            return true;
        };
        let is_kind = |path: &Path, is_one: fn(&std::fs::Metadata) -> bool| {
            path.symlink_metadata().is_ok_and(|about| is_one(&about))
        };
        is_kind(&folder, std::fs::Metadata::is_dir)
            && is_kind(
                &folder.join(super::log::SESSION_FILE_NAME),
                std::fs::Metadata::is_file,
            )
    }

    /// Resolves like [`SessionStore::resolve_session_id`], except that `last` is the last session
    /// of the folder `workspace`.
    pub fn resolve_session_id_in_workspace(
        &self,
        wanted: &str,
        workspace: &Path,
    ) -> Result<String, Error> {
        if wanted != "last" {
            return self.resolve_session_id(wanted);
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
                root: self.sessions.name().into(),
            }),
        }
    }

    pub(super) fn session_not_found_error(&self, wanted: &str) -> Error {
        Error::Unknown {
            wanted: wanted.to_owned(),
            root: self.sessions.name().into(),
        }
    }

    /// Returns the workspace of a session, and the provider and model of its last use. Reads the
    /// whole file but parses only the relevant lines.
    pub fn read_workspace_and_model(&self, id: &str) -> Result<SessionWorkspaceAndModel, Error> {
        let mut about = SessionWorkspaceAndModel {
            id: id.to_owned(),
            workspace: PathBuf::new(),
            provider: String::new(),
            model: String::new(),
        };
        for entry in self.find_entries_with_text(id, &[b"\"session\"", b"\"resumed\""])? {
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
                Body::Resumed {
                    provider, model, ..
                } => {
                    (about.provider, about.model) = (provider, model);
                }
                _ => {}
            }
        }
        Ok(about)
    }

    /// Returns the entries of a session whose lines contain one of `texts`. Searching the bytes
    /// first avoids parsing most lines.
    fn find_entries_with_text(&self, id: &str, texts: &[&[u8]]) -> Result<Vec<Entry>, Error> {
        let bytes = self
            .sessions
            .read(&self.session_address(id)?, FramePosition::START)?;
        let holds = |line: &[u8], text: &[u8]| line.windows(text.len()).any(|part| part == text);
        let lines = bytes.split(|byte| *byte == b'\n');
        let matching = lines.filter(|line| texts.iter().any(|text| holds(line, text)));
        Ok(matching
            .filter_map(|line| Entry::parse_line(line).ok())
            .collect())
    }

    /// Resolves like [`SessionStore::resolve_session_id_in_workspace`] and also accepts
    /// `ID/agents/AGENT`, the session of a subagent, which can only be read.
    pub fn resolve_session_or_subagent_id(
        &self,
        wanted: &str,
        workspace: &Path,
    ) -> Result<String, Error> {
        let Some((id, below)) = wanted.split_once('/') else {
            return self.resolve_session_id_in_workspace(wanted, workspace);
        };
        let id = self.resolve_session_id_in_workspace(id, workspace)?;
        let found = SessionAddress::parse(&format!("{id}/{below}"));
        if let Some(found) = found.filter(|at| self.sessions.contains(at)) {
            return Ok(found.as_str().to_owned());
        }
        Err(self.session_not_found_error(wanted))
    }

    /// Returns the text with this blob id that a session, or the session of a subagent, refers to.
    pub fn read_text_blob(&self, session: &str, id: &str) -> Result<String, Error> {
        let blobs = self.message_blobs_of_session(session)?;
        String::from_utf8(blobs.get(id)?).map_err(|_| blobs.damaged_blob_error(id))
    }

    /// Returns the bytes with this blob id that a message of a session or of a subagent refers to.
    /// Fails if they are missing or corrupt.
    pub fn read_binary_blob(&self, session: &str, id: &str) -> Result<Vec<u8>, Error> {
        self.message_blobs_of_session(session)?.get(id)
    }

    /// Returns the blobs of messages. Blobs of subagents are stored with the root session.
    fn message_blobs_of_session(&self, session: &str) -> Result<Arc<dyn Blobs>, Error> {
        let root = self.session_address(self.session_address(session)?.root_session_id())?;
        Ok(self.sessions.blobs(&root, BlobKind::Content))
    }

    /// Returns every readable entry of a session, and notices about the unreadable ones. Does not
    /// open the session for writing.
    pub fn read_entries(&self, id: &str) -> Result<(Vec<Entry>, Vec<String>), Error> {
        read_entries(
            &*self.sessions,
            &self.session_address(id)?,
            FramePosition::START,
        )
    }
}

/// Checks the id of a new session, and returns the address of the session.
pub(super) fn parse_new_session_id(id: &str) -> Result<SessionAddress, Error> {
    let address = SessionAddress::parse(id).filter(|_| is_assignable_session_id(id));
    address.ok_or_else(|| Error::InvalidId { id: id.to_owned() })
}

/// Returns a path that stands for the lines of a session in messages: its file, or store name and
/// address if the store has no files.
pub(super) fn session_display_path(store: &dyn Sessions, at: &SessionAddress) -> PathBuf {
    let file = store
        .folder(at)
        .map(|folder| folder.join(SESSION_FILE_NAME));
    file.unwrap_or_else(|| Path::new(&store.name()).join(at.as_str()))
}

/// Returns the entries of a session from a position on, and notices about unreadable lines.
pub(super) fn read_entries(
    store: &dyn Sessions,
    at: &SessionAddress,
    from: FramePosition,
) -> Result<(Vec<Entry>, Vec<String>), Error> {
    parse_session_entries(&session_display_path(store, at), &store.read(at, from)?)
}

/// Parses the lines of a file. A line that cannot be parsed is skipped with a notice and stays in
/// the file, so that a person can inspect it.
pub(super) fn parse_session_entries(
    path: &Path,
    bytes: &[u8],
) -> Result<(Vec<Entry>, Vec<String>), Error> {
    let (mut entries, mut notices) = (Vec::new(), Vec::new());
    for (number, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        match Entry::parse_line(line) {
            Ok(entry) => {
                if let Body::Session { version: found, .. } = entry.body
                    && found > SESSION_FORMAT_VERSION
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

/// Returns the row of a session whose lines are in a file.
fn summarize_session_file(id: String, path: &Path) -> Option<SessionRow> {
    let (file, meta) = guarded::open_regular_file(path).ok()?;
    let updated = meta.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    let listed = SessionListItem {
        id,
        updated: i64::try_from(updated.as_millis()).ok()?,
        bytes: meta.len(),
    };
    Some(build_session_row(listed, file))
}

fn build_session_row(listed: SessionListItem, lines: impl Read) -> SessionRow {
    let mut row = SessionRow {
        id: listed.id,
        created: 0,
        updated: listed.updated,
        workspace: String::new(),
        model: String::new(),
        first_input: None,
        aside: None,
        bytes: listed.bytes,
    };
    let mut lines = LimitedLineReader::new(lines, MAX_SESSION_LINE_BYTES);
    for _ in 0..MAX_LINES_READ_FOR_LISTING {
        let entry = match lines.next() {
            Ok(Some(LimitedFileLine::Whole(line) | LimitedFileLine::Torn(line))) => {
                Entry::parse_line(line)
            }
            Ok(Some(LimitedFileLine::TooLong(_))) => continue,
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
    row
}
