//! Attributes of spans: names, numbers and outcomes, and no text that anybody wrote.

use opentelemetry::{Array, KeyValue, StringValue, Value};
use serde::Serialize;

use super::names as n;
use crate::message::{Finish, Usage};
use crate::point::trace::{AccessOutcome, AccessRecord, Reached, TraceRecord};

/// Returns the finish reason, as a list of one.
pub(super) fn finish_reasons(finish: Finish) -> KeyValue {
    let reason = match finish {
        Finish::Done => "stop",
        Finish::ToolCalls => "tool_calls",
        Finish::MaxTokens => "length",
        Finish::Refused => "content_filter",
    };
    let reasons = Value::Array(Array::String(vec![StringValue::from(reason)]));
    KeyValue::new(n::GEN_AI_RESPONSE_FINISH_REASONS, reasons)
}

/// The name of a tool. A model may ask for one that cannot be and write anything there.
pub(super) fn tool(name: &str) -> &str {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    if (1..=64).contains(&name.len()) && name.bytes().all(is_name) {
        name
    } else {
        n::OTHER
    }
}

/// Returns the attributes of a hook call.
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

/// Uses of models, tools and subagents that went well are spans.
pub(super) fn is_news(record: &AccessRecord) -> bool {
    record.reached != Reached::External || record.outcome != AccessOutcome::Done
}

/// Returns the attributes of an access, without its target, which may be a path or an address that somebody typed.
pub(super) fn access(record: &AccessRecord) -> Vec<KeyValue> {
    vec![
        KeyValue::new(n::PLUGIN, record.plugin.to_string()),
        KeyValue::new(n::REACHED, word(&record.reached)),
        KeyValue::new(n::OUTCOME, word(&record.outcome)),
    ]
}

/// Tokens.
pub(super) fn used(usage: Usage) -> [KeyValue; 4] {
    let cached = number(usage.cache_read_tokens);
    let written = number(usage.cache_write_tokens);
    [
        KeyValue::new(n::GEN_AI_USAGE_INPUT_TOKENS, number(usage.input_tokens)),
        KeyValue::new(n::GEN_AI_USAGE_OUTPUT_TOKENS, number(usage.output_tokens)),
        KeyValue::new(n::GEN_AI_USAGE_CACHE_READ_INPUT_TOKENS, cached),
        KeyValue::new(n::GEN_AI_USAGE_CACHE_CREATION_INPUT_TOKENS, written),
    ]
}

/// A name, where there is one.
pub(super) fn named(key: &'static str, name: &Option<String>) -> Option<KeyValue> {
    Some(KeyValue::new(key, name.clone()?))
}

/// A count.
pub(super) fn number(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// Returns the name of a case, as it is in JSON.
pub(super) fn word(case: &impl Serialize) -> String {
    let value = serde_json::to_value(case).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}
