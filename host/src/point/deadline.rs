//! Deadline of one plugin call. The clock stops while the call waits for another call of the same
//! plugin, or for the user.
//!
//! A plugin answers one call after the other. The time that a call waits for its turn is not the
//! plugin's fault, so it does not count towards the deadline; it is bounded by [`MAX_WAIT`]
//! instead. The code that hands out instances wraps that wait in [`wait_for_turn`], and calls
//! [`note_holding`] once a call has an instance. If that call then waits for the user, `MAX_WAIT`
//! of the calls queued after it is suspended too.
//!
//! This module must not know who calls or which plugin is called. Start from [`with_deadline`].

mod clock;
mod pauses;

use std::cell::OnceCell;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, OnceLock};
use std::task::Poll;
use std::time::{Duration, Instant};

use futures_util::FutureExt;

use self::clock::{CallClock, WaitReason};
pub(crate) use self::pauses::HolderPauses;
use super::failure::Failure;

/// Maximum total time that one call waits for other calls of the same plugin. Longer than most
/// plugin tools run.
pub(crate) const MAX_WAIT: Duration = Duration::from_secs(90);

tokio::task_local! {
    /// Clock of the call that this task is making.
    static CLOCK: LazyClock;
}

/// Clock of a call, created on first use: most calls neither wait nor make further calls.
struct LazyClock {
    started: Instant,
    outer: Option<Arc<CallClock>>,
    clock: OnceCell<Arc<CallClock>>,
    /// Pauses to attach to the clock when it is created, if `note_holding` ran before.
    held: OnceCell<Arc<HolderPauses>>,
}

impl LazyClock {
    fn clock(&self) -> &Arc<CallClock> {
        self.clock.get_or_init(|| {
            Arc::new(CallClock {
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

impl From<&Arc<CallClock>> for LazyClock {
    fn from(clock: &Arc<CallClock>) -> Self {
        Self {
            started: clock.started,
            outer: clock.outer.clone(),
            clock: clock.clone().into(),
            held: OnceCell::new(),
        }
    }
}

/// Returns the clock of the call that this task is making, if there is one.
fn call_clock() -> Option<Arc<CallClock>> {
    CLOCK.try_with(|lazy| lazy.clock().clone()).ok()
}

/// An open wait of the current call. Dropping it ends the wait.
struct OpenWait(Arc<CallClock>, WaitReason);

impl OpenWait {
    fn begin_wait(wait: WaitReason, pauses: Option<&Arc<HolderPauses>>) -> Option<Self> {
        let clock = call_clock()?;
        clock.begin_wait(Instant::now(), wait, pauses);
        Some(Self(clock, wait))
    }
}

impl Drop for OpenWait {
    fn drop(&mut self) {
        self.0.end_wait(Instant::now(), self.1);
    }
}

/// Waits for `turn` without using up the deadline of the current call. Time in which the holder of
/// the turn waits for the user, recorded in `pauses`, does not count towards [`MAX_WAIT`] either.
pub(crate) async fn wait_for_turn<T>(
    turn: impl Future<Output = T>,
    pauses: Option<&Arc<HolderPauses>>,
) -> T {
    let _open = OpenWait::begin_wait(WaitReason::Turn, pauses);
    turn.await
}

/// Declares that the current call holds the resource that other calls wait for, until the call
/// ends. From now on, its waits for the user are recorded in `pauses`.
pub(crate) fn note_holding(pauses: &Arc<HolderPauses>) {
    // Outside of a call there is no clock to attach the pauses to.
    let _ = CLOCK.try_with(|lazy| match lazy.clock.get() {
        Some(clock) => {
            clock.held.get_or_init(|| pauses.clone());
        }
        None => {
            lazy.held.get_or_init(|| pauses.clone());
        }
    });
}

/// Waits for the user. The deadlines of the current call and of its outer calls are suspended.
/// There is no timeout; the caller must have its own way to cancel the wait.
pub(crate) async fn pause_clock<T>(answer: impl Future<Output = T>) -> T {
    let _open = OpenWait::begin_wait(WaitReason::Person, None);
    answer.await
}

/// Runs a call within its deadline, measured from `started`.
///
/// # Errors
/// [`Failure::Deadline`] if the call itself took longer, [`Failure::Unavailable`] if it waited
/// longer than [`MAX_WAIT`].
pub(crate) async fn with_deadline<T>(
    deadline: Duration,
    started: Instant,
    mut call: impl Future<Output = Result<T, Failure>> + Unpin,
) -> Result<T, Failure> {
    // Poll once before setting a timer: most calls answer without waiting, and a timer costs a good
    // part of such a call. A guest that computes yields every few milliseconds, which ends this
    // first poll.
    //
    // The answer is written to `first` from inside the scope, because a wrapping future or scope
    // would move the large result once more.
    let mut first = Poll::Pending;
    let clock = poll_fn(|context| {
        let lazy = LazyClock {
            started,
            outer: call_clock(),
            clock: OnceCell::new(),
            held: OnceCell::new(),
        };
        Poll::Ready(CLOCK.sync_scope(lazy, || {
            first = call.poll_unpin(context);
            let is_waiting = first.is_pending();
            is_waiting.then(|| CLOCK.with(|lazy| lazy.clock().clone()))
        }))
    });
    match (clock.await, first) {
        (_, Poll::Ready(answer)) => answer,
        // Boxed because the future is large and would enlarge every call.
        (Some(clock), Poll::Pending) => Box::pin(await_call(deadline, clock, call)).await,
        (None, Poll::Pending) => Err(Failure::Unavailable("it was not called".to_owned())),
    }
}

/// Continues a call that did not answer at the first poll.
async fn await_call<T>(
    deadline: Duration,
    clock: Arc<CallClock>,
    mut call: impl Future<Output = Result<T, Failure>> + Unpin,
) -> Result<T, Failure> {
    loop {
        let (used, waited) = clock.read_clock(Instant::now());
        let left = deadline.saturating_sub(used);
        if left.is_zero() {
            return Err(Failure::Deadline(deadline));
        }
        let to_wait = MAX_WAIT.saturating_sub(waited);
        if to_wait.is_zero() {
            return Err(Failure::Unavailable(format!(
                "its other calls kept it busy for {} s; to end those earlier, lower `timeout` in [limits] of a plugin's manifest, or \
                 `timeout_seconds` of a script",
                MAX_WAIT.as_secs()
            )));
        }
        // If the clock is stopped, check again at the earliest time at which the deadline could
        // have expired.
        let call = CLOCK.scope(LazyClock::from(&clock), &mut call);
        if let Ok(answer) = tokio::time::timeout(left.min(to_wait), call).await {
            return answer;
        }
    }
}

#[cfg(test)]
mod tests;
