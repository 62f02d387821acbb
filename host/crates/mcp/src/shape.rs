//! Converts prompts and resources of a server into results of tool calls, and back. Hooks can
//! therefore read them as text, and clients of `rind mcp serve` still get the roles, URIs and media
//! types.
//!
//! The first part of such a result is JSON with the metadata of each further part. Bytes that are
//! valid UTF-8 become a text part, so that hooks can read them and secrets in them are masked.
//! Start from [`resource_to_tool_output`] and [`to_read_resource_result`].

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rmcp::model::{
    ContentBlock, GetPromptResult, PromptMessage, ReadResourceResult, Resource, ResourceContents,
    Role,
};
use serde::Deserialize;
use serde_json::json;

use super::piece::{ContentPartMetadata, content_part_fingerprint, match_metadata_to_edited_parts};
use super::resource::{
    MAX_RESOURCE_URI_BYTES, MAX_TEXT_BYTES_PER_ANSWER, check_answer_has_requested_uri,
};
use rind_lib::host::ClientToolCallResult;
use rind_lib::message::blob::is_media_type;
use rind_lib::message::{Blob, Part};
use rind_lib::secret::{SecretScanner, run_blocking_scan};
use rind_lib::tool::ToolOutput;

/// Maximum number of parts in one answer of a server.
const MAX_PARTS_PER_SERVER_ANSWER: usize = 100;

/// Maximum total size, in bytes, of the binary data in one answer of an MCP server.
const MAX_BINARY_BYTES_PER_SERVER_ANSWER: usize = 8 << 20;

/// JSON key of the list with the metadata of the parts, in the first part of a result.
const PART_METADATA_LIST_JSON_KEY: &str = "pieces";

#[derive(Default)]
struct ServerContentResultBuilder {
    pieces: Vec<ContentPartMetadata>,
    parts: Vec<Part>,
    bytes: Vec<Vec<u8>>,
    n_text: usize,
    n_bytes: usize,
}

impl ServerContentResultBuilder {
    fn add_text(&mut self, piece: ContentPartMetadata, text: String) -> Result<(), String> {
        self.count_text_bytes(text.len())?;
        self.add_part(piece, Part::Text { text })
    }

    fn count_text_bytes(&mut self, n_bytes: usize) -> Result<(), String> {
        self.n_text = self.n_text.saturating_add(n_bytes);
        if self.n_text > MAX_TEXT_BYTES_PER_ANSWER {
            return Err(format!(
                "answered with more than {} KiB of text",
                MAX_TEXT_BYTES_PER_ANSWER >> 10
            ));
        }
        Ok(())
    }

    fn add_binary_data(
        &mut self,
        mut piece: ContentPartMetadata,
        data: &str,
    ) -> Result<(), String> {
        let bytes = STANDARD.decode(data);
        let bytes = bytes.map_err(|_| "answered with bytes that are not base64")?;
        let declared = piece.media_type.take().unwrap_or_default();
        let blob = Blob::from_bytes(&bytes, &declared);
        let bytes = match blob.is_image() {
            true => bytes,
            false => match String::from_utf8(bytes) {
                Ok(text) => {
                    piece.is_bytes = true;
                    piece.media_type = Some(blob.media_type);
                    return self.add_text(piece, text);
                }
                Err(error) => {
                    let bytes = error.into_bytes();
                    check_bytes_contain_no_secret(&bytes)?;
                    bytes
                }
            },
        };
        self.n_bytes = self.n_bytes.saturating_add(bytes.len());
        if self.n_bytes > MAX_BINARY_BYTES_PER_SERVER_ANSWER {
            return Err(format!(
                "answered with more than {} MiB of binary data",
                MAX_BINARY_BYTES_PER_SERVER_ANSWER >> 20
            ));
        }
        self.bytes.push(bytes);
        self.add_part(piece, Part::Blob(blob))
    }

