//! Measures the time that the holder of a shared resource, such as a plugin instance, spent waiting
//! for the user.

use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Time that the holder of a shared resource, such as a plugin instance, spent waiting for the
/// user.
#[derive(Debug, Default)]
pub(crate) struct UserWaitStopwatch(pub(super) Mutex<WaitStopwatch>);

/// Stopwatch of the time during which at least one wait was in progress.
#[derive(Debug, Default)]
pub(super) struct WaitStopwatch {
    pub(super) n_open: u32,
    since: Option<Instant>,
    total: Duration,
}

impl WaitStopwatch {
    pub(super) fn begin_wait(&mut self, now: Instant) {
        self.n_open += 1;
        self.since.get_or_insert(now);
    }

    pub(super) fn end_wait(&mut self, now: Instant) {
        self.n_open = self.n_open.saturating_sub(1);
        if self.n_open == 0
            && let Some(since) = self.since.take()
        {
            self.total += now.saturating_duration_since(since);
        }
    }

    /// Returns the total time so far during which at least one wait was in progress.
    pub(super) fn total_wait(&self, now: Instant) -> Duration {
        let open = self
            .since
            .map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        self.total + open
    }
}
