//! Corrections of requests that a server refused.
//!
//! Servers of the same wire format refuse different parts of it: an optional field, reasoning that
//! another server signed, two adjacent messages of one role. When a refusal names such a part, the
//! request is corrected and sent again once. The correction is kept for the model, so later
//! requests are correct from the start.
//!
//! Owns the list of corrections, the recognition of refusals and the changes to a request body.
//! `fit` applies corrections to the conversation. This module must not send anything. Start from
//! [`RequestCorrection::from_refusal`] and [`RequestCorrections`].

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::message::{Content, Message};

/// Maximum number of bytes of a refusal in which the refused part is searched. Long refusals quote
/// parts of the request.
const MAX_SEARCHED_REFUSAL_BYTES: usize = 4_000;

/// Maximum number of message ids in `dropped`. If there are more, reasoning is dropped from all
/// messages.
const MAX_REASONING_DROP_MESSAGE_IDS: usize = 10_000;

/// Optional body fields that can be dropped without changing the meaning of the request.
const DROPPABLE_BODY_FIELDS: [&str; 14] = [
    "stream_options",
    "parallel_tool_calls",
    "temperature",
    "top_p",
    "cache_control",
    "prompt_cache_key",
    "reasoning_effort",
    "reasoning",
    "thinking",
    "thinkingConfig",
    "tool_choice",
    "toolConfig",
    "include",
    "store",
];

/// Names of fields that servers mention when they refuse the output format of a request.
const OUTPUT_FORMAT_REFUSAL_TERMS: [&str; 8] = [
    "response_format",
    "output_config",
    "text.format",
    "response_schema",
    "responsejsonschema",
    "response_json_schema",
    "responsemimetype",
    "response mime type",
];

/// Fields of a body that contain the output format: in chat completions, Messages, Responses, and
/// Gemini's `generationConfig`.
const OUTPUT_FORMAT_BODY_FIELDS: [&str; 5] = [
    "response_format",
    "output_config",
    "text",
    "responseMimeType",
    "responseJsonSchema",
];

/// Names of the body field for the token limit in chat completions. Newer OpenAI models refuse the
/// first name; most other servers refuse the second.
const TOKEN_LIMIT_BODY_FIELDS: [&str; 2] = ["max_tokens", "max_completion_tokens"];

/// Placeholder signature that Gemini accepts for a call that it did not make itself.
const GEMINI_SIGNATURE_PLACEHOLDER: &str = "skip_thought_signature_validator";

/// Placeholder for an answer of the model between tool results and a user message, for servers that
/// require alternating roles.
pub(super) const ASSISTANT_MESSAGE_PLACEHOLDER: &str = "[the user goes on]";

/// Phrases that show that a server error is about a refused field.
const REFUSED_FIELD_ERROR_PHRASES: [&str; 15] = [
    "unknown",
    "unsupported",
    "unrecognized",
    "unexpected",
    "extra",
    "not supported",
    "not permitted",
    "not allowed",
    "not accept",
    "does not support",
    "doesn't support",
    "cannot find field",
    "forbidden",
    "deprecated",
    "invalid parameter",
];

/// Change to a request after the server refused it, so that the server accepts the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestCorrection {
    /// Drops reasoning, signatures and opaque data from earlier messages.
    DropReasoning,
    /// Adds blank reasoning to messages with tool calls, for a server that refuses such messages
    /// without reasoning.
    FillReasoning,
    /// Adds the placeholder signature from Gemini's documentation to a call that another model
    /// made.
    FillSignature,
    /// Inserts a placeholder answer of the model between tool results and a user message, so that
    /// roles alternate.
    AlternateRoles,
    /// Shortens call ids to nine letters and digits, as Mistral requires.
    ShortIds,
    /// Drops this optional field from the body of the request.
    DropField(&'static str),
    /// Drops the output format from the body. The host still validates the answer and asks the
    /// model again if it does not match.
    DropOutputFormat,
    /// Renames the field of the token limit from `max_tokens` to `max_completion_tokens` or back.
    RenameTokenLimit,
    /// Lowers the token limit to the maximum that the server allows.
    MaxTokens(u32),
}

