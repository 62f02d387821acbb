//! Queues the lines that a journal appends, and sends them to the servers in a task.
//!
//! Only one message per session is in flight. Lines that are appended meanwhile are sent together
//! in the next message. After an append has failed despite retries, no further message is sent,
//! because it is unknown which lines are stored. Start from [`SessionLineQueue`].

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_nats::HeaderMap;
use bytes::{Bytes, BytesMut};
use rind_lib::lock::lock_ignoring_poison;
use rind_lib::session::Error;
use tokio::sync::Notify;

use crate::append::StreamAppendError;
use crate::log::{MAX_LOG_MESSAGE_PAYLOAD_BYTES, SessionAppendPosition, SessionNatsSubject};
use crate::replay::SNAPSHOT_NAME_HEADER;
use crate::runtime::run_blocking;

/// Number of queued bytes above which a call to append lines waits.
const MAX_QUEUED_APPEND_BYTES: usize = 8 << 20;

/// Maximum number of messages of a session whose positions are kept in memory.
const MAX_REMEMBERED_MESSAGE_POSITIONS: usize = 100_000;

/// Queue of the lines of one session that are to be sent to the servers.
#[derive(Debug)]
pub(crate) struct SessionLineQueue {
    /// Id of the session, used in messages about errors.
    id: String,
    /// Name of the session store, used in messages about errors.
    store: String,
    state: Mutex<SessionLineQueueState>,
    /// Notified when a message was stored, and when storing failed.
    changed: Condvar,
    /// Wakes the task that stores lines, when lines are queued and when the queue is closed.
    wake: Notify,
}

#[derive(Debug)]
struct SessionLineQueueState {
    queued: BytesMut,
    /// Name of a snapshot that is to be recorded after the queued lines.
    note: Option<String>,
    /// Number of snapshots whose record the servers have stored.
    n_noted: u64,
    /// Length of the session in bytes, including the queued lines.
    taken: u64,
    /// Length of the stored part of the session, in bytes.
    stored: u64,
    failure: Option<SessionWriteFailure>,
    is_closed: bool,
    /// Stored messages at which a reader can start: the offset of each in the session, and its
    /// sequence number in the stream.
    places: Vec<(u64, u64)>,
}

#[derive(Debug)]
enum SessionWriteFailure {
    Fenced,
    /// Storing the lines failed with this error; `None` once the error was returned to a caller.
    Failed(Option<Error>),
}

