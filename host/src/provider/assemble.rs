//! Assembles an answer from streamed deltas, for all wire formats.
//!
//! Owns the conversion of text, reasoning and tool calls to one assistant message, and
//! [`AnswerStreamDecoder`], the interface between the HTTP side and the decoder of a wire format.
//! Opaque data that only the server understands is stored with the part to which it belongs. The
//! module must not depend on any wire format.
//!
//! Start from [`AssistantMessageAssembler`].

mod opaque;

use serde_json::{Map, Value};

use super::lenient::{self, SurrogateJoiner};
use super::{Finish, StreamEvent};
use crate::clock;
use crate::json;
use crate::message::{Content, Message, Role, ToolCall, Usage};
use crate::text::escape_and_truncate_line;

/// Maximum length of a model's name, in bytes.
const MAX_MODEL_NAME_BYTES: usize = 128;

/// Maximum length of the excerpt of a stream event that cannot be parsed, in bytes.
const MAX_UNPARSED_EVENT_EXCERPT_BYTES: usize = 4096;

/// Number of bytes that each part of an answer counts towards the size limit, in addition to its
/// content.
const ANSWER_PART_OVERHEAD_BYTES: usize = 64;

/// Decoder of one answer in one wire format.
pub(crate) trait AnswerStreamDecoder: Send {
    /// Decodes the data of the next event and calls `emit` for each resulting stream event.
    fn read_event(
        &mut self,
        data: &str,
        emit: &mut dyn FnMut(StreamEvent),
    ) -> Result<(), AnswerStreamError>;

    /// Returns the size of the answer so far, in bytes.
    fn n_answer_bytes(&self) -> usize;

    /// Whether the stream has ended according to the wire format, so that the connection can be
    /// closed.
    fn is_stream_complete(&self) -> bool;

    /// Whether the finish reason was received. After it, the answer is complete even if the
    /// connection fails, because only token counts may follow.
    fn has_finish_reason(&self) -> bool;

    /// Returns the answer after the end of the stream; [`AnswerStreamError::EndedEarly`] if the
    /// answer is incomplete.
    fn finish(self) -> Result<DecodedModelReply, AnswerStreamError>;
}

/// Reply of a model, decoded from a stream.
#[derive(Debug, PartialEq)]
pub(crate) struct DecodedModelReply {
    pub(crate) message: Message,
    /// Name of the model as reported by the server.
    pub(crate) model: Option<String>,
    pub(crate) finish: Finish,
    pub(crate) usage: Usage,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum AnswerStreamError {
    /// The stream does not match the wire format.
    Bad { what: String, excerpt: String },
    /// The stream ended before the reply was complete.
    EndedEarly,
    /// The stream exceeds the size limit of a reply.
    TooLong { max_bytes: usize },
    /// The server reported an error inside the stream; `status` is the equivalent HTTP status.
    Server { status: u16, message: String },
}

impl AnswerStreamError {
    /// Creates the error for an event that does not match the format. `what` must not quote the
    /// data: only `excerpt` may contain text of the model, and it is truncated and marked as a
    /// quote.
    pub(crate) fn from_bad_event(what: impl Into<String>, data: &str) -> Self {
        Self::Bad {
            what: what.into(),
            excerpt: data.to_owned(),
        }
    }
}

/// Index of a tool call in the parts of an [`AssistantMessageAssembler`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ToolCallPartPosition(usize);

/// Assembles the assistant message that is being received.
#[derive(Default)]
pub(crate) struct AssistantMessageAssembler {
    /// Parts of the message that were received so far. Until the end of the message, the arguments
    /// of tool calls are unparsed text.
    parts: Vec<Content>,
    n_bytes: usize,
    model: Option<String>,
    extra: Map<String, Value>,
    text_halves: SurrogateJoiner,
    thinking_halves: SurrogateJoiner,
    has_halves: bool,
    /// First unreadable event: a description of the problem, and an excerpt of the event.
    odd: Option<(&'static str, String)>,
}

impl AssistantMessageAssembler {
    /// Returns the size of the answer so far in bytes, with an overhead for each part.
    pub(crate) fn n_answer_bytes(&self) -> usize {
        self.n_bytes + self.parts.len() * ANSWER_PART_OVERHEAD_BYTES
    }

