//! Implements an open session: the only writer of its file, and the state of its entries.
//!
//! An entry is first appended to the file and then applied to the in-memory state, so that both
//! agree. Reports and small changes may wait in a buffer for the next entry, and an entry that must
//! not be lost is applied even if it cannot be written yet (see `held`).
//!
//! This module must not know the agent loop or the meaning of messages. Start from [`Session`].

mod append;
mod earlier;
mod held;

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

use held::UnwrittenSessionLines;
use serde_json::Value;

use super::blobs::SessionBlobs;
use super::children::SubagentSession;
use super::entry::{Body, Entry, PluginActionReport, SESSION_FORMAT_VERSION, TurnDueForArchiving};
use super::interrupted::{InterruptedTurn, TurnForInputId};
use super::state::PluginSessionStates;
use super::storage::{BlobKind, FramePosition, Journal, SessionAddress, Sessions, UnsyncedFrames};
use super::transcript::SessionTranscript;
use super::undo::{self, UndoneTurn};
use super::{Error, SessionSpec};
use crate::lock::lock_ignoring_poison;
use crate::message::Message;

/// Reason in the [`Body::Cut`] entry of a turn: the program stopped, or dropped the turn's future.
const CUT_OFF_TURN_REASON: &str = "the turn was cut off";

/// An open session, the only writer of its file. All methods take `&self`: the agent, the trace
/// sink and the handles of plugins share one session.
///
/// A write is synchronous, because a line is a few hundred bytes and goes to the page cache.
/// [`Session::sync`] waits for the disk. Call it before any action that relies on the entries
/// written so far; since all entries are in one file, one sync covers them all.
pub struct Session {
    address: SessionAddress,
    store: Arc<dyn Sessions>,
    is_resumed: bool,
    notices: Vec<String>,
    blobs: SessionBlobs,
    inner: Mutex<OpenSessionState>,
}

struct OpenSessionState {
    journal: Box<dyn Journal>,
    transcript: SessionTranscript,
    states: PluginSessionStates,
    last_entry: Option<String>,
    /// Write error that no caller could receive. The next sync returns it.
    deferred: Option<Error>,
    held: UnwrittenSessionLines,
    /// Status lines that plugins set and that are not in the file yet, by plugin.
    statuses: BTreeMap<String, String>,
}

impl Session {
    /// Creates a session. `parent` is the id of the parent session if this is a subagent's session.
    pub(super) fn create(
        parent: Option<&str>,
        address: SessionAddress,
        store: Arc<dyn Sessions>,
        spec: &SessionSpec,
    ) -> Result<Self, Error> {
        let journal = store.create(&address)?;
        let session = Self::new_without_entries(journal, address, store);
        session.append(build_first_entry_body(spec, parent))?;
        session.sync()?;
        Ok(session)
    }

    /// Returns an open session without entries in memory, which writes to `journal`.
    fn new_without_entries(
        journal: Box<dyn Journal>,
        address: SessionAddress,
        store: Arc<dyn Sessions>,
    ) -> Self {
        let states = PluginSessionStates::new(store.blobs(&address, BlobKind::State));
        Self {
            is_resumed: false,
            notices: Vec::new(),
            blobs: SessionBlobs::new(store.blobs(&address, BlobKind::Content)),
            inner: Mutex::new(OpenSessionState {
                journal,
                transcript: SessionTranscript::default(),
                states,
                last_entry: None,
                deferred: None,
                held: UnwrittenSessionLines::default(),
                statuses: BTreeMap::new(),
            }),
            address,
            store,
        }
    }

    /// Opens a session: repairs the end of its file, applies every valid entry, and adds results
    /// for the open calls of an interrupted turn.
    pub(super) fn open(
        address: SessionAddress,
        store: Arc<dyn Sessions>,
        spec: &SessionSpec,
    ) -> Result<Self, Error> {
        let opened = store.open(&address)?;
        let name = super::store::session_display_path(&*store, &address);
        let (entries, unreadable) = super::store::parse_session_entries(&name, &opened.lines)?;
        let mut session = Self::new_without_entries(opened.journal, address, store);
        session.is_resumed = true;
        let mut notices = opened.notices;
        notices.extend(unreadable);
        let mut inner = session.lock_state();
        for entry in entries {
            inner.apply_entry_in_memory(&entry.body);
            inner.last_entry = Some(entry.id);
        }
        notices.extend(inner.transcript.repair_call_pairing());
        let open = inner.transcript.calls_without_result();
        if !open.is_empty() {
            let names: Vec<&str> = open.iter().map(|call| call.name.as_str()).collect();
            notices.push(format!(
                "the previous run ended before these tool calls had a result: {}; their actions may be incomplete or still running",
                names.join(", ")
            ));
        }
        let first = if inner.transcript.has_header {
            Body::Resumed {
                provider: spec.provider.clone(),
                model: spec.model.clone(),
                is_switch: false,
            }
        } else {
            build_first_entry_body(spec, None)
        };
        inner.append_entry_with_body(first)?;
        drop(inner);
        session.notices = notices;
        session.close_interrupted_turn()?;
        session.sync()?;
        Ok(session)
    }

