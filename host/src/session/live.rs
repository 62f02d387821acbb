//! An open session: the one writer of its file, and what the file adds up to.
//!
//! Every entry goes through one function that writes it first and takes it into memory after, so the two never differ.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use serde_json::Value;

use super::blobs::Blobs;
use super::children::Child;
use super::entry::{
    Body, DueTurn, Entry, LastingSkill, RememberedSkill, Report, ReportLine, VERSION,
};
use super::log::{FILE, Log};
use super::state::States;
use super::synced::Unsynced;
use super::transcript::Transcript;
use super::undo::{self, Undone};
use super::{Error, SessionSpec};
use crate::lock::lock;
use crate::message::Message;

/// Result that the model sees when the host stopped before a call had a result.
const INTERRUPTED: &str =
    "[interrupted: the session ended before this call had a result; it may or may not have run]";

/// An open session. All methods take `&self`: the agent, the trace sink and plugins' handles share it.
///
/// Writing is synchronous: a line is some hundred bytes and goes to the page cache. [`Session::sync`] waits for the disk and
/// is called before anything is changed because of what was written; as all entries are in one file, it covers everything
/// written before.
pub struct Session {
    id: Arc<str>,
    folder: PathBuf,
    is_resumed: bool,
    notices: Vec<String>,
    blobs: Blobs,
    inner: Mutex<Inner>,
}

struct Inner {
    log: Log,
    transcript: Transcript,
    states: States,
    last_entry: Option<String>,
    /// Failure of a write that no caller could receive; the next sync returns it.
    deferred: Option<Error>,
}

impl Session {
    /// Makes the files of a new session, of a subagent below `parent` where one is given. The folder is there and empty.
    pub(super) fn create(
        parent: Option<&str>,
        id: &str,
        folder: &Path,
        spec: &SessionSpec,
    ) -> Result<Self, Error> {
        let session = Self::over(Log::create(folder)?, id, folder);
        session.append(header(spec, parent))?;
        session.sync()?;
        Ok(session)
    }

    /// A session in `folder` with nothing in it.
    fn over(log: Log, id: &str, folder: &Path) -> Self {
        Self {
            id: id.into(),
            folder: folder.to_owned(),
            is_resumed: false,
            notices: Vec::new(),
            blobs: Blobs::new(folder),
            inner: Mutex::new(Inner {
                log,
                transcript: Transcript::default(),
                states: States::new(folder),
                last_entry: None,
                deferred: None,
            }),
        }
    }

    /// Opens the files of a session: repairs the end of the file, reads every valid entry, and closes the calls that an
    /// interrupted turn left open.
    pub(super) fn open(id: &str, folder: &Path, spec: &SessionSpec) -> Result<Self, Error> {
        let opened = Log::open(folder)?;
        let path = folder.join(FILE);
        let (entries, unreadable) = super::store::parse(&path, &opened.bytes)?;
        let mut session = Self::over(opened.log, id, folder);
        session.is_resumed = true;
        let mut notices = opened.notices;
        notices.extend(unreadable);
        let mut inner = session.lock();
        for entry in entries {
            inner.take_in(&entry.body);
            inner.last_entry = Some(entry.id);
        }
        notices.extend(inner.transcript.mend());
        let open = inner.transcript.open_calls();
        if !open.is_empty() {
            let names: Vec<&str> = open.iter().map(|call| call.name.as_str()).collect();
            notices.push(format!(
                "the previous run ended without a result of {}; its actions may be incomplete or still running",
                names.join(", ")
            ));
        }
        let first = if inner.transcript.has_header {
            Body::Resumed {
                provider: spec.provider.clone(),
                model: spec.model.clone(),
            }
        } else {
            header(spec, None)
        };
        inner.append(first)?;
        drop(inner);
        session.notices = notices;
        session.cut_turn(INTERRUPTED)?;
        session.sync()?;
        Ok(session)
    }

    /// Returns the id of the session.
    #[must_use]
    pub fn id(&self) -> &Arc<str> {
        &self.id
    }

    /// The folder that holds its files; a plugin's large outputs may be put beside them.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The bytes that its messages refer to; those of a subagent's messages are with the session at the top.
    #[must_use]
    pub fn blobs(&self) -> &Blobs {
        &self.blobs
    }

    /// Whether it was resumed from an earlier run.
    #[must_use]
    pub fn is_resumed(&self) -> bool {
        self.is_resumed
    }

    /// Returns what was repaired or left out when the session was opened, as messages for the user.
    #[must_use]
    pub fn notices(&self) -> &[String] {
        &self.notices
    }

    /// Writes an entry and takes it in. After an error nothing of it is in the file or in memory.
    pub fn append(&self, body: Body) -> Result<(), Error> {
        self.lock().append(body)
    }

