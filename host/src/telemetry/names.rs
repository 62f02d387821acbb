//! Every name that leaves in a trace: those of the GenAI conventions, and Rind's own.
//!
//! The conventions are still being developed, and their crate for Rust has only what they were before they moved to a
//! repository of their own (`open-telemetry/semantic-conventions-genai`). So the names are written out, and a change of theirs
//! is a change here and nowhere else.

/// Operation: one of the operations below.
pub(super) const GEN_AI_OPERATION_NAME: &str = "gen_ai.operation.name";
/// Name of the provider of the model.
pub(super) const GEN_AI_PROVIDER_NAME: &str = "gen_ai.provider.name";
/// Id of the session.
pub(super) const GEN_AI_CONVERSATION_ID: &str = "gen_ai.conversation.id";
/// Name of an agent: one of the two below.
pub(super) const GEN_AI_AGENT_NAME: &str = "gen_ai.agent.name";
/// Id of a subagent.
pub(super) const GEN_AI_AGENT_ID: &str = "gen_ai.agent.id";
/// Model that is asked for.
pub(super) const GEN_AI_REQUEST_MODEL: &str = "gen_ai.request.model";
/// Model that answered.
pub(super) const GEN_AI_RESPONSE_MODEL: &str = "gen_ai.response.model";
/// Finish reasons of a response.
pub(super) const GEN_AI_RESPONSE_FINISH_REASONS: &str = "gen_ai.response.finish_reasons";
/// Tokens of the prompt, cached ones included.
pub(super) const GEN_AI_USAGE_INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
/// Tokens that the model wrote.
pub(super) const GEN_AI_USAGE_OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";
/// Part of the input that was read from the provider's cache.
pub(super) const GEN_AI_USAGE_CACHE_READ_INPUT_TOKENS: &str =
    "gen_ai.usage.cache_read.input_tokens";
/// Part of the input that was written to the provider's cache.
pub(super) const GEN_AI_USAGE_CACHE_CREATION_INPUT_TOKENS: &str =
    "gen_ai.usage.cache_creation.input_tokens";
/// Name of a tool.
pub(super) const GEN_AI_TOOL_NAME: &str = "gen_ai.tool.name";
/// Id of its call.
pub(super) const GEN_AI_TOOL_CALL_ID: &str = "gen_ai.tool.call.id";
/// Type of a tool.
pub(super) const GEN_AI_TOOL_TYPE: &str = "gen_ai.tool.type";
/// Type of a failure.
pub(super) const ERROR_TYPE: &str = "error.type";

/// Operation of a turn, or of a subagent.
pub(super) const INVOKE_AGENT: &str = "invoke_agent";
/// Operation of a request to a model.
pub(super) const CHAT: &str = "chat";
/// Operation of a tool call.
pub(super) const EXECUTE_TOOL: &str = "execute_tool";
/// Type of every tool here: the host runs it.
pub(super) const FUNCTION: &str = "function";

/// Placeholder for an unknown name.
pub(super) const OTHER: &str = "_OTHER";

/// Name of the main agent.
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
/// Event of a request that is sent again.
pub(super) const RETRY: &str = "rind.retry";
/// Event of a tool call that was let through.
pub(super) const TOOL_START: &str = "rind.tool.start";

/// Name of a plugin: of a hook, of the tool's owner, of who asks.
pub(super) const PLUGIN: &str = "rind.plugin";
/// Plugin that makes a tool call in the place of the model.
pub(super) const BY: &str = "rind.by";
/// Name of a point.
pub(super) const POINT: &str = "rind.point";
/// Outcome of a hook or an access.
pub(super) const OUTCOME: &str = "rind.outcome";
/// Names of what a hook changed.
pub(super) const CHANGED: &str = "rind.changed";
/// Microseconds that a hook took.
pub(super) const MICROS: &str = "rind.micros";
/// Kind of access: files, network, external, secret.
pub(super) const REACHED: &str = "rind.reached";
/// Class of a tool's effects.
pub(super) const EFFECT_CLASS: &str = "rind.tool.effect_class";
/// Source of a tool call's refusal.
pub(super) const REFUSED_BY: &str = "rind.tool.refused_by";
/// Number of a turn in its session.
pub(super) const TURN: &str = "rind.turn";
/// Number of a step in its turn.
pub(super) const STEP: &str = "rind.step";
/// Number of steps in a turn.
pub(super) const STEPS: &str = "rind.steps";
/// Number of tool calls in a turn.
pub(super) const TOOL_CALLS: &str = "rind.tool_calls";
/// Reason for the end of a turn.
pub(super) const STOP: &str = "rind.stop";
/// Decision of the assessment.
pub(super) const DECISION: &str = "rind.decision";
/// Number of hook calls in a turn.
pub(super) const HOOK_CALLS: &str = "rind.hooks.calls";
/// Microseconds that they took together.
pub(super) const HOOK_MICROS: &str = "rind.hooks.micros";
/// Number of messages that are replaced or moved.
pub(super) const MESSAGES: &str = "rind.messages";
/// Tokens that the request would have without, or that they have.
pub(super) const TOKENS: &str = "rind.tokens";
/// Whether the host wrote the summary itself.
pub(super) const COMPACT_BUILT_IN: &str = "rind.compact.built_in";
/// Whether a turn was moved to a holder.
pub(super) const ARCHIVED: &str = "rind.archive.done";
/// Number of the attempt of a request.
pub(super) const ATTEMPT: &str = "rind.attempt";
/// Milliseconds until then.
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
