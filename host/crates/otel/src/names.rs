//! Names of all spans, attributes and events in traces: those of the GenAI conventions, and those
//! of Rind.
//!
//! The conventions are still in development, and the Rust crate contains only their state before
//! they moved to their own repository (`open-telemetry/semantic-conventions-genai`). Therefore the
//! names are defined here, so that a change of the conventions changes only this module.

/// Kind of operation: [`INVOKE_AGENT`], [`CHAT`] or [`EXECUTE_TOOL`].
pub(super) const GEN_AI_OPERATION_NAME: &str = "gen_ai.operation.name";
pub(super) const GEN_AI_PROVIDER_NAME: &str = "gen_ai.provider.name";
pub(super) const GEN_AI_CONVERSATION_ID: &str = "gen_ai.conversation.id";
/// Name of an agent: `main` or `subagent`.
pub(super) const GEN_AI_AGENT_NAME: &str = "gen_ai.agent.name";
pub(super) const GEN_AI_AGENT_ID: &str = "gen_ai.agent.id";
pub(super) const GEN_AI_REQUEST_MODEL: &str = "gen_ai.request.model";
pub(super) const GEN_AI_RESPONSE_MODEL: &str = "gen_ai.response.model";
pub(super) const GEN_AI_RESPONSE_FINISH_REASONS: &str = "gen_ai.response.finish_reasons";
pub(super) const GEN_AI_USAGE_INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
pub(super) const GEN_AI_USAGE_OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";
pub(super) const GEN_AI_USAGE_CACHE_READ_INPUT_TOKENS: &str =
    "gen_ai.usage.cache_read.input_tokens";
pub(super) const GEN_AI_USAGE_CACHE_CREATION_INPUT_TOKENS: &str =
    "gen_ai.usage.cache_creation.input_tokens";
pub(super) const GEN_AI_TOOL_NAME: &str = "gen_ai.tool.name";
pub(super) const GEN_AI_TOOL_CALL_ID: &str = "gen_ai.tool.call.id";
pub(super) const GEN_AI_TOOL_TYPE: &str = "gen_ai.tool.type";
pub(super) const ERROR_TYPE: &str = "error.type";

/// Operation of a turn of the main agent, or of a subagent.
pub(super) const INVOKE_AGENT: &str = "invoke_agent";
pub(super) const CHAT: &str = "chat";
pub(super) const EXECUTE_TOOL: &str = "execute_tool";
/// Type of every tool, because the host runs all tools as functions.
pub(super) const FUNCTION: &str = "function";

pub(super) const OTHER: &str = "_OTHER";

pub(super) const MAIN: &str = "main";
/// Agent name in the spans of every subagent; the agent id distinguishes the subagents.
pub(super) const SUBAGENT: &str = "subagent";

/// Span of a compaction.
pub(super) const COMPACT: &str = "compact";
/// Span of the archival of a turn, which may run after the end of the turn.
pub(super) const ARCHIVE: &str = "archive";
/// Event of a hook that changed something, failed or was skipped.
pub(super) const HOOK: &str = "rind.hook";
/// Event of an access by a plugin through its sandbox.
pub(super) const ACCESS: &str = "rind.access";
pub(super) const RETRY: &str = "rind.retry";
pub(super) const TOOL_START: &str = "rind.tool.start";

/// Name of the plugin that owns a hook or a tool, or that sends a request.
pub(super) const PLUGIN: &str = "rind.plugin";
/// Plugin that makes a tool call; absent if the model makes the call.
pub(super) const BY: &str = "rind.by";
pub(super) const POINT: &str = "rind.point";
pub(super) const OUTCOME: &str = "rind.outcome";
pub(super) const CHANGED: &str = "rind.changed";
pub(super) const MICROS: &str = "rind.micros";
pub(super) const REACHED: &str = "rind.reached";
pub(super) const EFFECT_CLASS: &str = "rind.tool.effect_class";
pub(super) const REFUSED_BY: &str = "rind.tool.refused_by";
pub(super) const TURN: &str = "rind.turn";
pub(super) const STEP: &str = "rind.step";
pub(super) const STEPS: &str = "rind.steps";
pub(super) const TOOL_CALLS: &str = "rind.tool_calls";
pub(super) const STOP: &str = "rind.stop";
pub(super) const DECISION: &str = "rind.decision";
pub(super) const HOOK_CALLS: &str = "rind.hooks.calls";
pub(super) const HOOK_MICROS: &str = "rind.hooks.micros";
/// Number of messages that a compaction replaces or an archival moves.
pub(super) const MESSAGES: &str = "rind.messages";
/// Number of tokens that the request would have without the compaction, or that the archived
/// messages have.
pub(super) const TOKENS: &str = "rind.tokens";
pub(super) const COMPACT_BUILT_IN: &str = "rind.compact.built_in";
pub(super) const ARCHIVED: &str = "rind.archive.done";
pub(super) const ATTEMPT: &str = "rind.attempt";
/// Milliseconds until the next attempt.
pub(super) const DELAY_MS: &str = "rind.delay_ms";

/// `error.type` of a request that got no answer.
pub(super) const NO_ANSWER: &str = "no_answer";
/// `error.type` of a refused tool call.
pub(super) const DENIED: &str = "denied";
/// `error.type` of a failed tool call.
pub(super) const TOOL_ERROR: &str = "tool_error";
/// Value of `error.type` for an operation that was still running when its turn ended.
pub(super) const CANCELLED: &str = "cancelled";
/// Value of `error.type` for a subagent that returned an error, or for a failed turn.
pub(super) const FAILED: &str = "failed";