    /// Parses the data of an event. An event that is not a JSON object is skipped, and reported
    /// only if the answer has no parts.
    pub(super) fn parse_event(&mut self, data: &str) -> Option<Value> {
        let parsed = lenient::parse_event(data);
        let Some(parsed) = parsed.filter(|parsed| parsed.value.is_object()) else {
            self.record_unreadable_event("not an event of this API", data);
            return None;
        };
        if parsed.has_halves {
            self.has_halves = true;
            self.text_halves.enable_surrogate_joining();
            self.thinking_halves.enable_surrogate_joining();
        }
        Some(parsed.value)
    }

    /// Stores the first unreadable event, which the error message quotes if no answer follows.
    pub(super) fn record_unreadable_event(&mut self, what: &'static str, data: &str) {
        if self.odd.is_none() {
            let end = data.floor_char_boundary(data.len().min(MAX_UNPARSED_EVENT_EXCERPT_BYTES));
            self.odd = Some((what, data[..end].to_owned()));
        }
    }

    /// Returns the fault of a stream that ended before the answer was complete. If only unreadable
    /// events arrived, the fault reports the first of them, because the server is then probably not
    /// a model API.
    pub(super) fn into_ended_early_fault(self) -> AnswerStreamError {
        match self.odd {
            Some((what, excerpt)) if self.parts.is_empty() => {
                AnswerStreamError::from_bad_event(what, &excerpt)
            }
            _ => AnswerStreamError::EndedEarly,
        }
    }

    /// Stores the name of the model as reported by the server.
    pub(crate) fn set_model(&mut self, name: &Value) {
        let name = name
            .as_str()
            .map(|name| escape_and_truncate_line(name, MAX_MODEL_NAME_BYTES));
        self.model = name
            .filter(|name| !name.is_empty())
            .or_else(|| self.model.take());
    }

    pub(crate) fn add_text(&mut self, delta: &str, emit: &mut dyn FnMut(StreamEvent)) {
        let delta = self.text_halves.push(delta);
        if delta.is_empty() {
            return;
        }
        self.n_bytes += delta.len();
        match self.parts.last_mut() {
            Some(Content::Text { text }) => text.push_str(&delta),
            _ => self.parts.push(Content::from_text(&*delta)),
        }
        emit(StreamEvent::Text(delta.into_owned()));
    }

    /// Appends a delta of the model's reasoning, and emits it as an event.
    pub(crate) fn add_thinking(&mut self, delta: &str, emit: &mut dyn FnMut(StreamEvent)) {
        let delta = self.thinking_halves.push(delta);
        if delta.is_empty() {
            return;
        }
        self.n_bytes += delta.len();
        match self.parts.last_mut() {
            // Append only to reasoning without a signature: a signature ends its block, and later
            // reasoning begins another block.
            Some(Content::Thinking {
                text,
                signature: None,
                extra: None,
            }) => text.push_str(&delta),
            _ => self.parts.push(Content::from_thinking(&*delta)),
        }
        emit(StreamEvent::Thinking(delta.into_owned()));
    }

    /// Stores the signature of a reasoning block: in the last part, if that is reasoning without a
    /// signature, and otherwise in a new reasoning block without text.
    pub(crate) fn add_thinking_signature(&mut self, proof: String) {
        self.n_bytes += proof.len();
        match self.parts.last_mut() {
            Some(Content::Thinking { signature, .. }) if signature.is_none() => {
                *signature = Some(proof);
            }
            _ => self.parts.push(Content::Thinking {
                text: String::new(),
                signature: Some(proof),
                extra: None,
            }),
        }
    }

    /// Adds opaque data of the provider to all reasoning blocks that have none yet.
    pub(super) fn add_thinking_opaque_data(&mut self, mark: &Value) {
        for part in &mut self.parts {
            if let Content::Thinking { extra, .. } = part {
                extra.get_or_insert_with(|| mark.clone());
            }
        }
    }

    /// Stores opaque data of the message under the name of the field that contained it.
    pub(super) fn add_message_opaque_data(&mut self, name: &str, value: &Value) {
        self.n_bytes += merge_opaque_field(&mut self.extra, name, value);
    }

