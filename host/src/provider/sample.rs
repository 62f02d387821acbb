//! Sample requests and answers for the tests of all wire formats.

use serde_json::{Value, json};

use super::assemble::{AnswerStreamDecoder, AnswerStreamError, DecodedModelReply};
use super::{Request, RequestImagesByBlobId, StreamEvent};
use crate::message::{
    Blob, Content, EffectClass, Message, Part, Parts, ToolCall, ToolResult, ToolSpec,
};

pub(super) fn example_request(messages: Vec<Message>) -> Request {
    Request {
        model: "m".to_owned(),
        messages,
        ..Request::default()
    }
}

pub(super) fn example_tool_spec() -> ToolSpec {
    ToolSpec {
        name: "look".to_owned(),
        description: "Looks.".to_owned(),
        parameters: json!({"type": "object"}),
        effect_class: EffectClass::Read,
        plugin: None,
    }
}

pub(super) fn example_tool_call(id: &str, arguments: Value) -> Content {
    Content::ToolCall(ToolCall::new(id, "look", arguments))
}

pub(super) fn example_tool_result(
    call_id: &str,
    content: impl Into<Parts>,
    is_error: bool,
) -> ToolResult {
    ToolResult::new(call_id, "look", content, is_error)
}

pub(super) fn example_json_part() -> Part {
    let value = json!({"a": 1});
    Part::Json { value }
}

pub(super) fn gif_blob() -> Blob {
    Blob::from_bytes(b"GIF89a\x01\0\x01\0", "")
}

/// Returns a blob that no model accepts, and the placeholder text for it.
pub(super) fn pdf_blob() -> (Blob, &'static str) {
    let line = "[application/pdf, 4 B; not shown: models take PNG, JPEG, GIF and WebP images only]";
    (Blob::from_bytes(b"%PDF", "application/pdf"), line)
}

/// Returns the images of a request, each with the bytes `GIF`.
pub(super) fn example_request_images(request: &Request) -> RequestImagesByBlobId {
    let blobs: Vec<&Blob> = request.messages.iter().flat_map(Message::blobs).collect();
    RequestImagesByBlobId::select_newest_within_limits(&blobs, |_| Ok(b"GIF".to_vec()))
}

/// Decodes the data of events, and returns the reply and the emitted stream events. A JSON string
/// among `events` is passed as raw data.
pub(super) fn decode_answer_stream_events(
    mut reader: impl AnswerStreamDecoder,
    events: &[Value],
) -> Result<(DecodedModelReply, Vec<StreamEvent>), AnswerStreamError> {
    let mut heard = Vec::new();
    for event in events {
        let data = event
            .as_str()
            .map_or_else(|| event.to_string(), str::to_owned);
        reader.read_event(&data, &mut |event| heard.push(event))?;
    }
    Ok((reader.finish()?, heard))
}
