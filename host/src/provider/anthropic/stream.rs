//! Reads answers in the Messages format: the events of a stream, or one complete message if a
//! server or a hook disabled streaming.
//!
//! Every field is read independently: a field with an unexpected value and an unknown event are
//! ignored. The module must not depend on the network. Start from [`AnthropicStreamDecoder`].

use std::collections::HashMap;

use serde_json::Value;

use super::body::REDACTED_THINKING_PREFIX;
use crate::message::Usage;
use crate::provider::assemble::{
    AnswerStreamDecoder, AnswerStreamError, AssistantMessageAssembler, DecodedModelReply,
    ToolCallPartPosition,
};
use crate::provider::lenient::{
    non_empty_error_field, non_null_field, number_field, read_json_id_field, read_json_list_field,
    read_json_text_field,
};
use crate::provider::{Finish, StreamEvent};

/// Decoder of one answer in the Messages format.
#[derive(Default)]
pub(in crate::provider) struct AnthropicStreamDecoder {
    assembler: AssistantMessageAssembler,
    /// Tool calls that are still being received, by the index of their block. The key is `None` for
    /// gateways that omit indexes.
    calls: HashMap<Option<u64>, AnthropicUnfinishedToolCall>,
    counts: AnthropicTokenCounts,
    stop_reason: Option<String>,
    is_stopped: bool,
}

/// Tool call that is still being received.
struct AnthropicUnfinishedToolCall {
    slot: ToolCallPartPosition,
    /// Input in the start event of the block; deltas replace it. In a stream it is `{}`, in a
    /// complete message it is the entire input, and some gateways send the entire input in the
    /// start event and again in deltas.
    whole: Option<String>,
}

/// Largest token counts so far. The largest count is the correct one, because a proxy may repeat
/// counts or send zeros in a later event.
#[derive(Default)]
struct AnthropicTokenCounts {
    fresh: u64,
    read: u64,
    written: u64,
    output: u64,
}

impl AnthropicTokenCounts {
    fn update_token_counts(&mut self, usage: &Value) {
        let most = |old: &mut u64, name| *old = number_field(usage, name).unwrap_or(0).max(*old);
        most(&mut self.fresh, "input_tokens");
        most(&mut self.read, "cache_read_input_tokens");
        most(&mut self.written, "cache_creation_input_tokens");
        most(&mut self.output, "output_tokens");
    }

    /// Returns the usage. The API counts cached tokens separately, while [`Usage`] includes them in
    /// `input_tokens`.
    fn total_usage(&self) -> Usage {
        let cached = self.read.saturating_add(self.written);
        Usage {
            input_tokens: self.fresh.saturating_add(cached),
            output_tokens: self.output,
            cache_read_tokens: self.read,
            cache_write_tokens: self.written,
            estimated: false,
        }
    }
}

impl AnthropicStreamDecoder {
    fn start_block(
        &mut self,
        index: Option<u64>,
        block: &Value,
        emit: &mut dyn FnMut(StreamEvent),
    ) {
        match block["type"].as_str() {
            Some("text") => self.read_text(block, "text", emit),
            Some("thinking") => {
                self.read_thinking(block, emit);
                self.read_signature(block);
            }
            Some("redacted_thinking") => {
                if let Some(data) = read_json_text_field(block, "data") {
                    self.assembler
                        .add_thinking_signature(format!("{REDACTED_THINKING_PREFIX}{data}"));
                }
            }
            Some("tool_use") => {
                self.end_call(index);
                let id = read_json_id_field(block, "id").unwrap_or_default();
                let name = read_json_text_field(block, "name").unwrap_or_default();
                let slot = self.assembler.begin_call(&id, &name, emit);
                let whole = match block.get("input") {
                    Some(Value::String(input)) => Some(input.clone()),
                    Some(Value::Object(input)) if input.is_empty() => None,
                    Some(Value::Null) | None => None,
                    Some(input) => Some(input.to_string()),
                };
                self.calls
                    .insert(index, AnthropicUnfinishedToolCall { slot, whole });
            }
            _ => {}
        }
    }

    fn read_text(&mut self, value: &Value, name: &str, emit: &mut dyn FnMut(StreamEvent)) {
        if let Some(text) = read_json_text_field(value, name) {
            self.assembler.add_text(&text, emit);
        }
    }

    fn read_thinking(&mut self, value: &Value, emit: &mut dyn FnMut(StreamEvent)) {
        if let Some(text) = read_json_text_field(value, "thinking") {
            self.assembler.add_thinking(&text, emit);
        }
    }

    fn read_signature(&mut self, value: &Value) {
        if let Some(signature) = read_json_text_field(value, "signature") {
            self.assembler
                .add_thinking_signature(signature.into_owned());
        }
    }

