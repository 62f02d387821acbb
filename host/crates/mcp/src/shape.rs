//! Prompts and resources of a server as results of calls, and back: what a client of `rind mcp serve`
//! gets has passed the hooks as text, and still has its roles, addresses and media types.
//!
//! The first part of such a result is JSON with one entry for each further part. Start from
//! [`resource_output`] and [`resource_result`].

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rmcp::model::{
    ContentBlock, GetPromptResult, PromptMessage, ReadResourceResult, Resource, ResourceContents,
    Role,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::resource::{MAX_TEXT_BYTES, check_origin};
use rind_lib::host::OutsideResult;
use rind_lib::message::{Blob, Part};
use rind_lib::tool::ToolOutput;

/// Maximum number of parts of one answer.
const MAX_PARTS: usize = 100;

/// Maximum size of the bytes in one answer.
const MAX_BYTES: usize = 8 << 20;

/// Longest name of a type that is kept, in bytes.
const MAX_TYPE_BYTES: usize = 128;

/// Field of the first part.
const PIECES: &str = "pieces";

/// Facts about one part that neither its text nor its bytes tell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Piece {
    /// Whether the part is a resource, inside a prompt.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_resource: bool,
    /// Whether the text is the name of a resource that is only linked.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_link: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<Role>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uri: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    media_type: Option<String>,
}

#[derive(Default)]
struct ShapedParts {
    pieces: Vec<Piece>,
    parts: Vec<Part>,
    bytes: Vec<Vec<u8>>,
    n_text: usize,
    n_bytes: usize,
}

impl ShapedParts {
    fn add_text(&mut self, piece: Piece, text: String) -> Result<(), String> {
        self.n_text = self.n_text.saturating_add(text.len());
        if self.n_text > MAX_TEXT_BYTES {
            return Err(format!(
                "answered with more than {} KiB of text",
                MAX_TEXT_BYTES >> 10
            ));
        }
        self.add_part(piece, Part::Text { text })
    }

    fn add_bytes(&mut self, piece: Piece, data: &str) -> Result<(), String> {
        let bytes = STANDARD.decode(data);
        let bytes = bytes.map_err(|_| "answered with bytes that are not base64")?;
        self.n_bytes = self.n_bytes.saturating_add(bytes.len());
        if self.n_bytes > MAX_BYTES {
            return Err(format!(
                "answered with more than {} MiB of bytes",
                MAX_BYTES >> 20
            ));
        }
        let blob = Blob::of(&bytes, piece.media_type.as_deref().unwrap_or_default());
        self.bytes.push(bytes);
        self.add_part(piece, Part::Blob(blob))
    }

    fn add_contents(&mut self, piece: Piece, contents: ResourceContents) -> Result<(), String> {
        let about = |uri, media_type: Option<String>| Piece {
            uri: Some(uri),
            media_type: media_type.filter(|own| own.len() <= MAX_TYPE_BYTES),
            ..piece
        };
        match contents {
            ResourceContents::TextResourceContents {
                uri,
                mime_type,
                text,
                ..
            } => self.add_text(about(uri, mime_type), text),
            ResourceContents::BlobResourceContents {
                uri,
                mime_type,
                blob,
                ..
            } => self.add_bytes(about(uri, mime_type), &blob),
            _ => Err("answered with a part of a kind that is not known".to_owned()),
        }
    }

    fn add_part(&mut self, piece: Piece, part: Part) -> Result<(), String> {
        if self.parts.len() == MAX_PARTS {
            return Err(format!("answered with more than {MAX_PARTS} parts"));
        }
        self.pieces.push(piece);
        self.parts.push(part);
        Ok(())
    }

    fn into_output(self) -> ToolOutput {
        let mut content = vec![Part::Json {
            value: json!({PIECES: self.pieces}),
        }];
        content.extend(self.parts);
        ToolOutput {
            content: content.into(),
            bytes: self.bytes,
            ..ToolOutput::default()
        }
    }
}