impl RequestCorrection {
    /// Returns the correction for a refused request, from the HTTP status, message and code of the
    /// refusal; `None` if no correction is known.
    #[must_use]
    pub fn from_refusal(status: u16, message: &str, code: &str) -> Option<Self> {
        // Local servers report errors of their chat template with status 500.
        if !matches!(status, 400 | 404 | 422 | 500) {
            return None;
        }
        let end = message.floor_char_boundary(message.len().min(MAX_SEARCHED_REFUSAL_BYTES));
        let said = format!("{} {code}", &message[..end]).to_lowercase();
        let has = |words: &[&str]| words.iter().any(|word| said.contains(word));
        if has(&["alternate", "unexpected role", "after role", "roles must"]) {
            return Some(Self::AlternateRoles);
        }
        if status == 500 {
            return None;
        }
        let is_of_reasoning = has(&[
            "reasoning_content",
            "reasoning_details",
            "thinking block",
            "`thinking`",
            "thought_signature",
            "thought signature",
            "thoughtsignature",
            "signature",
            "encrypted content",
            "encrypted_content",
            "redacted_thinking",
            "reasoning item",
            "of type 'reasoning'",
            "extra_content",
            "property 'reasoning'",
        ]);
        if is_of_reasoning {
            let is_missing = has(&["missing", "must be passed", "must be provided", "required"]);
            let is_signature = has(&["thought_signature", "thought signature", "thoughtsignature"]);
            return Some(match (is_missing, is_signature) {
                (true, true) => Self::FillSignature,
                (true, false) => Self::FillReasoning,
                (false, _) => Self::DropReasoning,
            });
        }
        if has(&[
            "tool call id",
            "tool_call_id",
            "tool_call.id",
            "tool_calls",
            "call_id",
        ]) && has(&[
            "length of 9",
            "too long",
            "maximum length",
            "above_max_length",
        ]) {
            return Some(Self::ShortIds);
        }
        if has(&TOKEN_LIMIT_BODY_FIELDS)
            || has(&["maxoutputtokens", "completion tokens", "output tokens"])
        {
            if has(&["instead", "unsupported parameter", "extra", "unrecognized"]) {
                return Some(Self::RenameTokenLimit);
            }
            let is_too_large = has(&["at most", "maximum", "too large", "less than or equal"]);
            return parse_integers_in_text(&said)
                .filter(|number| is_too_large && *number >= 16)
                .min()
                .map(Self::MaxTokens);
        }
        if has(&OUTPUT_FORMAT_REFUSAL_TERMS) {
            return Some(Self::DropOutputFormat);
        }
        let field = DROPPABLE_BODY_FIELDS
            .into_iter()
            .find(|field| contains_field_name(&said, field));
        field
            .filter(|_| has(&REFUSED_FIELD_ERROR_PHRASES))
            .map(Self::DropField)
    }
}

