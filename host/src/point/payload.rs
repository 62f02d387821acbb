//! Payloads of hooks at each point: the Rust side of `wit/payloads.wit`, except for the types that
//! are [generated](super::contract).
//!
//! This module holds data only. A payload may contain checks for the host that guests do not see
//! (their docs say so). It must not contain anything that gives access to a resource.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use super::contract::payloads::{
    Assessment, Decision, Failure as FailureReport, ModelRequest, PromptPart, Purpose,
    ReflectVerdict, SessionInfo, SkillInfo, Source, StopReason, SubagentInfo, Tier, TurnInput,
    UsedTool,
};
use super::outcome::VerdictChange;
use crate::message::{EffectClass, Message, ToolCall, ToolResult, Usage};
use crate::point::dispatch::ExtensionPointKind;

include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../wit/payloads.in"));
pub(crate) use {for_each_handle, for_each_payload};

/// Payload of `system-prompt` hooks, with the parts collected so far, which guests do not see.
#[derive(Clone, Debug, PartialEq)]
pub struct PromptContext {
    /// Name of the model that gets the prompt.
    pub model: String,
    /// Names of the tools that are active in the turn.
    pub tools: Vec<String>,
    /// Decision on how to handle the turn.
    pub decision: Decision,
    /// The host's own parts, to which the contributions of hooks are added. Guests do not see them.
    pub parts: Vec<PromptPart>,
}

/// Request to a model in the form in which it is sent to the provider.
#[derive(Clone, Debug, PartialEq)]
pub struct WireRequest {
    /// Name of the provider that gets the request.
    pub provider: String,
    /// Body of the request: JSON text in the provider's own format.
    pub body: String,
}

/// Part of an answer that is still being received.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextDelta {
    /// Last part of the text that has already been displayed.
    pub before: String,
    /// Text that has not been displayed yet.
    pub text: String,
    /// Whether this is the last piece of the answer.
    pub is_last: bool,
    /// Number of bytes at the end of `text` that hooks hold back. Guests do not see this number.
    pub keep: usize,
}

/// A provider's answer after its stream has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct WireResponse {
    /// Purpose of the request that was answered.
    pub purpose: Purpose,
    /// Name of the provider that answered.
    pub provider: String,
    /// HTTP status; 0 for a provider that is not reached over HTTP.
    pub status: u16,
    /// Time from sending the request to the end of the answer, in milliseconds.
    pub latency_ms: u64,
    /// Tokens that the request and the answer used.
    pub usage: Usage,
    /// Cost in US dollars; `None` when no price is known.
    pub cost_usd: Option<f64>,
    /// Name of the model that answered, as reported by the provider, or else the requested name.
    pub model: String,
    /// Raw body of the answer, truncated at the provider's limit.
    pub body: String,
}

/// Checks arguments against a tool's JSON Schema. The error is a sentence for users and models.
pub type ToolArgumentsChecker = dyn Fn(&Value) -> Result<(), String> + Send + Sync;

/// Tool call that is about to run.
#[derive(Clone)]
pub struct ProposedCall {
    /// Tool call with its current arguments.
    pub call: ToolCall,
    /// Class of the tool's effects: read, write, execute or external.
    pub effect_class: EffectClass,
    /// Name of the plugin that provides the tool; `None` for a built-in tool.
    pub plugin: Option<String>,
    /// Check of arguments that a hook has changed. Guests do not see it.
    pub check: Arc<ToolArgumentsChecker>,
}

impl_partial_debug!(
    ProposedCall,
    self,
    call = self.call,
    effect_class = self.effect_class
);

/// Tool call that has ended or was refused.
#[derive(Clone, Debug, PartialEq)]
pub struct FinishedCall {
    /// Tool call with its final arguments.
    pub call: ToolCall,
    /// Result of the tool call, as changed by hooks so far.
    pub result: ToolResult,
    /// Whether the call was refused, so that the tool did not run.
    pub is_refused: bool,
    /// Milliseconds that the tool ran; 0 if the call was refused.
    pub duration_ms: u64,
    /// Name of the plugin that provides the tool; `None` for a built-in tool.
    pub plugin: Option<String>,
}

/// Payload of the hooks that judge the answer of a turn before the turn ends.
#[derive(Clone, Debug, PartialEq)]
pub struct Reflection {
    /// Text of the answer, as changed by hooks so far.
    pub draft: String,
    /// Input that the turn answers.
    pub input: String,
    /// Tool calls of the turn, in order.
    pub tools: Vec<UsedTool>,
    /// Criteria for a good answer; hooks add to them.
    pub criteria: Vec<String>,
    /// Verdict of a hook, which replaces the verdict of the built-in reflection. Guests do not see
    /// it.
    pub verdict: VerdictChange,
}

/// Figures and output of a turn that has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TurnSummary {
    /// Reason why the turn ended.
    pub stop: StopReason,
    /// Number of steps that the turn made.
    pub steps: u32,
    /// Number of tool calls that the turn made.
    pub tool_calls: u32,
    /// Tokens that the turn used.
    pub usage: Usage,
    /// Cost in US dollars, as far as prices are known.
    pub cost_usd: f64,
    /// Tokens whose model has no known price. With any, `cost_usd` is the least that it was.
    #[serde(default)]
    pub unpriced_tokens: u64,
    /// Time from the input of the turn to its end, in milliseconds.
    pub duration_ms: u64,
    /// Output shown to the user; empty when the turn was cut off before. Events and session entries
    /// carry it next to the summary, not in it.
    #[serde(skip)]
    pub output: String,
}

/// Messages of a conversation that are about to be compacted or archived, or have just been.
#[derive(Clone, Debug, PartialEq)]
pub struct Slice {
    /// Reason for the compaction or archival: `token-threshold`, `max-steps`, `tool-calls`, or
    /// `asked`.
    pub reason: String,
    /// Messages in order, oldest first.
    pub messages: Vec<Message>,
    /// Summary that replaces the messages; empty before it is made.
    pub summary: String,
}

/// Payload that the implementers of a plugin-defined point receive.
#[derive(Clone)]
pub struct PluginDefinedPointPayload {
    /// Value that the implementers judge. At gate and mutate points each implementer may change it;
    /// at collect points it is an array of contributions.
    pub value: Value,
    /// Contributions of the implementers that have run so far; used only at collect points.
    pub collected: Vec<Value>,
    /// Kind of the point (such as gate or collect), as declared by the plugin that defines the
    /// point.
    pub kind: ExtensionPointKind,
    /// Check of an implementer's answer against the owner's schema. Guests do not see it.
    pub check: Arc<ToolArgumentsChecker>,
}