    /// Returns the id of the session.
    #[must_use]
    pub fn id(&self) -> &Arc<str> {
        self.address.as_shared_str()
    }

    /// Returns the address of the session in its store.
    #[must_use]
    pub fn storage_address(&self) -> &SessionAddress {
        &self.address
    }

    /// Returns the store that keeps the session.
    #[must_use]
    pub fn session_backend(&self) -> &Arc<dyn Sessions> {
        &self.store
    }

    /// Returns the folder for files about the session that only this machine needs; `None` if the
    /// store keeps none.
    #[must_use]
    pub fn local_folder(&self) -> Option<PathBuf> {
        self.store.folder(&self.address)
    }

    /// Returns the blobs that the messages refer to. Blobs of a subagent's messages are stored with
    /// the root session.
    #[must_use]
    pub fn blobs(&self) -> &SessionBlobs {
        &self.blobs
    }

    /// Whether the session was resumed from an earlier run.
    #[must_use]
    pub fn is_resumed(&self) -> bool {
        self.is_resumed
    }

    /// Returns the notices about repairs and skipped entries from opening the session, as messages
    /// for the user.
    #[must_use]
    pub fn notices(&self) -> &[String] {
        &self.notices
    }

    /// Appends an entry to the file and applies it to the in-memory state. If the write fails,
    /// neither of them contains the entry.
    pub fn append(&self, body: Body) -> Result<(), Error> {
        self.lock_state().append_entry_with_body(body)
    }

    /// Appends entries of another session unchanged, except for their parent ids.
    pub(super) fn append_copied_entries(&self, entries: Vec<Entry>) -> Result<(), Error> {
        let mut inner = self.lock_state();
        for entry in entries {
            let parent = inner.last_entry.clone();
            inner.write_entry(Entry { parent, ..entry })?;
        }
        Ok(())
    }

    /// Appends like [`Session::append`], for callers that cannot handle an error: the next
    /// [`Session::sync`] returns the error.
    pub fn append_or_defer_error(&self, body: Body) {
        let mut inner = self.lock_state();
        let written = inner.append_entry_with_body(body);
        inner.defer_write_error(written);
    }

    /// Appends a report on a plugin's action. The report is written together with the next entry or
    /// at the next sync. A write error is deferred as in [`Session::append_or_defer_error`].
    pub fn append_plugin_report(&self, report: &PluginActionReport<'_>) {
        let mut inner = self.lock_state();
        let written = inner.append_plugin_action_report(report);
        inner.defer_write_error(written);
    }

    /// Blocks until all entries written so far are on the disk. Other threads can append meanwhile.
    pub fn sync(&self) -> Result<(), Error> {
        if let Some(lines) = self.take_unsynced_entries()? {
            lines.wait_for_sync();
        }
        self.lock_state().journal.check()
    }

    /// Waits like [`Session::sync`], on a blocking thread, so that the async executor is not
    /// blocked.
    pub async fn sync_on_blocking_thread(&self) -> Result<(), Error> {
        if let Some(lines) = self.take_unsynced_entries()? {
            let synced = tokio::task::spawn_blocking(move || lines.wait_for_sync()).await;
            if synced.is_err() {
                // The blocking task panicked or was never started: the lines may not be on the
                // disk.
                return self.sync();
            }
        }
        self.lock_state().journal.check()
    }

    /// Returns the entries that a power failure could still lose, to be synced while other threads
    /// append; `None` if all entries are on the disk. If that sync fails, the next write or sync
    /// returns the error.
    pub(crate) fn take_unsynced_entries(&self) -> Result<Option<Box<dyn UnsyncedFrames>>, Error> {
        let mut inner = self.lock_state();
        if let Some(error) = inner.deferred.take() {
            return Err(error);
        }
        inner.retry_unwritten_lines()?;
        inner.journal.take_unsynced()
    }

    /// Returns all messages of the conversation, oldest first.
    #[must_use]
    pub fn messages(&self) -> Vec<Message> {
        self.lock_state().transcript.messages.clone()
    }

    /// Returns the last `n` messages, oldest first.
    #[must_use]
    pub fn last_messages(&self, n: usize) -> Vec<Message> {
        self.inspect_last_messages(n, <[Message]>::to_vec)
    }