/// Converts the content of a resource into the result of a call.
///
/// # Errors
/// It is not the resource that was asked for, or too large; phrased to follow "it".
pub(crate) fn resource_output(
    asked: &str,
    contents: Vec<ResourceContents>,
) -> Result<ToolOutput, String> {
    if contents.is_empty() {
        return Err("answered without any content".to_owned());
    }
    let mut shaped = ShapedParts::default();
    for own in contents {
        let uri = match &own {
            ResourceContents::TextResourceContents { uri, .. }
            | ResourceContents::BlobResourceContents { uri, .. } => uri,
            _ => return Err("answered with a part of a kind that is not known".to_owned()),
        };
        check_origin(asked, uri)?;
        shaped.add_contents(Piece::default(), own)?;
    }
    Ok(shaped.into_output())
}

/// Converts a prompt into the result of a call.
///
/// # Errors
/// It is empty or too large; phrased to follow "it".
pub(crate) fn prompt_output(asked: GetPromptResult) -> Result<ToolOutput, String> {
    if asked.messages.is_empty() {
        return Err("answered with an empty prompt".to_owned());
    }
    let mut shaped = ShapedParts::default();
    for message in asked.messages {
        let mut piece = Piece {
            role: Some(message.role),
            ..Piece::default()
        };
        match message.content {
            ContentBlock::Text(own) => shaped.add_text(piece, own.text),
            ContentBlock::Image(own) => {
                piece.media_type = Some(own.mime_type);
                shaped.add_bytes(piece, &own.data)
            }
            ContentBlock::Audio(own) => {
                piece.media_type = Some(own.mime_type);
                shaped.add_bytes(piece, &own.data)
            }
            ContentBlock::Resource(own) => {
                piece.is_resource = true;
                shaped.add_contents(piece, own.resource)
            }
            ContentBlock::ResourceLink(own) => {
                (piece.is_link, piece.uri) = (true, Some(own.uri));
                piece.media_type = own.mime_type;
                shaped.add_text(piece, own.name)
            }
            _ => Err("answered with a part of a kind that is not known".to_owned()),
        }?;
    }
    Ok(shaped.into_output())
}

/// Text or bytes of a part, as the hooks left it.
enum Left {
    Text(String),
    Bytes(Vec<u8>, String),
}

/// Reads the parts of a result. A part that a hook added or replaced has no facts.
fn left_parts(result: OutsideResult) -> Vec<(Piece, Left)> {
    let mut parts = result.content.iter();
    let first = parts.clone().next().and_then(|part| match part {
        Part::Json { value } => value.get(PIECES).cloned(),
        _ => None,
    });
    let pieces = first.and_then(|own| serde_json::from_value::<Vec<Piece>>(own).ok());
    if pieces.is_some() {
        parts.next();
    }
    let mut pieces = pieces.unwrap_or_default();
    // Parts were dropped, so nobody knows any more which fact is about which of them.
    if parts.len() < pieces.len() {
        pieces.clear();
    }
    let (mut pieces, mut bytes) = (pieces.into_iter(), result.bytes.into_iter());
    let left = parts.map(|part| {
        let piece = pieces.next().unwrap_or_default();
        let left = match part {
            Part::Text { text } => Left::Text(text.clone()),
            Part::Json { value } => Left::Text(value.to_string()),
            Part::Blob(blob) => match bytes.next().flatten() {
                Some(bytes) => Left::Bytes(bytes, blob.media_type.clone()),
                None => Left::Text(blob.not_shown("its bytes cannot be read")),
            },
        };
        (piece, left)
    });
    left.collect()
}

fn contents_of(piece: Piece, left: Left, asked: &str) -> ResourceContents {
    let uri = piece.uri.unwrap_or_else(|| asked.to_owned());
    match left {
        Left::Text(text) => ResourceContents::TextResourceContents {
            uri,
            mime_type: piece.media_type,
            text,
            meta: None,
        },
        Left::Bytes(bytes, media_type) => {
            let media_type = piece.media_type.unwrap_or(media_type);
            ResourceContents::blob(STANDARD.encode(bytes), uri).with_mime_type(media_type)
        }
    }
}

/// Converts the result of a call back into the content of a resource.
pub(crate) fn resource_result(asked: &str, result: OutsideResult) -> ReadResourceResult {
    let left = left_parts(result).into_iter();
    ReadResourceResult::new(
        left.map(|(piece, left)| contents_of(piece, left, asked))
            .collect(),
    )
}

