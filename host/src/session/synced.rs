//! Tracks how much of a file is on the disk.
//!
//! The disk is waited for without the lock on the session, so that others write meanwhile: perhaps on another thread.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::log::Disk;
use crate::lock::lock;

/// State of one file.
pub(super) struct Synced {
    /// Length up to which it is on the disk.
    len: AtomicU64,
    has_failed: AtomicBool,
    /// Error that was not reported yet.
    why: Mutex<Option<io::Error>>,
    /// Lock held during a sync: an operating system reports a failed write only once, and every waiting caller must see it.
    working: Mutex<()>,
}

impl Synced {
    pub(super) fn new(len: u64) -> Self {
        Self {
            len: AtomicU64::new(len),
            has_failed: AtomicBool::new(false),
            why: Mutex::new(None),
            working: Mutex::new(()),
        }
    }

    pub(super) fn len(&self) -> u64 {
        self.len.load(Ordering::Acquire)
    }

    /// Whether the disk has failed.
    pub(super) fn check(&self) -> io::Result<()> {
        if !self.has_failed.load(Ordering::Acquire) {
            return Ok(());
        }
        let again = || io::Error::other("the disk failed before; open the session again");
        Err(lock(&self.why).take().unwrap_or_else(again))
    }
}

/// Lines that a power cut could still take.
pub(crate) struct Unsynced {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) synced: Arc<Synced>,
    /// Length of the file up to their end.
    pub(super) len: u64,
}

impl Unsynced {
    /// Returns once they are on the disk, or it has failed: [`Synced::check`] says which.
    pub(crate) fn sync(self) {
        let synced = &self.synced;
        let _working = lock(&synced.working);
        if synced.len() >= self.len || synced.has_failed.load(Ordering::Acquire) {
            return;
        }
        match self.disk.sync() {
            Ok(()) => synced.len.store(self.len, Ordering::Release),
            Err(error) => {
                *lock(&synced.why) = Some(error);
                synced.has_failed.store(true, Ordering::Release);
            }
        }
    }
}
