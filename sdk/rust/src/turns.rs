//! Running turns of the agent from a loop. Needs the side effect `external` and
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
/// A hook, a tool or a command calls it, a limit refused it, or the session cannot be used.
pub fn run(order: &TurnOrder) -> Result<TurnReport, Error> {
    host::run(order)
}

/// Starts a turn and returns the id of its session at once. It ends with the run at the latest.
///
/// # Errors
/// As [`run`].
pub fn start(order: &TurnOrder) -> Result<String, Error> {
    host::start(order)
}

/// Waits for the end of the turn that was started in a session, at most for `timeout_ms`, and
/// returns its report; `None` when it still runs.
///
/// # Errors
/// No turn was started there, or the session could not be used.
pub fn finish(session: &str, timeout_ms: u64) -> Result<Option<TurnReport>, Error> {
    host::finish(session, timeout_ms)
}

/// Sends text to the running turn of a session.
///
/// # Errors
/// None runs there.
pub fn steer(session: &str, text: &str) -> Result<(), Error> {
    host::steer(session, text)
}

/// Interrupts the turn that runs in a session. Returns whether one runs.
///
/// # Errors
/// A hook, a tool or a command calls it.
pub fn stop(session: &str) -> Result<bool, Error> {
    host::stop(session)
}

/// Returns the sessions in which turns run or have reports that were not taken yet.
///
/// # Errors
/// A hook, a tool or a command calls it.
pub fn running() -> Result<Vec<String>, Error> {
    host::running()
}

impl TurnOrder {
    /// A turn in a new session, with all tools.
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

    /// Runs in the session that the loop keeps under this name.
    #[must_use]
    pub fn in_session(mut self, name: impl Into<String>) -> Self {
        self.session = TurnSession::Named(name.into());
        self
    }

    /// Keeps to the tools that a preset of subagents selects.
    #[must_use]
    pub fn preset(mut self, name: impl Into<String>) -> Self {
        self.preset = Some(name.into());
        self
    }

    /// Asks this model.
    #[must_use]
    pub fn model(mut self, name: impl Into<String>) -> Self {
        self.model = Some(name.into());
        self
    }

    /// Gives the input an id, with which the session takes it once.
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