    /// Calls `view` with the last `n` messages, oldest first, while the session is locked.
    pub(crate) fn inspect_last_messages<R>(
        &self,
        n: usize,
        view: impl FnOnce(&[Message]) -> R,
    ) -> R {
        let inner = self.lock_state();
        let messages = &inner.transcript.messages;
        let from = messages.len().saturating_sub(n);
        view(messages.get(from..).unwrap_or_default())
    }

    /// Calls `view` with all messages, oldest first, while the session is locked.
    pub(crate) fn inspect_all_messages<R>(&self, view: impl FnOnce(&[Message]) -> R) -> R {
        self.inspect_last_messages(usize::MAX, view)
    }

    /// Whether the conversation contains a result for this call.
    pub(crate) fn has_call_result(&self, call: &str) -> bool {
        let inner = self.lock_state();
        let mut newest_first = inner.transcript.messages.iter().rev();
        newest_first.any(|message| message.has_result_of_call(call))
    }

    /// Returns the number of messages in the conversation.
    #[must_use]
    pub fn n_messages(&self) -> usize {
        self.lock_state().transcript.messages.len()
    }

    /// Returns the number of the last turn that started; 0 before the first.
    #[must_use]
    pub fn last_turn_number(&self) -> u32 {
        self.lock_state().transcript.turn
    }

    /// Returns the length of all entries, in bytes.
    pub(crate) fn total_entry_bytes(&self) -> u64 {
        self.lock_state().journal.bytes()
    }

    /// Returns the position in the session at which the next entry will be appended.
    pub(crate) fn next_entry_position(&self) -> FramePosition {
        self.lock_state().journal.end()
    }

    /// Returns the direct subagents that have a session of their own, oldest first.
    #[must_use]
    pub fn subagents(&self) -> Vec<SubagentSession> {
        self.lock_state().transcript.children.clone()
    }

    /// Returns the finished turns that are due to be archived, in order.
    #[must_use]
    pub fn turns_due_for_archival(&self) -> Vec<TurnDueForArchiving> {
        self.lock_state().transcript.due.values().cloned().collect()
    }

    /// Closes every call of the last assistant message that has no result: appends the message from
    /// `known` with its result or, if there is none, an error result with the text `why`. Returns
    /// the appended messages.
    pub fn close_calls_without_result(
        &self,
        known: &[Message],
        why: &str,
    ) -> Result<Vec<Message>, Error> {
        let mut inner = self.lock_state();
        if inner.transcript.calls_without_result().is_empty() {
            return Ok(Vec::new());
        }
        inner.append_missing_results(known, why, |_| why)
    }

    /// Marks a turn that started and did not end as cut, and closes each open call with a result
    /// that reports whether the call ran. Does nothing if the last turn ended.
    pub fn close_interrupted_turn(&self) -> Result<Vec<Message>, Error> {
        let mut inner = self.lock_state();
        if !inner.transcript.is_turn_open && inner.transcript.calls_without_result().is_empty() {
            return Ok(Vec::new());
        }
        let last = inner.transcript.interrupted.clone();
        inner.append_missing_results(&[], CUT_OFF_TURN_REASON, |call| {
            InterruptedTurn::interrupted_call_result_text(last.as_ref(), &call.id)
        })
    }

    /// Returns the last turn if it was interrupted: it has started and has not ended.
    #[must_use]
    pub fn interrupted_turn(&self) -> Option<InterruptedTurn> {
        self.lock_state().transcript.interrupted.clone()
    }

    /// Returns the input with this id, if the session has accepted one.
    #[must_use]
    pub fn find_turn_for_input_id(&self, input_id: &str) -> Option<TurnForInputId> {
        self.lock_state().transcript.inputs.get(input_id).cloned()
    }

    /// Removes the last turn that still has messages in the conversation; `None` if no turn has
    /// any. `entries` must be all entries of the file.
    ///
    /// # Errors
    /// A part of the turn was replaced by a summary, or the file cannot be written.
    pub fn undo_last_turn(&self, entries: &[Entry]) -> Result<Option<UndoneTurn>, Error> {
        let mut inner = self.lock_state();
        let Some(last) = undo::find_last_turn(entries, &inner.transcript.messages)? else {
            return Ok(None);
        };
        inner.append_entry_with_body(Body::Replaced {
            reason: undo::UNDONE_TURN_REASON.to_owned(),
            removed: last.messages,
            messages: Vec::new(),
            holder: None,
        })?;
        if let Some(due) = inner.transcript.due.get(&last.turn).cloned() {
            inner.append_entry_with_body(Body::Archival {
                turn: due.turn,
                reason: due.reason,
                tries: due.tries,
                is_over: true,
            })?;
        }
        Ok(Some(last.undone))
    }

