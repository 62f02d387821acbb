//! The deadline of one call of a plugin, which stands still while the call waits for its turn.
//!
//! Owns what counts as the call's own time. A plugin answers one call after the other, so a call may first wait for another
//! one; that is not the plugin's fault and has the bound [`MAX_WAIT`] of its own. Whoever hands out instances says so with
//! [`waiting`], and who has one with [`holding`]: while a person thinks about a question of the holder, the bound stands still as
//! well. It must not know what is called. Start from [`within`].

use std::cell::OnceCell;
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

struct CallClock {
    started: Instant,
    waits: Mutex<Waits>,
    /// The call that this one is part of: it stands still as well.
    outer: Option<Arc<CallClock>>,
    /// Pauses of what the call holds.
    held: OnceLock<Arc<Pauses>>,
}

/// Time in which whoever holds something that others wait for waited for a person.
#[derive(Debug, Default)]
pub(crate) struct Pauses(Mutex<Paused>);

#[derive(Debug, Default)]
struct Paused {
    n_open: u32,
    since: Option<Instant>,
    total: Duration,
}

impl Pauses {
    fn lock(&self) -> MutexGuard<'_, Paused> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, now: Instant) {
        let mut paused = self.lock();
        paused.n_open += 1;
        paused.since.get_or_insert(now);
    }

    fn end(&self, now: Instant) {
        let mut paused = self.lock();
        paused.n_open = paused.n_open.saturating_sub(1);
        if paused.n_open == 0
            && let Some(since) = paused.since.take()
        {
            paused.total += now.saturating_duration_since(since);
        }
    }

    /// Returns the time of all pauses so far.
    fn total(&self, now: Instant) -> Duration {
        let paused = self.lock();
        let open = paused
            .since
            .map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        paused.total + open
    }
}

/// Reason why a call stands still.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wait {
    /// For another call of the same plugin.
    Turn,
    /// For the end of such a wait of a call that it made.
    Inner,
    /// For a person.
    Person,
}

impl Wait {
    /// The reason for the call that made this one.
    fn of_outer(self) -> Self {
        match self {
            Self::Turn | Self::Inner => Self::Inner,
            Self::Person => Self::Person,
        }
    }
}

/// The wait of a call for its turn.
struct OwnWait {
    since: Instant,
    /// Pauses of what it waits for, and their time when the wait began.
    pauses: Option<(Arc<Pauses>, Duration)>,
}

impl OwnWait {
    /// Returns the time of the wait that counts.
    fn counted(&self, now: Instant) -> Duration {
        let passed = now.saturating_duration_since(self.since);
        let paused = self
            .pauses
            .as_ref()
            .map_or(Duration::ZERO, |(pauses, before)| {
                pauses.total(now).saturating_sub(*before)
            });
        passed.saturating_sub(paused)
    }
}

#[derive(Default)]
struct Waits {
    /// Number of running waits, its own and those of calls within it.
    n_open: u32,
    since: Option<Instant>,
    /// Time that waiting took so far.
    total: Duration,
    /// The wait of the call itself, if it waits.
    own: Option<OwnWait>,
    own_total: Duration,
}

