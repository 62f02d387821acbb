//! Primitives of the turn that a loop of the agent runs. Needs the side effect `external` and
//! `[external] agent_loop = true`, and `loop` under `[agent]` in the operator's settings.
//!
//! The built-in order, with which a loop can begin:
//!
//! ```no_run
//! #[rind_sdk::plugin]
//! mod plain {
//!     use rind_sdk::prelude::*;
//!     use rind_sdk::agent_turn::{RequestOrder, TurnFinish};
//!
//!     #[agent_loop]
//!     fn run() -> Result<(), Error> {
//!         agent_turn::take_input()?;
//!         agent_turn::build_prompt()?;
//!         loop {
//!             let answer = agent_turn::request(&RequestOrder::new())?;
//!             if !answer.calls.is_empty() {
//!                 agent_turn::run_calls()?;
//!             } else if agent_turn::finish()? == TurnFinish::Done {
//!                 return Ok(());
//!             }
//!         }
//!     }
//! }
//! ```

pub use crate::bindings::rind::plugin::agent_turn::{
    CallReport, ModelAnswer, RequestOrder, TakenInput, TurnFinish,
};
use crate::types::Error;

#[cfg(target_family = "wasm")]
use crate::bindings::rind::plugin::agent_turn as host;
#[cfg(not(target_family = "wasm"))]
use crate::testing::agent_turn_host as host;

/// Whether the turn goes on with one that was interrupted.
///
/// # Errors
/// The plugin's loop of the agent does not run.
pub fn is_resumed() -> Result<bool, Error> {
    host::is_resumed()
}

/// Takes the input of the turn, and steering at later calls.
///
/// # Errors
/// As [`is_resumed`].
pub fn take_input() -> Result<Option<TakenInput>, Error> {
    host::take_input()
}

/// Makes the system prompt of the turn, once.
///
/// # Errors
/// As [`is_resumed`].
pub fn build_prompt() -> Result<(), Error> {
    host::build_prompt()
}

/// Asks the model, which is one step of the turn.
///
/// # Errors
/// The operator lets no loop ask this model, there is no such preset, or a model that was asked
/// aside gave no answer.
pub fn request(order: &RequestOrder) -> Result<ModelAnswer, Error> {
    host::request(order)
}

/// Makes an answer that was asked for aside a part of the conversation.
///
/// # Errors
/// There is none of this number, or the conversation went on since.
pub fn accept(id: u32) -> Result<(), Error> {
    host::accept(id)
}

/// Runs the calls of the last answer, and returns how each ended.
///
/// # Errors
/// As [`is_resumed`].
pub fn run_calls() -> Result<Vec<CallReport>, Error> {
    host::run_calls()
}

/// Adds a message of the plugin to the conversation.
///
/// # Errors
/// The text is empty or too long.
pub fn inject(text: &str) -> Result<(), Error> {
    host::inject(text)
}

/// Reflects on the last answer: the reason why another request is needed, or `None`.
///
/// # Errors
/// As [`is_resumed`].
pub fn reflect() -> Result<Option<String>, Error> {
    host::reflect()
}

/// Gives the last answer out, after reflection.
///
/// # Errors
/// As [`is_resumed`].
pub fn finish() -> Result<TurnFinish, Error> {
    host::finish()
}

/// Asks the model and runs the calls of its answers until an answer has no calls, and returns that
/// answer. The first request is `order`; the further ones are the same without its note.
///
/// # Errors
/// As [`request`].
pub fn request_to_end(order: &RequestOrder) -> Result<ModelAnswer, Error> {
    let mut order = order.clone();
    loop {
        let answer = request(&order)?;
        if answer.calls.is_empty() {
            return Ok(answer);
        }
        run_calls()?;
        order.note = None;
    }
}

impl RequestOrder {
    /// A request with all tools whose answer becomes a part of the conversation.
    #[must_use]
    pub fn new() -> Self {
        Self {
            model: None,
            preset: None,
            note: None,
            aside: false,
        }
    }

    /// Asks this model.
    #[must_use]
    pub fn model(mut self, name: impl Into<String>) -> Self {
        self.model = Some(name.into());
        self
    }

    /// Keeps to the tools that a preset of subagents selects.
    #[must_use]
    pub fn preset(mut self, name: impl Into<String>) -> Self {
        self.preset = Some(name.into());
        self
    }

    /// Adds a message for this request only.
    #[must_use]
    pub fn note(mut self, text: impl Into<String>) -> Self {
        self.note = Some(text.into());
        self
    }

    /// Keeps the answer outside of the conversation.
    #[must_use]
    pub fn aside(mut self) -> Self {
        self.aside = true;
        self
    }
}

impl Default for RequestOrder {
    fn default() -> Self {
        Self::new()
    }
}