    /// Stores opaque data of a tool call under the name of the field in which the server sent the
    /// data.
    pub(super) fn add_call_opaque_data(
        &mut self,
        slot: ToolCallPartPosition,
        name: &str,
        value: &Value,
    ) {
        let Some(Content::ToolCall(call)) = self.parts.get_mut(slot.0) else {
            return;
        };
        let extra = call.extra.get_or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(fields) = extra {
            self.n_bytes += merge_opaque_field(fields, name, value);
        }
    }

    /// Begins a tool call. An empty id is replaced at the end, because some servers send none.
    pub(crate) fn begin_call(
        &mut self,
        id: &str,
        name: &str,
        emit: &mut dyn FnMut(StreamEvent),
    ) -> ToolCallPartPosition {
        self.n_bytes += id.len() + name.len();
        let call = ToolCall::new(id, name, Value::String(String::new()));
        self.parts.push(Content::ToolCall(call));
        let name = name.to_owned();
        emit(StreamEvent::ToolCall { name });
        ToolCallPartPosition(self.parts.len() - 1)
    }

    /// Appends a piece to the name of a call, for servers that send names in pieces.
    pub(super) fn append_call_name(&mut self, slot: ToolCallPartPosition, piece: &str) {
        if let Some(Content::ToolCall(call)) = self.parts.get_mut(slot.0) {
            self.n_bytes += piece.len();
            call.name.push_str(piece);
        }
    }

    /// Returns the parts of a call's name and arguments that were received so far.
    pub(super) fn partial_tool_call_name_and_arguments(
        &self,
        slot: ToolCallPartPosition,
    ) -> (&str, &str) {
        match self.parts.get(slot.0) {
            Some(Content::ToolCall(call)) => {
                (&call.name, call.arguments.as_str().unwrap_or_default())
            }
            _ => ("", ""),
        }
    }

    /// Appends a delta to the arguments of a tool call.
    pub(crate) fn add_arguments(&mut self, slot: ToolCallPartPosition, delta: &str) {
        self.n_bytes += delta.len();
        if let Some(Content::ToolCall(call)) = self.parts.get_mut(slot.0)
            && let Value::String(written) = &mut call.arguments
        {
            written.push_str(delta);
        }
    }

    /// Whether the arguments of a call are already complete JSON.
    pub(crate) fn has_complete_arguments(&self, slot: ToolCallPartPosition) -> bool {
        serde_json::from_str::<Value>(self.partial_tool_call_name_and_arguments(slot).1).is_ok()
    }