/// Converts the result of a call back into a prompt.
pub(crate) fn prompt_result(result: OutsideResult) -> GetPromptResult {
    let messages = left_parts(result).into_iter().map(|(piece, left)| {
        let role = piece.role.clone().unwrap_or(Role::User);
        let content = match left {
            left if piece.is_resource => ContentBlock::resource(contents_of(piece, left, "")),
            Left::Text(name) if piece.is_link => {
                let mut link = Resource::new(piece.uri.unwrap_or_default(), name);
                link.mime_type = piece.media_type;
                ContentBlock::resource_link(link)
            }
            Left::Text(text) => ContentBlock::text(text),
            Left::Bytes(bytes, media_type) if media_type.starts_with("audio/") => {
                ContentBlock::audio(STANDARD.encode(bytes), media_type)
            }
            Left::Bytes(bytes, media_type) => {
                ContentBlock::image(STANDARD.encode(bytes), media_type)
            }
        };
        PromptMessage::new(role, content)
    });
    GetPromptResult::new(messages.collect())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A result as it comes back when no hook changed it.
    fn passed(output: ToolOutput) -> OutsideResult {
        OutsideResult {
            content: output.content,
            bytes: output.bytes.into_iter().map(Some).collect(),
            ..OutsideResult::default()
        }
    }

    const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

    #[test]
    fn a_prompt_comes_back_with_its_roles_and_kinds() {
        let messages = json!([
            {"role": "user", "content": {"type": "text", "text": "one"}},
            {"role": "assistant", "content": {"type": "image", "data": PNG, "mimeType": "image/png"}},
            {"role": "user", "content": {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}},
            {"role": "user", "content": {"type": "resource",
                "resource": {"uri": "a://b", "mimeType": "text/x", "text": "inner"}}},
            {"role": "user", "content": {"type": "resource_link", "uri": "a://c", "name": "c"}},
        ]);
        let asked: GetPromptResult = serde_json::from_value(json!({"messages": messages})).unwrap();
        let result = prompt_result(passed(prompt_output(asked).unwrap()));
        assert_eq!(serde_json::to_value(result).unwrap()["messages"], messages);
    }

    fn contents(contents: Value) -> Result<ToolOutput, String> {
        resource_output("a://b", serde_json::from_value(contents).unwrap())
    }

    #[test]
    fn a_resource_comes_back_and_another_one_or_a_large_one_is_refused() {
        let own = json!([
            {"uri": "a://b", "mimeType": "text/x", "text": ""},
            {"uri": "a://b/c", "mimeType": "application/pdf", "blob": "AAAA"},
        ]);
        let result = resource_result("a://b", passed(contents(own.clone()).unwrap()));
        assert_eq!(serde_json::to_value(result).unwrap()["contents"], own);
        let large = "x".repeat(MAX_TEXT_BYTES + 1);
        for (own, expected) in [
            (json!([]), "without any content"),
            (json!([{"uri": "a://c", "text": "x"}]), "another resource"),
            (json!([{"uri": "a://b", "blob": "%"}]), "not base64"),
            (json!([{"uri": "a://b", "text": large}]), "256 KiB"),
        ] {
            let why = contents(own).unwrap_err();
            assert!(why.contains(expected), "{why}");
        }
        let many = vec![json!({"uri": "a://b", "text": "x"}); MAX_PARTS + 1];
        assert!(contents(json!(many)).unwrap_err().contains("100 parts"));
    }

    #[test]
    fn what_a_hook_put_in_the_place_of_a_resource_is_its_text() {
        let replaced = OutsideResult {
            content: "[removed]".into(),
            ..OutsideResult::default()
        };
        let result = serde_json::to_value(resource_result("a://b", replaced)).unwrap();
        assert_eq!(
            result["contents"],
            json!([{"uri": "a://b", "text": "[removed]"}])
        );
        // Facts without parts are about nothing.
        let own = contents(json!([{"uri": "a://b/c", "text": "x"}])).unwrap();
        let mut dropped = passed(own);
        dropped.content = vec![dropped.content.iter().next().unwrap().clone()].into();
        let result = serde_json::to_value(resource_result("a://b", dropped)).unwrap();
        assert_eq!(result["contents"], json!([]));
    }
}