    fn add_resource_contents(
        &mut self,
        piece: ContentPartMetadata,
        contents: ResourceContents,
    ) -> Result<(), String> {
        let about = |uri, media_type| ContentPartMetadata {
            uri: Some(uri),
            media_type,
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
            } => self.add_binary_data(about(uri, mime_type), &blob),
            _ => Err("answered with a part of a kind that is not known".to_owned()),
        }
    }

    fn add_part(&mut self, mut piece: ContentPartMetadata, part: Part) -> Result<(), String> {
        if self.parts.len() == MAX_PARTS_PER_SERVER_ANSWER {
            return Err(format!(
                "answered with more than {MAX_PARTS_PER_SERVER_ANSWER} parts"
            ));
        }
        piece.media_type = piece.media_type.filter(|own| is_media_type(own));
        let n_address = piece.uri.as_ref().map_or(0, String::len);
        if n_address > MAX_RESOURCE_URI_BYTES {
            return Err(format!(
                "answered with a URI of more than {} KiB",
                MAX_RESOURCE_URI_BYTES >> 10
            ));
        }
        self.count_text_bytes(n_address + piece.media_type.as_ref().map_or(0, String::len))?;
        piece.mark = content_part_fingerprint(&part);
        self.pieces.push(piece);
        self.parts.push(part);
        Ok(())
    }

    fn into_tool_output(self) -> ToolOutput {
        let mut content = vec![Part::Json {
            value: json!({PART_METADATA_LIST_JSON_KEY: self.pieces}),
        }];
        content.extend(self.parts);
        ToolOutput {
            content: content.into(),
            bytes: self.bytes,
            ..ToolOutput::default()
        }
    }
}

/// Refuses binary data that contains a secret, because a secret in binary data cannot be masked.
fn check_bytes_contain_no_secret(bytes: &[u8]) -> Result<(), String> {
    let found = run_blocking_scan(bytes.len(), || {
        SecretScanner::shared().find_secrets(&String::from_utf8_lossy(bytes))
    });
    match found.is_empty() {
        true => Ok(()),
        false => Err(
            "answered with binary data that contains a secret, and secrets can be masked only in \
             text; the server must send it as text"
                .to_owned(),
        ),
    }
}

/// Converts the content of a resource into the result of a call.
///
/// # Errors
/// The answer is empty, too large or for another resource; phrased to follow "the server".
pub(crate) fn resource_to_tool_output(
    asked: &str,
    contents: Vec<ResourceContents>,
) -> Result<ToolOutput, String> {
    if contents.is_empty() {
        return Err("answered without any content".to_owned());
    }
    let mut shaped = ServerContentResultBuilder::default();
    for own in contents {
        let uri = match &own {
            ResourceContents::TextResourceContents { uri, .. }
            | ResourceContents::BlobResourceContents { uri, .. } => uri,
            _ => return Err("answered with a part of a kind that is not known".to_owned()),
        };
        check_answer_has_requested_uri(asked, uri)?;
        shaped.add_resource_contents(ContentPartMetadata::default(), own)?;
    }
    Ok(shaped.into_tool_output())
}

/// Converts a prompt into the result of a call.
///
/// # Errors
/// The answer is empty or too large; phrased to follow "the server".
pub(crate) fn prompt_to_tool_output(asked: GetPromptResult) -> Result<ToolOutput, String> {
    if asked.messages.is_empty() {
        return Err("answered with an empty prompt".to_owned());
    }
    let mut shaped = ServerContentResultBuilder::default();
    for message in asked.messages {
        let mut piece = ContentPartMetadata {
            role: Some(message.role),
            ..ContentPartMetadata::default()
        };
        match message.content {
            ContentBlock::Text(own) => shaped.add_text(piece, own.text),
            ContentBlock::Image(own) => {
                piece.media_type = Some(own.mime_type);
                shaped.add_binary_data(piece, &own.data)
            }
            ContentBlock::Audio(own) => {
                piece.media_type = Some(own.mime_type);
                shaped.add_binary_data(piece, &own.data)
            }
            ContentBlock::Resource(own) => {
                piece.is_resource = true;
                shaped.add_resource_contents(piece, own.resource)
            }
            ContentBlock::ResourceLink(own) => {
                (piece.is_link, piece.uri) = (true, Some(own.uri));
                piece.media_type = own.mime_type;
                shaped.add_text(piece, own.name)
            }
            _ => Err("answered with a part of a kind that is not known".to_owned()),
        }?;
    }
    Ok(shaped.into_tool_output())
}

/// Content of a part after hooks have edited the result: text, or bytes with their media type.
enum HookEditedPartContent {
    Text(String),
    Bytes(Vec<u8>, String),
}

