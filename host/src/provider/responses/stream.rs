//! Answers in the Responses format: the events of a stream, or one complete response.
//!
//! Every field is read independently: an unexpected value is skipped, an unknown event is ignored.
//! Owns the reading only; it must not know the network. Start from [`ResponsesStreamDecoder`].

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::message::Usage;
use crate::provider::assemble::{
    AnswerStreamDecoder, AnswerStreamError, AssistantMessageAssembler, DecodedModelReply,
    ToolCallPartPosition,
};
use crate::provider::lenient::{
    json_to_count, non_empty_error_field, non_null_field, number_field, read_json_id_field,
    read_json_list_field, read_json_text_field,
};
use crate::provider::openai::http_status_of_stream_error;
use crate::provider::{Finish, StreamEvent};

/// Types of items, other than reasoning, that are kept unchanged and sent back. Each of them
/// contains its own result: an item that requires an output from the host, such as `computer_call`,
/// would make the next request invalid.
const PRESERVED_OUTPUT_ITEM_TYPES: [&str; 6] = [
    "code_interpreter_call",
    "compaction",
    "file_search_call",
    "mcp_call",
    "mcp_list_tools",
    "web_search_call",
];

/// Decoder of one answer in the Responses format.
#[derive(Default)]
pub(in crate::provider) struct ResponsesStreamDecoder {
    assembler: AssistantMessageAssembler,
    /// Items by their index in the output, or by their id if the server sends no index.
    items: HashMap<String, OutputItemDecodingState>,
    n_done: usize,
    usage: Usage,
    finish: Option<Finish>,
    has_refusal: bool,
}

/// State of the decoding of one output item, which may still be incomplete.
#[derive(Default)]
struct OutputItemDecodingState {
    call: Option<ToolCallPartPosition>,
    /// Whether some of the item's text or arguments arrived in deltas.
    has_deltas: bool,
    has_phase: bool,
    is_done: bool,
    /// Index of the part of the reasoning summary that the last delta belongs to.
    n_part: u64,
}

/// Returns the key in `items` of the output item that an event refers to.
fn output_item_key(event: &Value) -> String {
    let index = number_field(event, "output_index").map(|index| format!("#{index}"));
    let in_item = || read_json_id_field(non_null_field(event, "item")?, "id");
    let id = || read_json_id_field(event, "item_id").or_else(in_item);
    index.or_else(id).unwrap_or_default()
}

impl ResponsesStreamDecoder {
    fn begin_output_item(&mut self, key: &str, item: &Value, emit: &mut dyn FnMut(StreamEvent)) {
        let state = self.items.entry(key.to_owned()).or_default();
        match item["type"].as_str() {
            Some("function_call") if state.call.is_none() => {
                let id =
                    read_json_id_field(item, "call_id").or_else(|| read_json_id_field(item, "id"));
                let name = read_json_text_field(item, "name").unwrap_or_default();
                let slot = self
                    .assembler
                    .begin_call(&id.unwrap_or_default(), &name, emit);
                state.call = Some(slot);
            }
            Some("message") if !state.has_deltas && !state.has_phase => {
                // Models mark each message with a phase: a comment or the final answer. The API
                // expects these marks back.
                if let Some(phase) = read_json_text_field(item, "phase") {
                    self.assembler.add_opaque_part(json!({ "phase": phase }));
                    state.has_phase = true;
                }
            }
            _ => {}
        }
    }

    /// Completes an output item: emits the parts of the finished `item` that did not arrive in
    /// deltas.
    fn end_output_item(&mut self, key: &str, item: &Value, emit: &mut dyn FnMut(StreamEvent)) {
        self.begin_output_item(key, item, emit);
        let state = self.items.entry(key.to_owned()).or_default();
        if std::mem::replace(&mut state.is_done, true) {
            return;
        }
        self.n_done += 1;
        let (call, has_deltas) = (state.call, state.has_deltas);
        match item["type"].as_str() {
            Some("message") if !has_deltas => {
                for part in read_json_list_field(item, "content") {
                    if let Some(text) = read_json_text_field(part, "refusal") {
                        self.has_refusal = true;
                        self.assembler.add_text(&text, emit);
                    } else if let Some(text) = read_json_text_field(part, "text") {
                        self.assembler.add_text(&text, emit);
                    }
                }
            }
            Some("function_call") => {
                if let Some(slot) = call.filter(|_| !has_deltas) {
                    self.read_arguments(slot, &item["arguments"]);
                }
            }
            Some("reasoning") => {
                if !has_deltas {
                    for (at, part) in read_json_list_field(item, "summary")
                        .chain(read_json_list_field(item, "content"))
                        .enumerate()
                    {
                        if let Some(text) = read_json_text_field(part, "text") {
                            let border = if at > 0 { "\n\n" } else { "" };
                            self.assembler
                                .add_thinking(&format!("{border}{text}"), emit);
                        }
                    }
                }
                self.assembler.end_thinking(item.clone());
            }
            Some(kind) if PRESERVED_OUTPUT_ITEM_TYPES.contains(&kind) => {
                self.assembler.add_opaque_part(item.clone())
            }
            _ => {}
        }
    }

    /// Reads the complete arguments of a tool call: a string with JSON text, or, from some servers,
    /// a JSON object.
    fn read_arguments(&mut self, slot: ToolCallPartPosition, arguments: &Value) {
        match arguments {
            Value::Null => {}
            Value::String(text) => self.assembler.add_arguments(slot, text),
            value => self.assembler.add_arguments(slot, &value.to_string()),
        }
    }

