//! Waits and turns of a loop in tests: the test says how each ends.

use super::answers::Answerer;
use crate::turns::{TurnOrder, TurnReport};
use crate::types::Error;
use crate::waiting::{WakeConditions, Wakeup};

thread_local! {
    static WAITS: Answerer<WakeConditions, Wakeup> = const { Answerer::new("answer_waits") };
    static TURNS: Answerer<TurnOrder, TurnReport> = const { Answerer::new("answer_turns") };
}

/// Forgets every answer on this thread.
pub(super) fn reset() {
    WAITS.with(Answerer::reset);
    TURNS.with(Answerer::reset);
}

/// Ends the waits of the plugin's loop on this thread. Without it each is denied. Nothing really
/// waits.
pub fn answer_waits(answer: impl Fn(WakeConditions) -> Result<Wakeup, Error> + 'static) {
    WAITS.with(|own| own.set(answer));
}

/// Ends the turns of the plugin's loop on this thread. Without it each is denied. One that is
/// started is to be run with `turns::run` in such tests.
pub fn answer_turns(answer: impl Fn(TurnOrder) -> Result<TurnReport, Error> + 'static) {
    TURNS.with(|own| own.set(answer));
}

pub(crate) mod waiting {
    use super::{Error, WAITS, WakeConditions, Wakeup};

    pub(crate) fn wait(until: &WakeConditions) -> Result<Wakeup, Error> {
        WAITS.with(|own| own.answer(until.clone()))
    }
}

pub(crate) mod turns {
    use std::cell::RefCell;

    use super::{Error, TURNS, TurnOrder, TurnReport};

    thread_local! {
        /// Turns that were started. Each has ended at once.
        static STARTED: RefCell<Vec<TurnReport>> = const { RefCell::new(Vec::new()) };
    }

    pub(crate) fn run(order: &TurnOrder) -> Result<TurnReport, Error> {
        TURNS.with(|own| own.answer(order.clone()))
    }

    pub(crate) fn start(order: &TurnOrder) -> Result<String, Error> {
        let report = run(order)?;
        let session = report.session.clone();
        STARTED.with_borrow_mut(|started| started.push(report));
        Ok(session)
    }

    pub(crate) fn finish(session: &str, _: u64) -> Result<Option<TurnReport>, Error> {
        let report = STARTED.with_borrow_mut(|started| {
            let at = started.iter().position(|own| own.session == session)?;
            Some(started.remove(at))
        });
        report.map(Some).ok_or_else(|| unknown_error(session))
    }

    pub(crate) fn steer(session: &str, _: &str) -> Result<(), Error> {
        Err(unknown_error(session))
    }

    #[expect(
        clippy::unnecessary_wraps,
        reason = "it has the signature of the real host's function"
    )]
    pub(crate) fn stop(_: &str) -> Result<bool, Error> {
        Ok(false)
    }

    #[expect(
        clippy::unnecessary_wraps,
        reason = "it has the signature of the real host's function"
    )]
    pub(crate) fn running() -> Result<Vec<String>, Error> {
        Ok(STARTED.with_borrow(|started| started.iter().map(|own| own.session.clone()).collect()))
    }

    fn unknown_error(session: &str) -> Error {
        Error::NotFound(format!("no turn runs in session `{session}`"))
    }
}
