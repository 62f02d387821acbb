//! Implements the journal of a session that is open for writing.
//!
//! The journal buffers frames that are to be stored together with the next frame. When it is
//! dropped, it waits until all appended frames are stored, at most for the time
//! `JOURNAL_CLOSE_TIMEOUT`, and then releases the session's lease.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use rind_lib::session::{Error, FramePosition, Journal, UnsyncedFrames};

use crate::lease::HeldSessionLease;
use crate::sessions::SharedNatsStoreState;
use crate::writer::SessionLineQueue;

/// Maximum size of the frames that are buffered before they are queued for sending, in bytes.
const MAX_BUFFERED_FRAME_BYTES: usize = 64 << 10;

/// Maximum time for which dropping a journal waits until its frames are stored.
const JOURNAL_CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// Journal of a session that is open for writing.
pub(crate) struct NatsSessionJournal {
    parts: Arc<SharedNatsStoreState>,
    queue: Arc<SessionLineQueue>,
    lease: Arc<HeldSessionLease>,
    waiting: Vec<u8>,
    /// Length of the session in bytes, with the frames in the queue but without those in `waiting`.
    len: u64,
}

impl NatsSessionJournal {
    pub(crate) fn new(
        parts: Arc<SharedNatsStoreState>,
        queue: Arc<SessionLineQueue>,
        lease: Arc<HeldSessionLease>,
    ) -> Self {
        let (len, _) = queue.queued_and_stored_lengths();
        Self {
            parts,
            queue,
            lease,
            waiting: Vec::new(),
            len,
        }
    }
}

impl Journal for NatsSessionJournal {
    fn append(&mut self, frame: &[u8]) -> Result<(), Error> {
        if frame.is_empty() && self.waiting.is_empty() {
            return Ok(());
        }
        let n_waiting = self.waiting.len();
        self.waiting.extend_from_slice(frame);
        if let Err(error) = self.queue.push(&self.waiting) {
            self.waiting.truncate(n_waiting);
            return Err(error);
        }
        self.len += self.waiting.len() as u64;
        self.waiting.clear();
        Ok(())
    }

    fn append_with_next(&mut self, frame: &[u8]) -> Result<(), Error> {
        if self.waiting.len() + frame.len() > MAX_BUFFERED_FRAME_BYTES {
            self.append(&[])?;
        }
        self.waiting.extend_from_slice(frame);
        Ok(())
    }

    fn end(&self) -> FramePosition {
        FramePosition::from_u64(self.bytes())
    }

    fn bytes(&self) -> u64 {
        self.len + self.waiting.len() as u64
    }

    fn take_unsynced(&mut self) -> Result<Option<Box<dyn UnsyncedFrames>>, Error> {
        self.check()?;
        self.write_waiting()?;
        let (taken, stored) = self.queue.queued_and_stored_lengths();
        if stored >= taken {
            return Ok(None);
        }
        Ok(Some(Box::new(UnacknowledgedFrames {
            queue: self.queue.clone(),
            length: taken,
        })))
    }

    fn check(&self) -> Result<(), Error> {
        self.queue.require_no_append_failure()
    }
}

impl Drop for NatsSessionJournal {
    fn drop(&mut self) {
        // Ignore the error: a caller that depends on an entry has already waited until the entry
        // was stored.
        let _ = self.write_waiting();
        let (taken, _) = self.queue.queued_and_stored_lengths();
        self.queue
            .wait_until_bytes_stored(taken, Some(Instant::now() + JOURNAL_CLOSE_TIMEOUT));
        self.queue.close();
        self.parts.remove_open_session(&self.queue);
        let (parts, lease) = (self.parts.clone(), self.lease.clone());
        let released = self.parts.runtime.block_on(async move {
            parts.leases.release(&lease).await;
            Ok(())
        });
        if let Err(error) = released {
            tracing::debug!(%error, "a lease was not released; it expires by itself");
        }
    }
}

/// Appended frames up to the offset `length`, which the servers may not have acknowledged yet.
struct UnacknowledgedFrames {
    queue: Arc<SessionLineQueue>,
    length: u64,
}

impl UnsyncedFrames for UnacknowledgedFrames {
    fn wait_for_sync(self: Box<Self>) {
        self.queue.wait_until_bytes_stored(self.length, None);
    }
}

/// Weak reference to the queue of an open journal, with which readers in this program wait until
/// the journal's lines are stored.
pub(crate) type WeakJournalLineQueue = Weak<SessionLineQueue>;
