//! The clock of a call, which stops while the call waits.
//!
//! A call can be part of an outer call. While the inner call waits, the clock of the outer call is
//! stopped too. Start from [`PluginCallClock`].

use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use super::pauses::{UserWaitStopwatch, WaitStopwatch};
use crate::lock::lock_ignoring_poison;

pub(super) struct PluginCallClock {
    pub(super) started: Instant,
    pub(super) waits: Mutex<PluginCallWaitTimes>,
    /// Clock of the outer call, which made this call. It is stopped while this call waits.
    pub(super) outer: Option<Arc<PluginCallClock>>,
    /// Time for which this call waited for the user while it held a resource that other calls wait
    /// for.
    pub(super) held: OnceLock<Arc<UserWaitStopwatch>>,
}

/// Reason why the clock that measures a plugin's call is stopped.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum CallClockStopReason {
    /// The call waits for another call of the same plugin.
    Turn,
    /// A call that this call has made waits for another call.
    Inner,
    Person,
}

impl CallClockStopReason {
    /// Returns the reason for which the clock of the outer call is stopped.
    fn to_outer_call_reason(self) -> Self {
        match self {
            Self::Turn | Self::Inner => Self::Inner,
            Self::Person => Self::Person,
        }
    }
}

/// Time that a call waits in the queue for another call of the same plugin.
struct PluginCallQueueWait {
    since: Instant,
    /// User waits of the call for which this call waits, and their total duration when this wait
    /// began.
    pauses: Option<(Arc<UserWaitStopwatch>, Duration)>,
}

impl PluginCallQueueWait {
    /// Returns the part of the wait that counts towards
    /// [`MAX_WAIT_FOR_OTHER_CALLS`](super::MAX_WAIT_FOR_OTHER_CALLS): the time in which the other
    /// call did not wait for the user.
    fn duration_counted_towards_limit(&self, now: Instant) -> Duration {
        let passed = now.saturating_duration_since(self.since);
        let paused = self
            .pauses
            .as_ref()
            .map_or(Duration::ZERO, |(pauses, before)| {
                lock_ignoring_poison(&pauses.0)
                    .total_wait(now)
                    .saturating_sub(*before)
            });
        passed.saturating_sub(paused)
    }
}

#[derive(Default)]
pub(super) struct PluginCallWaitTimes {
    /// All waits of this call and of its inner calls: their number and their total duration.
    all: WaitStopwatch,
    /// Wait of this call that is in progress, for another call of the same plugin. Waits of inner
    /// calls are not included.
    own: Option<PluginCallQueueWait>,
    own_total: Duration,
}

impl PluginCallClock {
    pub(super) fn begin_wait(
        &self,
        now: Instant,
        wait: CallClockStopReason,
        pauses: Option<&Arc<UserWaitStopwatch>>,
    ) {
        let mut waits = lock_ignoring_poison(&self.waits);
        waits.all.begin_wait(now);
        if wait == CallClockStopReason::Turn {
            waits.own = Some(PluginCallQueueWait {
                since: now,
                pauses: pauses.map(|pauses| {
                    (
                        pauses.clone(),
                        lock_ignoring_poison(&pauses.0).total_wait(now),
                    )
                }),
            });
        }
        drop(waits);
        if let Some(held) = self
            .held
            .get()
            .filter(|_| wait == CallClockStopReason::Person)
        {
            lock_ignoring_poison(&held.0).begin_wait(now);
        }
        if let Some(outer) = &self.outer {
            outer.begin_wait(now, wait.to_outer_call_reason(), None);
        }
    }

    pub(super) fn end_wait(&self, now: Instant, wait: CallClockStopReason) {
        let mut waits = lock_ignoring_poison(&self.waits);
        waits.all.end_wait(now);
        if wait == CallClockStopReason::Turn
            && let Some(own) = waits.own.take()
        {
            waits.own_total += own.duration_counted_towards_limit(now);
        }
        drop(waits);
        if let Some(held) = self
            .held
            .get()
            .filter(|_| wait == CallClockStopReason::Person)
        {
            lock_ignoring_poison(&held.0).end_wait(now);
        }
        if let Some(outer) = &self.outer {
            outer.end_wait(now, wait.to_outer_call_reason());
        }
    }

    /// Returns the time that the call itself ran, and the time that it waited for other calls of
    /// the plugin.
    pub(super) fn running_and_queued_durations(&self, now: Instant) -> (Duration, Duration) {
        let waits = lock_ignoring_poison(&self.waits);
        let own = waits.own.as_ref().map_or(Duration::ZERO, |own| {
            own.duration_counted_towards_limit(now)
        });
        let passed = now.saturating_duration_since(self.started);
        (
            passed.saturating_sub(waits.all.total_wait(now)),
            waits.own_total + own,
        )
    }
}