impl SessionLineQueue {
    /// Creates the queue of a session of which `stored` bytes are stored. `places` has the offset
    /// and sequence of each stored message.
    pub(crate) fn new(id: &str, store: &str, stored: u64, places: Vec<(u64, u64)>) -> Self {
        Self {
            id: id.to_owned(),
            store: store.to_owned(),
            state: Mutex::new(SessionLineQueueState {
                queued: BytesMut::new(),
                note: None,
                n_noted: 0,
                taken: stored,
                stored,
                failure: None,
                is_closed: false,
                places,
            }),
            changed: Condvar::new(),
            wake: Notify::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, SessionLineQueueState> {
        lock_ignoring_poison(&self.state)
    }

    /// Queues lines of the session to be stored. Blocks while the queue is full.
    pub(crate) fn push(&self, lines: &[u8]) -> Result<(), Error> {
        let mut state = self.lock();
        while state.failure.is_none() && state.queued.len() > MAX_QUEUED_APPEND_BYTES {
            state =
                run_blocking(|| self.changed.wait(state)).unwrap_or_else(PoisonError::into_inner);
        }
        self.require_no_append_failure_in_locked_state(&mut state)?;
        state.queued.extend_from_slice(lines);
        state.taken += lines.len() as u64;
        drop(state);
        self.wake.notify_one();
        Ok(())
    }

    /// Returns the length of the session in bytes, including lines that are not stored yet.
    pub(crate) fn n_session_bytes(&self) -> u64 {
        self.lock().taken
    }

    /// Records a snapshot after all queued lines. Blocks until the record is stored.
    pub(crate) fn queue_snapshot_record(&self, snapshot: &str) -> Result<(), Error> {
        let mut state = self.lock();
        self.require_no_append_failure_in_locked_state(&mut state)?;
        if state.is_closed {
            return Err(Error::Store {
                store: self.store.clone(),
                source: "the session is closed here".into(),
            });
        }
        let before = state.n_noted;
        state.note = Some(snapshot.to_owned());
        drop(state);
        self.wake.notify_one();
        run_blocking(|| {
            let mut state = self.lock();
            while state.n_noted == before && state.failure.is_none() {
                let waited = self.changed.wait(state);
                state = waited.unwrap_or_else(PoisonError::into_inner);
            }
            self.require_no_append_failure_in_locked_state(&mut state)
        })
    }

    /// Returns an error if an earlier attempt to store lines has failed.
    pub(crate) fn require_no_append_failure(&self) -> Result<(), Error> {
        self.require_no_append_failure_in_locked_state(&mut self.lock())
    }

    fn require_no_append_failure_in_locked_state(
        &self,
        state: &mut SessionLineQueueState,
    ) -> Result<(), Error> {
        match &mut state.failure {
            None => Ok(()),
            Some(SessionWriteFailure::Fenced) => Err(Error::Fenced {
                id: self.id.clone(),
            }),
            Some(SessionWriteFailure::Failed(why)) => {
                Err(why.take().unwrap_or_else(|| Error::Store {
                    store: self.store.clone(),
                    source: "it failed before; open the session again".into(),
                }))
            }
        }
    }

    /// Returns two lengths of the session in bytes: its length with all queued lines, and the
    /// length of the part that is already stored.
    pub(crate) fn queued_and_stored_lengths(&self) -> (u64, u64) {
        let state = self.lock();
        (state.taken, state.stored)
    }

    /// Blocks until `length` bytes of the session are stored, storing fails, or the time `until` is
    /// reached.
    pub(crate) fn wait_until_bytes_stored(&self, length: u64, until: Option<Instant>) {
        if self.queued_and_stored_lengths().1 < length {
            run_blocking(|| self.block_until_stored(length, until));
        }
    }

    fn block_until_stored(&self, length: u64, until: Option<Instant>) {
        let mut state = self.lock();
        while state.stored < length && state.failure.is_none() {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return;
            }
            state = match left {
                Some(left) => {
                    let waited = self.changed.wait_timeout(state, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => self
                    .changed
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    /// Closes the queue: the task that stores lines ends once the queue is empty.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.wake.notify_one();
    }

    /// Returns offset and sequence of the last message that begins at or before `offset`.
    pub(crate) fn last_message_position_before(&self, offset: u64) -> Option<(u64, u64)> {
        let state = self.lock();
        let n_before = state.places.partition_point(|(start, _)| *start <= offset);
        state.places.get(n_before.checked_sub(1)?).copied()
    }

    /// Removes the payload of the next message from the queue: complete lines, or a part of a line
    /// that is longer than a message. If no lines are queued but a snapshot is to be recorded,
    /// returns an empty payload and a header with the snapshot's name.
    fn take_next_payload(&self) -> Option<(Bytes, HeaderMap)> {
        let mut state = self.lock();
        if state.failure.is_some() {
            return None;
        }
        if state.queued.is_empty() {
            let mut headers = HeaderMap::new();
            headers.insert(SNAPSHOT_NAME_HEADER, state.note.take()?);
            return Some((Bytes::new(), headers));
        }
        let longest = state.queued.len().min(MAX_LOG_MESSAGE_PAYLOAD_BYTES);
        let is_all = longest == state.queued.len();
        let front = state.queued.get(..longest).unwrap_or_default();
        let end = front.iter().rposition(|byte| *byte == b'\n');
        let len = match end {
            Some(end) if !is_all => end + 1,
            _ => longest,
        };
        Some((state.queued.split_to(len).freeze(), HeaderMap::new()))
    }

    fn is_queue_closed_and_empty(&self) -> bool {
        let state = self.lock();
        let is_empty = state.queued.is_empty() && state.note.is_none();
        state.failure.is_some() || (state.is_closed && is_empty)
    }

    fn advance_stored_position(&self, before: SessionAppendPosition, place: SessionAppendPosition) {
        let mut state = self.lock();
        state.stored = place.offset;
        if before.offset == place.offset {
            state.n_noted += 1;
        } else if state.places.len() < MAX_REMEMBERED_MESSAGE_POSITIONS {
            state.places.push((before.offset, place.sequence));
        }
        drop(state);
        self.changed.notify_all();
    }

    fn record_append_failure(&self, failure: StreamAppendError) {
        let mut state = self.lock();
        state.failure = Some(match failure {
            StreamAppendError::Fenced => SessionWriteFailure::Fenced,
            StreamAppendError::Failed(error) => {
                SessionWriteFailure::Failed(Some(error.into_store_error(&self.store)))
            }
        });
        drop(state);
        self.changed.notify_all();
    }
}

/// Stores the lines of a queue until the queue is closed and empty, or until an append fails
/// despite retries.
pub(crate) async fn store_queued_session_lines(
    queue: Arc<SessionLineQueue>,
    subject: SessionNatsSubject,
    mut place: SessionAppendPosition,
) {
    while !queue.is_queue_closed_and_empty() {
        let Some((part, headers)) = queue.take_next_payload() else {
            queue.wake.notified().await;
            continue;
        };
        match subject.append(place, headers, part).await {
            Ok(next) => {
                queue.advance_stored_position(place, next);
                place = next;
            }
            Err(failure) => queue.record_append_failure(failure),
        }
    }
}
