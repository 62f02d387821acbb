//! Agent loops of plugins, which control the steps of a turn (`wit/agent-loop.wit`,
//! `wit/agent-turn.wit`): [`AgentLoop`] is the interface for the agent, and
//! [`TurnOperationRequestSender`] is the interface for the loop.
//!
//! The loop sends each primitive to the turn, which executes it in its own task and sends the
//! answer back. So the loop needs no access to the turn itself. The module must not depend on the
//! effect of a primitive. Start from [`AgentLoop`].

use futures_util::future::BoxFuture;
use tokio::sync::{mpsc, oneshot};

use super::caller::Caller;
use super::failure::Failure;
use super::handle::HostFunctionError;
use super::payload::Decision;
use crate::message::{ToolCall, Usage};

/// Maximum number of operations (primitives) that a loop may request between two requests to the
/// model. The step limit bounds the number of requests; without this constant, a loop could run
/// forever between two requests.
pub const MAX_OPERATIONS_BETWEEN_MODEL_REQUESTS: u32 = 64;

/// Maximum number of model answers that a turn stores outside the conversation.
pub const MAX_CANDIDATE_ANSWERS: usize = 16;

/// Maximum size in bytes of a text that an agent loop adds to the conversation.
pub const MAX_AGENT_LOOP_TEXT_BYTES: usize = 256 << 10;

/// Checks the size of a text that an agent loop adds to the conversation.
///
/// # Errors
/// The text is longer than [`MAX_AGENT_LOOP_TEXT_BYTES`].
pub fn check_added_text_size(what: &str, n_bytes: usize) -> Result<(), HostFunctionError> {
    if n_bytes <= MAX_AGENT_LOOP_TEXT_BYTES {
        return Ok(());
    }
    Err(HostFunctionError::Limit(format!(
        "the {what} has {n_bytes} bytes, at most {MAX_AGENT_LOOP_TEXT_BYTES} are accepted"
    )))
}

/// Agent loop of a plugin, which controls the steps of a turn.
pub trait AgentLoop: Send + Sync {
    /// Returns the name of the loop's plugin.
    fn plugin(&self) -> &str;

    /// Runs a turn by requesting primitives through `turn`. Dropping the returned future ends the
    /// loop. The turn needs no state that the loop holds.
    ///
    /// # Errors
    /// The loop failed, trapped, or computed longer than its deadline.
    fn run_turn(
        &self,
        caller: Caller,
        turn: TurnOperationRequestSender,
    ) -> BoxFuture<'static, Result<(), Failure>>;
}

/// Channel on which the turn answers a requested operation, or reports why it failed.
pub type TurnOperationReplySender<T> = oneshot::Sender<Result<T, HostFunctionError>>;

/// Operation of a turn that a loop requests, with the channel for the answer.
#[derive(Debug)]
pub enum TurnOperationRequest {
    /// Answers whether the turn continues an interrupted turn.
    IsResumed(TurnOperationReplySender<bool>),
    /// Takes the input of the turn. Later calls take the messages that the user sent since the last
    /// call.
    TakeInput(TurnOperationReplySender<Option<ProcessedTurnInput>>),
    /// Builds the system prompt of the turn.
    BuildPrompt(TurnOperationReplySender<()>),
    /// Sends a request to the model and replies with its answer.
    Request(
        AgentLoopModelRequest,
        TurnOperationReplySender<AgentLoopModelAnswer>,
    ),
    /// Adds to the conversation an answer of the model that the turn had kept outside of it.
    Accept(u32, TurnOperationReplySender<()>),
    /// Runs the tool calls of the model's last answer, and answers with a report on each.
    RunCalls(TurnOperationReplySender<Vec<ToolCallSummary>>),
    /// Adds a message of the plugin to the conversation.
    Inject(String, TurnOperationReplySender<()>),
    /// Checks the last answer, and returns the reason for another step if one is needed.
    Reflect(TurnOperationReplySender<Option<String>>),
    /// Outputs the last answer and ends the turn, unless another step is needed.
    Finish(TurnOperationReplySender<TurnFinishResult>),
}

impl TurnOperationRequest {
    /// Returns the name of the contract's function that requests this operation.
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

/// Input that the turn took, after hooks changed it.
#[derive(Clone, Debug, PartialEq)]
pub struct ProcessedTurnInput {
    /// Text as changed by hooks; empty if hooks removed the text and added other messages.
    pub text: String,
    /// Decision on how to handle the turn, from the assessment of its first input.
    pub decision: Decision,
}

/// Request to the model that an agent loop asks the turn to send.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentLoopModelRequest {
    /// Model that gets the request; `None` selects the model of the turn.
    pub model: Option<String>,
    /// Name of the preset that selects the tools; `None` keeps all tools of the turn.
    pub preset: Option<String>,
    /// Message of the plugin that is added to this request only, not to the conversation.
    pub note: Option<String>,
    /// Whether the turn stores the answer outside the conversation.
    pub is_aside: bool,
}

/// Answer of the model to a request of an agent loop.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentLoopModelAnswer {
    /// Number of the answer, unique within the turn.
    pub id: u32,
    /// Model that gave the answer.
    pub model: String,
    /// Text of the answer, as changed by hooks.
    pub text: String,
    /// Tool calls that the answer contains.
    pub calls: Vec<ToolCall>,
    /// Whether the answer is incomplete, so that none of its calls run.
    pub is_cut: bool,
    /// Tokens that the request used.
    pub usage: Usage,
}

/// Report on a tool call that has a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolCallSummary {
    /// Name of the called tool.
    pub name: String,
    /// Whether the call failed, was refused or was skipped.
    pub is_error: bool,
}

/// Outcome of the attempt to end a turn.
#[derive(Clone, Debug, PartialEq)]
pub enum TurnFinishResult {
    /// The answer was output, and the turn is over.
    Done,
    /// Another step is needed, for this reason.
    Again(String),
    /// The answer was output, and the user continues the turn with this input.
    FollowUp(ProcessedTurnInput),
}

/// Sender with which a loop requests the primitives of its turn. Cheap to clone.
#[derive(Clone, Debug)]
pub struct TurnOperationRequestSender(mpsc::Sender<TurnOperationRequest>);

impl TurnOperationRequestSender {
    /// Creates the channel: the sender for the loop and the receiver for the turn.
    pub(crate) fn channel() -> (Self, mpsc::Receiver<TurnOperationRequest>) {
        let (sender, receiver) = mpsc::channel(1);
        (Self(sender), receiver)
    }

    /// Requests an operation (a primitive) from the turn, and returns the answer when the turn has
    /// executed the operation.
    ///
    /// # Errors
    /// The turn refused the primitive, or is over.
    pub async fn request_turn_operation<T>(
        &self,
        primitive: impl FnOnce(TurnOperationReplySender<T>) -> TurnOperationRequest,
    ) -> Result<T, HostFunctionError> {
        let over = || HostFunctionError::Failed("the turn is over".to_owned());
        let (reply, answer) = oneshot::channel();
        let sent = self.0.send(primitive(reply)).await;
        sent.map_err(|_| over())?;
        answer.await.map_err(|_| over())?
    }
}