impl CallClock {
    fn lock(&self) -> MutexGuard<'_, Waits> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, now: Instant, wait: Wait, pauses: Option<&Arc<Pauses>>) {
        let mut waits = self.lock();
        waits.n_open += 1;
        waits.since.get_or_insert(now);
        if wait == Wait::Turn {
            waits.own = Some(OwnWait {
                since: now,
                pauses: pauses.map(|pauses| (pauses.clone(), pauses.total(now))),
            });
        }
        drop(waits);
        if let Some(held) = self.held.get().filter(|_| wait == Wait::Person) {
            held.begin(now);
        }
        if let Some(outer) = &self.outer {
            outer.begin(now, wait.of_outer(), None);
        }
    }

    fn end(&self, now: Instant, wait: Wait) {
        let mut waits = self.lock();
        waits.n_open = waits.n_open.saturating_sub(1);
        if waits.n_open == 0
            && let Some(since) = waits.since.take()
        {
            waits.total += now.saturating_duration_since(since);
        }
        if wait == Wait::Turn
            && let Some(own) = waits.own.take()
        {
            waits.own_total += own.counted(now);
        }
        drop(waits);
        if let Some(held) = self.held.get().filter(|_| wait == Wait::Person) {
            held.end(now);
        }
        if let Some(outer) = &self.outer {
            outer.end(now, wait.of_outer());
        }
    }

    /// Returns the time of the call itself so far, and the time it waited for its turn.
    fn read(&self, now: Instant) -> (Duration, Duration) {
        let waits = self.lock();
        let open = waits
            .since
            .map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        let own = waits
            .own
            .as_ref()
            .map_or(Duration::ZERO, |own| own.counted(now));
        let passed = now.saturating_duration_since(self.started);
        (
            passed.saturating_sub(waits.total + open),
            waits.own_total + own,
        )
    }
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
    let _ = CLOCK.try_with(|lazy| {
        let _ = match lazy.clock.get() {
            Some(clock) => clock.held.set(pauses.clone()),
            None => lazy.held.set(pauses.clone()),
        };
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
    let lazy = LazyClock {
        started,
        outer: clock(),
        clock: OnceCell::new(),
        held: OnceCell::new(),
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
            waiting(tokio::time::sleep(SHORT * 6), None).await;
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
            waiting(tokio::time::sleep(SHORT * 2), None).await;
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
            waiting(tokio::time::sleep(SHORT * 6), None).await;
            Ok(())
        };
        let outer = pin!(async { within(SHORT, Instant::now(), pin!(inner())).await });
        assert_eq!(within(SHORT, Instant::now(), outer).await, Ok(()));
    }

    fn clock_of(outer: Option<Arc<CallClock>>) -> CallClock {
        CallClock {
            started: Instant::now(),
            waits: Mutex::default(),
            outer,
            held: OnceLock::new(),
        }
    }

    #[test]
    fn a_wait_without_end_is_bounded_and_not_a_missed_deadline() {
        let clock = clock_of(None);
        clock.begin(clock.started, Wait::Turn, None);
        let (used, waited) = clock.read(clock.started + MAX_WAIT);
        assert_eq!((used, waited), (Duration::ZERO, MAX_WAIT));
        clock.end(clock.started + MAX_WAIT, Wait::Turn);
        let later = clock.started + MAX_WAIT + SHORT;
        assert_eq!(clock.read(later), (SHORT, MAX_WAIT));
    }

    #[test]
    fn while_a_person_thinks_about_a_question_of_the_holder_no_wait_counts() {
        let pauses = Arc::<Pauses>::default();
        let holder = Arc::new(clock_of(None));
        holder.held.set(pauses.clone()).unwrap();
        // It asks by way of a call of its own.
        let asker = clock_of(Some(holder));
        let waiter = clock_of(None);
        let start = waiter.started;
        waiter.begin(start, Wait::Turn, Some(&pauses));
        asker.begin(start + SHORT, Wait::Person, None);
        let thought = start + SHORT + MAX_WAIT * 3;
        assert_eq!(waiter.read(thought), (Duration::ZERO, SHORT));
        asker.end(thought, Wait::Person);
        assert_eq!(waiter.read(thought + SHORT).1, SHORT * 2);
        // A wait for another plugin does not count as one: two that wait for each other would do so for ever.
        asker.begin(thought + SHORT, Wait::Turn, None);
        assert_eq!(waiter.read(thought + SHORT * 2).1, SHORT * 3);
        waiter.end(thought + SHORT * 2, Wait::Turn);
        assert_eq!(waiter.read(thought + SHORT * 3), (SHORT, SHORT * 3));
    }

    #[tokio::test]
    async fn who_holds_something_and_asks_a_person_tells_those_who_wait() {
        let pauses = Arc::<Pauses>::default();
        let is_open = || pauses.lock().n_open == 1;
        let call = pin!(async {
            holding(&pauses);
            assert!(!is_open());
            paused(async { assert!(is_open()) }).await;
            // As well once the call has waited, when it has a clock already.
            tokio::task::yield_now().await;
            paused(async { assert!(is_open()) }).await;
            Ok(())
        });
        assert_eq!(within(SHORT * 100, Instant::now(), call).await, Ok(()));
        assert!(!is_open());
        let later = pin!(async {
            tokio::task::yield_now().await;
            holding(&pauses);
            paused(async { assert!(is_open()) }).await;
            Ok(())
        });
        assert_eq!(within(SHORT * 100, Instant::now(), later).await, Ok(()));
    }
}
