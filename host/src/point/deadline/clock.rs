//! The clock of a call, which stops while the call waits.
//!
//! Waits propagate outwards: a call that is part of another call stops the clock of the outer call
//! as well. Start from [`CallClock`].

use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use super::pauses::{HolderPauses, WaitStopwatch};
use crate::lock::lock;

pub(super) struct CallClock {
    pub(super) started: Instant,
    pub(super) waits: Mutex<OpenWaits>,
    /// Clock of the outer call, which made this one. It stops while this call waits.
    pub(super) outer: Option<Arc<CallClock>>,
    /// Record of the time in which this call waits for the user while it holds a shared resource.
    pub(super) held: OnceLock<Arc<HolderPauses>>,
}

/// Reason why the clock is stopped.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitReason {
    /// The call waits for another call of the same plugin.
    Turn,
    /// The call waits because an inner call waits for another call.
    Inner,
    Person,
}

impl WaitReason {
    /// Returns the reason as seen by the outer call.
    fn of_outer(self) -> Self {
        match self {
            Self::Turn | Self::Inner => Self::Inner,
            Self::Person => Self::Person,
        }
    }
}

/// Wait of a call for another call of the same plugin.
struct OwnWait {
    since: Instant,
    /// Pauses of the call that is waited for, and their total when the wait began.
    pauses: Option<(Arc<HolderPauses>, Duration)>,
}

impl OwnWait {
    /// Returns the part of the wait that counts towards [`MAX_WAIT`](super::MAX_WAIT): the time in
    /// which the other call did not wait for the user.
    fn counted_wait(&self, now: Instant) -> Duration {
        let passed = now.saturating_duration_since(self.since);
        let paused = self
            .pauses
            .as_ref()
            .map_or(Duration::ZERO, |(pauses, before)| {
                lock(&pauses.0).total_wait(now).saturating_sub(*before)
            });
        passed.saturating_sub(paused)
    }
}

#[derive(Default)]
pub(super) struct OpenWaits {
    /// Open waits, including those of inner calls, and their total time.
    all: WaitStopwatch,
    /// Wait of this call itself for another call of the plugin, if one is open.
    own: Option<OwnWait>,
    own_total: Duration,
}

impl CallClock {
    pub(super) fn begin_wait(
        &self,
        now: Instant,
        wait: WaitReason,
        pauses: Option<&Arc<HolderPauses>>,
    ) {
        let mut waits = lock(&self.waits);
        waits.all.begin_wait(now);
        if wait == WaitReason::Turn {
            waits.own = Some(OwnWait {
                since: now,
                pauses: pauses.map(|pauses| (pauses.clone(), lock(&pauses.0).total_wait(now))),
            });
        }
        drop(waits);
        if let Some(held) = self.held.get().filter(|_| wait == WaitReason::Person) {
            lock(&held.0).begin_wait(now);
        }
        if let Some(outer) = &self.outer {
            outer.begin_wait(now, wait.of_outer(), None);
        }
    }

    pub(super) fn end_wait(&self, now: Instant, wait: WaitReason) {
        let mut waits = lock(&self.waits);
        waits.all.end_wait(now);
        if wait == WaitReason::Turn
            && let Some(own) = waits.own.take()
        {
            waits.own_total += own.counted_wait(now);
        }
        drop(waits);
        if let Some(held) = self.held.get().filter(|_| wait == WaitReason::Person) {
            lock(&held.0).end_wait(now);
        }
        if let Some(outer) = &self.outer {
            outer.end_wait(now, wait.of_outer());
        }
    }

    /// Returns how long the call itself ran, and how long it waited for other calls of the plugin.
    pub(super) fn read_clock(&self, now: Instant) -> (Duration, Duration) {
        let waits = lock(&self.waits);
        let own = waits
            .own
            .as_ref()
            .map_or(Duration::ZERO, |own| own.counted_wait(now));
        let passed = now.saturating_duration_since(self.started);
        (
            passed.saturating_sub(waits.all.total_wait(now)),
            waits.own_total + own,
        )
    }
}
