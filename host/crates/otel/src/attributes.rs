//! Attributes of spans: only names, numbers and outcomes.
//!
//! Invariant: no attribute contains text that a user, a model or a tool wrote. The name of a tool
//! comes from a model, so it is checked first (`tool_name_or_placeholder`). This module does not
//! depend on how spans nest.

use opentelemetry::trace::Span;
use opentelemetry::{Array, KeyValue, StringValue, Value};
use serde::Serialize;

use super::names as n;
use super::open::UnfinishedSpan;
use rind_lib::event::{Event, Stamped};
use rind_lib::message::{Finish, Usage};
use rind_lib::point::payload::StopReason;
use rind_lib::point::trace::{AccessRecord, TraceRecord};

/// Returns the name and the attributes of the span that an event starts.
pub(super) fn span_name_and_attributes(
    stamped: &Stamped,
    provider: &str,
) -> (String, Vec<KeyValue>) {
    let aside = |name: &str, messages: &u32, tokens: &u64| {
        let messages = KeyValue::new(n::REPLACED_MESSAGE_COUNT_ATTRIBUTE, i64::from(*messages));
        let tokens = KeyValue::new(n::TOKEN_COUNT_ATTRIBUTE, to_saturated_i64(*tokens));
        (name.to_owned(), vec![messages, tokens])
    };
    match &stamped.event {
        Event::RequestStart {
            provider,
            model,
            by,
            ..
        } => {
            let mut attributes = vec![
                KeyValue::new(n::GEN_AI_OPERATION_NAME, n::CHAT_OPERATION_NAME),
                KeyValue::new(n::GEN_AI_PROVIDER_NAME, provider.clone()),
                KeyValue::new(n::GEN_AI_REQUEST_MODEL, model.clone()),
            ];
            attributes.extend(optional_name_attribute(n::PLUGIN_NAME_ATTRIBUTE, by));
            (format!("{} {model}", n::CHAT_OPERATION_NAME), attributes)
        }
        Event::ToolCall {
            call, plugin, by, ..
        } => {
            let name = tool_name_or_placeholder(&call.name);
            let mut attributes = vec![
                KeyValue::new(n::GEN_AI_OPERATION_NAME, n::EXECUTE_TOOL_OPERATION_NAME),
                KeyValue::new(n::GEN_AI_TOOL_NAME, name.to_owned()),
                KeyValue::new(n::GEN_AI_TOOL_CALL_ID, call.id.clone()),
                KeyValue::new(n::GEN_AI_TOOL_TYPE, n::FUNCTION_TOOL_TYPE),
            ];
            attributes.extend(optional_name_attribute(n::PLUGIN_NAME_ATTRIBUTE, plugin));
            attributes.extend(optional_name_attribute(n::CALLING_PLUGIN_ATTRIBUTE, by));
            (
                format!("{} {name}", n::EXECUTE_TOOL_OPERATION_NAME),
                attributes,
            )
        }
        Event::CompactStart { messages, tokens } => {
            aside(n::COMPACTION_SPAN_NAME, messages, tokens)
        }
        Event::ArchiveStart {
            messages, tokens, ..
        } => aside(n::ARCHIVAL_SPAN_NAME, messages, tokens),
        Event::SubagentStart { subagent, .. } => {
            build_agent_span_attributes(provider, Some(subagent))
        }
        _ if stamped.is_from_main_agent() => build_agent_span_attributes(provider, None),
        _ => build_agent_span_attributes(provider, Some(&stamped.agent)),
    }
}

/// Returns the name and the attributes of the span of a main agent's turn, or of the subagent `id`.
fn build_agent_span_attributes(provider: &str, id: Option<&str>) -> (String, Vec<KeyValue>) {
    let name = if id.is_some() {
        n::SUBAGENT_AGENT_NAME
    } else {
        n::MAIN_AGENT_NAME
    };
    let mut attributes = vec![
        KeyValue::new(n::GEN_AI_OPERATION_NAME, n::INVOKE_AGENT_OPERATION_NAME),
        KeyValue::new(n::GEN_AI_AGENT_NAME, name),
        KeyValue::new(n::GEN_AI_PROVIDER_NAME, provider.to_owned()),
    ];
    attributes.extend(id.map(|id| KeyValue::new(n::GEN_AI_AGENT_ID, id.to_owned())));
    (
        format!("{} {name}", n::INVOKE_AGENT_OPERATION_NAME),
        attributes,
    )
}

