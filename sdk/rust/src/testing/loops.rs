//! Waits, turns and WebSockets of a loop in tests: the test says how each ends.

use super::answers::Answerer;
use crate::turns::{TurnOrder, TurnReport};
use crate::types::Error;
use crate::waiting::{WakeConditions, Wakeup};
use crate::websocket::{ConnectionEvent, Frame};

thread_local! {
    static WAITS: Answerer<WakeConditions, Wakeup> = const { Answerer::new("answer_waits") };
    static TURNS: Answerer<TurnOrder, TurnReport> = const { Answerer::new("answer_turns") };
    static SOCKETS: Answerer<SocketCall, Vec<ConnectionEvent>> =
        const { Answerer::new("answer_sockets") };
}

/// Forgets every answer on this thread.
pub(super) fn reset() {
    WAITS.with(Answerer::reset);
    TURNS.with(Answerer::reset);
    SOCKETS.with(Answerer::reset);
    websocket::reset();
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

/// Use of a WebSocket by the plugin, in a test.
#[derive(Clone, Debug)]
pub enum SocketCall {
    /// Opens a connection to a URL.
    Open(String),
    /// Sends a message on the connection with this number.
    Send(u32, Frame),
    /// Closes the connection with this number.
    Close(u32),
}

/// Answers for the servers of the plugin's WebSockets on this thread, with the events that come on
/// the connection then. Without it each connection is denied. Connections count from 1.
pub fn answer_sockets(
    answer: impl Fn(SocketCall) -> Result<Vec<ConnectionEvent>, Error> + 'static,
) {
    SOCKETS.with(|own| own.set(answer));
}

pub(crate) mod websocket {
    use std::cell::RefCell;
    use std::collections::{BTreeMap, VecDeque};

    use super::{ConnectionEvent, Error, Frame, SOCKETS, SocketCall};
    use crate::websocket::ConnectRequest;

    type Open = BTreeMap<u32, VecDeque<ConnectionEvent>>;

    thread_local! {
        /// Events that were not taken, of each open connection; and the number of the last one.
        static OPEN: RefCell<(Open, u32)> = const { RefCell::new((BTreeMap::new(), 0)) };
    }

    pub(super) fn reset() {
        OPEN.take();
    }

    fn answer(number: u32, call: SocketCall) -> Result<(), Error> {
        let events = SOCKETS.with(|own| own.answer(call))?;
        with(number, |queue| queue.extend(events))
    }

    fn with<T>(
        number: u32,
        run: impl FnOnce(&mut VecDeque<ConnectionEvent>) -> T,
    ) -> Result<T, Error> {
        OPEN.with_borrow_mut(|(open, _)| open.get_mut(&number).map(run))
            .ok_or_else(|| Error::NotFound(format!("connection {number} is not open")))
    }

    pub(crate) fn open(request: &ConnectRequest) -> Result<u32, Error> {
        let events = SOCKETS.with(|own| own.answer(SocketCall::Open(request.url.clone())))?;
        Ok(OPEN.with_borrow_mut(|(open, last)| {
            *last += 1;
            open.insert(*last, events.into());
            *last
        }))
    }

    pub(crate) fn send(number: u32, frame: &Frame) -> Result<(), Error> {
        with(number, |_| ())?;
        answer(number, SocketCall::Send(number, frame.clone()))
    }

    pub(crate) fn receive(number: u32) -> Result<Option<ConnectionEvent>, Error> {
        let event = with(number, VecDeque::pop_front)?;
        if matches!(event, Some(ConnectionEvent::Closed(_))) {
            OPEN.with_borrow_mut(|(open, _)| open.remove(&number));
        }
        Ok(event)
    }

    pub(crate) fn close(number: u32) -> Result<(), Error> {
        if OPEN
            .with_borrow_mut(|(open, _)| open.remove(&number))
            .is_some()
        {
            SOCKETS.with(|own| own.answer(SocketCall::Close(number)))?;
        }
        Ok(())
    }
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
