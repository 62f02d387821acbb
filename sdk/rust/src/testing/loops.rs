//! Simulates waits, turns and WebSockets of a loop in tests: the test decides how each ends.

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

/// Removes all functions, started turns and connections on this thread.
pub(super) fn reset() {
    WAITS.with(Answerer::reset);
    TURNS.with(Answerer::reset);
    SOCKETS.with(Answerer::reset);
    turns::reset();
    websocket::reset();
}

/// Sets the function that ends the waits of the plugin's loop on this thread, without any real
/// wait. Without one, waits are denied.
pub fn answer_waits(answer: impl Fn(WakeConditions) -> Result<Wakeup, Error> + 'static) {
    WAITS.with(|own| own.set(answer));
}

/// Sets the function that runs the turns of the plugin's loop on this thread. Without one, turns
/// are denied. A turn that is started ends at once, and `turns::finish` returns its report.
pub fn answer_turns(answer: impl Fn(TurnOrder) -> Result<TurnReport, Error> + 'static) {
    TURNS.with(|own| own.set(answer));
}

/// Call of a WebSocket function that the tested plugin made.
#[derive(Clone, Debug)]
pub enum SocketCall {
    /// Open a connection to this URL.
    Open(String),
    /// Send a message on the connection with this number.
    Send(u32, Frame),
    /// Close the connection with this number.
    Close(u32),
}

/// Sets the function that acts as the servers of the plugin's WebSockets on this thread. The
/// function gets each call of the plugin, and returns the events that then arrive on the
/// connection. Without a function, connections are denied. Connections are numbered from 1.
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
        /// Events of each open connection that were not received yet, and the number of the
        /// connection opened last.
        static OPEN: RefCell<(Open, u32)> = const { RefCell::new((BTreeMap::new(), 0)) };
    }

    pub(super) fn reset() {
        OPEN.take();
    }

    fn queue_answer(connection: u32, call: SocketCall) -> Result<(), Error> {
        let events = SOCKETS.with(|own| own.answer(call))?;
        with_connection(connection, |queue| queue.extend(events))
    }

    fn with_connection<T>(
        connection: u32,
        run: impl FnOnce(&mut VecDeque<ConnectionEvent>) -> T,
    ) -> Result<T, Error> {
        OPEN.with_borrow_mut(|(open, _)| open.get_mut(&connection).map(run))
            .ok_or_else(|| Error::NotFound(format!("connection {connection} is not open")))
    }

    pub(crate) fn open(request: &ConnectRequest) -> Result<u32, Error> {
        let events = SOCKETS.with(|own| own.answer(SocketCall::Open(request.url.clone())))?;
        Ok(OPEN.with_borrow_mut(|(open, last)| {
            *last += 1;
            open.insert(*last, events.into());
            *last
        }))
    }

    pub(crate) fn send(connection: u32, frame: &Frame) -> Result<(), Error> {
        with_connection(connection, |_| ())?;
        queue_answer(connection, SocketCall::Send(connection, frame.clone()))
    }

    pub(crate) fn receive(connection: u32) -> Result<Option<ConnectionEvent>, Error> {
        let event = with_connection(connection, VecDeque::pop_front)?;
        if matches!(event, Some(ConnectionEvent::Closed(_))) {
            OPEN.with_borrow_mut(|(open, _)| open.remove(&connection));
        }
        Ok(event)
    }

    pub(crate) fn close(connection: u32) -> Result<(), Error> {
        if OPEN
            .with_borrow_mut(|(open, _)| open.remove(&connection))
            .is_some()
        {
            SOCKETS.with(|own| own.answer(SocketCall::Close(connection)))?;
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
        /// Reports of the turns that were started. Each turn has already ended.
        static STARTED: RefCell<Vec<TurnReport>> = const { RefCell::new(Vec::new()) };
    }

    pub(super) fn reset() {
        STARTED.take();
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
