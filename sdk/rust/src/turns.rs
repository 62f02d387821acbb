//! Runs turns of the agent from a loop. Needs the side effect `external` and
//! `[external] turns = true`.

pub use crate::bindings::rind::plugin::turns::{TurnOrder, TurnReport, TurnSession};
use crate::types::Error;

#[cfg(target_family = "wasm")]
use crate::bindings::rind::plugin::turns as host;
#[cfg(not(target_family = "wasm"))]
use crate::testing::turns as host;

/// Runs a turn to its end.
///
/// # Errors
/// The caller is a hook, a tool or a command, a limit refused the turn, or the session cannot be
/// used.
pub fn run(order: &TurnOrder) -> Result<TurnReport, Error> {
    host::run(order)
}

/// Starts a turn and returns the id of its session without waiting for its end. The turn is
/// interrupted if it still runs when this run of the loop ends.
///
/// # Errors
/// As [`run`].
pub fn start(order: &TurnOrder) -> Result<String, Error> {
    host::start(order)
}

/// Waits at most `timeout_ms` for the end of the turn that this loop started in a session, and
/// returns its report; `None` if the turn still runs. A report is returned once.
///
/// # Errors
/// The loop started no turn in the session, or the session could not be used.
pub fn finish(session: &str, timeout_ms: u64) -> Result<Option<TurnReport>, Error> {
    host::finish(session, timeout_ms)
}

/// Sends text to the turn that this loop runs in a session. The model reads it before its next
/// request.
///
/// # Errors
/// No turn of this loop runs in the session.
pub fn steer(session: &str, text: &str) -> Result<(), Error> {
    host::steer(session, text)
}

/// Interrupts the turn that this loop runs in a session. Returns whether a turn ran
/// there.
///
/// # Errors
/// The caller is a hook, a tool or a command.
pub fn stop(session: &str) -> Result<bool, Error> {
    host::stop(session)
}

/// Returns the sessions in which turns of this loop run, or have a report that was not returned
/// yet.
///
/// # Errors
/// The caller is a hook, a tool or a command.
pub fn running() -> Result<Vec<String>, Error> {
    host::running()
}

impl TurnOrder {
    /// Creates an order for a turn in a new session. The turn has all tools of the session.
    #[must_use]
    pub fn new(input: impl Into<String>) -> Self {
        Self {
            input: input.into(),
            session: TurnSession::Fresh,
            model: None,
            preset: None,
            input_id: None,
            max_cost_usd: None,
        }
    }

    /// Runs the turn in the session that the loop keeps under this name, which is created if it is
    /// missing.
    #[must_use]
    pub fn in_session(mut self, name: impl Into<String>) -> Self {
        self.session = TurnSession::Named(name.into());
        self
    }

    /// Limits the turn to the tools that a preset of subagents selects.
    #[must_use]
    pub fn preset(mut self, name: impl Into<String>) -> Self {
        self.preset = Some(name.into());
        self
    }

    /// Sets the model of the turn.
    #[must_use]
    pub fn model(mut self, name: impl Into<String>) -> Self {
        self.model = Some(name.into());
        self
    }

    /// Sets the id of the input. A session accepts an input with an id only once: repeated, the
    /// input continues its interrupted turn, or gets the report of the ended one.
    #[must_use]
    pub fn input_id(mut self, id: impl Into<String>) -> Self {
        self.input_id = Some(id.into());
        self
    }

    /// Ends the turn before it costs more than this, in US dollars.
    #[must_use]
    pub fn max_cost_usd(mut self, usd: f64) -> Self {
        self.max_cost_usd = Some(usd);
        self
    }
}