/// Whether a server's message contains the name of a field as a whole word.
fn contains_field_name(said: &str, field: &str) -> bool {
    let field = field.to_lowercase();
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    said.match_indices(&*field).any(|(at, _)| {
        let before = said[..at].chars().next_back();
        let after = said[at + field.len()..].chars().next();
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}

/// Returns the integers in a text, with or without thousands separators.
fn parse_integers_in_text(said: &str) -> impl Iterator<Item = u32> {
    said.split(|c: char| !c.is_ascii_digit() && c != ',')
        .map(|digits| digits.trim_matches(',').replace(',', ""))
        .filter_map(|digits| digits.parse().ok())
}

/// Corrections that requests to one model need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestCorrections {
    /// Ids of messages whose reasoning the server refused.
    dropped: BTreeSet<String>,
    /// Whether the server refuses the reasoning of all messages.
    drops_all: bool,
    fills_reasoning: bool,
    fills_signature: bool,
    pub(super) alternates_roles: bool,
    pub(super) has_short_ids: bool,
    without: BTreeSet<&'static str>,
    renames_token_limit: bool,
    max_tokens: Option<u32>,
}

impl RequestCorrections {
    /// Creates the corrections of a preset, which apply from the first request on.
    pub(super) fn from_preset(known: &[RequestCorrection]) -> Self {
        let mut mends = Self::default();
        for mend in known {
            mends.add_correction(mend, &[]);
        }
        mends
    }

    /// Adds a correction for the requests that follow, after the server refused a request with
    /// these messages. Returns `false` if the correction was already applied: the same request
    /// would fail again.
    pub(super) fn add_correction(
        &mut self,
        mend: &RequestCorrection,
        messages: &[Message],
    ) -> bool {
        match mend {
            RequestCorrection::DropReasoning => self.remove_reasoning(messages),
            RequestCorrection::FillReasoning => !std::mem::replace(&mut self.fills_reasoning, true),
            RequestCorrection::FillSignature => !std::mem::replace(&mut self.fills_signature, true),
            RequestCorrection::AlternateRoles => {
                !std::mem::replace(&mut self.alternates_roles, true)
            }
            RequestCorrection::ShortIds => !std::mem::replace(&mut self.has_short_ids, true),
            RequestCorrection::DropField(field) => self.without.insert(field),
            RequestCorrection::DropOutputFormat => {
                let n_before = self.without.len();
                self.without.extend(OUTPUT_FORMAT_BODY_FIELDS);
                self.without.len() > n_before
            }
            RequestCorrection::RenameTokenLimit => {
                !std::mem::replace(&mut self.renames_token_limit, true)
            }
            RequestCorrection::MaxTokens(most) => {
                let is_lower = self.max_tokens.is_none_or(|old| *most < old);
                self.max_tokens = self.max_tokens.min(Some(*most)).or(Some(*most));
                is_lower
            }
        }
    }

    /// Drops the reasoning of these messages, because the refusal may concern reasoning of another
    /// server or expired reasoning. A later refusal of further reasoning means that the server
    /// accepts none, so from then on all reasoning is dropped.
    fn remove_reasoning(&mut self, messages: &[Message]) -> bool {
        if self.drops_all {
            return false;
        }
        let with_reasoning = messages.iter().filter(|message| has_reasoning(message));
        let ids: Vec<String> = with_reasoning.map(|message| message.id.clone()).collect();
        let is_known = !self.dropped.is_empty();
        let n_before = self.dropped.len();
        self.dropped.extend(ids);
        let is_more = self.dropped.len() > n_before;
        self.drops_all = is_more && is_known || self.dropped.len() > MAX_REASONING_DROP_MESSAGE_IDS;
        is_more
    }

    /// Whether the reasoning and opaque data of this message must be dropped from requests.
    pub(super) fn should_drop_reasoning(&self, message: &Message) -> bool {
        self.drops_all || self.dropped.contains(&message.id)
    }

    /// Changes a finished request body according to the corrections. Corrections of the
    /// conversation have already been applied by `fit`.
    pub(super) fn apply_corrections(&self, body: &mut Value) {
        let Value::Object(fields) = body else {
            return;
        };
        for field in &self.without {
            fields.shift_remove(*field);
            if let Some(Value::Object(config)) = fields.get_mut("generationConfig") {
                config.shift_remove(*field);
            }
        }
        if self.without.contains("cache_control") {
            fields.values_mut().for_each(remove_cache_markers);
        }
        if self.renames_token_limit {
            let [old, new] = TOKEN_LIMIT_BODY_FIELDS;
            let (from, to) = match fields.contains_key(old) {
                true => (old, new),
                false => (new, old),
            };
            if let Some(limit) = fields.shift_remove(from) {
                fields.insert(to.to_owned(), limit);
            }
        }
        if self.alternates_roles {
            insert_placeholder_answers(fields);
        }
        if self.fills_reasoning {
            add_blank_reasoning(fields);
        }
        if self.fills_signature {
            add_missing_signatures(fields);
        }
        let Some(most) = self.max_tokens else {
            return;
        };
        let lower = |limit: &mut Value| {
            if limit.as_u64().is_some_and(|limit| limit > u64::from(most)) {
                *limit = json!(most);
            }
        };
        for name in TOKEN_LIMIT_BODY_FIELDS
            .into_iter()
            .chain(["max_output_tokens"])
        {
            fields.get_mut(name).map(lower);
        }
        if let Some(config) = fields.get_mut("generationConfig") {
            config.get_mut("maxOutputTokens").map(lower);
        }
    }
}

/// Inserts a placeholder answer of the model between tool results and the user message with the
/// images of the results, in chat completions. The code of the wire format adds that user message
/// after `fit`, so `fit` cannot do it.
fn insert_placeholder_answers(fields: &mut Map<String, Value>) {
    let Some(messages) = fields.get_mut("messages").and_then(Value::as_array_mut) else {
        return;
    };
    let mut alternating: Vec<Value> = Vec::with_capacity(messages.len());
    for message in messages.drain(..) {
        let is_behind_results = alternating
            .last()
            .is_some_and(|last| last["role"] == "tool");
        if is_behind_results && message["role"] == "user" {
            alternating
                .push(json!({"role": "assistant", "content": ASSISTANT_MESSAGE_PLACEHOLDER}));
        }
        alternating.push(message);
    }
    *messages = alternating;
}

/// Adds blank reasoning to each message with calls, in chat completions. DeepSeek and Kimi require
/// reasoning in thinking mode and accept a blank for calls of another model.
fn add_blank_reasoning(fields: &mut Map<String, Value>) {
    for message in iter_list_field_objects(fields, "messages") {
        if let Value::Object(message) = message
            && message.contains_key("tool_calls")
        {
            message
                .entry("reasoning_content")
                .or_insert_with(|| json!(" "));
        }
    }
}

/// Adds the placeholder signature to each call without one, in chat completions and in Gemini's own
/// wire.
fn add_missing_signatures(fields: &mut Map<String, Value>) {
    for message in iter_list_field_objects(fields, "messages") {
        let calls = message.get_mut("tool_calls").and_then(Value::as_array_mut);
        for call in calls.into_iter().flatten().filter(|call| call.is_object()) {
            if call.get("extra_content").is_none() {
                call["extra_content"] =
                    json!({"google": {"thought_signature": GEMINI_SIGNATURE_PLACEHOLDER}});
            }
        }
    }
    for content in iter_list_field_objects(fields, "contents") {
        let parts = content.get_mut("parts").and_then(Value::as_array_mut);
        for part in parts.into_iter().flatten() {
            if part.get("functionCall").is_some() && part.get("thoughtSignature").is_none() {
                part["thoughtSignature"] = json!(GEMINI_SIGNATURE_PLACEHOLDER);
            }
        }
    }
}

/// Returns the objects of a list field. Other values are skipped, because hooks may write anything
/// there.
fn iter_list_field_objects<'a>(
    fields: &'a mut Map<String, Value>,
    name: &str,
) -> impl Iterator<Item = &'a mut Value> {
    let list = fields.get_mut(name).and_then(Value::as_array_mut);
    list.into_iter().flatten().filter(|item| item.is_object())
}

/// Removes cache markers from a list of blocks, or of messages and their blocks.
fn remove_cache_markers(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(remove_cache_markers),
        Value::Object(fields) => {
            fields.shift_remove("cache_control");
            fields.get_mut("content").map(remove_cache_markers);
        }
        _ => {}
    }
}

/// Whether a message has reasoning or opaque data, which only the model and server that wrote them
/// accept.
pub(super) fn has_reasoning(message: &Message) -> bool {
    message.extra.is_some()
        || message.content.iter().any(|part| match part {
            Content::Thinking { .. } => true,
            Content::ToolCall(call) => call.extra.is_some(),
            _ => false,
        })
}

#[cfg(test)]
mod tests;
