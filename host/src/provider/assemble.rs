//! Putting an answer together from the pieces in which it streams, the same for every wire format.
//!
//! Owns how text, reasoning and tool calls become one assistant message, and the small contract between the HTTP side
//! and a format's decoder. It must not know any format. Start from [`Assembler`].

use serde_json::{Map, Value};

use super::{Finish, StreamEvent};
use crate::clock;
use crate::json;
use crate::message::{Content, Message, Role, ToolCall, Usage};
use crate::text::clean;

/// Longest name of a model, in bytes.
const MAX_MODEL_BYTES: usize = 128;

/// Bytes that a part of an answer counts besides what is in it.
const PART_BYTES: usize = 64;

/// Reads one answer in one wire format.
pub(crate) trait Decoder: Send {
    /// Takes the data of the next event; calls `emit` for what it brings.
    fn event(&mut self, data: &str, emit: &mut dyn FnMut(StreamEvent)) -> Result<(), Fault>;

    /// Bytes of the answer so far.
    fn n_bytes(&self) -> usize;

    /// Whether the format says that nothing more comes, so that the connection need not be waited for.
    fn is_done(&self) -> bool;

    /// The answer, once the stream has ended; [`Fault::EndedEarly`] when it is not complete.
    fn finish(self) -> Result<ModelReply, Fault>;
}

/// Reply of a model, decoded from a stream.
#[derive(Debug, PartialEq)]
pub(crate) struct ModelReply {
    pub(crate) message: Message,
    /// Name of the model, as the server says.
    pub(crate) model: Option<String>,
    pub(crate) finish: Finish,
    pub(crate) usage: Usage,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The stream does not match the format.
    Bad { what: String, excerpt: String },
    /// The stream ended before the reply was complete.
    EndedEarly,
    /// The stream is longer than a reply may be.
    TooLong { max_bytes: usize },
    /// The server reported an error inside the stream; `status` is what it would have been over plain HTTP.
    Server { status: u16, message: String },
}

impl Fault {
    /// An event whose data is not what the format says. `what` quotes nothing of it: the excerpt is cut and told apart, and may
    /// hold words of the model.
    pub(crate) fn bad(what: impl Into<String>, data: &str) -> Self {
        Self::Bad {
            what: what.into(),
            excerpt: data.to_owned(),
        }
    }
}

/// Names one tool call of an [`Assembler`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CallSlot(usize);

/// An assistant message that is being written.
#[derive(Default)]
pub(crate) struct Assembler {
    /// The arguments of calls are the text that the model has written so far.
    parts: Vec<Content>,
    n_bytes: usize,
    model: Option<String>,
}

impl Assembler {
    /// Bytes of the answer so far, with an overhead for each of its parts.
    pub(crate) fn n_bytes(&self) -> usize {
        self.n_bytes + self.parts.len() * PART_BYTES
    }

    /// The server names the model that writes.
    pub(crate) fn model(&mut self, name: &Value) {
        let name = name.as_str().map(|name| clean(name, MAX_MODEL_BYTES));
        self.model = name
            .filter(|name| !name.is_empty())
            .or_else(|| self.model.take());
    }

    pub(crate) fn text(&mut self, delta: &str, emit: &mut dyn FnMut(StreamEvent)) {
        if delta.is_empty() {
            return;
        }
        self.n_bytes += delta.len();
        match self.parts.last_mut() {
            Some(Content::Text { text }) => text.push_str(delta),
            _ => self.parts.push(Content::text(delta)),
        }
        emit(StreamEvent::Text(delta.to_owned()));
    }

    /// More reasoning.
    pub(crate) fn thinking(&mut self, delta: &str, emit: &mut dyn FnMut(StreamEvent)) {
        if delta.is_empty() {
            return;
        }
        self.n_bytes += delta.len();
        match self.parts.last_mut() {
            // A signature closes its block: what follows is another one.
            Some(Content::Thinking {
                text,
                signature: None,
                extra: None,
            }) => text.push_str(delta),
            _ => self.parts.push(Content::thinking(delta)),
        }
        emit(StreamEvent::Thinking(delta.to_owned()));
    }