    fn read_delta(&mut self, kind: &str, event: &Value, emit: &mut dyn FnMut(StreamEvent)) {
        let Some(delta) = read_json_text_field(event, "delta") else {
            return;
        };
        let state = self.items.entry(output_item_key(event)).or_default();
        let is_first = !std::mem::replace(&mut state.has_deltas, true);
        match kind {
            "response.output_text.delta" => self.assembler.add_text(&delta, emit),
            "response.refusal.delta" => {
                self.has_refusal = true;
                self.assembler.add_text(&delta, emit);
            }
            "response.function_call_arguments.delta" => {
                if let Some(slot) = state.call {
                    self.assembler.add_arguments(slot, &delta);
                }
            }
            _ => {
                let index =
                    number_field(event, "summary_index").or(number_field(event, "content_index"));
                let n_part = index.unwrap_or(state.n_part);
                if std::mem::replace(&mut state.n_part, n_part) != n_part && !is_first {
                    self.assembler.add_thinking("\n\n", emit);
                }
                self.assembler.add_thinking(&delta, emit);
            }
        }
    }

    /// Reads a complete response, or the final event of a stream, which repeats the whole response.
    fn read_response(
        &mut self,
        response: &Value,
        status: &str,
        data: &str,
        emit: &mut dyn FnMut(StreamEvent),
    ) -> Result<(), AnswerStreamError> {
        self.assembler.set_model(&response["model"]);
        if matches!(status, "failed" | "cancelled") {
            return Err(parse_server_fault(
                response.get("error").unwrap_or(response),
                data,
            ));
        }
        // Read the output only if fewer items arrived as events than it contains. The counts are
        // compared because some servers number events in another order than the output.
        let n_items = read_json_list_field(response, "output").count();
        let is_missing = self.n_done < n_items;
        for (at, item) in read_json_list_field(response, "output")
            .enumerate()
            .filter(|_| is_missing)
        {
            let by_id = read_json_id_field(item, "id").filter(|id| self.items.contains_key(id));
            let key = by_id.unwrap_or_else(|| format!("#{at}"));
            self.end_output_item(&key, item, emit);
        }
        self.read_token_counts(&response["usage"]);
        let reason = response.pointer("/incomplete_details/reason");
        let finish = match reason.and_then(Value::as_str) {
            Some("content_filter") => Finish::Refused,
            Some(_) => Finish::MaxTokens,
            None if status == "incomplete" => Finish::MaxTokens,
            None => Finish::Done,
        };
        self.finish = Some(finish);
        Ok(())
    }

    fn read_token_counts(&mut self, usage: &Value) {
        let at = |pointer: &str| usage.pointer(pointer).and_then(json_to_count).unwrap_or(0);
        self.usage = Usage {
            input_tokens: at("/input_tokens"),
            output_tokens: at("/output_tokens"),
            cache_read_tokens: at("/input_tokens_details/cached_tokens"),
            ..Usage::default()
        };
    }
}

fn parse_server_fault(error: &Value, data: &str) -> AnswerStreamError {
    AnswerStreamError::Server {
        status: http_status_of_stream_error(error),
        message: data.to_owned(),
    }
}

impl AnswerStreamDecoder for ResponsesStreamDecoder {
    fn read_event(
        &mut self,
        data: &str,
        emit: &mut dyn FnMut(StreamEvent),
    ) -> Result<(), AnswerStreamError> {
        if data.trim() == "[DONE]" {
            return Ok(());
        }
        let Some(event) = self.assembler.parse_event(data) else {
            return Ok(());
        };
        if self.has_finish_reason() {
            return Ok(());
        }
        match event["type"].as_str().unwrap_or_default() {
            "response.output_item.added" => {
                let key = output_item_key(&event);
                // Some servers give every item the index 0, so a new item replaces a finished one
                // with the same key.
                self.items.retain(|old, item| *old != key || !item.is_done);
                self.begin_output_item(&key, &event["item"], emit);
            }
            "response.output_item.done" => {
                self.end_output_item(&output_item_key(&event), &event["item"], emit)
            }
            kind @ ("response.output_text.delta"
            | "response.refusal.delta"
            | "response.function_call_arguments.delta"
            | "response.reasoning_summary_text.delta"
            | "response.reasoning_text.delta") => self.read_delta(kind, &event, emit),
            "response.created" | "response.in_progress" => {
                self.assembler.set_model(&event["response"]["model"]);
            }
            kind @ ("response.completed" | "response.incomplete" | "response.failed") => {
                let status = kind.trim_start_matches("response.");
                self.read_response(&event["response"], status, data, emit)?;
            }
            "error" => {
                return Err(parse_server_fault(
                    non_empty_error_field(&event).unwrap_or(&event),
                    data,
                ));
            }
            _ if event.get("output").is_some_and(Value::is_array) => {
                let has_error = non_empty_error_field(&event).is_some();
                let implied = if has_error { "failed" } else { "completed" };
                let status = event["status"].as_str().unwrap_or(implied);
                self.read_response(&event, status, data, emit)?;
            }
            _ => {
                if let Some(error) = non_empty_error_field(&event) {
                    return Err(parse_server_fault(error, data));
                }
            }
        }
        Ok(())
    }

    fn n_answer_bytes(&self) -> usize {
        self.assembler.n_answer_bytes()
    }

    fn is_stream_complete(&self) -> bool {
        self.finish.is_some()
    }

    fn has_finish_reason(&self) -> bool {
        self.finish.is_some()
    }

    fn finish(self) -> Result<DecodedModelReply, AnswerStreamError> {
        match self.finish {
            None => Err(self.assembler.into_ended_early_fault()),
            Some(_) if self.has_refusal => {
                Ok(self.assembler.finish_message(Finish::Refused, self.usage))
            }
            Some(finish) => Ok(self.assembler.finish_message(finish, self.usage)),
        }
    }
}