    fn read_delta(&mut self, index: Option<u64>, delta: &Value, emit: &mut dyn FnMut(StreamEvent)) {
        match delta["type"].as_str() {
            Some("text_delta") => self.read_text(delta, "text", emit),
            Some("thinking_delta") => self.read_thinking(delta, emit),
            Some("signature_delta") => self.read_signature(delta),
            Some("input_json_delta") => {
                let piece = read_json_text_field(delta, "partial_json");
                if let Some(call) = self.calls.get_mut(&index)
                    && let Some(piece) = piece
                {
                    call.whole = None;
                    self.assembler.add_arguments(call.slot, &piece);
                }
            }
            _ => {}
        }
    }

    /// Completes a call, with the input from the start event of its block if no deltas followed.
    fn end_call(&mut self, index: Option<u64>) {
        if let Some(call) = self.calls.remove(&index)
            && let Some(whole) = call.whole
        {
            self.assembler.add_arguments(call.slot, &whole);
        }
    }

    fn read_stop_reason(&mut self, ending: &Value, usage: &Value) {
        let reason = read_json_text_field(ending, "stop_reason").map(|reason| reason.into_owned());
        self.stop_reason = reason.or(self.stop_reason.take());
        self.counts.update_token_counts(usage);
    }
}

impl AnswerStreamDecoder for AnthropicStreamDecoder {
    fn read_event(
        &mut self,
        data: &str,
        emit: &mut dyn FnMut(StreamEvent),
    ) -> Result<(), AnswerStreamError> {
        // Some gateways end a stream with `[DONE]`, as in chat completions.
        if data.trim() == "[DONE]" {
            self.is_stopped = self.has_finish_reason();
            return Ok(());
        }
        let Some(event) = self.assembler.parse_event(data) else {
            return Ok(());
        };
        if let Some(error) = non_empty_error_field(&event)
            && !self.has_finish_reason()
        {
            return Err(AnswerStreamError::Server {
                status: status_of_error_kind(error["type"].as_str().unwrap_or_default()),
                message: data.to_owned(),
            });
        }
        let index = number_field(&event, "index");
        match event["type"].as_str() {
            Some("message_start") => {
                let message = &event["message"];
                self.assembler.set_model(&message["model"]);
                self.counts.update_token_counts(&message["usage"]);
            }
            Some("content_block_start") => {
                self.start_block(index, &event["content_block"], emit);
            }
            Some("content_block_delta") => self.read_delta(index, &event["delta"], emit),
            Some("content_block_stop") => self.end_call(index),
            Some("message_delta") => self.read_stop_reason(&event["delta"], &event["usage"]),
            Some("message_stop") => self.is_stopped = true,
            // The answer is a complete message, because the server did not stream it.
            Some("message") => {
                self.assembler.set_model(&event["model"]);
                for (at, block) in read_json_list_field(&event, "content").enumerate() {
                    let index = Some(at as u64);
                    self.start_block(index, block, emit);
                    self.end_call(index);
                }
                self.read_stop_reason(&event, &event["usage"]);
                self.is_stopped = true;
            }
            _ => {
                if non_null_field(&event, "type").is_none() {
                    self.assembler
                        .record_unreadable_event("not an event of this API", data);
                }
            }
        }
        Ok(())
    }

    fn n_answer_bytes(&self) -> usize {
        self.assembler.n_answer_bytes()
    }

    fn is_stream_complete(&self) -> bool {
        self.is_stopped
    }

    fn has_finish_reason(&self) -> bool {
        self.is_stopped || self.stop_reason.is_some()
    }

    fn finish(mut self) -> Result<DecodedModelReply, AnswerStreamError> {
        let open: Vec<Option<u64>> = self.calls.keys().copied().collect();
        for index in open {
            self.end_call(index);
        }
        // If there is a stop reason, the answer is complete: all content precedes the reason, and
        // only `message_stop` may be missing.
        let finish = match self.stop_reason.as_deref() {
            Some("tool_use") => Finish::ToolCalls,
            Some("max_tokens" | "model_context_window_exceeded") => Finish::MaxTokens,
            Some("refusal") => Finish::Refused,
            Some("pause_turn") => Finish::Paused,
            Some(_) => Finish::Done,
            None if self.is_stopped => Finish::Done,
            None => return Err(self.assembler.into_ended_early_fault()),
        };
        Ok(self
            .assembler
            .finish_message(finish, self.counts.total_usage()))
    }
}