    /// The proof of the reasoning just written; a block may consist of it alone.
    pub(crate) fn sign_thinking(&mut self, proof: String) {
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

    /// The model begins a tool call. An empty id is made up at the end, for servers that give none.
    pub(crate) fn begin_call(
        &mut self,
        id: &str,
        name: &str,
        emit: &mut dyn FnMut(StreamEvent),
    ) -> CallSlot {
        self.n_bytes += id.len() + name.len();
        let call = ToolCall::new(id, name, Value::String(String::new()));
        self.parts.push(Content::ToolCall(call));
        let name = name.to_owned();
        emit(StreamEvent::ToolCall { name });
        CallSlot(self.parts.len() - 1)
    }

    /// More of a call's arguments.
    pub(crate) fn arguments(&mut self, slot: CallSlot, delta: &str) {
        self.n_bytes += delta.len();
        if let Some(Content::ToolCall(call)) = self.parts.get_mut(slot.0)
            && let Value::String(written) = &mut call.arguments
        {
            written.push_str(delta);
        }
    }

    /// Whether the arguments of a call are complete JSON already.
    pub(crate) fn is_complete(&self, slot: CallSlot) -> bool {
        match self.parts.get(slot.0) {
            Some(Content::ToolCall(call)) => {
                let written = call.arguments.as_str().unwrap_or_default();
                serde_json::from_str::<Value>(written).is_ok()
            }
            _ => false,
        }
    }

    /// The message, and how it ended: `finish` as the server said it, corrected by whether there are calls.
    pub(crate) fn finish(mut self, finish: Finish, usage: Usage) -> ModelReply {
        for part in &mut self.parts {
            let Content::ToolCall(call) = part else {
                continue;
            };
            if call.id.is_empty() {
                call.id = format!("call_{}", clock::new_id());
            }
            if let Value::String(written) = call.arguments.take() {
                call.arguments = parse_arguments(written);
            }
        }
        let message = Message::new(Role::Assistant, self.parts);
        let has_calls = message.tool_calls().next().is_some();
        // Servers disagree on what to call an answer with tool calls; the calls themselves decide.
        let finish = match finish {
            Finish::Done | Finish::ToolCalls if has_calls => Finish::ToolCalls,
            Finish::ToolCalls => Finish::Done,
            other => other,
        };
        ModelReply {
            message,
            model: self.model,
            finish,
            usage,
        }
    }
}

/// Arguments as the model wrote them: none at all are an empty object, what is not JSON is kept as it is so that the
/// schema check can say so to the model.
pub(crate) fn parse_arguments(written: String) -> Value {
    if written.trim().is_empty() {
        return Value::Object(Map::new());
    }
    // What is nested too deeply is kept as text too: it could be written to a session and not read back.
    match serde_json::from_str(&written) {
        Ok(value) if json::depth(&value) <= json::MAX_DEPTH => value,
        _ => Value::String(written),
    }
}

/// Arguments as a provider takes them back: always an object, because a server answers 400 to anything else and the
/// conversation could never go on.
pub(crate) fn sendable_arguments(arguments: &Value) -> Value {
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
        ] {
            assert_eq!(parse_arguments(written.to_owned()), expected, "{written}");
        }
        assert_eq!(
            sendable_arguments(&json!("{oops")),
            json!({"invalid_arguments": "{oops"})
        );
        assert_eq!(sendable_arguments(&json!({"a": 1})), json!({"a": 1}));
    }

    #[test]
    fn neighbors_of_one_kind_are_one_part() {
        let mut events = Vec::new();
        let mut emit = |event| events.push(event);
        let mut assembler = Assembler::default();
        assembler.thinking("hm", &mut emit);
        assembler.thinking("m", &mut emit);
        assembler.sign_thinking("proof".to_owned());
        assembler.sign_thinking("alone".to_owned());
        assembler.text("a", &mut emit);
        assembler.text("", &mut emit);
        assembler.text("b", &mut emit);
        let slot = assembler.begin_call("id", "look", &mut emit);
        assembler.arguments(slot, "{");
        assert!(!assembler.is_complete(slot));
        assembler.arguments(slot, "}");
        assert!(assembler.is_complete(slot));
        let answer = assembler.finish(Finish::Done, Usage::default());
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
    fn the_calls_decide_how_an_answer_ended() {
        for (said, has_call, expected) in [
            (Finish::Done, false, Finish::Done),
            (Finish::Done, true, Finish::ToolCalls),
            (Finish::ToolCalls, false, Finish::Done),
            (Finish::MaxTokens, true, Finish::MaxTokens),
            (Finish::Refused, true, Finish::Refused),
        ] {
            let mut assembler = Assembler::default();
            if has_call {
                assembler.begin_call("", "look", &mut |_| ());
            }
            let answer = assembler.finish(said, Usage::default());
            assert_eq!(answer.finish, expected, "{said:?} {has_call}");
        }
    }
}
