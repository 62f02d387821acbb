//! Answers in the chat completions format: the chunks of a stream, or one complete completion.
//!
//! Owns the parser, and the differences between servers: the fields for reasoning, the numbering of
//! calls, token counts in several fields. Every field is read independently, and unknown fields are kept as
//! opaque data of the server. It must not know the network. Start from
//! [`ChatCompletionsStreamDecoder`].

use serde_json::Value;

use crate::message::Usage;
use crate::provider::assemble::{
    AnswerStreamDecoder, AnswerStreamError, AssistantMessageAssembler, DecodedModelReply,
    ToolCallPartPosition,
};
use crate::provider::lenient::{
    json_to_count, json_to_text, non_empty_error_field, non_null_field, number_field,
    read_json_id_field, read_json_list_field, read_json_text_field,
};
use crate::provider::{Finish, StreamEvent};

/// Fields for streamed reasoning: `reasoning_content` (DeepSeek, Kimi, llama.cpp), `reasoning`
/// (OpenRouter, Groq, Ollama), or both (some versions of vLLM).
const STREAMED_REASONING_FIELDS: [&str; 2] = ["reasoning_content", "reasoning"];

/// Fields of a message that the decoder reads or ignores. Any other field is stored as opaque data
/// and sent back, for example `reasoning_details` of OpenRouter or `thinking_blocks` of LiteLLM.
const KNOWN_MESSAGE_FIELDS: [&str; 15] = [
    "annotations",
    "audio",
    "content",
    "function_call",
    "images",
    "logprobs",
    "name",
    "reasoning",
    "reasoning_content",
    "refusal",
    "role",
    "stop_reason",
    "token_ids",
    "tool_call_id",
    "tool_calls",
];

/// Fields of a tool call that the decoder reads. Any other field is opaque data, for example
/// `extra_content` of Gemini.
const KNOWN_TOOL_CALL_FIELDS: [&str; 4] = ["function", "id", "index", "type"];

/// Decoder of one answer in the chat completions format.
#[derive(Default)]
pub(in crate::provider) struct ChatCompletionsStreamDecoder {
    assembler: AssistantMessageAssembler,
    calls: Vec<UnfinishedChatToolCall>,
    usage: Usage,
    finish_reason: Option<String>,
    /// Name of the field in which the server sent the reasoning.
    reasoning: Option<&'static str>,
    has_refusal: bool,
    is_done: bool,
}

/// Tool call that is still being received in pieces.
struct UnfinishedChatToolCall {
    index: Option<u64>,
    id: String,
    slot: ToolCallPartPosition,
}

impl ChatCompletionsStreamDecoder {
    fn read_delta(&mut self, delta: &Value, emit: &mut dyn FnMut(StreamEvent)) {
        let reasoning = STREAMED_REASONING_FIELDS
            .into_iter()
            .find_map(|name| Some((name, read_json_text_field(delta, name)?)));
        if let Some((name, text)) = reasoning {
            self.reasoning = Some(name);
            self.assembler.add_thinking(&text, emit);
        }
        match delta.get("content") {
            // Mistral streams lists with separate items for reasoning.
            Some(Value::Array(parts)) => parts
                .iter()
                .for_each(|part| self.decode_content_part(part, emit)),
            Some(content) => {
                if let Some(text) = json_to_text(content) {
                    self.assembler.add_text(&text, emit);
                }
            }
            None => {}
        }
        if let Some(text) = read_json_text_field(delta, "refusal") {
            self.has_refusal = true;
            self.assembler.add_text(&text, emit);
        }
        for call in read_json_list_field(delta, "tool_calls").filter(|call| call.is_object()) {
            self.read_call(call, call.get("function").unwrap_or(&Value::Null), emit);
        }
        // `function_call` is the old format of a call, which `tool_calls` replaced.
        if let Some(function) =
            non_null_field(delta, "function_call").filter(|call| call.is_object())
        {
            self.read_call(&Value::Null, function, emit);
        }
        for (name, value) in delta.as_object().into_iter().flatten() {
            if !KNOWN_MESSAGE_FIELDS.contains(&&**name) && !value.is_null() {
                self.assembler.add_message_opaque_data(name, value);
            }
        }
    }

    fn decode_content_part(&mut self, part: &Value, emit: &mut dyn FnMut(StreamEvent)) {
        if let Some(thinking) = ["thinking", "reasoning"]
            .into_iter()
            .find_map(|name| read_json_text_field(part, name))
        {
            self.assembler.add_thinking(&thinking, emit);
        } else if let Some(text) = json_to_text(part) {
            self.assembler.add_text(&text, emit);
        }
    }

