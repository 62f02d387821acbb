//! Answers in the Messages format: the events of a stream, or one whole message where a server or a hook switched
//! streaming off.
//!
//! Owns the reading only; it must not know the network. Start from [`Reader`].

use std::collections::HashMap;

use super::body::REDACTED;
use super::wire::{Block, Delta, Ending, Event, WireUsage};
use crate::provider::assemble::{Assembler, CallSlot, Decoder, Fault, ModelReply};
use crate::provider::{Finish, StreamEvent};

/// Reads one answer.
#[derive(Default)]
pub(in crate::provider) struct Reader {
    assembler: Assembler,
    calls: HashMap<u64, CallSlot>,
    usage: WireUsage,
    stop_reason: Option<String>,
    is_stopped: bool,
}

impl Reader {
    fn start_block(&mut self, index: u64, block: Block, emit: &mut dyn FnMut(StreamEvent)) {
        match block {
            Block::Text { text } => self.assembler.text(&text, emit),
            Block::Thinking {
                thinking,
                signature,
            } => {
                self.assembler.thinking(&thinking, emit);
                self.sign(signature);
            }
            Block::RedactedThinking { data } => {
                self.assembler.sign_thinking(format!("{REDACTED}{data}"));
            }
            Block::ToolUse { id, name, input } => {
                let slot = self.assembler.begin_call(&id, &name, emit);
                // The input of a streamed call starts as `{}` and follows in deltas; a whole one is here already.
                if input.as_object().is_some_and(|input| !input.is_empty()) {
                    self.assembler.arguments(slot, &input.to_string());
                }
                self.calls.insert(index, slot);
            }
            Block::Other => {}
        }
    }

    fn sign(&mut self, signature: String) {
        if !signature.is_empty() {
            self.assembler.sign_thinking(signature);
        }
    }

    fn delta(&mut self, index: u64, delta: Delta, emit: &mut dyn FnMut(StreamEvent)) {
        match delta {
            Delta::Text { text } => self.assembler.text(&text, emit),
            Delta::Thinking { thinking } => self.assembler.thinking(&thinking, emit),
            Delta::Signature { signature } => self.sign(signature),
            Delta::InputJson { partial_json } => {
                if let Some(slot) = self.calls.get(&index) {
                    self.assembler.arguments(*slot, &partial_json);
                }
            }
            Delta::Other => {}
        }
    }

    fn end(&mut self, ending: Ending, usage: WireUsage) {
        self.stop_reason = ending.stop_reason.or(self.stop_reason.take());
        self.usage.update(usage);
    }
}

impl Decoder for Reader {
    fn event(&mut self, data: &str, emit: &mut dyn FnMut(StreamEvent)) -> Result<(), Fault> {
        let event: Event = serde_json::from_str(data)
            .map_err(|error| Fault::bad("not an event of this API", &format!("{error}: {data}")))?;
        match event {
            Event::MessageStart { message } => {
                self.assembler.model(&message.model);
                self.usage.update(message.usage);
            }
            Event::ContentBlockStart {
                index,
                content_block,
            } => self.start_block(index, content_block, emit),
            Event::ContentBlockDelta { index, delta } => self.delta(index, delta, emit),
            Event::MessageDelta { delta, usage } => self.end(delta, usage),
            Event::MessageStop => self.is_stopped = true,
            Event::Message {
                model,
                content,
                ending,
                usage,
            } => {
                self.assembler.model(&model);
                for (index, block) in content.into_iter().enumerate() {
                    self.start_block(index as u64, block, emit);
                }
                self.end(ending, usage);
                self.is_stopped = true;
            }
            Event::Error { error } => {
                return Err(Fault::Server {
                    status: status_of(&error.kind),
                    message: data.to_owned(),
                });
            }
            Event::Other => {}
        }
        Ok(())
    }

    fn n_bytes(&self) -> usize {
        self.assembler.n_bytes()
    }

    fn is_done(&self) -> bool {
        self.is_stopped
    }

    fn finish(self) -> Result<ModelReply, Fault> {
        // The stop reason comes when all content has; only `message_stop` may still be missing then.
        let finish = match self.stop_reason.as_deref() {
            Some("tool_use") => Finish::ToolCalls,
            Some("max_tokens" | "model_context_window_exceeded") => Finish::MaxTokens,
            Some("refusal") => Finish::Refused,
            Some(_) => Finish::Done,
            None if self.is_stopped => Finish::Done,
            None => return Err(Fault::EndedEarly),
        };
        Ok(self.assembler.finish(finish, self.usage.total()))
    }
}

/// The status that an error of this type has over plain HTTP.
fn status_of(kind: &str) -> u16 {
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
    use serde_json::{Value, json};

    use super::*;
    use crate::message::{ToolCall, Usage};
    use crate::provider::sample;

    fn read(events: &[Value]) -> Result<(ModelReply, Vec<StreamEvent>), Fault> {
        sample::read(Reader::default(), events)
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
    fn faults_are_told_apart() {
        assert_eq!(read(&[]), Err(Fault::EndedEarly));
        let error =
            json!({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}});
        let (status, message) = (529, error.to_string());
        assert_eq!(read(&[error]), Err(Fault::Server { status, message }));
        let no_block = json!({"type": "content_block_start"});
        for bad in [json!([1]), json!({"error": "x"}), no_block] {
            assert!(matches!(read(&[bad]), Err(Fault::Bad { .. })));
        }
    }
}
