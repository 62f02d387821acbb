//! Converts the result of an MCP call into a tool's output.
//!
//! Text, images and structured content become parts. Any other content is replaced by a text that
//! describes it. No content is written to a file, because the server would choose the file's name.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use serde_json::Value;

use rind_lib::message::{Blob, Part};
use rind_lib::text::escape_and_truncate_line;
use rind_lib::tool::ToolOutput;

/// Maximum number of content parts in the result of one tool call.
const MAX_PARTS_PER_TOOL_RESULT: usize = 100;

/// Maximum length of a quoted name or URI, in bytes.
const MAX_QUOTED_URI_BYTES: usize = 300;

/// Converts the result of an MCP tool call into message parts.
pub(crate) fn convert_tool_result(result: CallToolResult) -> ToolOutput {
    let mut parts = ToolResultPartsCollector::default();
    let n_blocks = result.content.len();
    for block in result.content.into_iter().take(MAX_PARTS_PER_TOOL_RESULT) {
        parts.add_content_block(block);
    }
    if n_blocks > MAX_PARTS_PER_TOOL_RESULT {
        parts.add_text(format!(
            "[{} more parts of the result are left out]",
            n_blocks - MAX_PARTS_PER_TOOL_RESULT
        ));
    }
    if let Some(value) = result.structured_content
        && !parts.contains_json_text(&value)
    {
        parts.parts.push(Part::Json { value });
    }
    ToolOutput {
        content: parts.parts.into(),
        bytes: parts.bytes,
        is_error: result.is_error == Some(true),
        is_fault: false,
    }
}

/// Converts one content block of a prompt into message parts, and returns the bytes of its images
/// separately.
pub(crate) fn convert_content_block(block: ContentBlock) -> (Vec<Part>, Vec<Vec<u8>>) {
    let mut parts = ToolResultPartsCollector::default();
    parts.add_content_block(block);
    (parts.parts, parts.bytes)
}

#[derive(Default)]
struct ToolResultPartsCollector {
    parts: Vec<Part>,
    bytes: Vec<Vec<u8>>,
}

impl ToolResultPartsCollector {
    fn add_text(&mut self, text: impl Into<String>) {
        self.parts.push(Part::text(text));
    }

    fn add_content_block(&mut self, block: ContentBlock) {
        match block {
            ContentBlock::Text(text) => self.add_text(text.text),
            ContentBlock::Image(image) => {
                self.add_binary_data("image", &image.data, &image.mime_type)
            }
            ContentBlock::Audio(audio) => {
                self.add_binary_data("audio", &audio.data, &audio.mime_type)
            }
            ContentBlock::Resource(embedded) => self.add_resource(embedded.resource),
            ContentBlock::ResourceLink(link) => self.add_text(format!(
                "[resource {}: {}]",
                quote_name(&link.uri),
                escape_and_truncate_line(
                    link.description.as_deref().unwrap_or(&link.name),
                    MAX_QUOTED_URI_BYTES
                )
            )),
            _ => self.add_text("[a part of a kind that is not known]"),
        }
    }

    /// Adds an image with its bytes. Other binary data is replaced by a text that describes it.
    fn add_binary_data(&mut self, what: &str, data: &str, media_type: &str) {
        let Ok(bytes) = STANDARD.decode(data) else {
            return self.add_text(format!("[{what} that is not base64, left out]"));
        };
        let blob = Blob::from_bytes(&bytes, media_type);
        if blob.is_image() {
            self.parts.push(Part::Blob(blob));
            self.bytes.push(bytes);
            return;
        }
        self.add_text(format!(
            "[{what} of type {} with {} bytes, left out]",
            escape_and_truncate_line(media_type, MAX_QUOTED_URI_BYTES),
            bytes.len()
        ));
    }

    fn add_resource(&mut self, resource: ResourceContents) {
        match resource {
            ResourceContents::TextResourceContents { uri, text, .. } => {
                self.add_text(format!("[resource {}]\n{text}", quote_name(&uri)));
            }
            ResourceContents::BlobResourceContents {
                uri,
                mime_type,
                blob,
                ..
            } => {
                self.add_text(format!("[resource {}]", quote_name(&uri)));
                self.add_binary_data("resource", &blob, mime_type.as_deref().unwrap_or_default());
            }
            _ => self.add_text("[a resource of a kind that is not known]"),
        }
    }

    /// Whether a text part already contains this JSON value. Many servers send structured content
    /// as text too.
    fn contains_json_text(&self, value: &Value) -> bool {
        self.parts.iter().any(|part| match part {
            Part::Text { text } => {
                serde_json::from_str::<Value>(text).is_ok_and(|written| written == *value)
            }
            _ => false,
        })
    }
}

fn quote_name(name: &str) -> String {
    format!("`{}`", escape_and_truncate_line(name, MAX_QUOTED_URI_BYTES))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn output(result: Value) -> ToolOutput {
        convert_tool_result(serde_json::from_value(result).unwrap())
    }

    #[test]
    fn every_kind_of_content_is_a_part_or_named() {
        let png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
        let output = output(json!({
            "content": [
                {"type": "text", "text": "one"},
                {"type": "image", "data": png, "mimeType": "image/png"},
                {"type": "image", "data": "%%%", "mimeType": "image/png"},
                {"type": "image", "data": "AAAA", "mimeType": "image/png"},
                {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
                {"type": "resource_link", "uri": "file:///../../etc/passwd\u{1b}[2J", "name": "n"},
                {"type": "resource", "resource": {"uri": "a://b", "text": "inner"}},
                {"type": "resource", "resource": {"uri": "a://c", "blob": "AAAA", "mimeType": "x/y"}},
            ],
            "structuredContent": {"n": 1},
            "isError": true,
        }));
        let text = output.content.text();
        for expected in [
            "one",
            "image that is not base64",
            "audio of type audio/wav with 3 bytes",
            "[resource `file:///../../etc/passwd",
            "[resource `a://b`]\ninner",
            "resource of type x/y with 3 bytes",
        ] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
        assert!(!text.contains('\u{1b}'));
        assert_eq!(output.bytes.len(), 1);
        assert!(output.is_error && !output.is_fault);
        assert!(
            output
                .content
                .iter()
                .any(|part| matches!(part, Part::Json { .. }))
        );
    }

    #[test]
    fn structured_content_is_not_repeated_and_parts_are_bounded() {
        let same = output(json!({
            "content": [{"type": "text", "text": "{\"n\": 1}"}],
            "structuredContent": {"n": 1},
        }));
        assert_eq!(same.content.iter().count(), 1);
        let many: Vec<Value> = (0..500)
            .map(|n| json!({"type": "text", "text": n.to_string()}))
            .collect();
        let many = output(json!({"content": many}));
        assert_eq!(many.content.iter().count(), MAX_PARTS_PER_TOOL_RESULT + 1);
        assert!(many.content.text().contains("400 more parts"));
        assert_eq!(output(json!({"content": []})).content.iter().count(), 0);
    }
}