/// Returns the parts of a result that hooks may have edited, each with its metadata.
fn result_parts_with_metadata(
    result: ClientToolCallResult,
) -> Vec<(ContentPartMetadata, HookEditedPartContent)> {
    let mut parts: Vec<&Part> = result.content.iter().collect();
    // Search the parts for the one with the metadata, because a hook may have moved it.
    let facts = parts.iter().enumerate().find_map(|(at, part)| match part {
        Part::Json { value } => Some((
            at,
            Vec::<ContentPartMetadata>::deserialize(value.get(PART_METADATA_LIST_JSON_KEY)?)
                .ok()?,
        )),
        _ => None,
    });
    let pieces = facts.map(|(at, pieces)| {
        parts.remove(at);
        pieces
    });
    let pieces = match_metadata_to_edited_parts(pieces.unwrap_or_default(), &parts);
    let mut bytes = result.bytes.into_iter();
    let left = pieces.into_iter().zip(parts).map(|(piece, part)| {
        let left = match part {
            Part::Text { text } if piece.is_bytes => {
                let declared = piece.media_type.as_deref().unwrap_or_default();
                let media_type = Blob::from_bytes(text.as_bytes(), declared).media_type;
                HookEditedPartContent::Bytes(text.clone().into_bytes(), media_type)
            }
            Part::Text { text } => HookEditedPartContent::Text(text.clone()),
            Part::Json { value } => HookEditedPartContent::Text(value.to_string()),
            Part::Blob(blob) => match bytes.next().flatten() {
                Some(bytes) => HookEditedPartContent::Bytes(bytes, blob.media_type.clone()),
                None => HookEditedPartContent::Text(
                    blob.unshown_blob_placeholder("its bytes cannot be read"),
                ),
            },
        };
        (piece, left)
    });
    left.collect()
}

fn build_resource_contents(
    piece: ContentPartMetadata,
    left: HookEditedPartContent,
    asked: &str,
) -> ResourceContents {
    let uri = piece.uri.unwrap_or_else(|| asked.to_owned());
    match left {
        HookEditedPartContent::Text(text) => ResourceContents::TextResourceContents {
            uri,
            mime_type: piece.media_type,
            text,
            meta: None,
        },
        HookEditedPartContent::Bytes(bytes, media_type) => {
            ResourceContents::blob(STANDARD.encode(bytes), uri).with_mime_type(media_type)
        }
    }
}

/// Converts the parts of a result, after hooks have edited them, back into the content of an MCP
/// resource. `asked` is the requested URI.
pub(crate) fn to_read_resource_result(
    asked: &str,
    result: ClientToolCallResult,
) -> ReadResourceResult {
    let left = result_parts_with_metadata(result).into_iter();
    ReadResourceResult::new(
        left.map(|(piece, left)| build_resource_contents(piece, left, asked))
            .collect(),
    )
}

