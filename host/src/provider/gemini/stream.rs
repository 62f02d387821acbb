//! Answers in the `generateContent` format: the chunks of a stream, or one complete answer.
//!
//! Every field is read independently: an unexpected value is skipped, an unknown part is kept
//! unchanged. Owns the reading only; it must not know the network. Start from
//! [`GeminiStreamDecoder`].

use serde_json::{Value, json};

use crate::message::Usage;
use crate::provider::assemble::{
    AnswerStreamDecoder, AnswerStreamError, AssistantMessageAssembler, DecodedModelReply,
};
use crate::provider::lenient::{
    json_to_count, non_empty_error_field, non_null_field, read_json_id_field, read_json_list_field,
    read_json_text_field,
};
use crate::provider::{Finish, StreamEvent};

/// Fields that mark a part as the output of a server-side tool. A part with one of these fields is
/// stored unchanged and sent back in later requests.
const SERVER_TOOL_PART_FIELDS: [&str; 4] = [
    "codeExecutionResult",
    "executableCode",
    "toolCall",
    "toolResponse",
];

/// Substrings of the finish reasons of blocked answers, such as `IMAGE_SAFETY` and
/// `PROHIBITED_CONTENT`.
const BLOCKED_FINISH_REASON_SUBSTRINGS: [&str; 7] = [
    "BLOCKLIST",
    "LANGUAGE",
    "MODEL_ARMOR",
    "PROHIBITED",
    "RECITATION",
    "SAFETY",
    "SPII",
];

/// Decoder of one answer in Gemini's `generateContent` format.
#[derive(Default)]
pub(in crate::provider) struct GeminiStreamDecoder {
    assembler: AssistantMessageAssembler,
    usage: Usage,
    finish: Option<Finish>,
    has_content: bool,
}

impl GeminiStreamDecoder {
    fn read_part(&mut self, part: &Value, emit: &mut dyn FnMut(StreamEvent)) {
        let signature = non_null_field(part, "thoughtSignature")
            .or_else(|| non_null_field(part, "thought_signature"));
        let signature = signature.filter(|signature| signature.is_string());
        if let Some(call) = non_null_field(part, "functionCall").filter(|call| call.is_object()) {
            self.read_call(call, signature, emit);
        } else if SERVER_TOOL_PART_FIELDS
            .iter()
            .any(|name| non_null_field(part, name).is_some())
        {
            self.has_content = true;
            self.assembler.add_opaque_part(part.clone());
        } else {
            self.read_text(part, signature, emit);
        }
    }

    fn read_call(
        &mut self,
        call: &Value,
        signature: Option<&Value>,
        emit: &mut dyn FnMut(StreamEvent),
    ) {
        self.has_content = true;
        let (id, name) = (
            read_json_id_field(call, "id"),
            read_json_text_field(call, "name"),
        );
        let slot =
            self.assembler
                .begin_call(&id.unwrap_or_default(), &name.unwrap_or_default(), emit);
        match call.get("args") {
            None | Some(Value::Null) => {}
            Some(Value::String(written)) => self.assembler.add_arguments(slot, written),
            Some(args) => self.assembler.add_arguments(slot, &args.to_string()),
        }
        if let Some(signature) = signature {
            self.assembler
                .add_call_opaque_data(slot, "thoughtSignature", signature);
        }
    }

    fn read_text(
        &mut self,
        part: &Value,
        signature: Option<&Value>,
        emit: &mut dyn FnMut(StreamEvent),
    ) {
        let text = read_json_text_field(part, "text").unwrap_or_default();
        self.has_content |= !text.trim().is_empty();
        if part["thought"] == true {
            self.assembler.add_thinking(&text, emit);
            if let Some(signature) = signature {
                let kept = json!({"text": text, "thought": true, "thoughtSignature": signature});
                self.assembler.end_thinking(kept);
            }
            return;
        }
        match signature {
            // In a stream the signature follows the text: keep it as a separate part.
            Some(signature) if text.is_empty() => {
                self.assembler
                    .add_opaque_part(json!({"text": "", "thoughtSignature": signature}));
            }
            Some(signature) => self
                .assembler
                .add_opaque_part(json!({"thoughtSignature": signature})),
            None => {}
        }
        self.assembler.add_text(&text, emit);
    }

