//! Parts of requests for the tests of every wire format.

use serde_json::{Value, json};

use super::assemble::{Decoder, Fault, ModelReply};
use super::{Images, Request, StreamEvent};
use crate::message::{
    Blob, Content, EffectClass, Message, Part, Parts, ToolCall, ToolResult, ToolSpec,
};

pub(super) fn request(messages: Vec<Message>) -> Request {
    Request {
        model: "m".to_owned(),
        messages,
        ..Request::default()
    }
}

pub(super) fn look() -> ToolSpec {
    ToolSpec {
        name: "look".to_owned(),
        description: "Looks.".to_owned(),
        parameters: json!({"type": "object"}),
        effect_class: EffectClass::Read,
        plugin: None,
    }
}

pub(super) fn call(id: &str, arguments: Value) -> Content {
    Content::ToolCall(ToolCall::new(id, "look", arguments))
}

pub(super) fn result(call_id: &str, content: impl Into<Parts>, is_error: bool) -> ToolResult {
    ToolResult::new(call_id, "look", content, is_error)
}

pub(super) fn value() -> Part {
    let value = json!({"a": 1});
    Part::Json { value }
}

pub(super) fn gif() -> Blob {
    Blob::of(b"GIF89a\x01\0\x01\0", "")
}

/// A blob that no model takes, and the text in its place.
pub(super) fn pdf() -> (Blob, &'static str) {
    let line = "[application/pdf, 4 B; not shown: models take PNG, JPEG, GIF and WebP images only]";
    (Blob::of(b"%PDF", "application/pdf"), line)
}

/// The images of a request whose bytes are `GIF`.
pub(super) fn images(request: &Request) -> Images {
    let blobs: Vec<&Blob> = request.messages.iter().flat_map(Message::blobs).collect();
    Images::choose(&blobs, |_| Ok(b"GIF".to_vec()))
}

/// Decodes these events, and returns what was emitted with the reply. A text is data that is no JSON.
pub(super) fn read(
    mut reader: impl Decoder,
    events: &[Value],
) -> Result<(ModelReply, Vec<StreamEvent>), Fault> {
    let mut heard = Vec::new();
    for event in events {
        let data = event
            .as_str()
            .map_or_else(|| event.to_string(), str::to_owned);
        reader.event(&data, &mut |event| heard.push(event))?;
    }
    Ok((reader.finish()?, heard))
}