    fn read_call(&mut self, delta: &Value, function: &Value, emit: &mut dyn FnMut(StreamEvent)) {
        let index = number_field(delta, "index");
        let id = read_json_id_field(delta, "id").unwrap_or_default();
        let name = read_json_text_field(function, "name").unwrap_or_default();
        let slot = match self.find_call_for_delta(index, &id, &name) {
            Some(slot) => {
                let (known, written) = self.assembler.partial_tool_call_name_and_arguments(slot);
                if known != name && written.is_empty() {
                    self.assembler.append_call_name(slot, &name);
                }
                slot
            }
            None => {
                let slot = self.assembler.begin_call(&id, &name, emit);
                self.calls.push(UnfinishedChatToolCall { index, id, slot });
                slot
            }
        };
        match function.get("arguments") {
            None | Some(Value::Null) => {}
            Some(Value::String(text)) => self.assembler.add_arguments(slot, text),
            Some(value) => self.assembler.add_arguments(slot, &value.to_string()),
        }
        for (name, value) in delta.as_object().into_iter().flatten() {
            if !KNOWN_TOOL_CALL_FIELDS.contains(&&**name) && !value.is_null() {
                self.assembler.add_call_opaque_data(slot, name, value);
            }
        }
    }

    /// Returns the call that a delta continues; `None` if it begins a new one.
    ///
    /// By the documentation, the index alone decides. But some servers send complete calls without
    /// an index, some give every call the index 0, and some give each piece of the arguments a new
    /// id. So a delta without a name continues its call with any id, while a new id with a name, or
    /// a name after complete arguments, begins a new call.
    fn find_call_for_delta(
        &self,
        index: Option<u64>,
        id: &str,
        name: &str,
    ) -> Option<ToolCallPartPosition> {
        let open = self.calls.iter().rev().find(|call| {
            if index.is_some() {
                call.index == index
            } else {
                id.is_empty() || call.id == id || name.is_empty()
            }
        })?;
        let has_other_id = !id.is_empty() && open.id != id && !name.is_empty();
        let begins_anew =
            !name.is_empty() && id.is_empty() && self.assembler.has_complete_arguments(open.slot);
        (!has_other_id && !begins_anew).then_some(open.slot)
    }

    /// Stores token counts. A proxy may repeat counts or send zeros in a later event, so the
    /// largest count is the correct one.
    fn read_token_counts(&mut self, usage: &Value) {
        let at = |pointer: &str| usage.pointer(pointer).and_then(json_to_count).unwrap_or(0);
        let cached = at("/prompt_tokens_details/cached_tokens").max(at("/prompt_cache_hit_tokens"));
        let most = |old: &mut u64, new: u64| *old = new.max(*old);
        most(&mut self.usage.input_tokens, at("/prompt_tokens"));
        most(&mut self.usage.output_tokens, at("/completion_tokens"));
        most(&mut self.usage.cache_read_tokens, cached);
    }
}

impl AnswerStreamDecoder for ChatCompletionsStreamDecoder {
    fn read_event(
        &mut self,
        data: &str,
        emit: &mut dyn FnMut(StreamEvent),
    ) -> Result<(), AnswerStreamError> {
        if data.trim() == "[DONE]" {
            self.is_done = true;
            return Ok(());
        }
        let Some(chunk) = self.assembler.parse_event(data) else {
            return Ok(());
        };
        if let Some(error) = non_empty_error_field(&chunk)
            && !self.has_finish_reason()
        {
            return Err(AnswerStreamError::Server {
                status: http_status_of_stream_error(error),
                message: data.to_owned(),
            });
        }
        self.assembler.set_model(&chunk["model"]);
        // Groq reports usage in `x_groq` or in the documented field.
        for usage in [chunk.pointer("/x_groq/usage"), chunk.get("usage")] {
            self.read_token_counts(usage.unwrap_or(&Value::Null));
        }
        // Each request asks for one choice, so only the first item of `choices` is read.
        let Some(choice) = read_json_list_field(&chunk, "choices").next() else {
            return Ok(());
        };
        // A complete completion has `message` instead of `delta`.
        let deltas = ["delta", "message"].map(|name| choice.get(name));
        if let Some(delta) = deltas.into_iter().flatten().find(|delta| delta.is_object()) {
            self.read_delta(delta, emit);
        }
        let reason =
            read_json_text_field(choice, "finish_reason").map(|reason| reason.into_owned());
        if reason.as_deref() == Some("error") {
            let message = data.to_owned();
            return Err(AnswerStreamError::Server {
                status: 502,
                message,
            });
        }
        self.finish_reason = reason.or(self.finish_reason.take());
        Ok(())
    }