/// Sets the attributes from the event that ends a span, or that ends the turn of a subagent.
pub(super) fn set_span_end_attributes(open: &mut UnfinishedSpan, event: &Event) {
    match event {
        Event::RequestEnd {
            model,
            usage,
            finish,
            error,
            ..
        } => {
            open.span
                .set_attributes(optional_name_attribute(n::GEN_AI_RESPONSE_MODEL, model));
            if let Some(finish) = finish {
                open.set_attribute(
                    n::GEN_AI_RESPONSE_FINISH_REASONS,
                    finish_reasons_attribute(*finish),
                );
                open.span.set_attributes(usage_attributes(*usage));
            }
            if error.is_some() {
                open.mark_failed(n::UNANSWERED_REQUEST_ERROR_TYPE);
            }
        }
        Event::ToolEnd {
            result, refused_by, ..
        } => {
            open.span.set_attributes(optional_name_attribute(
                n::TOOL_CALL_REFUSED_BY_ATTRIBUTE,
                refused_by,
            ));
            match (result.is_error, refused_by) {
                (true, Some(_)) => open.mark_failed(n::DENIED_TOOL_CALL_ERROR_TYPE),
                (true, None) => open.mark_failed(n::FAILED_TOOL_CALL_ERROR_TYPE),
                (false, _) => {}
            }
        }
        Event::CompactEnd { is_built_in, .. } => {
            open.set_attribute(n::COMPACTION_IS_BUILT_IN_ATTRIBUTE, *is_built_in)
        }
        Event::ArchiveEnd { holder, .. } => {
            open.set_attribute(n::IS_ARCHIVED_ATTRIBUTE, holder.is_some())
        }
        Event::SubagentEnd { is_error: true, .. } => {
            open.mark_failed(n::FAILED_TURN_OR_SUBAGENT_ERROR_TYPE)
        }
        Event::TurnEnd { summary, .. } => {
            open.span.set_attributes(usage_attributes(summary.usage));
            open.set_attribute(
                n::TURN_STOP_REASON_ATTRIBUTE,
                serialized_variant_name(&summary.stop),
            );
            open.set_attribute(n::TURN_STEP_COUNT_ATTRIBUTE, i64::from(summary.steps));
            open.set_attribute(
                n::TURN_TOOL_CALL_COUNT_ATTRIBUTE,
                i64::from(summary.tool_calls),
            );
            if summary.stop == StopReason::Failed {
                open.mark_failed(n::FAILED_TURN_OR_SUBAGENT_ERROR_TYPE);
            }
        }
        _ => {}
    }
}

fn finish_reasons_attribute(finish: Finish) -> Value {
    let reason = match finish {
        Finish::Done => "stop",
        Finish::ToolCalls => "tool_calls",
        Finish::MaxTokens => "length",
        Finish::Refused => "content_filter",
        Finish::Paused => "pause_turn",
    };
    Value::Array(Array::String(vec![StringValue::from(reason)]))
}

/// Returns the name of a tool if the name is valid, and a placeholder otherwise, because a model
/// can put any text into the name of a tool call.
fn tool_name_or_placeholder(name: &str) -> &str {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    if (1..=64).contains(&name.len()) && name.bytes().all(is_name) {
        name
    } else {
        n::INVALID_TOOL_NAME_PLACEHOLDER
    }
}

pub(super) fn hook_attributes(record: &TraceRecord) -> Vec<KeyValue> {
    let mut attributes = vec![
        KeyValue::new(n::HOOK_POINT_ATTRIBUTE, record.point.to_string()),
        KeyValue::new(n::PLUGIN_NAME_ATTRIBUTE, record.plugin.to_string()),
        KeyValue::new(
            n::HOOK_OR_ACCESS_OUTCOME_ATTRIBUTE,
            serialized_variant_name(&record.outcome),
        ),
        KeyValue::new(n::DURATION_MICROS_ATTRIBUTE, record.micros),
    ];
    if !record.changed.is_empty() {
        let changed = record.changed.iter().map(|name| StringValue::from(*name));
        let changed = Value::Array(Array::String(changed.collect()));
        attributes.push(KeyValue::new(n::HOOK_CHANGED_FIELDS_ATTRIBUTE, changed));
    }
    attributes
}

/// Returns the attributes of a plugin's access to a file or a network address. The target is
/// omitted, because it may come from the user.
pub(super) fn plugin_access_attributes(record: &AccessRecord) -> Vec<KeyValue> {
    vec![
        KeyValue::new(n::PLUGIN_NAME_ATTRIBUTE, record.plugin.to_string()),
        KeyValue::new(
            n::ACCESS_TARGET_KIND_ATTRIBUTE,
            serialized_variant_name(&record.reached),
        ),
        KeyValue::new(
            n::HOOK_OR_ACCESS_OUTCOME_ATTRIBUTE,
            serialized_variant_name(&record.outcome),
        ),
    ]
}

fn usage_attributes(usage: Usage) -> [KeyValue; 4] {
    let cached = to_saturated_i64(usage.cache_read_tokens);
    let written = to_saturated_i64(usage.cache_write_tokens);
    [
        KeyValue::new(
            n::GEN_AI_USAGE_INPUT_TOKENS,
            to_saturated_i64(usage.input_tokens),
        ),
        KeyValue::new(
            n::GEN_AI_USAGE_OUTPUT_TOKENS,
            to_saturated_i64(usage.output_tokens),
        ),
        KeyValue::new(n::GEN_AI_USAGE_CACHE_READ_INPUT_TOKENS, cached),
        KeyValue::new(n::GEN_AI_USAGE_CACHE_CREATION_INPUT_TOKENS, written),
    ]
}

fn optional_name_attribute(key: &'static str, name: &Option<String>) -> Option<KeyValue> {
    Some(KeyValue::new(key, name.clone()?))
}

pub(super) fn to_saturated_i64(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// Returns the name under which serde serializes an enum variant, for use as an attribute.
pub(super) fn serialized_variant_name(case: &impl Serialize) -> String {
    let value = serde_json::to_value(case).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}