    /// Removes the messages of `turn` and of all later turns from the conversation, last turn
    /// first. `entries` must be all entries of the file.
    ///
    /// # Errors
    /// A part of one of the turns was replaced by a summary, in which case none is removed, or the
    /// file cannot be written.
    pub fn undo_turns_since(&self, entries: &[Entry], turn: u32) -> Result<Vec<UndoneTurn>, Error> {
        let planned = self.turns_to_rewind(entries, turn)?;
        for _ in &planned {
            self.undo_last_turn(entries)?;
        }
        Ok(planned)
    }

    /// Returns the turns that [`undo_turns_since`](Self::undo_turns_since) removes, the last one
    /// first.
    ///
    /// # Errors
    /// A part of one of the turns was replaced by a summary.
    pub fn turns_to_rewind(&self, entries: &[Entry], turn: u32) -> Result<Vec<UndoneTurn>, Error> {
        let mut conversation = self.messages();
        let mut turns = Vec::new();
        while let Some(last) = undo::find_last_turn(entries, &conversation)? {
            if last.turn < turn {
                break;
            }
            let removed: HashSet<String> = last.messages.into_iter().collect();
            conversation.retain(|message| !removed.contains(&message.id));
            turns.push(last.undone);
        }
        Ok(turns)
    }

    /// Returns the last turn that still has messages in the conversation.
    ///
    /// # Errors
    /// A part of the turn was replaced by a summary.
    pub fn last_turn(&self, entries: &[Entry]) -> Result<Option<UndoneTurn>, Error> {
        let last = undo::find_last_turn(entries, &self.messages())?;
        Ok(last.map(|last| last.undone))
    }

    /// Returns the value of `key` in the session state of `plugin`; `None` if it is not set.
    pub fn state_get(&self, plugin: &str, key: &str) -> Result<Option<String>, Error> {
        self.lock_state().states.get(plugin, key)
    }

    /// Sets (`Some`) or removes (`None`) a value of a plugin's session state.
    pub fn state_set(&self, plugin: &str, key: &str, value: Option<&str>) -> Result<(), Error> {
        let mut inner = self.lock_state();
        let Some(body) = inner
            .states
            .create_state_entry_for_change(plugin, key, value)?
        else {
            return Ok(());
        };
        inner.append_entry_with_body(body)
    }

    /// Sets or removes a value like [`Session::state_set`], but writes the change with the next
    /// entry or at the next sync. Use this for small changes that an entry follows anyway: a write
    /// of its own costs more than producing the change.
    pub fn state_set_with_next_entry(
        &self,
        plugin: &str,
        key: &str,
        value: Option<&str>,
    ) -> Result<(), Error> {
        let mut inner = self.lock_state();
        let Some(body) = inner
            .states
            .create_state_entry_for_change(plugin, key, value)?
        else {
            return Ok(());
        };
        let entry = inner.create_next_entry(body);
        inner.buffer_line_until_next_entry(entry.to_json_line()?)?;
        inner.write_and_apply_entry(entry)
    }

    /// Writes the lines that could not be written earlier, and the state changes and reports that
    /// wait for the next entry.
    pub fn write_deferred_lines(&self) -> Result<(), Error> {
        let mut inner = self.lock_state();
        inner.retry_unwritten_lines()?;
        inner.journal.write_waiting()
    }

    /// Returns the keys of a plugin's session state that start with `prefix`, sorted.
    #[must_use]
    pub fn state_keys(&self, plugin: &str, prefix: &str) -> Vec<String> {
        self.lock_state().states.list_keys(plugin, prefix)
    }

    /// Appends an entry that a plugin keeps for itself, with a name and a value.
    pub fn append_custom_entry(&self, plugin: &str, name: &str, value: Value) -> Result<(), Error> {
        let mut inner = self.lock_state();
        let bytes = name.len() + value.to_string().len();
        inner.states.count_written_bytes(plugin, bytes)?;
        inner.append_entry_with_body(Body::Custom {
            plugin: plugin.to_owned(),
            name: name.to_owned(),
            value,
        })
    }

    fn lock_state(&self) -> MutexGuard<'_, OpenSessionState> {
        // A poisoned lock is safe to use: an entry is applied right after it is written, so a panic
        // elsewhere cannot separate file and memory.
        lock_ignoring_poison(&self.inner)
    }
}

impl_partial_debug!(Session, self, address = self.address, store = self.store);

fn build_first_entry_body(spec: &SessionSpec, parent: Option<&str>) -> Body {
    Body::Session {
        version: SESSION_FORMAT_VERSION,
        workspace: spec.workspace.display().to_string(),
        provider: spec.provider.clone(),
        model: spec.model.clone(),
        parent_session: parent.map(str::to_owned),
    }
}

#[cfg(test)]
mod tests;