    /// Appends entries of another session unchanged.
    pub(super) fn append_copies(&self, entries: Vec<Entry>) -> Result<(), Error> {
        let mut inner = self.lock();
        for entry in entries {
            let parent = inner.last_entry.clone();
            inner.put(Entry { parent, ..entry })?;
        }
        Ok(())
    }

    /// Appends like [`Session::append`], for callers that cannot handle an error: the next [`Session::sync`] returns it.
    pub fn append_or_defer(&self, body: Body) {
        let mut inner = self.lock();
        let written = inner.append(body);
        inner.defer(written);
    }

    /// Writes what a plugin did, with the next entry or the next sync. An error is deferred as well.
    pub fn report(&self, report: &Report<'_>) {
        let mut inner = self.lock();
        let written = inner.report(report);
        inner.defer(written);
    }

    /// Returns once everything written so far is on the disk. Others can go on writing meanwhile.
    pub fn sync(&self) -> Result<(), Error> {
        if let Some(lines) = self.unsynced()? {
            lines.sync();
        }
        self.lock().log.check()
    }

    /// [Waits](Self::sync) for the disk on a thread of its own, so that nobody else is held up.
    pub async fn synced(&self) -> Result<(), Error> {
        if let Some(lines) = self.unsynced()? {
            // A panic there is told as what it leads to: the lines are not known to be on the disk.
            let _ = tokio::task::spawn_blocking(move || lines.sync()).await;
        }
        self.lock().log.check()
    }

    /// Returns the data that a power cut could still lose, to be synced while others continue; `None` when there is none. That
    /// it failed is told by the next write or sync.
    pub(crate) fn unsynced(&self) -> Result<Option<Unsynced>, Error> {
        let mut inner = self.lock();
        if let Some(error) = inner.deferred.take() {
            return Err(error);
        }
        inner.log.unsynced()
    }

    /// The whole conversation, oldest first.
    #[must_use]
    pub fn messages(&self) -> Vec<Message> {
        self.lock().transcript.messages.clone()
    }

    /// The last `n` messages, oldest first.
    #[must_use]
    pub fn last_messages(&self, n: usize) -> Vec<Message> {
        let inner = self.lock();
        let messages = &inner.transcript.messages;
        let from = messages.len().saturating_sub(n);
        messages.get(from..).unwrap_or_default().to_vec()
    }

    /// Whether the conversation has the result of this call.
    pub(crate) fn has_result(&self, call: &str) -> bool {
        let inner = self.lock();
        let mut newest_first = inner.transcript.messages.iter().rev();
        newest_first.any(|message| message.has_result(call))
    }

    /// Number of messages in the conversation.
    #[must_use]
    pub fn n_messages(&self) -> usize {
        self.lock().transcript.messages.len()
    }

    /// Number of the last turn that started; 0 before the first.
    #[must_use]
    pub fn turn(&self) -> u32 {
        self.lock().transcript.turn
    }

    /// Length of the file, in bytes: where the next entry will be.
    pub(crate) fn end(&self) -> u64 {
        self.lock().log.len()
    }

    /// Subagents that have a session of their own below this one, oldest first.
    #[must_use]
    pub fn children(&self) -> Vec<Child> {
        self.lock().transcript.children.clone()
    }

    /// Finished turns that are to be archived, oldest first.
    #[must_use]
    pub fn archival_due(&self) -> Vec<DueTurn> {
        self.lock().transcript.due.values().cloned().collect()
    }

    /// Returns the skills that stay active from turn to turn, oldest first.
    #[must_use]
    pub fn lasting_skills(&self) -> Vec<LastingSkill> {
        self.lock().transcript.skills.clone()
    }

    /// Returns what the session remembers of skills, oldest first.
    #[must_use]
    pub fn remembered_skills(&self) -> Vec<RememberedSkill> {
        self.lock().transcript.remembered.clone()
    }

    /// Gives every call of the last assistant message that has no result the one whose message is in `known`, or an error result
    /// that says `why`. Returns the messages that were added.
    pub fn close_calls(&self, known: &[Message], why: &str) -> Result<Vec<Message>, Error> {
        let mut inner = self.lock();
        if inner.transcript.open_calls().is_empty() {
            return Ok(Vec::new());
        }
        inner.cut(known, why)
    }

    /// Marks a turn that started and never ended as cut, and closes its calls. Nothing happens when the last turn ended.
    pub fn cut_turn(&self, why: &str) -> Result<Vec<Message>, Error> {
        let mut inner = self.lock();
        if !inner.transcript.is_turn_open && inner.transcript.open_calls().is_empty() {
            return Ok(Vec::new());
        }
        inner.cut(&[], why)
    }

