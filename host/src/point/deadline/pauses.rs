//! Time in which the holder of something waited for a person.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Time in which whoever holds something that others wait for waited for a person.
#[derive(Debug, Default)]
pub(crate) struct Pauses(Mutex<Paused>);

#[derive(Debug, Default)]
pub(super) struct Paused {
    pub(super) n_open: u32,
    since: Option<Instant>,
    total: Duration,
}

impl Pauses {
    pub(super) fn lock(&self) -> MutexGuard<'_, Paused> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn begin(&self, now: Instant) {
        let mut paused = self.lock();
        paused.n_open += 1;
        paused.since.get_or_insert(now);
    }

    pub(super) fn end(&self, now: Instant) {
        let mut paused = self.lock();
        paused.n_open = paused.n_open.saturating_sub(1);
        if paused.n_open == 0
            && let Some(since) = paused.since.take()
        {
            paused.total += now.saturating_duration_since(since);
        }
    }

    /// Returns the time of all pauses so far.
    pub(super) fn total(&self, now: Instant) -> Duration {
        let paused = self.lock();
        let open = paused
            .since
            .map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        paused.total + open
    }
}
