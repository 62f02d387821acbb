//! The deadline of one call of a plugin, which stands still while the call waits for its turn.
//!
//! Owns what counts as the call's own time. A plugin answers one call after the other, so a call may first wait for another
//! one; that is not the plugin's fault and has the bound [`MAX_WAIT`] of its own. Whoever hands out instances says so with
//! [`waiting`]. It must not know what is called. Start from [`within`].

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

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
    clock: OnceLock<Arc<CallClock>>,
}

impl LazyClock {
    fn clock(&self) -> &Arc<CallClock> {
        self.clock.get_or_init(|| {
            Arc::new(CallClock {
                started: self.started,
                waits: Mutex::default(),
                outer: self.outer.clone(),
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
        }
    }
}

/// The clock of the call that this task is making, if it makes one.
fn clock() -> Option<Arc<CallClock>> {
    CLOCK.try_with(|lazy| lazy.clock().clone()).ok()
}

struct CallClock {
    started: Instant,
    waits: Mutex<Waits>,
    /// The call that this one is part of: it stands still as well.
    outer: Option<Arc<CallClock>>,
}

#[derive(Default)]
struct Waits {
    /// Number of running waits, its own and those of calls within it.
    n_open: u32,
    since: Option<Instant>,
    /// Time that waiting took so far.
    total: Duration,
    /// Start of its own wait, if it is waiting.
    own_since: Option<Instant>,
    own_total: Duration,
}

impl CallClock {
    fn lock(&self) -> MutexGuard<'_, Waits> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, now: Instant, is_own: bool) {
        let mut waits = self.lock();
        waits.n_open += 1;
        waits.since.get_or_insert(now);
        if is_own {
            waits.own_since = Some(now);
        }
        drop(waits);
        if let Some(outer) = &self.outer {
            outer.begin(now, false);
        }
    }

    fn end(&self, now: Instant, is_own: bool) {
        let mut waits = self.lock();
        waits.n_open = waits.n_open.saturating_sub(1);
        if waits.n_open == 0
            && let Some(since) = waits.since.take()
        {
            waits.total += now.saturating_duration_since(since);
        }
        if is_own && let Some(since) = waits.own_since.take() {
            waits.own_total += now.saturating_duration_since(since);
        }
        drop(waits);
        if let Some(outer) = &self.outer {
            outer.end(now, false);
        }
    }

    /// Returns the time of the call itself so far, and the time it waited.
    fn read(&self, now: Instant) -> (Duration, Duration) {
        let waits = self.lock();
        let open = |since: Option<Instant>| {
            since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
        };
        let waited = waits.total + open(waits.since);
        let own = waits.own_total + open(waits.own_since);
        let passed = now.saturating_duration_since(self.started);
        (passed.saturating_sub(waited), own)
    }
}

/// Waits for `turn` without using up the deadline of the call that this task is making.
pub(crate) async fn waiting<T>(turn: impl Future<Output = T>) -> T {
    struct Open(Arc<CallClock>);
    impl Drop for Open {
        fn drop(&mut self) {
            self.0.end(Instant::now(), true);
        }
    }
    let _open = clock().map(|clock| {
        clock.begin(Instant::now(), true);
        Open(clock)
    });
    turn.await
}

/// Waits for a person: the deadline of the call that this task is making stands still, and so do those of the calls that it is part
/// of. There is no bound to it; whoever waits has a way to end it.
pub(crate) async fn paused<T>(answer: impl Future<Output = T>) -> T {
    struct Open(Arc<CallClock>);
    impl Drop for Open {
        fn drop(&mut self) {
            self.0.end(Instant::now(), false);
        }
    }
    let _open = clock().map(|clock| {
        clock.begin(Instant::now(), false);
        Open(clock)
    });
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
    let lazy = LazyClock {
        started,
        outer: clock(),
        clock: OnceLock::new(),
    };
    let first = CLOCK.scope(lazy, async {
        match futures_util::poll!(&mut call) {
            Poll::Ready(answer) => Ok(answer),
            Poll::Pending => Err(CLOCK.with(|lazy| lazy.clock().clone())),
        }
    });
    match first.await {
        Ok(answer) => answer,
        // Boxed: it is large, and every call would carry it along.
        Err(clock) => Box::pin(awaited(deadline, clock, call)).await,
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
mod tests {
    use std::pin::pin;

    use super::*;

    const SHORT: Duration = Duration::from_millis(50);

    #[tokio::test]
    async fn waiting_for_a_turn_does_not_use_the_deadline_up() {
        let call = pin!(async {
            waiting(tokio::time::sleep(SHORT * 6)).await;
            Ok("done")
        });
        assert_eq!(within(SHORT, Instant::now(), call).await, Ok("done"));
    }

    #[tokio::test]
    async fn while_a_person_thinks_no_deadline_runs() {
        let inner = pin!(async {
            paused(tokio::time::sleep(SHORT * 6)).await;
            Ok("done")
        });
        let outer = pin!(async { within(SHORT, Instant::now(), inner).await });
        assert_eq!(within(SHORT, Instant::now(), outer).await, Ok("done"));
    }

    #[tokio::test]
    async fn what_comes_after_the_wait_has_the_whole_deadline_and_no_more() {
        let call = pin!(async {
            waiting(tokio::time::sleep(SHORT * 2)).await;
            tokio::time::sleep(Duration::from_secs(600)).await;
            Ok(())
        });
        let started = Instant::now();
        assert_eq!(
            within(SHORT, Instant::now(), call).await,
            Err(Failure::Deadline(SHORT))
        );
        assert!(started.elapsed() >= SHORT * 3);
    }

    #[tokio::test]
    async fn a_wait_of_an_inner_call_stops_the_clock_of_the_outer_one() {
        let inner = || async {
            waiting(tokio::time::sleep(SHORT * 6)).await;
            Ok(())
        };
        let outer = pin!(async { within(SHORT, Instant::now(), pin!(inner())).await });
        assert_eq!(within(SHORT, Instant::now(), outer).await, Ok(()));
    }

    #[test]
    fn a_wait_without_end_is_bounded_and_not_a_missed_deadline() {
        let clock = CallClock {
            started: Instant::now(),
            waits: Mutex::default(),
            outer: None,
        };
        clock.begin(clock.started, true);
        let (used, waited) = clock.read(clock.started + MAX_WAIT);
        assert_eq!((used, waited), (Duration::ZERO, MAX_WAIT));
        clock.end(clock.started + MAX_WAIT, true);
        let later = clock.started + MAX_WAIT + SHORT;
        assert_eq!(clock.read(later), (SHORT, MAX_WAIT));
    }
}
