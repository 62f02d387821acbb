//! Every name that leaves in a trace: those of the GenAI conventions, and Rind's own.
//!
//! The conventions are still being developed, and their crate for Rust has only what they were before they moved to a
//! repository of their own (`open-telemetry/semantic-conventions-genai`). So the names are written out, and a change of theirs
//! is a change here and nowhere else.

/// Operation: one of the operations below.
pub(super) const GEN_AI_OPERATION_NAME: &str = "gen_ai.operation.name";
pub(super) const GEN_AI_PROVIDER_NAME: &str = "gen_ai.provider.name";
pub(super) const GEN_AI_CONVERSATION_ID: &str = "gen_ai.conversation.id";
/// Name of an agent: one of the two below.
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

/// Operation of a turn, or of a subagent.
pub(super) const INVOKE_AGENT: &str = "invoke_agent";
pub(super) const CHAT: &str = "chat";
pub(super) const EXECUTE_TOOL: &str = "execute_tool";
/// Type of every tool here: the host runs it.
pub(super) const FUNCTION: &str = "function";

pub(super) const OTHER: &str = "_OTHER";

pub(super) const MAIN: &str = "main";
/// Name of every subagent; which one says its id.
pub(super) const SUBAGENT: &str = "subagent";

/// Span of a conversation that is made shorter.
pub(super) const COMPACT: &str = "compact";
/// Span of a turn that is moved to a holder, after its end.
pub(super) const ARCHIVE: &str = "archive";
/// Event of a hook that did something, failed or was left out.
pub(super) const HOOK: &str = "rind.hook";
/// Event of a plugin that reached out of its sandbox.
pub(super) const ACCESS: &str = "rind.access";
pub(super) const RETRY: &str = "rind.retry";
pub(super) const TOOL_START: &str = "rind.tool.start";

/// Name of a plugin: of a hook, of the tool's owner, of who asks.
pub(super) const PLUGIN: &str = "rind.plugin";
/// Plugin that makes a tool call in the place of the model.
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
/// Number of messages that are replaced or moved.
pub(super) const MESSAGES: &str = "rind.messages";
/// Tokens that the request would have without, or that they have.
pub(super) const TOKENS: &str = "rind.tokens";
pub(super) const COMPACT_BUILT_IN: &str = "rind.compact.built_in";
pub(super) const ARCHIVED: &str = "rind.archive.done";
pub(super) const ATTEMPT: &str = "rind.attempt";
/// Milliseconds until the next attempt.
pub(super) const DELAY_MS: &str = "rind.delay_ms";

/// `error.type` of a request without an answer.
pub(super) const NO_ANSWER: &str = "no_answer";
/// `error.type` of a tool call that was refused.
pub(super) const DENIED: &str = "denied";
/// `error.type` of a tool that failed.
pub(super) const TOOL_ERROR: &str = "tool_error";
/// `error.type` of what the turn did not wait for.
pub(super) const CANCELLED: &str = "cancelled";
/// `error.type` of a subagent without an answer.
pub(super) const FAILED: &str = "failed";