    fn read_chunk(
        &mut self,
        piece: &Value,
        data: &str,
        emit: &mut dyn FnMut(StreamEvent),
    ) -> Result<(), AnswerStreamError> {
        if let Some(error) = non_empty_error_field(piece)
            && !self.has_finish_reason()
        {
            let (status, message) = (http_status_of_stream_error(error), data.to_owned());
            return Err(AnswerStreamError::Server { status, message });
        }
        self.assembler.set_model(&piece["modelVersion"]);
        self.read_token_counts(&piece["usageMetadata"]);
        // Requests ask for one candidate only.
        let Some(candidate) = read_json_list_field(piece, "candidates").next() else {
            if let Some(reason) = piece.pointer("/promptFeedback/blockReason")
                && reason
                    .as_str()
                    .is_some_and(|reason| reason != "BLOCK_REASON_UNSPECIFIED")
            {
                self.finish = Some(Finish::Refused);
            }
            return Ok(());
        };
        for part in read_json_list_field(&candidate["content"], "parts") {
            self.read_part(part, emit);
        }
        match candidate["finishReason"].as_str() {
            None | Some("" | "FINISH_REASON_UNSPECIFIED") => {}
            Some("STOP") => self.finish = Some(Finish::Done),
            Some("MAX_TOKENS") => self.finish = Some(Finish::MaxTokens),
            // The model generated an invalid call: a retry usually yields a valid one.
            Some("MALFORMED_FUNCTION_CALL" | "MALFORMED_RESPONSE" | "UNEXPECTED_TOOL_CALL") => {
                let message = data.to_owned();
                return Err(AnswerStreamError::Server {
                    status: 500,
                    message,
                });
            }
            Some(reason)
                if BLOCKED_FINISH_REASON_SUBSTRINGS
                    .iter()
                    .any(|part| reason.contains(part)) =>
            {
                self.finish = Some(Finish::Refused);
            }
            // Content that was received stays valid even if the finish reason is unknown.
            Some(_) if self.has_content => self.finish = Some(Finish::Done),
            Some(_) => self.finish = Some(Finish::Refused),
        }
        Ok(())
    }

    /// Stores token counts. The counts in a chunk are cumulative. Thought tokens are counted
    /// separately from text and cost the same.
    fn read_token_counts(&mut self, usage: &Value) {
        let at = |name: &str| usage.get(name).and_then(json_to_count).unwrap_or(0);
        let most = |old: &mut u64, new: u64| *old = new.max(*old);
        let input = at("promptTokenCount").saturating_add(at("toolUsePromptTokenCount"));
        let output = at("candidatesTokenCount").saturating_add(at("thoughtsTokenCount"));
        most(&mut self.usage.input_tokens, input);
        most(&mut self.usage.output_tokens, output);
        most(
            &mut self.usage.cache_read_tokens,
            at("cachedContentTokenCount"),
        );
    }
}

impl AnswerStreamDecoder for GeminiStreamDecoder {
    fn read_event(
        &mut self,
        data: &str,
        emit: &mut dyn FnMut(StreamEvent),
    ) -> Result<(), AnswerStreamError> {
        if data.trim() == "[DONE]" {
            return Ok(());
        }
        // If a proxy drops `alt=sse` from the URL, the server sends one list with all chunks.
        if data.trim_start().starts_with('[')
            && let Ok(pieces) = serde_json::from_str::<Vec<Value>>(data)
        {
            return pieces
                .iter()
                .try_for_each(|piece| self.read_chunk(piece, data, emit));
        }
        match self.assembler.parse_event(data) {
            Some(piece) => self.read_chunk(&piece, data, emit),
            None => Ok(()),
        }
    }

    fn n_answer_bytes(&self) -> usize {
        self.assembler.n_answer_bytes()
    }

    /// Returns `false`: the format has no final event, the server closes the connection instead.
    fn is_stream_complete(&self) -> bool {
        false
    }

    fn has_finish_reason(&self) -> bool {
        self.finish.is_some()
    }

    fn finish(self) -> Result<DecodedModelReply, AnswerStreamError> {
        match self.finish {
            Some(finish) => Ok(self.assembler.finish_message(finish, self.usage)),
            None => Err(self.assembler.into_ended_early_fault()),
        }
    }
}

/// Returns the HTTP status of an error inside a stream, a `google.rpc.Status`: its code, or the
/// code of its status name (<https://cloud.google.com/apis/design/errors>).
fn http_status_of_stream_error(error: &Value) -> u16 {
    let code = error.get("code").and_then(json_to_count);
    let code = code.and_then(|code| u16::try_from(code).ok());
    let named = match error["status"].as_str().unwrap_or_default() {
        "INVALID_ARGUMENT" | "FAILED_PRECONDITION" | "OUT_OF_RANGE" => 400,
        "UNAUTHENTICATED" => 401,
        "PERMISSION_DENIED" => 403,
        "NOT_FOUND" => 404,
        "ABORTED" => 409,
        "RESOURCE_EXHAUSTED" => 429,
        "UNAVAILABLE" => 503,
        "DEADLINE_EXCEEDED" => 504,
        _ => 500,
    };
    code.filter(|code| (400..600).contains(code))
        .unwrap_or(named)
}
