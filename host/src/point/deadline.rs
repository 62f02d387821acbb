//! The deadline of one call of a plugin, which stands still while the call waits for its turn.
//!
//! Owns what counts as the call's own time. A plugin answers one call after the other, so a call may first wait for another
//! one; that is not the plugin's fault and has the bound [`MAX_WAIT`] of its own. Whoever hands out instances says so with
//! [`waiting`], and a call that has one with [`holding`], before it can wait for a person: while the person thinks, the bound of
//! those behind it stands still as well. It must not know what is called. Start from [`within`].

mod clock;
mod pauses;

use std::cell::OnceCell;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, OnceLock};
use std::task::Poll;
use std::time::{Duration, Instant};

use futures_util::FutureExt;

use self::clock::{CallClock, Wait};
pub(crate) use self::pauses::Pauses;
use super::failure::Failure;

/// Longest time one call waits in all for other calls of the same plugin. Longer than most tools of plugins run.
pub(crate) const MAX_WAIT: Duration = Duration::from_secs(90);

tokio::task_local! {
    /// The call that this task is making.
    static CLOCK: LazyClock;
}

/// The clock of a call, made when something first asks for it: most calls wait for nothing and cause no other.
struct LazyClock {
    started: Instant,
    outer: Option<Arc<CallClock>>,
    clock: OnceCell<Arc<CallClock>>,
    /// Pauses of what the call holds, for a clock that is made later.
    held: OnceCell<Arc<Pauses>>,
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

/// The clock of the call that this task is making, if it makes one.
fn clock() -> Option<Arc<CallClock>> {
    CLOCK.try_with(|lazy| lazy.clock().clone()).ok()
}

/// A wait of the call that this task is making, which ends when this is dropped.
struct Open(Arc<CallClock>, Wait);

impl Open {
    fn begin(wait: Wait, pauses: Option<&Arc<Pauses>>) -> Option<Self> {
        let clock = clock()?;
        clock.begin(Instant::now(), wait, pauses);
        Some(Self(clock, wait))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.end(Instant::now(), self.1);
    }
}

/// Waits for `turn` without using up the deadline of the call that this task is making. Of the time in which whoever has the turn
/// waits for a person, which `pauses` knows, nothing counts towards [`MAX_WAIT`].
pub(crate) async fn waiting<T>(turn: impl Future<Output = T>, pauses: Option<&Arc<Pauses>>) -> T {
    let _open = Open::begin(Wait::Turn, pauses);
    turn.await
}

/// Says that the call that this task is making has what others wait for, until its end: its pauses are theirs.
pub(crate) fn holding(pauses: &Arc<Pauses>) {
    // Outside of a call nothing stands still.
    let _ = CLOCK.try_with(|lazy| match lazy.clock.get() {
        Some(clock) => {
            clock.held.get_or_init(|| pauses.clone());
        }
        None => {
            lazy.held.get_or_init(|| pauses.clone());
        }
    });
}

/// Waits for a person: the deadline of the call that this task is making stands still, and so do those of the calls that it is part
/// of. There is no bound to it; whoever waits has a way to end it.
pub(crate) async fn paused<T>(answer: impl Future<Output = T>) -> T {
    let _open = Open::begin(Wait::Person, None);
    answer.await
}

/// Makes a call within its deadline, which began at `started`.
///
/// # Errors
/// [`Failure::Deadline`] when the call took longer itself, [`Failure::Unavailable`] when it waited longer than [`MAX_WAIT`].
pub(crate) async fn within<T>(
    deadline: Duration,
    started: Instant,
    mut call: impl Future<Output = Result<T, Failure>> + Unpin,
) -> Result<T, Failure> {
    // Most calls answer without ever waiting. Setting a timer costs a good part of what such a call does, so one is set only
    // for a call that waits; a guest that computes gives way every few milliseconds, which counts as waiting.
    // Polled once where it stands, and the answer put in its place from within: a future or a scope around it would each carry it
    // along one more time.
    let mut first = Poll::Pending;
    let clock = poll_fn(|context| {
        let lazy = LazyClock {
            started,
            outer: clock(),
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
        // Boxed: it is large, and every call would carry it along.
        (Some(clock), Poll::Pending) => Box::pin(awaited(deadline, clock, call)).await,
        (None, Poll::Pending) => Err(Failure::Unavailable("it was not called".to_owned())),
    }
}

/// Goes on with a call that did not answer at once.
async fn awaited<T>(
    deadline: Duration,
    clock: Arc<CallClock>,
    mut call: impl Future<Output = Result<T, Failure>> + Unpin,
) -> Result<T, Failure> {
    loop {
        let (used, waited) = clock.read(Instant::now());
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
        // A clock that stands still is looked at again when it could have run out had it gone on.
        let call = CLOCK.scope(LazyClock::from(&clock), &mut call);
        if let Ok(answer) = tokio::time::timeout(left.min(to_wait), call).await {
            return answer;
        }
    }
}

#[cfg(test)]
mod tests;
