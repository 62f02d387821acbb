//! Primitives with which an agent loop runs a turn. Needs the side effect `external`, `[external]
//! agent_loop = true`, and the plugin's name as `loop` under `[agent]` in the operator's settings.
//!
//! This loop does the same as the built-in agent loop, and is a good start for another one:
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

/// Whether the turn continues one that was interrupted.
///
/// # Errors
/// The plugin's agent loop is not running.
pub fn is_resumed() -> Result<bool, Error> {
    host::is_resumed()
}

/// Returns the input of the turn. A later call returns the text that the user has sent since the
/// previous call; `None` if the user sent no text.
///
/// # Errors
/// As [`is_resumed`].
pub fn take_input() -> Result<Option<TakenInput>, Error> {
    host::take_input()
}

/// Builds the system prompt of the turn. A loop must call it once.
///
/// # Errors
/// As [`is_resumed`].
pub fn build_prompt() -> Result<(), Error> {
    host::build_prompt()
}

/// Sends a request to the model, which is one step of the turn.
///
/// # Errors
/// The operator does not allow agent loops to use this model, the preset does not exist, or the
/// model gave no answer to a request with `aside`.
pub fn request(order: &RequestOrder) -> Result<ModelAnswer, Error> {
    host::request(order)
}

/// Adds an answer that was requested with `aside` to the conversation.
///
/// # Errors
/// No answer has this id, or messages were added to the conversation since the request.
pub fn accept(id: u32) -> Result<(), Error> {
    host::accept(id)
}

/// Runs the tool calls of the last answer, and returns how each ended.
///
/// # Errors
/// As [`is_resumed`].
pub fn run_calls() -> Result<Vec<CallReport>, Error> {
    host::run_calls()
}

/// Adds a message to the conversation, which reaches the model as a user message from this plugin.
///
/// # Errors
/// The text is empty or too long.
pub fn inject(text: &str) -> Result<(), Error> {
    host::inject(text)
}

/// Checks the last answer by reflection. Returns the reason why another request is needed; `None`
/// if the answer is good enough.
///
/// # Errors
/// As [`is_resumed`].
pub fn reflect() -> Result<Option<String>, Error> {
    host::reflect()
}

/// Shows the last answer to the user after reflection and the hooks on the output, or returns the
/// reason why another request is needed.
///
/// # Errors
/// The same as those of [`is_resumed`].
pub fn finish() -> Result<TurnFinish, Error> {
    host::finish()
}

/// Sends requests and runs the tool calls of the answers, until an answer has no tool calls, and
/// returns this answer. The first request is `order`; the later ones are the same without its note.
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
    /// Creates a request that offers all tools and whose answer becomes a part of the conversation.
    #[must_use]
    pub fn new() -> Self {
        Self {
            model: None,
            preset: None,
            note: None,
            aside: false,
        }
    }

    /// Sets the model to ask.
    #[must_use]
    pub fn model(mut self, name: impl Into<String>) -> Self {
        self.model = Some(name.into());
        self
    }

    /// Limits the request to the tools that the subagent preset with this name selects.
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

    /// Keeps the answer outside of the conversation, unless it is accepted with [`accept`].
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