    /// Takes the last turn that has messages out of the conversation; `entries` are all that are in the file. `None` when there
    /// is none.
    ///
    /// # Errors
    /// A part of the turn was replaced by a summary, or the file cannot be written.
    pub fn undo(&self, entries: &[Entry]) -> Result<Option<Undone>, Error> {
        let mut inner = self.lock();
        let Some(last) = undo::last_turn(entries, &inner.transcript.messages)? else {
            return Ok(None);
        };
        inner.append(Body::Replaced {
            reason: undo::REASON.to_owned(),
            removed: last.messages,
            messages: Vec::new(),
            holder: None,
        })?;
        if let Some(due) = inner.transcript.due.get(&last.turn).cloned() {
            inner.append(Body::Archival {
                turn: due.turn,
                reason: due.reason,
                tries: due.tries,
                is_over: true,
            })?;
        }
        Ok(Some(last.undone))
    }

    /// A value of a plugin's session state.
    pub fn state_get(&self, plugin: &str, key: &str) -> Result<Option<String>, Error> {
        self.lock().states.get(plugin, key)
    }

    /// Sets (`Some`) or removes (`None`) a value of a plugin's session state.
    pub fn state_set(&self, plugin: &str, key: &str, value: Option<&str>) -> Result<(), Error> {
        let mut inner = self.lock();
        let Some(body) = inner.states.prepare(plugin, key, value)? else {
            return Ok(());
        };
        inner.append(body)
    }

    /// Keys of a plugin's session state that start with `prefix`, sorted.
    #[must_use]
    pub fn state_keys(&self, plugin: &str, prefix: &str) -> Vec<String> {
        self.lock().states.keys(plugin, prefix)
    }

    /// Keeps an entry of a plugin's own.
    pub fn append_custom(&self, plugin: &str, name: &str, value: Value) -> Result<(), Error> {
        let mut inner = self.lock();
        let bytes = name.len() + value.to_string().len();
        inner.states.count(plugin, bytes)?;
        inner.append(Body::Custom {
            plugin: plugin.to_owned(),
            name: name.to_owned(),
            value,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A panic elsewhere cannot leave the file and the memory apart: the entry is taken in right after it is written.
        lock(&self.inner)
    }
}

impl Inner {
    fn append(&mut self, body: Body) -> Result<(), Error> {
        self.put(Entry {
            id: crate::clock::new_id(),
            parent: self.last_entry.clone(),
            time: crate::clock::now_ms(),
            body,
        })
    }

    fn put(&mut self, entry: Entry) -> Result<(), Error> {
        self.log.append(&entry.line()?)?;
        let unused = self.take_in(&entry.body);
        self.last_entry = Some(entry.id);
        if let Some(blob) = unused {
            // The new value must be on the disk before the old one goes.
            self.log.sync()?;
            self.states.remove_blob(&blob);
        }
        Ok(())
    }

    fn defer(&mut self, written: Result<(), Error>) {
        if let Err(error) = written {
            self.deferred.get_or_insert(error);
        }
    }

    /// The conversation and the states do not depend on reports.
    fn report(&mut self, report: &Report<'_>) -> Result<(), Error> {
        let line = ReportLine {
            id: crate::clock::new_id(),
            parent: self.last_entry.as_deref(),
            time: crate::clock::now_ms(),
            report,
        };
        self.log.append_with_next(&super::entry::line(&line)?)?;
        self.last_entry = Some(line.id);
        Ok(())
    }

    fn cut(&mut self, known: &[Message], why: &str) -> Result<Vec<Message>, Error> {
        let open = self.transcript.open_calls();
        self.append(Body::Cut {
            turn: self.transcript.turn,
            reason: why.to_owned(),
            calls: open.iter().map(|call| call.id.clone()).collect(),
        })?;
        let mut added = Vec::with_capacity(open.len());
        for call in &open {
            let is_of_call =
                |message: &&Message| message.tool_results().any(|own| own.call_id == call.id);
            let message = known.iter().find(is_of_call).cloned();
            let message = message.unwrap_or_else(|| Message::result(call.result(why, true)));
            self.append(Body::Message {
                message: message.clone(),
            })?;
            added.push(message);
        }
        Ok(added)
    }

    fn take_in(&mut self, body: &Body) -> Option<String> {
        self.transcript.apply(body);
        self.states.apply(body)
    }
}

debug_some!(Session, self, id = self.id, folder = self.folder);

fn header(spec: &SessionSpec, parent: Option<&str>) -> Body {
    Body::Session {
        version: VERSION,
        workspace: spec.workspace.display().to_string(),
        provider: spec.provider.clone(),
        model: spec.model.clone(),
        parent_session: parent.map(str::to_owned),
    }
}

#[cfg(test)]
mod tests;
