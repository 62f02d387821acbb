//! Deadline of one plugin call. The clock stops while the call waits for another call of the same
//! plugin, or for the user.
//!
//! A plugin answers one call after the other. The time that a call waits for earlier calls is not
//! its fault, so it does not count towards the deadline; [`MAX_WAIT_FOR_OTHER_CALLS`] limits it
//! instead. The code that assigns instances to calls wraps that wait in [`wait_in_call_queue`], and
//! calls [`track_user_waits_of_current_call`] once a call has an instance. If that call then waits
//! for the user, the time does not count towards `MAX_WAIT_FOR_OTHER_CALLS` of the queued calls
//! either.
//!
//! This module must not depend on the caller or on the called plugin. Start from
//! [`run_call_with_deadline`].

mod clock;
mod pauses;

use std::cell::OnceCell;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, OnceLock};
use std::task::Poll;
use std::time::{Duration, Instant};

use futures_util::FutureExt;

use self::clock::{CallClockStopReason, PluginCallClock};
pub(crate) use self::pauses::UserWaitStopwatch;
use super::failure::Failure;

/// Maximum total time that one call waits for other calls of the same plugin. It is longer than
/// most plugin tools run.
pub(crate) const MAX_WAIT_FOR_OTHER_CALLS: Duration = Duration::from_secs(90);

tokio::task_local! {
    /// Clock of the plugin call that the current task is making.
    static CURRENT_CALL_CLOCK: LazyPluginCallClock;
}

/// Clock of a call, created on first use: most calls neither wait nor make further calls.
struct LazyPluginCallClock {
    started: Instant,
    outer: Option<Arc<PluginCallClock>>,
    clock: OnceCell<Arc<PluginCallClock>>,
    /// User waits that `track_user_waits_of_current_call` stored before the clock was created. They
    /// are attached to the clock when it is created.
    held: OnceCell<Arc<UserWaitStopwatch>>,
}

impl LazyPluginCallClock {
    fn get_or_create_clock(&self) -> &Arc<PluginCallClock> {
        self.clock.get_or_init(|| {
            Arc::new(PluginCallClock {
                started: self.started,
                waits: Mutex::default(),
                outer: self.outer.clone(),
                held: self
                    .held
                    .get()
                    .cloned()
                    .map_or_else(OnceLock::new, OnceLock::from),
            })
        })
    }
}

impl From<&Arc<PluginCallClock>> for LazyPluginCallClock {
    fn from(clock: &Arc<PluginCallClock>) -> Self {
        Self {
            started: clock.started,
            outer: clock.outer.clone(),
            clock: clock.clone().into(),
            held: OnceCell::new(),
        }
    }
}

/// Returns the clock of the plugin call that the current task is making, if there is one.
fn current_call_clock() -> Option<Arc<PluginCallClock>> {
    CURRENT_CALL_CLOCK
        .try_with(|lazy| lazy.get_or_create_clock().clone())
        .ok()
}

/// Guard of a wait of the current call. Dropping the guard ends the wait.
struct PluginCallWaitGuard(Arc<PluginCallClock>, CallClockStopReason);

impl PluginCallWaitGuard {
    fn begin_wait(
        wait: CallClockStopReason,
        pauses: Option<&Arc<UserWaitStopwatch>>,
    ) -> Option<Self> {
        let clock = current_call_clock()?;
        clock.begin_wait(Instant::now(), wait, pauses);
        Some(Self(clock, wait))
    }
}

impl Drop for PluginCallWaitGuard {
    fn drop(&mut self) {
        self.0.end_wait(Instant::now(), self.1);
    }
}

/// Waits for `turn`, the future that resolves when earlier calls are done, without using up the
/// deadline of the current call. Time in which the call that is waited for itself waits for the
/// user (`pauses`) does not count towards [`MAX_WAIT_FOR_OTHER_CALLS`].
pub(crate) async fn wait_in_call_queue<T>(
    turn: impl Future<Output = T>,
    pauses: Option<&Arc<UserWaitStopwatch>>,
) -> T {
    let _open = PluginCallWaitGuard::begin_wait(CallClockStopReason::Turn, pauses);
    turn.await
}

