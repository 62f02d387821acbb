//! The trait through which the loop of a plugin waits and runs turns (`wit/waiting.wit`,
//! `wit/turns.wit`).
//!
//! A run of a loop gets one; hooks, tools and commands get none. An implementation decides which
//! sessions a loop may use and how many turns it may run. Whether the plugin may run turns at all
//! was decided before: without the grant the import is not linked. Start from [`LoopHandle`].

use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use super::handle::HandleError;

/// Maximum number of turns that a loop starts within a minute.
pub const MAX_TURNS_PER_MINUTE: u32 = 20;

/// Maximum number of turns of one loop that run at the same time.
pub const MAX_RUNNING_TURNS: u32 = 4;

/// Maximum size of a message to a loop, in bytes.
pub const MAX_MESSAGE_BYTES: usize = 64 << 10;

/// Maximum number of messages to a loop that wait for it.
pub const MAX_MESSAGES: usize = 64;

/// A message to a loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoopMessage {
    /// Sender, such as `http`.
    pub sender: String,
    /// Text of the message, at most [`MAX_MESSAGE_BYTES`].
    pub text: String,
}

/// Session in which a loop wants to run a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TurnSession {
    /// A new session.
    Fresh,
    /// The session that the loop keeps under this name.
    Named(String),
    /// An existing session, by its full id.
    Existing(String),
}

/// Work for a turn that a loop runs.
#[derive(Clone, Debug, PartialEq)]
pub struct LoopTurnOrder {
    /// Input of the turn.
    pub input: String,
    /// Session of the turn.
    pub session: TurnSession,
    /// Model to ask; `None` is the host's.
    pub model: Option<String>,
    /// Name of the preset that selects the tools.
    pub preset: Option<String>,
    /// Id of the input.
    pub input_id: Option<String>,
    /// Maximum cost in US dollars.
    pub max_cost_usd: Option<f64>,
}

/// A turn of a loop that has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct LoopTurnReport {
    /// Id of the session.
    pub session: String,
    /// Number of the turn in the session.
    pub turn: u32,
    /// Reason for the end, as in the contract.
    pub state: &'static str,
    /// Output of the turn, or the reason why there is none.
    pub answer: String,
    /// Number of steps.
    pub steps: u32,
    /// Number of tool calls.
    pub tool_calls: u32,
    /// Cost in US dollars of the tokens with a known price.
    pub cost_usd: f64,
    /// Tokens whose model has no known price.
    pub unpriced_tokens: u64,
}

/// Functions that a run of a loop may call, in addition to those of its session.
pub trait LoopHandle: Send + Sync {
    /// Returns the token that is set when the host ends. From the first call on, the run is given
    /// time to return after that.
    fn shutdown(&self) -> CancellationToken;

    /// Checks whether the loop may continue: its session must not be full.
    ///
    /// # Errors
    /// The session of the loop has reached its limit.
    fn check_session(&self) -> Result<(), HandleError>;

    /// Waits for a message. No message is lost when the future is dropped.
    fn receive_message(&self) -> BoxFuture<'_, LoopMessage>;

    /// Starts a turn and returns the id of its session.
    fn start_turn(&self, order: LoopTurnOrder) -> BoxFuture<'_, Result<String, HandleError>>;

    /// Waits for the end of a turn that the loop started, at most for `limit`. `Ok(None)` if it
    /// still runs then.
    fn finish_turn<'a>(
        &'a self,
        session: &'a str,
        limit: Option<Duration>,
    ) -> BoxFuture<'a, Result<Option<LoopTurnReport>, HandleError>>;

    /// Says something to a turn of the loop that runs.
    fn steer_turn<'a>(
        &'a self,
        session: &'a str,
        text: String,
    ) -> BoxFuture<'a, Result<(), HandleError>>;

    /// Interrupts a turn of the loop. Returns whether one runs in the session.
    fn stop_turn(&self, session: &str) -> bool;

    /// Returns the sessions with turns of the loop that run or whose reports were not returned yet.
    fn running_turns(&self) -> Vec<String>;
}
