//! Tracks up to which byte a session file is on the disk, so that it survives a power failure.
//!
//! The session is not locked during a sync, which may run on another thread, so that entries can be
//! appended meanwhile.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::log::SessionLogFileOperations;
use super::storage::UnsyncedFrames;
use crate::lock::lock_ignoring_poison;

/// Length up to which one file has been synced to the disk, and the error of a failed sync.
pub(super) struct FileDiskSyncState {
    /// Length, in bytes, up to which the file is on the disk.
    len: AtomicU64,
    /// Length, in bytes, up to which complete lines have been written to the file.
    written: AtomicU64,
    has_failed: AtomicBool,
    /// Error of the failed sync; the first caller of `check_sync_error` takes it.
    why: Mutex<Option<io::Error>>,
    /// Lock held during a sync: the operating system reports a write error only once, and every
    /// waiting caller must see it.
    working: Mutex<()>,
}

impl FileDiskSyncState {
    pub(super) fn new(len: u64) -> Self {
        Self {
            len: AtomicU64::new(len),
            written: AtomicU64::new(len),
            has_failed: AtomicBool::new(false),
            why: Mutex::new(None),
            working: Mutex::new(()),
        }
    }

    pub(super) fn synced_length(&self) -> u64 {
        self.len.load(Ordering::Acquire)
    }

    /// Records that complete lines up to `len` have been written to the file.
    pub(super) fn record_written_length(&self, len: u64) {
        self.written.store(len, Ordering::Release);
    }

    /// Returns an error if a sync of the file has failed.
    pub(super) fn check_sync_error(&self) -> io::Result<()> {
        if !self.has_failed.load(Ordering::Acquire) {
            return Ok(());
        }
        let again =
            || io::Error::other("an earlier write to the disk failed; open the session again");
        Err(lock_ignoring_poison(&self.why).take().unwrap_or_else(again))
    }
}

/// Data that a power failure could still lose.
pub(super) struct UnsyncedSessionData {
    pub(super) disk: Arc<dyn SessionLogFileOperations>,
    pub(super) synced: Arc<FileDiskSyncState>,
    /// Length that the file has when it ends with this data, in bytes.
    pub(super) len: u64,
}

impl UnsyncedFrames for UnsyncedSessionData {
    fn wait_for_sync(self: Box<Self>) {
        let synced = &self.synced;
        let _working = lock_ignoring_poison(&synced.working);
        if synced.synced_length() >= self.len || synced.has_failed.load(Ordering::Acquire) {
            return;
        }
        // Read `written` before the sync, which covers all lines that were written before it.
        // Callers that waited for this sync then find that their data is on the disk: one sync
        // serves all of them.
        let covered = synced.written.load(Ordering::Acquire);
        match self.disk.sync() {
            Ok(()) => synced.len.store(covered, Ordering::Release),
            Err(error) => {
                *lock_ignoring_poison(&synced.why) = Some(error);
                synced.has_failed.store(true, Ordering::Release);
            }
        }
    }
}
