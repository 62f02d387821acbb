//! Loops of plugins that order the turns of the agent (`wit/agent-loop.wit`, `wit/agent-turn.wit`):
//! the loop as the agent sees it, and the primitives of a turn as the loop sees them.
//!
//! A primitive is sent to the turn, which carries it out in its own task and sends the answer back.
//! So a loop needs no access to the turn itself. The module must not know the effect of a primitive. Start from [`AgentLoop`].

use futures_util::future::BoxFuture;
use tokio::sync::{mpsc, oneshot};

use super::caller::Caller;
use super::failure::Failure;
use super::handle::HandleError;
use super::payload::Decision;
use crate::message::{ToolCall, Usage};

/// Maximum number of primitives between two requests to the model. Requests are bounded by the limit
/// of steps; without this limit, a loop could run without end between two of them.
pub const MAX_PRIMITIVES: u32 = 64;

/// Maximum number of answers outside the conversation that a turn keeps.
pub const MAX_CANDIDATES: usize = 16;

/// Maximum size of a text that a loop adds, in bytes.
pub const MAX_ADDED_BYTES: usize = 256 << 10;

/// Checks the size of a text that a loop adds, in bytes.
///
/// # Errors
/// The text is longer than [`MAX_ADDED_BYTES`].
pub fn check_added_size(what: &str, n_bytes: usize) -> Result<(), HandleError> {
    if n_bytes <= MAX_ADDED_BYTES {
        return Ok(());
    }
    Err(HandleError::Limit(format!(
        "the {what} has {n_bytes} bytes, at most {MAX_ADDED_BYTES} are accepted"
    )))
}

/// A loop that orders turns.
pub trait AgentLoop: Send + Sync {
    /// Returns the name of its plugin.
    fn plugin(&self) -> &str;

    /// Runs a turn by asking for its primitives. Dropping the future ends the loop, which keeps
    /// nothing that the turn needs.
    ///
    /// # Errors
    /// The loop failed, trapped, or computed longer than its deadline.
    fn run_turn(
        &self,
        caller: Caller,
        turn: TurnPrimitives,
    ) -> BoxFuture<'static, Result<(), Failure>>;
}

/// Channel for the answer of a primitive.
pub type PrimitiveReply<T> = oneshot::Sender<Result<T, HandleError>>;

/// A primitive that a loop asks for.
#[derive(Debug)]
pub enum TurnPrimitive {
    /// Whether the turn continues one that was interrupted.
    IsResumed(PrimitiveReply<bool>),
    /// Takes the input of the turn, and steering at later calls.
    TakeInput(PrimitiveReply<Option<TakenInput>>),
    /// Makes the system prompt.
    BuildPrompt(PrimitiveReply<()>),
    /// Asks the model.
    Request(AnswerOrder, PrimitiveReply<TurnAnswer>),
    /// Makes an answer outside the conversation a part of it.
    Accept(u32, PrimitiveReply<()>),
    /// Runs the calls of the last answer.
    RunCalls(PrimitiveReply<Vec<CallReport>>),
    /// Adds a message of the plugin.
    Inject(String, PrimitiveReply<()>),
    /// Returns the reason for another step, if one is needed.
    Reflect(PrimitiveReply<Option<String>>),
    /// Gives the last answer out.
    Finish(PrimitiveReply<TurnFinish>),
}

impl TurnPrimitive {
    /// Returns the name in the contract.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::IsResumed(_) => "is-resumed",
            Self::TakeInput(_) => "take-input",
            Self::BuildPrompt(_) => "build-prompt",
            Self::Request(..) => "request",
            Self::Accept(..) => "accept",
            Self::RunCalls(_) => "run-calls",
            Self::Inject(..) => "inject",
            Self::Reflect(_) => "reflect",
            Self::Finish(_) => "finish",
        }
    }
}

/// Input that a turn has taken.
#[derive(Clone, Debug, PartialEq)]
pub struct TakenInput {
    /// Text after the hooks; empty if hooks dropped it and added messages of their own.
    pub text: String,
    /// Assessment of the turn's first input.
    pub decision: Decision,
}

/// Request that a loop orders.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnswerOrder {
    /// Model to ask; `None` selects the model of the turn.
    pub model: Option<String>,
    /// Name of the preset that selects the tools; `None` leaves all.
    pub preset: Option<String>,
    /// Message of the plugin for this request only.
    pub note: Option<String>,
    /// Whether the answer stays outside the conversation.
    pub is_aside: bool,
}

/// Answer of the model.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnAnswer {
    /// Number of the answer, which no other of the turn has.
    pub id: u32,
    /// Model that was asked.
    pub model: String,
    /// Text of the answer, as hooks left it.
    pub text: String,
    /// Calls of the answer.
    pub calls: Vec<ToolCall>,
    /// Whether the model was cut off.
    pub is_cut: bool,
    /// Tokens of the request.
    pub usage: Usage,
}

/// A call that has a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallReport {
    /// Name of the tool.
    pub name: String,
    /// Whether it failed, was refused or was skipped.
    pub is_error: bool,
}

/// Outcome of the attempt to end a turn.
#[derive(Clone, Debug, PartialEq)]
pub enum TurnFinish {
    /// The answer went out, and the turn is over.
    Done,
    /// Another step is needed, for this reason.
    Again(String),
    /// The answer went out, and the person follows up with this.
    FollowUp(TakenInput),
}

/// The way of a loop to the primitives of its turn. Cheap to clone.
#[derive(Clone, Debug)]
pub struct TurnPrimitives(mpsc::Sender<TurnPrimitive>);

impl TurnPrimitives {
    /// Creates the channel: the loop's end, and the end at which the turn receives.
    pub(crate) fn channel() -> (Self, mpsc::Receiver<TurnPrimitive>) {
        let (sender, receiver) = mpsc::channel(1);
        (Self(sender), receiver)
    }

    /// Asks for a primitive, and waits until the turn has carried it out.
    ///
    /// # Errors
    /// The turn refused it, or is over.
    pub async fn ask<T>(
        &self,
        primitive: impl FnOnce(PrimitiveReply<T>) -> TurnPrimitive,
    ) -> Result<T, HandleError> {
        let over = || HandleError::Failed("the turn is over".to_owned());
        let (reply, answer) = oneshot::channel();
        let sent = self.0.send(primitive(reply)).await;
        sent.map_err(|_| over())?;
        answer.await.map_err(|_| over())?
    }
}
