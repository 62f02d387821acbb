//! Names of all spans, attributes and events in traces: those of the GenAI conventions, and those
//! of Rind.
//!
//! The conventions are still in development, and the Rust crate contains only their state before
//! they moved to their own repository (`open-telemetry/semantic-conventions-genai`). Therefore the
//! names are defined here, so that a change of the conventions changes only this module.

/// Attribute with the kind of operation: [`INVOKE_AGENT_OPERATION_NAME`], [`CHAT_OPERATION_NAME`]
/// or [`EXECUTE_TOOL_OPERATION_NAME`].
pub(super) const GEN_AI_OPERATION_NAME: &str = "gen_ai.operation.name";
pub(super) const GEN_AI_PROVIDER_NAME: &str = "gen_ai.provider.name";
pub(super) const GEN_AI_CONVERSATION_ID: &str = "gen_ai.conversation.id";
/// Attribute with the name of an agent: `main` or `subagent`.
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
pub(super) const ERROR_TYPE_ATTRIBUTE: &str = "error.type";

/// Operation of a turn of the main agent, or of a subagent.
pub(super) const INVOKE_AGENT_OPERATION_NAME: &str = "invoke_agent";
pub(super) const CHAT_OPERATION_NAME: &str = "chat";
pub(super) const EXECUTE_TOOL_OPERATION_NAME: &str = "execute_tool";
/// Type of every tool, because the host runs all tools as functions.
pub(super) const FUNCTION_TOOL_TYPE: &str = "function";

pub(super) const INVALID_TOOL_NAME_PLACEHOLDER: &str = "_OTHER";

pub(super) const MAIN_AGENT_NAME: &str = "main";
/// Agent name in the spans of every subagent; the agent id distinguishes the subagents.
pub(super) const SUBAGENT_AGENT_NAME: &str = "subagent";

/// Name of the span of a compaction, in which a summary replaces older messages.
pub(super) const COMPACTION_SPAN_NAME: &str = "compact";
/// Span of the archival of a turn, which may run after the end of the turn.
pub(super) const ARCHIVAL_SPAN_NAME: &str = "archive";
/// Event of a hook that changed something, failed or was skipped.
pub(super) const HOOK_EVENT_NAME: &str = "rind.hook";
/// Event of an access by a plugin through its sandbox.
pub(super) const PLUGIN_ACCESS_EVENT_NAME: &str = "rind.access";
pub(super) const RETRY_EVENT_NAME: &str = "rind.retry";
pub(super) const TOOL_START_EVENT_NAME: &str = "rind.tool.start";

/// Name of the plugin that owns a hook or a tool, or that sends a request.
pub(super) const PLUGIN_NAME_ATTRIBUTE: &str = "rind.plugin";
/// Plugin that makes a tool call; absent if the model makes the call.
pub(super) const CALLING_PLUGIN_ATTRIBUTE: &str = "rind.by";
pub(super) const HOOK_POINT_ATTRIBUTE: &str = "rind.point";
pub(super) const HOOK_OR_ACCESS_OUTCOME_ATTRIBUTE: &str = "rind.outcome";
pub(super) const HOOK_CHANGED_FIELDS_ATTRIBUTE: &str = "rind.changed";
pub(super) const DURATION_MICROS_ATTRIBUTE: &str = "rind.micros";
pub(super) const ACCESS_TARGET_KIND_ATTRIBUTE: &str = "rind.reached";
pub(super) const TOOL_EFFECT_CLASS_ATTRIBUTE: &str = "rind.tool.effect_class";
pub(super) const TOOL_CALL_REFUSED_BY_ATTRIBUTE: &str = "rind.tool.refused_by";
pub(super) const TURN_NUMBER_ATTRIBUTE: &str = "rind.turn";
pub(super) const STEP_NUMBER_ATTRIBUTE: &str = "rind.step";
pub(super) const TURN_STEP_COUNT_ATTRIBUTE: &str = "rind.steps";
pub(super) const TURN_TOOL_CALL_COUNT_ATTRIBUTE: &str = "rind.tool_calls";
pub(super) const TURN_STOP_REASON_ATTRIBUTE: &str = "rind.stop";
pub(super) const TURN_ASSESSMENT_DECISION_ATTRIBUTE: &str = "rind.decision";
pub(super) const HOOK_CALL_COUNT_ATTRIBUTE: &str = "rind.hooks.calls";
pub(super) const HOOK_TOTAL_MICROS_ATTRIBUTE: &str = "rind.hooks.micros";
/// Number of messages that a compaction replaces or an archival moves.
pub(super) const REPLACED_MESSAGE_COUNT_ATTRIBUTE: &str = "rind.messages";
/// Number of tokens that the request would have without the compaction, or that the archived
/// messages have.
pub(super) const TOKEN_COUNT_ATTRIBUTE: &str = "rind.tokens";
pub(super) const COMPACTION_IS_BUILT_IN_ATTRIBUTE: &str = "rind.compact.built_in";
pub(super) const IS_ARCHIVED_ATTRIBUTE: &str = "rind.archive.done";
pub(super) const ATTEMPT_NUMBER_ATTRIBUTE: &str = "rind.attempt";
/// Attribute with the milliseconds until a failed model request is sent again.
pub(super) const RETRY_DELAY_MS_ATTRIBUTE: &str = "rind.delay_ms";

/// Value of `error.type` for a model request that got no answer.
pub(super) const UNANSWERED_REQUEST_ERROR_TYPE: &str = "no_answer";
/// Value of `error.type` for a tool call that was refused.
pub(super) const DENIED_TOOL_CALL_ERROR_TYPE: &str = "denied";
/// Value of `error.type` for a tool call that ran and failed.
pub(super) const FAILED_TOOL_CALL_ERROR_TYPE: &str = "tool_error";
/// Value of `error.type` for an operation that was still running when its turn ended.
pub(super) const UNFINISHED_OPERATION_ERROR_TYPE: &str = "cancelled";
/// Value of `error.type` for a subagent that returned an error, or for a failed turn.
pub(super) const FAILED_TURN_OR_SUBAGENT_ERROR_TYPE: &str = "failed";