/// Declares that the current call uses the plugin's instance, so that other calls wait until it
/// ends. The call's later waits for the user are recorded in `pauses`.
pub(crate) fn track_user_waits_of_current_call(pauses: &Arc<UserWaitStopwatch>) {
    // Ignore the error: outside of a plugin call there is no clock.
    let _ = CURRENT_CALL_CLOCK.try_with(|lazy| match lazy.clock.get() {
        Some(clock) => {
            clock.held.get_or_init(|| pauses.clone());
        }
        None => {
            lazy.held.get_or_init(|| pauses.clone());
        }
    });
}

/// Waits for an answer of the user. Meanwhile the deadlines of the current call and of its outer
/// calls are suspended. There is no timeout, so the caller must be able to cancel the wait.
pub(crate) async fn wait_with_paused_deadline<T>(answer: impl Future<Output = T>) -> T {
    let _open = PluginCallWaitGuard::begin_wait(CallClockStopReason::Person, None);
    answer.await
}

/// Runs a call within its deadline, measured from `started`.
///
/// # Errors
/// [`Failure::Deadline`] if the call itself took longer, [`Failure::Unavailable`] if it waited
/// longer than [`MAX_WAIT_FOR_OTHER_CALLS`].
pub(crate) async fn run_call_with_deadline<T>(
    deadline: Duration,
    started: Instant,
    mut call: impl Future<Output = Result<T, Failure>> + Unpin,
) -> Result<T, Failure> {
    // Poll once before setting a timer: most calls answer without waiting, and setting a timer
    // takes a large part of the time of such a call. A guest that computes yields every few
    // milliseconds, which ends this first poll.
    //
    // Write the answer to `first` inside the scope: returning it through the future and the scope
    // would copy the large value again.
    let mut first = Poll::Pending;
    let clock = poll_fn(|context| {
        let lazy = LazyPluginCallClock {
            started,
            outer: current_call_clock(),
            clock: OnceCell::new(),
            held: OnceCell::new(),
        };
        Poll::Ready(CURRENT_CALL_CLOCK.sync_scope(lazy, || {
            first = call.poll_unpin(context);
            let is_waiting = first.is_pending();
            is_waiting.then(|| CURRENT_CALL_CLOCK.with(|lazy| lazy.get_or_create_clock().clone()))
        }))
    });
    match (clock.await, first) {
        (_, Poll::Ready(answer)) => answer,
        // Box the future: it is large, and would enlarge the future of every call.
        (Some(clock), Poll::Pending) => Box::pin(await_pending_call(deadline, clock, call)).await,
        (None, Poll::Pending) => Err(Failure::Unavailable("it was not called".to_owned())),
    }
}

/// Continues a call that did not answer at the first poll.
async fn await_pending_call<T>(
    deadline: Duration,
    clock: Arc<PluginCallClock>,
    mut call: impl Future<Output = Result<T, Failure>> + Unpin,
) -> Result<T, Failure> {
    loop {
        let (used, waited) = clock.running_and_queued_durations(Instant::now());
        let left = deadline.saturating_sub(used);
        if left.is_zero() {
            return Err(Failure::Deadline(deadline));
        }
        let to_wait = MAX_WAIT_FOR_OTHER_CALLS.saturating_sub(waited);
        if to_wait.is_zero() {
            return Err(Failure::Unavailable(format!(
                "its other calls kept it busy for {} s; to end those earlier, lower `timeout` in [limits] of a plugin's manifest, or \
                 `timeout_seconds` of a script",
                MAX_WAIT_FOR_OTHER_CALLS.as_secs()
            )));
        }
        // Wake up at the earliest time at which the deadline could expire, and check again, because
        // the clock may have been stopped meanwhile.
        let call = CURRENT_CALL_CLOCK.scope(LazyPluginCallClock::from(&clock), &mut call);
        if let Ok(answer) = tokio::time::timeout(left.min(to_wait), call).await {
            return answer;
        }
    }
}

#[cfg(test)]
mod tests;
