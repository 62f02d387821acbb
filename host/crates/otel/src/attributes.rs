//! Attributes of spans: names, numbers and outcomes only.
//!
//! Invariant: no attribute contains text that a user, a model or a tool wrote. A name from such a
//! source is checked first; see the tool names. The module must not know how spans nest.

use opentelemetry::trace::Span;
use opentelemetry::{Array, KeyValue, StringValue, Value};
use serde::Serialize;

use super::names as n;
use super::open::Open;
use rind_lib::event::{Event, Stamped};
use rind_lib::message::{Finish, Usage};
use rind_lib::point::payload::StopReason;
use rind_lib::point::trace::{AccessRecord, TraceRecord};

/// Returns the name and the attributes of the span that begins with an event.
pub(super) fn begun(stamped: &Stamped, provider: &str) -> (String, Vec<KeyValue>) {
    let aside = |name: &str, messages: &u32, tokens: &u64| {
        let messages = KeyValue::new(n::MESSAGES, i64::from(*messages));
        let tokens = KeyValue::new(n::TOKENS, number(*tokens));
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
            attributes.extend(named(n::PLUGIN, by));
            (format!("{} {model}", n::CHAT), attributes)
        }
        Event::ToolCall {
            call, plugin, by, ..
        } => {
            let name = tool(&call.name);
            let mut attributes = vec![
                KeyValue::new(n::GEN_AI_OPERATION_NAME, n::EXECUTE_TOOL),
                KeyValue::new(n::GEN_AI_TOOL_NAME, name.to_owned()),
                KeyValue::new(n::GEN_AI_TOOL_CALL_ID, call.id.clone()),
                KeyValue::new(n::GEN_AI_TOOL_TYPE, n::FUNCTION),
            ];
            attributes.extend(named(n::PLUGIN, plugin));
            attributes.extend(named(n::BY, by));
            (format!("{} {name}", n::EXECUTE_TOOL), attributes)
        }
        Event::CompactStart { messages, tokens } => aside(n::COMPACT, messages, tokens),
        Event::ArchiveStart {
            messages, tokens, ..
        } => aside(n::ARCHIVE, messages, tokens),
        Event::SubagentStart { subagent, .. } => agent(provider, Some(subagent)),
        _ if stamped.is_main() => agent(provider, None),
        _ => agent(provider, Some(&stamped.agent)),
    }
}

/// Returns the name and the attributes of the main agent's turn, or of a subagent.
fn agent(provider: &str, id: Option<&str>) -> (String, Vec<KeyValue>) {
    let name = if id.is_some() { n::SUBAGENT } else { n::MAIN };
    let mut attributes = vec![
        KeyValue::new(n::GEN_AI_OPERATION_NAME, n::INVOKE_AGENT),
        KeyValue::new(n::GEN_AI_AGENT_NAME, name),
        KeyValue::new(n::GEN_AI_PROVIDER_NAME, provider.to_owned()),
    ];
    attributes.extend(id.map(|id| KeyValue::new(n::GEN_AI_AGENT_ID, id.to_owned())));
    (format!("{} {name}", n::INVOKE_AGENT), attributes)
}

/// Adds the attributes from the event that ends a span, or that ends the turn of a subagent.
pub(super) fn ended(open: &mut Open, event: &Event) {
    match event {
        Event::RequestEnd {
            model,
            usage,
            finish,
            error,
            ..
        } => {
            open.span
                .set_attributes(named(n::GEN_AI_RESPONSE_MODEL, model));
            if let Some(finish) = finish {
                open.set(n::GEN_AI_RESPONSE_FINISH_REASONS, finish_reasons(*finish));
                open.span.set_attributes(used(*usage));
            }
            if error.is_some() {
                open.fail(n::NO_ANSWER);
            }
        }
        Event::ToolEnd {
            result, refused_by, ..
        } => {
            open.span.set_attributes(named(n::REFUSED_BY, refused_by));
            match (result.is_error, refused_by) {
                (true, Some(_)) => open.fail(n::DENIED),
                (true, None) => open.fail(n::TOOL_ERROR),
                (false, _) => {}
            }
        }
        Event::CompactEnd { is_built_in, .. } => open.set(n::COMPACT_BUILT_IN, *is_built_in),
        Event::ArchiveEnd { holder, .. } => open.set(n::ARCHIVED, holder.is_some()),
        Event::SubagentEnd { is_error: true, .. } => open.fail(n::FAILED),
        Event::TurnEnd { summary, .. } => {
            open.span.set_attributes(used(summary.usage));
            open.set(n::STOP, word(&summary.stop));
            open.set(n::STEPS, i64::from(summary.steps));
            open.set(n::TOOL_CALLS, i64::from(summary.tool_calls));
            if summary.stop == StopReason::Failed {
                open.fail(n::FAILED);
            }
        }
        _ => {}
    }
}

fn finish_reasons(finish: Finish) -> Value {
    let reason = match finish {
        Finish::Done => "stop",
        Finish::ToolCalls => "tool_calls",
        Finish::MaxTokens => "length",
        Finish::Refused => "content_filter",
        Finish::Paused => "pause_turn",
    };
    Value::Array(Array::String(vec![StringValue::from(reason)]))
}

/// Returns the name of a tool if it is valid, and a placeholder otherwise: a model can request a
/// tool with any text as its name.
fn tool(name: &str) -> &str {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    if (1..=64).contains(&name.len()) && name.bytes().all(is_name) {
        name
    } else {
        n::OTHER
    }
}

pub(super) fn hook(record: &TraceRecord) -> Vec<KeyValue> {
    let mut attributes = vec![
        KeyValue::new(n::POINT, record.point.to_string()),
        KeyValue::new(n::PLUGIN, record.plugin.to_string()),
        KeyValue::new(n::OUTCOME, word(&record.outcome)),
        KeyValue::new(n::MICROS, record.micros),
    ];
    if !record.changed.is_empty() {
        let changed = record.changed.iter().map(|name| StringValue::from(*name));
        let changed = Value::Array(Array::String(changed.collect()));
        attributes.push(KeyValue::new(n::CHANGED, changed));
    }
    attributes
}

/// Returns the attributes of an access, without its target, which may be a path or an address from
/// the user.
pub(super) fn access(record: &AccessRecord) -> Vec<KeyValue> {
    vec![
        KeyValue::new(n::PLUGIN, record.plugin.to_string()),
        KeyValue::new(n::REACHED, word(&record.reached)),
        KeyValue::new(n::OUTCOME, word(&record.outcome)),
    ]
}

fn used(usage: Usage) -> [KeyValue; 4] {
    let cached = number(usage.cache_read_tokens);
    let written = number(usage.cache_write_tokens);
    [
        KeyValue::new(n::GEN_AI_USAGE_INPUT_TOKENS, number(usage.input_tokens)),
        KeyValue::new(n::GEN_AI_USAGE_OUTPUT_TOKENS, number(usage.output_tokens)),
        KeyValue::new(n::GEN_AI_USAGE_CACHE_READ_INPUT_TOKENS, cached),
        KeyValue::new(n::GEN_AI_USAGE_CACHE_CREATION_INPUT_TOKENS, written),
    ]
}

fn named(key: &'static str, name: &Option<String>) -> Option<KeyValue> {
    Some(KeyValue::new(key, name.clone()?))
}

pub(super) fn number(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// Returns the name of an enum variant, as in JSON.
pub(super) fn word(case: &impl Serialize) -> String {
    let value = serde_json::to_value(case).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}