    fn n_answer_bytes(&self) -> usize {
        self.assembler.n_answer_bytes()
    }

    fn is_stream_complete(&self) -> bool {
        self.is_done
    }

    fn has_finish_reason(&self) -> bool {
        self.finish_reason.is_some()
    }

    fn finish(mut self) -> Result<DecodedModelReply, AnswerStreamError> {
        // Not every server sends `[DONE]`, and not every server sends a finish reason; one of the
        // two is required.
        let finish = match self.finish_reason.as_deref() {
            None if !self.is_done => return Err(self.assembler.into_ended_early_fault()),
            _ if self.has_refusal => Finish::Refused,
            Some("content_filter" | "safety" | "refusal") => Finish::Refused,
            Some("length" | "max_tokens" | "model_length") => Finish::MaxTokens,
            _ => Finish::Done,
        };
        if let Some(name) = self.reasoning {
            self.assembler.add_thinking_opaque_data(&Value::from(name));
        }
        Ok(self.assembler.finish_message(finish, self.usage))
    }
}

/// Returns the HTTP status of an error inside a stream: its numeric code, or else the status of its
/// type.
pub(in crate::provider) fn http_status_of_stream_error(error: &Value) -> u16 {
    let number = |value: &Value| {
        let text = || value.as_str().and_then(|text| text.parse().ok());
        let number = u16::try_from(value.as_u64().or_else(text)?).ok();
        number.filter(|n| (400..600).contains(n))
    };
    let named = |value: &Value| match value.as_str()? {
        "invalid_request_error" | "context_length_exceeded" => Some(400),
        "authentication_error" | "invalid_api_key" => Some(401),
        "model_not_found" | "not_found_error" => Some(404),
        "rate_limit_error" | "rate_limit_exceeded" | "insufficient_quota" => Some(429),
        "overloaded_error" => Some(503),
        _ => None,
    };
    let field = |name| error.get(name);
    let mut numbers = ["code", "status"].into_iter().filter_map(field);
    let mut names = ["type", "code"].into_iter().filter_map(field);
    let status = numbers.find_map(number);
    status.or_else(|| names.find_map(named)).unwrap_or(500)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::provider::sample;

    fn read(events: &[Value]) -> Result<(DecodedModelReply, Vec<StreamEvent>), AnswerStreamError> {
        sample::decode_answer_stream_events(ChatCompletionsStreamDecoder::default(), events)
    }

    /// Returns the calls assembled from `deltas`, one per chunk, as `id name arguments`.
    fn calls(deltas: &[Value]) -> Vec<String> {
        let mut events: Vec<Value> = deltas
            .iter()
            .map(|delta| json!({"choices": [{"delta": {"tool_calls": [delta]}}]}))
            .collect();
        events.push(json!("[DONE]"));
        let (answer, _) = read(&events).unwrap();
        answer
            .message
            .tool_calls()
            .map(|call| {
                let is_made_up = call.id.starts_with("call_");
                let id = if is_made_up { "made-up" } else { &call.id };
                format!("{id} {} {}", call.name, call.arguments)
            })
            .collect()
    }

    #[test]
    fn tool_calls_are_read_from_every_kind_of_server() {
        let function = |name: &str, arguments: &str| json!({"name": name, "arguments": arguments});
        let table: &[(&str, &[Value], &[&str])] = &[
            (
                "by the book: id and name first, arguments by index, two at a time",
                &[
                    json!({"index": 0, "id": "a", "type": "function", "function": function("look", "")}),
                    json!({"index": 1, "id": "b", "type": "function", "function": function("walk", "")}),
                    json!({"index": 0, "function": {"arguments": "{\"at\""}}),
                    json!({"index": 1, "function": {"arguments": "{}"}}),
                    json!({"index": 0, "function": {"arguments": ":1}"}}),
                ],
                &[r#"a look {"at":1}"#, "b walk {}"],
            ),
            (
                "whole calls without index and id",
                &[
                    json!({"function": function("look", "{\"at\":1}")}),
                    json!({"function": function("look", "{\"at\":2}")}),
                ],
                &[r#"made-up look {"at":1}"#, r#"made-up look {"at":2}"#],
            ),
            (
                "every call numbered 0, told apart by ids",
                &[
                    json!({"index": 0, "id": "a", "function": function("look", "{}")}),
                    json!({"index": 0, "id": "b", "function": function("look", "{}")}),
                ],
                &["a look {}", "b look {}"],
            ),
            (
                "id and name repeated with every delta",
                &[
                    json!({"index": 0, "id": "a", "function": function("look", "{\"at\"")}),
                    json!({"index": 0, "id": "a", "function": function("look", ":1}")}),
                ],
                &[r#"a look {"at":1}"#],
            ),
            (
                "no index, deltas without id go on with the last call",
                &[
                    json!({"id": "a", "function": function("look", "")}),
                    json!({"function": {"arguments": "{\"at\":"}}),
                    json!({"function": {"arguments": "1}"}}),
                ],
                &[r#"a look {"at":1}"#],
            ),
            (
                "arguments as an object, or none at all",
                &[
                    json!({"index": 0, "id": "a", "function": {"name": "look", "arguments": {"at": 1}}}),
                    json!({"index": 1, "id": "b", "function": {"name": "walk"}}),
                ],
                &[r#"a look {"at":1}"#, "b walk {}"],
            ),
            (
                "each piece of the arguments under an id of its own",
                &[
                    json!({"index": 0, "id": "a", "function": function("look", "")}),
                    json!({"index": 0, "id": "b", "function": {"name": null, "arguments": "{\"at\""}}),
                    json!({"id": "c", "function": {"arguments": ":1}"}}),
                ],
                &[r#"a look {"at":1}"#],
            ),
            (
                "the name in pieces",
                &[
                    json!({"index": 0, "id": "a", "function": {"name": "lo"}}),
                    json!({"index": 0, "function": {"name": "ok", "arguments": "{\"at\":"}}),
                    json!({"index": 0, "function": {"name": "look", "arguments": "1}"}}),
                ],
                &[r#"a look {"at":1}"#],
            ),
        ];
        for (what, deltas, expected) in table {
            assert_eq!(calls(deltas), *expected, "{what}");
        }
    }

    #[test]
    fn reasons_for_the_end_are_read() {
        let end = |delta: Value, reason: Value| {
            let event = json!({"choices": [{"delta": delta, "finish_reason": reason}]});
            read(&[event]).map(|(answer, _)| answer.finish)
        };
        let text = json!({"content": "x"});
        let call = json!({"tool_calls": [{"id": "a", "function": {"name": "look"}}]});
        for (delta, reason, expected) in [
            (&text, "stop", Finish::Done),
            (&text, "length", Finish::MaxTokens),
            (&text, "content_filter", Finish::Refused),
            (&text, "tool_calls", Finish::Done),
            (&call, "tool_calls", Finish::ToolCalls),
            (&call, "stop", Finish::ToolCalls),
            (&json!({"refusal": "no"}), "stop", Finish::Refused),
        ] {
            let finish = end(delta.clone(), json!(reason));
            assert_eq!(finish, Ok(expected), "{delta} {reason}");
        }
        assert_eq!(end(text, Value::Null), Err(AnswerStreamError::EndedEarly));
    }

    #[test]
    fn a_completion_that_was_not_streamed_is_read_too() {
        let (answer, heard) = read(&[json!({
            "choices": [{"message": {"role": "assistant", "content": "hi", "reasoning": "hm", "tool_calls": null},
                "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 9, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 4}},
        })])
        .unwrap();
        assert_eq!(answer.message.joined_text(), "hi");
        let thinking = StreamEvent::Thinking("hm".to_owned());
        assert_eq!(heard, [thinking, StreamEvent::Text("hi".to_owned())]);
        let usage = Usage {
            input_tokens: 9,
            output_tokens: 1,
            cache_read_tokens: 4,
            ..Usage::default()
        };
        assert_eq!(answer.usage, usage);
    }

    #[test]
    fn errors_inside_a_stream_have_a_status() {
        for (error, status) in [
            (json!({"code": 429, "message": "slow"}), 429),
            (json!({"code": "502", "message": "gone"}), 502),
            (json!({"type": "invalid_request_error"}), 400),
            (json!({"code": "model_not_found"}), 404),
            (json!({"type": "server_error"}), 500),
            (json!("oops"), 500),
        ] {
            let event = json!({"error": error});
            let message = event.to_string();
            assert_eq!(
                read(&[event]),
                Err(AnswerStreamError::Server { status, message })
            );
        }
    }
}
