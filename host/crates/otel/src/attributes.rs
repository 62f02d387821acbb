//! Attributes of spans: only names, numbers and outcomes.
//!
//! Invariant: no attribute contains text that a user, a model or a tool wrote. The name of a tool
//! comes from a model, so it is checked first (`safe_tool_name`). This module does not depend
//! on how spans nest.

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
pub(super) fn start_attributes(stamped: &Stamped, provider: &str) -> (String, Vec<KeyValue>) {
    let aside = |name: &str, messages: &u32, tokens: &u64| {
        let messages = KeyValue::new(n::MESSAGES, i64::from(*messages));
        let tokens = KeyValue::new(n::TOKENS, signed_number(*tokens));
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
                KeyValue::new(n::GEN_AI_OPERATION_NAME, n::CHAT),
                KeyValue::new(n::GEN_AI_PROVIDER_NAME, provider.clone()),
                KeyValue::new(n::GEN_AI_REQUEST_MODEL, model.clone()),
            ];
            attributes.extend(optional_name_attribute(n::PLUGIN, by));
            (format!("{} {model}", n::CHAT), attributes)
        }
        Event::ToolCall {
            call, plugin, by, ..
        } => {
            let name = safe_tool_name(&call.name);
            let mut attributes = vec![
                KeyValue::new(n::GEN_AI_OPERATION_NAME, n::EXECUTE_TOOL),
                KeyValue::new(n::GEN_AI_TOOL_NAME, name.to_owned()),
                KeyValue::new(n::GEN_AI_TOOL_CALL_ID, call.id.clone()),
                KeyValue::new(n::GEN_AI_TOOL_TYPE, n::FUNCTION),
            ];
            attributes.extend(optional_name_attribute(n::PLUGIN, plugin));
            attributes.extend(optional_name_attribute(n::BY, by));
            (format!("{} {name}", n::EXECUTE_TOOL), attributes)
        }
        Event::CompactStart { messages, tokens } => aside(n::COMPACT, messages, tokens),
        Event::ArchiveStart {
            messages, tokens, ..
        } => aside(n::ARCHIVE, messages, tokens),
        Event::SubagentStart { subagent, .. } => {
            build_agent_span_attributes(provider, Some(subagent))
        }
        _ if stamped.is_main() => build_agent_span_attributes(provider, None),
        _ => build_agent_span_attributes(provider, Some(&stamped.agent)),
    }
}

/// Returns the name and the attributes of the span of a main agent's turn, or of the subagent `id`.
fn build_agent_span_attributes(provider: &str, id: Option<&str>) -> (String, Vec<KeyValue>) {
    let name = if id.is_some() { n::SUBAGENT } else { n::MAIN };
    let mut attributes = vec![
        KeyValue::new(n::GEN_AI_OPERATION_NAME, n::INVOKE_AGENT),
        KeyValue::new(n::GEN_AI_AGENT_NAME, name),
        KeyValue::new(n::GEN_AI_PROVIDER_NAME, provider.to_owned()),
    ];
    attributes.extend(id.map(|id| KeyValue::new(n::GEN_AI_AGENT_ID, id.to_owned())));
    (format!("{} {name}", n::INVOKE_AGENT), attributes)
}

/// Sets the attributes from the event that ends a span, or that ends the turn of a subagent.
pub(super) fn end_attributes(open: &mut UnfinishedSpan, event: &Event) {
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
                open.mark_failed(n::NO_ANSWER);
            }
        }
        Event::ToolEnd {
            result, refused_by, ..
        } => {
            open.span
                .set_attributes(optional_name_attribute(n::REFUSED_BY, refused_by));
            match (result.is_error, refused_by) {
                (true, Some(_)) => open.mark_failed(n::DENIED),
                (true, None) => open.mark_failed(n::TOOL_ERROR),
                (false, _) => {}
            }
        }
        Event::CompactEnd { is_built_in, .. } => {
            open.set_attribute(n::COMPACT_BUILT_IN, *is_built_in)
        }
        Event::ArchiveEnd { holder, .. } => open.set_attribute(n::ARCHIVED, holder.is_some()),
        Event::SubagentEnd { is_error: true, .. } => open.mark_failed(n::FAILED),
        Event::TurnEnd { summary, .. } => {
            open.span.set_attributes(usage_attributes(summary.usage));
            open.set_attribute(n::STOP, serialized_variant_name(&summary.stop));
            open.set_attribute(n::STEPS, i64::from(summary.steps));
            open.set_attribute(n::TOOL_CALLS, i64::from(summary.tool_calls));
            if summary.stop == StopReason::Failed {
                open.mark_failed(n::FAILED);
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
fn safe_tool_name(name: &str) -> &str {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    if (1..=64).contains(&name.len()) && name.bytes().all(is_name) {
        name
    } else {
        n::OTHER
    }
}

pub(super) fn hook_attributes(record: &TraceRecord) -> Vec<KeyValue> {
    let mut attributes = vec![
        KeyValue::new(n::POINT, record.point.to_string()),
        KeyValue::new(n::PLUGIN, record.plugin.to_string()),
        KeyValue::new(n::OUTCOME, serialized_variant_name(&record.outcome)),
        KeyValue::new(n::MICROS, record.micros),
    ];
    if !record.changed.is_empty() {
        let changed = record.changed.iter().map(|name| StringValue::from(*name));
        let changed = Value::Array(Array::String(changed.collect()));
        attributes.push(KeyValue::new(n::CHANGED, changed));
    }
    attributes
}

/// Returns the attributes of a plugin's access to a file or a network address. The target is
/// omitted, because it may come from the user.
pub(super) fn access_attributes(record: &AccessRecord) -> Vec<KeyValue> {
    vec![
        KeyValue::new(n::PLUGIN, record.plugin.to_string()),
        KeyValue::new(n::REACHED, serialized_variant_name(&record.reached)),
        KeyValue::new(n::OUTCOME, serialized_variant_name(&record.outcome)),
    ]
}

fn usage_attributes(usage: Usage) -> [KeyValue; 4] {
    let cached = signed_number(usage.cache_read_tokens);
    let written = signed_number(usage.cache_write_tokens);
    [
        KeyValue::new(
            n::GEN_AI_USAGE_INPUT_TOKENS,
            signed_number(usage.input_tokens),
        ),
        KeyValue::new(
            n::GEN_AI_USAGE_OUTPUT_TOKENS,
            signed_number(usage.output_tokens),
        ),
        KeyValue::new(n::GEN_AI_USAGE_CACHE_READ_INPUT_TOKENS, cached),
        KeyValue::new(n::GEN_AI_USAGE_CACHE_CREATION_INPUT_TOKENS, written),
    ]
}

fn optional_name_attribute(key: &'static str, name: &Option<String>) -> Option<KeyValue> {
    Some(KeyValue::new(key, name.clone()?))
}

pub(super) fn signed_number(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// Returns the serialized name of an enum variant.
pub(super) fn serialized_variant_name(case: &impl Serialize) -> String {
    let value = serde_json::to_value(case).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}