/// Converts the parts of a result, after hooks have edited them, back into the messages of an MCP
/// prompt.
pub(crate) fn into_mcp_prompt_result(result: ClientToolCallResult) -> GetPromptResult {
    let messages = result_parts_with_metadata(result)
        .into_iter()
        .map(|(piece, left)| {
            let role = piece.role.clone().unwrap_or(Role::User);
            let content = match left {
                left if piece.is_resource => {
                    ContentBlock::resource(build_resource_contents(piece, left, ""))
                }
                HookEditedPartContent::Text(name) if piece.is_link => {
                    let mut link = Resource::new(piece.uri.unwrap_or_default(), name);
                    link.mime_type = piece.media_type;
                    ContentBlock::resource_link(link)
                }
                HookEditedPartContent::Text(text) => ContentBlock::text(text),
                HookEditedPartContent::Bytes(bytes, media_type)
                    if media_type.starts_with("audio/") =>
                {
                    ContentBlock::audio(STANDARD.encode(bytes), media_type)
                }
                HookEditedPartContent::Bytes(bytes, media_type) => {
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

    /// Returns the result of a call that no hook changed.
    fn passed(output: ToolOutput) -> ClientToolCallResult {
        ClientToolCallResult {
            content: output.content,
            bytes: output.bytes.into_iter().map(Some).collect(),
            ..ClientToolCallResult::default()
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
        let result = into_mcp_prompt_result(passed(prompt_to_tool_output(asked).unwrap()));
        assert_eq!(serde_json::to_value(result).unwrap()["messages"], messages);
    }

    fn contents(contents: Value) -> Result<ToolOutput, String> {
        resource_to_tool_output("a://b", serde_json::from_value(contents).unwrap())
    }

    #[test]
    fn a_resource_comes_back_and_another_one_or_a_large_one_is_refused() {
        let own = json!([
            {"uri": "a://b", "mimeType": "text/x", "text": ""},
            {"uri": "a://b/c", "mimeType": "application/pdf", "blob": "AAAA"},
        ]);
        let result = to_read_resource_result("a://b", passed(contents(own.clone()).unwrap()));
        assert_eq!(serde_json::to_value(result).unwrap()["contents"], own);
        let large = "x".repeat(MAX_TEXT_BYTES_PER_ANSWER + 1);
        for (own, expected) in [
            (json!([]), "without any content"),
            (json!([{"uri": "a://c", "text": "x"}]), "another resource"),
            (json!([{"uri": "a://b", "blob": "%"}]), "not base64"),
            (json!([{"uri": "a://b", "text": large}]), "256 KiB"),
        ] {
            let why = contents(own).unwrap_err();
            assert!(why.contains(expected), "{why}");
        }
        let many = vec![json!({"uri": "a://b", "text": "x"}); MAX_PARTS_PER_SERVER_ANSWER + 1];
        assert!(contents(json!(many)).unwrap_err().contains("100 parts"));
    }

    /// Returns a text with a secret and this character, as base64 and as bytes.
    fn secret_in(c: &[u8]) -> (String, Vec<u8>) {
        let text = [b"key AKIA".as_slice(), b"IOSFODNN7EXAMPLQ here ", c].concat();
        (STANDARD.encode(&text), text)
    }

    #[test]
    fn text_that_is_served_as_bytes_is_text_for_hooks_and_bytes_for_the_client() {
        let (data, text) = secret_in("ü".as_bytes());
        let own = json!([{"uri": "a://b", "mimeType": "text/x", "blob": data}]);
        let mut output = contents(own.clone()).unwrap();
        let seen: Vec<&Part> = output.content.iter().collect();
        assert!(
            matches!(seen[1], Part::Text { text: own } if own.as_bytes() == text),
            "{seen:?}"
        );
        assert!(output.bytes.is_empty());
        let result = to_read_resource_result("a://b", passed(output.clone()));
        assert_eq!(serde_json::to_value(result).unwrap()["contents"], own);
        // Masking the text part also masks the bytes that the client gets.
        for part in output.content.iter_mut() {
            if let Part::Text { text } = part {
                *text = SecretScanner::shared().to_masked_text(text).into_owned();
            }
        }
        let result = to_read_resource_result("a://b", passed(output));
        let result = serde_json::to_value(result).unwrap()["contents"][0].clone();
        let bytes = STANDARD.decode(result["blob"].as_str().unwrap()).unwrap();
        let shown = String::from_utf8(bytes).unwrap();
        assert!(shown.starts_with("key [secret masked"), "{shown}");
        assert_eq!(result["mimeType"], "text/x");
        // The limit for text applies, not that for binary data.
        let large = STANDARD.encode("x".repeat(MAX_TEXT_BYTES_PER_ANSWER + 1));
        let why = contents(json!([{"uri": "a://b", "blob": large}])).unwrap_err();
        assert!(why.contains("256 KiB of text"), "{why}");
        // The same applies in a prompt.
        let image = json!({"type": "image", "data": data, "mimeType": "image/png"});
        let asked = json!({"messages": [{"role": "user", "content": image}]});
        let output = prompt_to_tool_output(serde_json::from_value(asked).unwrap()).unwrap();
        assert!(output.bytes.is_empty(), "{:?}", output.content);
    }

    #[test]
    fn bytes_that_are_no_text_and_have_a_secret_in_them_are_refused() {
        let (data, _) = secret_in(b"\xfc");
        let why = contents(json!([{"uri": "a://b", "blob": data}])).unwrap_err();
        assert!(why.contains("contains a secret"), "{why}");
    }

    #[test]
    fn addresses_and_types_are_bounded_and_a_false_type_is_not_restored() {
        let own = json!([
            {"uri": "a://b", "mimeType": "image/png", "blob": STANDARD.encode("#!/bin/sh")},
            {"uri": "a://b", "mimeType": "\u{1b}[2J", "text": "x"},
            {"uri": "a://b", "mimeType": "image/png", "blob": "/wD/"},
        ]);
        let result = to_read_resource_result("a://b", passed(contents(own).unwrap()));
        let result = serde_json::to_value(result).unwrap()["contents"].clone();
        assert_eq!(result[0]["mimeType"], "application/octet-stream");
        assert_eq!(result[1].get("mimeType"), None);
        assert_eq!(result[2]["mimeType"], "application/octet-stream");
        let prompt = |uri: &str, n: usize| {
            let link = json!({"type": "resource_link", "uri": uri, "name": "c"});
            let messages = vec![json!({"role": "user", "content": link}); n];
            prompt_to_tool_output(serde_json::from_value(json!({"messages": messages})).unwrap())
        };
        let long = format!("a://{}", "x".repeat(MAX_RESOURCE_URI_BYTES));
        let why = prompt(&long, 1).unwrap_err();
        assert!(why.contains("a URI of more than 2 KiB"), "{why}");
        // The total length of the URIs counts towards the text limit.
        let long = &long[..MAX_RESOURCE_URI_BYTES];
        assert!(prompt(long, 90).is_ok());
        let messages: Vec<Value> = (0..90)
            .map(|_| {
                let inner = json!({"uri": long, "text": "x".repeat(1 << 10)});
                json!({"role": "user", "content": {"type": "resource", "resource": inner}})
            })
            .collect();
        let asked = serde_json::from_value(json!({"messages": messages})).unwrap();
        assert!(
            prompt_to_tool_output(asked)
                .unwrap_err()
                .contains("256 KiB")
        );
    }

    /// Returns the roles and texts of a prompt with two messages, after a hook edited the parts.
    fn edited(edit: impl FnOnce(&mut Vec<Part>)) -> Value {
        let message = |role, text| json!({"role": role, "content": {"type": "text", "text": text}});
        let asked = json!({"messages": [message("user", "ask"), message("assistant", "say")]});
        let output = prompt_to_tool_output(serde_json::from_value(asked).unwrap()).unwrap();
        let mut parts: Vec<Part> = output.content.iter().cloned().collect();
        edit(&mut parts);
        let result = into_mcp_prompt_result(ClientToolCallResult {
            content: parts.into(),
            ..ClientToolCallResult::default()
        });
        let messages = serde_json::to_value(result).unwrap()["messages"].take();
        let messages = messages.as_array().unwrap().iter();
        messages
            .map(|own| json!([own["role"], own["content"]["text"]]))
            .collect()
    }

    #[test]
    fn a_part_that_a_hook_moved_keeps_its_metadata_and_another_gets_none() {
        let text = |text: &str| Part::Text {
            text: text.to_owned(),
        };
        assert_eq!(
            edited(|parts| parts.reverse()),
            json!([["assistant", "say"], ["user", "ask"]])
        );
        assert_eq!(
            edited(|parts| parts[2] = text("edited")),
            json!([["user", "ask"], ["assistant", "edited"]])
        );
        // A part is dropped and another added, so the number of parts is unchanged.
        assert_eq!(
            edited(|parts| {
                parts.remove(2);
                parts.insert(1, text("added"));
            }),
            json!([["user", "added"], ["user", "ask"]])
        );
        assert_eq!(
            edited(|parts| parts[2] = text("ask")),
            json!([["user", "ask"], ["user", "ask"]])
        );
        assert_eq!(
            edited(|parts| {
                parts.remove(1);
            }),
            json!([["assistant", "say"]])
        );
    }

    #[test]
    fn what_a_hook_put_in_the_place_of_a_resource_is_its_text() {
        let replaced = ClientToolCallResult {
            content: "[removed]".into(),
            ..ClientToolCallResult::default()
        };
        let result = serde_json::to_value(to_read_resource_result("a://b", replaced)).unwrap();
        assert_eq!(
            result["contents"],
            json!([{"uri": "a://b", "text": "[removed]"}])
        );
        // Facts whose parts are gone are ignored.
        let own = contents(json!([{"uri": "a://b/c", "text": "x"}])).unwrap();
        let mut dropped = passed(own);
        dropped.content = vec![dropped.content.iter().next().unwrap().clone()].into();
        let result = serde_json::to_value(to_read_resource_result("a://b", dropped)).unwrap();
        assert_eq!(result["contents"], json!([]));
    }
}