    /// Returns the message and its finish reason: the reason `finish` from the server, corrected if
    /// it contradicts the presence of tool calls.
    pub(crate) fn finish_message(mut self, finish: Finish, usage: Usage) -> DecodedModelReply {
        // Add surrogates of which the other half never arrived.
        let (text, thinking) = (
            self.text_halves.flush_held_back_surrogate(),
            self.thinking_halves.flush_held_back_surrogate(),
        );
        self.text_halves = SurrogateJoiner::default();
        self.thinking_halves = SurrogateJoiner::default();
        self.add_thinking(thinking, &mut |_| ());
        self.add_text(text, &mut |_| ());
        for part in &mut self.parts {
            let Content::ToolCall(call) = part else {
                continue;
            };
            if call.id.is_empty() {
                call.id = format!("call_{}", clock::new_uuid_v7());
            }
            if let Value::String(written) = call.arguments.take() {
                let written = if self.has_halves {
                    lenient::join_surrogates(&written)
                } else {
                    written
                };
                call.arguments = parse_arguments(written);
            }
        }
        let mut message = Message::new(Role::Assistant, self.parts);
        message.extra = (!self.extra.is_empty()).then_some(Value::Object(self.extra));
        let has_calls = message.tool_calls().next().is_some();
        // Servers use different finish reasons for an answer with tool calls, so the presence of
        // calls determines the reason.
        let finish = match finish {
            Finish::Done | Finish::ToolCalls if has_calls => Finish::ToolCalls,
            Finish::ToolCalls => Finish::Done,
            other => other,
        };
        DecodedModelReply {
            message,
            model: self.model,
            finish,
            usage,
        }
    }
}

/// Merges a field that may arrive in pieces, and returns the size of the piece in bytes.
fn merge_opaque_field(fields: &mut Map<String, Value>, name: &str, value: &Value) -> usize {
    match fields.get_mut(name) {
        Some(old) => merge_opaque_json_delta(old, value),
        None => {
            fields.insert(name.to_owned(), value.clone());
        }
    }
    name.len() + value.to_string().len()
}

/// Merges a later delta of opaque data into the earlier value. The items of a list are appended,
/// except that an item with the same `index` and `type` as the last item continues that item, as in
/// the `reasoning_details` that OpenRouter streams. Objects are merged field by field. `null`
/// changes nothing, and any other value replaces the old one.
fn merge_opaque_json_delta(old: &mut Value, new: &Value) {
    match (old, new) {
        (_, Value::Null) => {}
        (Value::Array(items), Value::Array(more)) => {
            for item in more {
                let is_next = |last: &&mut Value| {
                    item.is_object()
                        && item.get("index").is_some()
                        && ["index", "type"]
                            .iter()
                            .all(|key| last.get(key) == item.get(key))
                };
                match (items.last_mut().filter(is_next), item) {
                    (Some(Value::Object(last)), Value::Object(piece)) => {
                        append_delta_to_streamed_item(last, piece)
                    }
                    _ => items.push(item.clone()),
                }
            }
        }
        (Value::Object(fields), Value::Object(more)) => {
            for (name, value) in more {
                merge_opaque_field(fields, name, value);
            }
        }
        (old, new) => *old = new.clone(),
    }
}

/// Appends a delta to a streamed item: `text`, `summary` and `data` are concatenated, other fields
/// are replaced.
fn append_delta_to_streamed_item(last: &mut Map<String, Value>, piece: &Map<String, Value>) {
    for (name, value) in piece {
        match (last.get_mut(name), value) {
            (Some(Value::String(text)), Value::String(more))
                if matches!(&**name, "text" | "summary" | "data") =>
            {
                text.push_str(more);
            }
            (Some(_), Value::Null) => {}
            _ => {
                last.insert(name.clone(), value.clone());
            }
        }
    }
}

/// Parses the arguments of a call. Empty text is an empty object. Invalid JSON becomes a JSON
/// string, so that the schema check reports it to the model. Two mistakes of models are unambiguous
/// and are corrected: an object encoded as a JSON string, and unescaped line breaks within a
/// string.
pub(crate) fn parse_arguments(written: String) -> Value {
    if written.trim().is_empty() {
        return Value::Object(Map::new());
    }
    // Treat arguments that are nested too deeply as invalid too: a session could store them but not
    // read them.
    let read = |text: &str| {
        let value = serde_json::from_str(text).ok();
        value.filter(|value: &Value| {
            json::measure_nesting_depth(value) <= json::MAX_JSON_NESTING_DEPTH
        })
    };
    match read(&written).or_else(|| read(&escape_control_characters(&written))) {
        Some(Value::String(inner)) => match read(&inner) {
            Some(object @ Value::Object(_)) => object,
            _ => Value::String(inner),
        },
        Some(value) => value,
        None => Value::String(written),
    }
}

/// Escapes control characters within the strings of a JSON document.
fn escape_control_characters(written: &str) -> String {
    let (mut escaped, mut in_text, mut is_escape) = (String::new(), false, false);
    for c in written.chars() {
        match c {
            c if in_text && c.is_ascii_control() => {
                escaped.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            c => escaped.push(c),
        }
        in_text ^= c == '"' && !is_escape;
        is_escape = in_text && c == '\\' && !is_escape;
    }
    escaped
}

/// Returns arguments in a form that a provider accepts: always an object. Servers answer any other
/// form with status 400, so the conversation could not continue.
pub(crate) fn arguments_as_object(arguments: &Value) -> Value {
    match arguments {
        Value::Object(_) => arguments.clone(),
        other => serde_json::json!({ "invalid_arguments": other }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_are_parsed_or_kept_as_written() {
        for (written, expected) in [
            ("", json!({})),
            (" \n", json!({})),
            (r#"{"a":1}"#, json!({"a": 1})),
            (r#"{"a":"#, json!(r#"{"a":"#)),
            ("[1]", json!([1])),
            (r#""{\"a\":1}""#, json!({"a": 1})),
            (r#""plain""#, json!("plain")),
            ("{\"a\":\"x\ny\\\"\tz\"}\n", json!({"a": "x\ny\"\tz"})),
        ] {
            assert_eq!(parse_arguments(written.to_owned()), expected, "{written}");
        }
        assert_eq!(
            arguments_as_object(&json!("{oops")),
            json!({"invalid_arguments": "{oops"})
        );
        assert_eq!(arguments_as_object(&json!({"a": 1})), json!({"a": 1}));
    }

    #[test]
    fn neighbors_of_one_kind_are_one_part() {
        let mut events = Vec::new();
        let mut emit = |event| events.push(event);
        let mut assembler = AssistantMessageAssembler::default();
        assembler.add_thinking("hm", &mut emit);
        assembler.add_thinking("m", &mut emit);
        assembler.add_thinking_signature("proof".to_owned());
        assembler.add_thinking_signature("alone".to_owned());
        assembler.add_text("a", &mut emit);
        assembler.add_text("", &mut emit);
        assembler.add_text("b", &mut emit);
        let slot = assembler.begin_call("id", "look", &mut emit);
        assembler.add_arguments(slot, "{");
        assert!(!assembler.has_complete_arguments(slot));
        assembler.add_arguments(slot, "}");
        assert!(assembler.has_complete_arguments(slot));
        let answer = assembler.finish_message(Finish::Done, Usage::default());
        assert_eq!(answer.finish, Finish::ToolCalls);
        assert_eq!(
            json!(answer.message.content),
            json!([
                {"type": "thinking", "text": "hmm", "signature": "proof"},
                {"type": "thinking", "text": "", "signature": "alone"},
                {"type": "text", "text": "ab"},
                {"type": "tool_call", "id": "id", "name": "look", "arguments": {}},
            ])
        );
        assert_eq!(events.len(), 5);
    }

    #[test]
    fn opaque_data_grows_piece_by_piece() {
        let mut assembler = AssistantMessageAssembler::default();
        let slot = assembler.begin_call("a", "look", &mut |_| ());
        for piece in [
            json!([{"type": "reasoning.text", "index": 0, "text": "I sh", "format": "x"}]),
            json!([{"type": "reasoning.text", "index": 0, "text": "ould", "signature": "s"}]),
            json!([{"type": "reasoning.encrypted", "index": 1, "data": "e"}, 5]),
            json!(null),
        ] {
            assembler.add_message_opaque_data("details", &piece);
        }
        for piece in [json!({"google": {"a": 1}}), json!({"google": {"b": "s"}})] {
            assembler.add_call_opaque_data(slot, "extra_content", &piece);
        }
        let message = assembler
            .finish_message(Finish::Done, Usage::default())
            .message;
        let call = message.tool_calls().next().unwrap();
        let kept = json!({"extra_content": {"google": {"a": 1, "b": "s"}}});
        assert_eq!(call.extra, Some(kept));
        let details = json!([
            {"type": "reasoning.text", "index": 0, "text": "I should", "format": "x", "signature": "s"},
            {"type": "reasoning.encrypted", "index": 1, "data": "e"},
            5,
        ]);
        assert_eq!(message.extra, Some(json!({"details": details})));
    }

    #[test]
    fn the_calls_decide_how_an_answer_ended() {
        for (said, has_call, expected) in [
            (Finish::Done, false, Finish::Done),
            (Finish::Done, true, Finish::ToolCalls),
            (Finish::ToolCalls, false, Finish::Done),
            (Finish::MaxTokens, true, Finish::MaxTokens),
            (Finish::Refused, true, Finish::Refused),
        ] {
            let mut assembler = AssistantMessageAssembler::default();
            if has_call {
                assembler.begin_call("", "look", &mut |_| ());
            }
            let answer = assembler.finish_message(said, Usage::default());
            assert_eq!(answer.finish, expected, "{said:?} {has_call}");
        }
    }
}
