//! The trait through which the loop of a plugin waits and runs turns (`wit/waiting.wit`,
//! `wit/turns.wit`).
//!
//! Each run of a loop gets a handle; hooks, tools and commands do not get one. An implementation
//! decides which sessions a loop may use and how many turns it may run. Whether the plugin may run
//! turns at all is decided when it is linked: without the grant, the import is missing. Start from
//! [`LoopHostFunctions`].

use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use super::handle::HostFunctionError;

/// Maximum number of turns that a loop starts within a minute.
pub const MAX_TURNS_PER_MINUTE: u32 = 20;

/// Maximum number of turns of one loop that run at the same time.
pub const MAX_RUNNING_TURNS: u32 = 4;

/// Maximum size of a message to a loop, in bytes.
pub const MAX_LOOP_MESSAGE_BYTES: usize = 64 << 10;

/// Maximum number of messages that are queued for a loop.
pub const MAX_QUEUED_LOOP_MESSAGES: usize = 64;

/// Message that was sent to the loop of a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IncomingLoopMessage {
    /// Sender of the message, such as `http`.
    pub sender: String,
    /// Text of the message, at most [`MAX_LOOP_MESSAGE_BYTES`].
    pub text: String,
}

/// Session in which a loop runs a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TurnSessionSelector {
    /// New session for this turn.
    Fresh,
    /// Session to which the loop gave this name.
    Named(String),
    /// Existing session with this full id.
    Existing(String),
}

/// Request of a loop to run a turn.
#[derive(Clone, Debug, PartialEq)]
pub struct LoopTurnRequest {
    /// Input text of the turn.
    pub input: String,
    /// Session in which the turn runs.
    pub session: TurnSessionSelector,
    /// Model that the turn uses; `None` selects the model of the host.
    pub model: Option<String>,
    /// Name of the preset that selects the tools; `None` keeps all tools of the session.
    pub preset: Option<String>,
    /// Idempotency key of the input: a session runs an input with the same id only once.
    pub input_id: Option<String>,
    /// Maximum cost of the turn in US dollars.
    pub max_cost_usd: Option<f64>,
}

/// Report on a turn of a loop that has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct LoopTurnReport {
    /// Id of the session in which the turn ran.
    pub session: String,
    /// Number of the turn in the session.
    pub turn: u32,
    /// Reason why the turn ended, as the plugin contract names it.
    pub state: &'static str,
    /// Output of the turn, or the reason why there is none.
    pub answer: String,
    /// Number of steps that the turn made.
    pub steps: u32,
    /// Number of tool calls that the turn made.
    pub tool_calls: u32,
    /// Cost in US dollars of the tokens with a known price.
    pub cost_usd: f64,
    /// Tokens whose model has no known price.
    pub unpriced_tokens: u64,
}

/// Functions of the host that a run of a plugin's loop may call, in addition to those for its
/// session.
pub trait LoopHostFunctions: Send + Sync {
    /// Returns the token that is cancelled when the host shuts down. After the cancellation, a run
    /// that has called this method gets time to return.
    fn shutdown_token(&self) -> CancellationToken;

    /// Checks whether the loop may continue: its session must not be full.
    ///
    /// # Errors
    /// The session of the loop has reached its limit.
    fn check_session_limit(&self) -> Result<(), HostFunctionError>;

    /// Waits for a message. No message is lost when the future is dropped.
    fn receive_message(&self) -> BoxFuture<'_, IncomingLoopMessage>;

    /// Starts a turn and returns the id of its session.
    fn start_turn(
        &self,
        order: LoopTurnRequest,
    ) -> BoxFuture<'_, Result<String, HostFunctionError>>;

    /// Waits for the end of a turn that the loop started, at most for `limit`. Returns `Ok(None)`
    /// if the turn still runs after `limit`.
    fn finish_turn<'a>(
        &'a self,
        session: &'a str,
        limit: Option<Duration>,
    ) -> BoxFuture<'a, Result<Option<LoopTurnReport>, HostFunctionError>>;

    /// Sends a text to the turn that the loop runs in `session`.
    fn steer_turn<'a>(
        &'a self,
        session: &'a str,
        text: String,
    ) -> BoxFuture<'a, Result<(), HostFunctionError>>;

    /// Interrupts the turn that the loop runs in a session. Returns whether such a turn was
    /// running.
    fn stop_turn(&self, session: &str) -> bool;

    /// Returns the ids of the sessions in which a turn of the loop runs, or has ended without its
    /// report having been returned by `finish_turn`.
    fn running_turns(&self) -> Vec<String>;
}