/// Returns the HTTP status that corresponds to an error type.
fn status_of_error_kind(kind: &str) -> u16 {
    match kind {
        "invalid_request_error" => 400,
        "authentication_error" => 401,
        "billing_error" => 402,
        "permission_error" => 403,
        "not_found_error" => 404,
        "request_too_large" => 413,
        "rate_limit_error" => 429,
        "timeout_error" => 504,
        "overloaded_error" => 529,
        _ => 500,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::message::{ToolCall, Usage};
    use crate::provider::sample;

    fn read(events: &[Value]) -> Result<(DecodedModelReply, Vec<StreamEvent>), AnswerStreamError> {
        sample::decode_answer_stream_events(AnthropicStreamDecoder::default(), events)
    }

    #[test]
    fn reasoning_keeps_its_proof_and_secret_reasoning_its_data() {
        let (answer, heard) = read(&[
            json!({"type": "message_start", "message": {"usage": {"input_tokens": 5, "output_tokens": 1}}}),
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "p"}}),
            json!({"type": "content_block_stop", "index": 0}),
            json!({"type": "content_block_start", "index": 1,
                "content_block": {"type": "redacted_thinking", "data": "xyz"}}),
            json!({"type": "content_block_start", "index": 2, "content_block": {"type": "server_tool_use"}}),
            json!({"type": "content_block_delta", "index": 2,
                "delta": {"type": "input_json_delta", "partial_json": "{"}}),
            json!({"type": "something_of_tomorrow"}),
            json!({"type": "message_delta", "delta": {"stop_reason": "refusal"}, "usage": {"output_tokens": 9}}),
        ])
        .unwrap();
        assert_eq!(
            json!(answer.message.content),
            json!([
                {"type": "thinking", "text": "hm", "signature": "p"},
                {"type": "thinking", "text": "", "signature": "redacted_thinking:xyz"},
            ])
        );
        assert_eq!(heard, [StreamEvent::Thinking("hm".to_owned())]);
        let usage = (answer.usage.input_tokens, answer.usage.output_tokens);
        assert_eq!((answer.finish, usage), (Finish::Refused, (5, 9)));
    }

    #[test]
    fn a_message_that_was_not_streamed_is_read_too() {
        let (answer, heard) = read(&[json!({
            "type": "message", "role": "assistant", "stop_reason": "tool_use",
            "content": [
                {"type": "text", "text": "looking"},
                {"type": "tool_use", "id": "t1", "name": "look", "input": {"at": "it"}},
            ],
            "usage": {"input_tokens": 1, "cache_read_input_tokens": 20, "cache_creation_input_tokens": 300,
                "output_tokens": 4},
        })])
        .unwrap();
        let call = ToolCall::new("t1", "look", json!({"at": "it"}));
        assert!(answer.message.tool_calls().eq([&call]));
        assert_eq!(heard.len(), 2);
        let usage = Usage {
            input_tokens: 321,
            output_tokens: 4,
            cache_read_tokens: 20,
            cache_write_tokens: 300,
            ..Usage::default()
        };
        assert_eq!((answer.finish, answer.usage), (Finish::ToolCalls, usage));
    }

    #[test]
    fn input_is_read_wherever_a_gateway_puts_it() {
        let start = |input: Value| {
            json!({"type": "content_block_start", "index": 1,
            "content_block": {"type": "tool_use", "id": "t", "name": "look", "input": input}})
        };
        let delta = json!({"type": "content_block_delta", "index": 1,
            "delta": {"type": "input_json_delta", "partial_json": "{\"at\":1}"}});
        let stop = json!({"type": "content_block_stop", "index": 1});
        let end = json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}});
        let at = json!({"at": 1});
        for events in [
            vec![start(json!({})), delta.clone(), stop.clone()],
            vec![start(json!(null)), delta.clone()],
            vec![start(at.clone()), delta],
            vec![start(at.clone()), stop],
            vec![start(at.clone())],
            vec![start(json!("{\"at\":1}"))],
        ] {
            let (answer, _) = read(&[events, vec![end.clone()]].concat()).unwrap();
            let call = ToolCall::new("t", "look", at.clone());
            assert!(answer.message.tool_calls().eq([&call]), "{answer:?}");
        }
    }

    #[test]
    fn faults_are_told_apart() {
        assert_eq!(read(&[]), Err(AnswerStreamError::EndedEarly));
        let error =
            json!({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}});
        let (status, message) = (529, error.to_string());
        assert_eq!(
            read(&[error]),
            Err(AnswerStreamError::Server { status, message })
        );
        for odd in [json!([1]), json!({"x": "y"}), json!("<html>")] {
            assert!(matches!(read(&[odd]), Err(AnswerStreamError::Bad { .. })));
        }
        let text =
            json!({"type": "content_block_start", "content_block": {"type": "text", "text": "a"}});
        assert_eq!(
            read(&[json!([1]), text]),
            Err(AnswerStreamError::EndedEarly)
        );
    }
}
