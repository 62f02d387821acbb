//! Writes request bodies in the format of Anthropic's Messages API.
//!
//! Owns the constraints of the API on a conversation (alternating roles, tool results first in user
//! messages, no empty text) and the cache breakpoints. The module must not depend on the reading of
//! answers, except for the prefix [`REDACTED_THINKING_PREFIX`] in signatures.
//!
//! Start from [`write_body`].

use serde_json::{Map, Value, json};

use crate::message::{Blob, Content, Message, Part, Role, ToolResult};
use crate::provider::assemble::arguments_as_object;
use crate::provider::images::encode_base64;
use crate::provider::schema::{self, JsonSchemaSubset};
use crate::provider::{Request, RequestImagesByBlobId, SystemPromptBlock};

/// Default for the required field `max_tokens`. All models of the API accept this number.
const DEFAULT_MAX_TOKENS: u32 = 8192;

/// Maximum number of cache breakpoints in a request. One is at the end of the tools, one or two are
/// in the conversation, and the rest are for the system prompt.
const MAX_CACHE_BREAKPOINTS: usize = 4;

/// Number of blocks before a cache breakpoint that the API searches for the end of an earlier
/// cached prefix. The documentation of prompt caching says 20, including the block with the
/// breakpoint.
const CACHE_LOOKBACK_BLOCKS: usize = 19;

/// Prefix of the signature of reasoning whose text the provider encrypts. The encrypted text
/// follows the prefix.
pub(super) const REDACTED_THINKING_PREFIX: &str = "redacted_thinking:";

pub(super) fn write_body(request: &Request, images: &RequestImagesByBlobId) -> Value {
    let mut body = Map::new();
    body.insert("model".to_owned(), json!(request.model));
    body.insert(
        "max_tokens".to_owned(),
        json!(request.max_tokens.unwrap_or(DEFAULT_MAX_TOKENS)),
    );
    if let Some(temperature) = request.temperature {
        body.insert("temperature".to_owned(), json!(temperature));
    }
    body.insert("stream".to_owned(), json!(true));
    let mut tools: Vec<Value> = request
        .tools
        .iter()
        .map(|tool| {
            json!({"name": tool.name, "description": tool.description, "input_schema": schema::reduce_schema(&tool.parameters, JsonSchemaSubset::Full)})
        })
        .collect();
    let has_tools = !tools.is_empty();
    if let Some(last) = tools.last_mut() {
        set_cache_breakpoint(last);
    }
    let mut messages = write_messages(&request.messages, images);
    let borders = find_cache_breakpoints(&messages);
    let n_borders = usize::from(has_tools) + borders.len();
    let system = write_system_blocks(&request.system, MAX_CACHE_BREAKPOINTS - n_borders);
    // Do not cache a request that has neither tools nor a cached system prompt: such a request is
    // sent once, and writing it to the cache would cost more than the cache could save.
    let is_cached = has_tools
        || system
            .iter()
            .any(|block| block.get("cache_control").is_some());
    if !system.is_empty() {
        body.insert("system".to_owned(), Value::Array(system));
    }
    if has_tools {
        body.insert("tools".to_owned(), Value::Array(tools));
        if request.is_answer_reformat_request() {
            body.insert("tool_choice".to_owned(), json!({"type": "none"}));
        }
    }
    // Omit the schema if it has objects that allow properties which it does not list: the API
    // refuses such schemas.
    if let Some(output) = &request.output
        && schema::is_strict_schema(&output.schema)
    {
        let format = json!({"type": "json_schema", "schema": *output.schema});
        body.insert("output_config".to_owned(), json!({"format": format}));
    }
    if is_cached {
        for (message, block) in borders {
            set_cache_breakpoint(&mut messages[message].1[block]);
        }
    }
    let messages = messages
        .into_iter()
        .map(|(role, content)| json!({"role": role, "content": content}));
    body.insert("messages".to_owned(), messages.collect());
    Value::Object(body)
}

/// Sets a cache breakpoint at the end of this block or tool. The cached prefix consists of the
/// tools, then the system prompt, then the conversation, up to the breakpoint.
fn set_cache_breakpoint(block: &mut Value) {
    block["cache_control"] = json!({"type": "ephemeral"});
}

/// Writes the system prompt. If more than `max_borders` blocks are cached, only the last ones get a
/// breakpoint, because each breakpoint covers everything before it.
fn write_system_blocks(blocks: &[SystemPromptBlock], max_borders: usize) -> Vec<Value> {
    let blocks: Vec<&SystemPromptBlock> = blocks
        .iter()
        .filter(|block| !block.text.trim().is_empty())
        .collect();
    let n_cached = blocks.iter().filter(|block| block.is_cached).count();
    let mut n_dropped = n_cached.saturating_sub(max_borders);
    let mut written = Vec::new();
    for block in blocks {
        let mut value = json!({"type": "text", "text": block.text});
        if block.is_cached && n_dropped > 0 {
            n_dropped -= 1;
        } else if block.is_cached {
            set_cache_breakpoint(&mut value);
        }
        written.push(value);
    }
    written
}

/// Writes the conversation as pairs of role and content. Adjacent messages of one role are merged:
/// tool results have the role `user` here, and all results of a step must be in one message.
fn write_messages(
    messages: &[Message],
    images: &RequestImagesByBlobId,
) -> Vec<(&'static str, Vec<Value>)> {
    let mut written: Vec<(&'static str, Vec<Value>)> = Vec::new();
    for message in messages {
        let role = match message.role {
            Role::Assistant => "assistant",
            Role::User | Role::Tool => "user",
        };
        let mut content = Vec::new();
        for part in &message.content {
            match part {
                Content::Blob(blob) if message.role == Role::Assistant => {
                    content.push(text_block(&blob.to_string()));
                }
                Content::Blob(blob) => content.push(write_image_block(blob, images)),
                Content::ToolResult(result) => content.extend(write_tool_result(result, images)),
                other => content.extend(write_content_block(other)),
            }
        }
        match written.last_mut() {
            _ if content.is_empty() => {}
            Some((last, blocks)) if *last == role => blocks.extend(content),
            _ => written.push((role, content)),
        }
    }
    for (_, blocks) in written.iter_mut().filter(|(role, _)| *role == "user") {
        // Use a stable sort: tool results move to the front, and all other blocks keep their order.
        blocks.sort_by_key(|block| block["type"] != "tool_result");
    }
    written
}

fn write_content_block(part: &Content) -> Option<Value> {
    match part {
        Content::Text { text } if text.trim().is_empty() => None,
        Content::Text { text: written } => Some(text_block(written)),
        Content::Thinking {
            text, signature, ..
        } => {
            // Skip reasoning without a signature: another server produced it, and the API refuses
            // it.
            let signature = signature.as_deref()?;
            Some(match signature.strip_prefix(REDACTED_THINKING_PREFIX) {
                Some(data) => json!({"type": "redacted_thinking", "data": data}),
                None => json!({"type": "thinking", "thinking": text, "signature": signature}),
            })
        }
        Content::ToolCall(call) => Some(json!({
            "type": "tool_use",
            "id": sanitize_call_id(&call.id),
            "name": call.name,
            "input": arguments_as_object(&call.arguments),
        })),
        Content::ToolResult(_) | Content::Blob(_) => None,
    }
}

fn text_block(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// Writes an image, or the placeholder text for it.
fn write_image_block(blob: &Blob, images: &RequestImagesByBlobId) -> Value {
    match images.get(blob) {
        Ok(bytes) => json!({
            "type": "image",
            "source": {"type": "base64", "media_type": blob.media_type, "data": encode_base64(bytes)},
        }),
        Err(line) => text_block(&line),
    }
}

/// Writes a tool result, followed by the blocks that it cannot contain: the result of a failed call
/// may contain only text.
fn write_tool_result(result: &ToolResult, images: &RequestImagesByBlobId) -> Vec<Value> {
    let mut value =
        json!({"type": "tool_result", "tool_use_id": sanitize_call_id(&result.call_id)});
    let mut behind = Vec::new();
    if result.content.blobs().next().is_none() {
        value["content"] = json!(result.content.text());
    } else {
        let mut blocks = Vec::new();
        for part in result.content.iter() {
            match part {
                Part::Blob(blob) if result.is_error => {
                    blocks.push(text_block(&blob.to_string()));
                    behind.push(write_image_block(blob, images));
                }
                Part::Blob(blob) => blocks.push(write_image_block(blob, images)),
                Part::Text { text } if text.trim().is_empty() => {}
                Part::Text { text: written } => blocks.push(text_block(written)),
                Part::Json { value } => blocks.push(text_block(&value.to_string())),
            }
        }
        value["content"] = Value::Array(blocks);
    }
    if result.is_error {
        value["is_error"] = json!(true);
    }
    behind.insert(0, value);
    behind
}

/// Replaces the characters in a call id that this API refuses. Ids of other providers may contain
/// such characters.
fn sanitize_call_id(id: &str) -> String {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    id.chars()
        .map(|c| if is_allowed(c) { c } else { '_' })
        .collect()
}

/// Returns the positions of the cache breakpoints in the conversation, as indexes of message and
/// block. One breakpoint is at the end, so that the next step reads everything in this request from
/// the cache. If a step adds more blocks than the lookback of the API, another breakpoint is set
/// within the lookback of the end of the previous step.
fn find_cache_breakpoints(messages: &[(&'static str, Vec<Value>)]) -> Vec<(usize, usize)> {
    let places: Vec<(usize, usize)> = messages
        .iter()
        .enumerate()
        .flat_map(|(at, (_, blocks))| (0..blocks.len()).map(move |block| (at, block)))
        .collect();
    let may_end = |place: &&(usize, usize)| {
        let block = &messages[place.0].1[place.1];
        ["text", "image", "tool_use", "tool_result"]
            .iter()
            .any(|kind| block["type"] == *kind)
    };
    // The previous request ended right before the last assistant message, because that message is
    // the answer to it.
    let before = messages.iter().rposition(|(role, _)| *role == "assistant");
    let n_before = before.map_or(0, |at| places.iter().filter(|place| place.0 < at).count());
    let reach = n_before + CACHE_LOOKBACK_BLOCKS;
    let between = (n_before > 0 && places.len() > reach)
        .then(|| places[n_before..reach].iter().rev().find(may_end))
        .flatten();
    let last = places.last().filter(may_end);
    between.into_iter().chain(last).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::sample::{
        example_json_part, example_request, example_request_images, example_tool_call,
        example_tool_result, example_tool_spec, gif_blob, pdf_blob,
    };

    #[test]
    fn a_request_is_written_whole() {
        let thinking = |text: &str, signature: Option<&str>| Content::Thinking {
            text: text.to_owned(),
            signature: signature.map(str::to_owned),
            extra: None,
        };
        let mut request = example_request(vec![
            Message::text(Role::User, "hi"),
            Message::new(
                Role::Assistant,
                vec![
                    thinking("hm", Some("proof")),
                    thinking("", Some("redacted_thinking:xyz")),
                    thinking("unproven", None),
                    Content::from_text("looking"),
                    example_tool_call("a.1", json!("{bad")),
                ],
            ),
            Message::text(Role::User, "hurry"),
            Message::from_tool_result(example_tool_result("a.1", "seen", true)),
            Message::text(Role::User, " "),
        ]);
        request.system = vec![
            SystemPromptBlock::new("stable", true),
            SystemPromptBlock::new("", true),
            SystemPromptBlock::new("volatile", false),
        ];
        request.tools = vec![example_tool_spec()];
        request.temperature = Some(0.5);
        let border = json!({"type": "ephemeral"});
        assert_eq!(
            write_body(&request, &RequestImagesByBlobId::default()),
            json!({
                "model": "m",
                "max_tokens": 8192,
                "temperature": 0.5,
                "stream": true,
                "system": [
                    {"type": "text", "text": "stable", "cache_control": border},
                    {"type": "text", "text": "volatile"},
                ],
                "tools": [{"name": "look", "description": "Looks.", "input_schema": {"type": "object"},
                    "cache_control": border}],
                "messages": [
                    {"role": "user", "content": [{"type": "text", "text": "hi"}]},
                    {"role": "assistant", "content": [
                        {"type": "thinking", "thinking": "hm", "signature": "proof"},
                        {"type": "redacted_thinking", "data": "xyz"},
                        {"type": "text", "text": "looking"},
                        {"type": "tool_use", "id": "a_1", "name": "look", "input": {"invalid_arguments": "{bad"}},
                    ]},
                    {"role": "user", "content": [
                        {"type": "tool_result", "tool_use_id": "a_1", "content": "seen", "is_error": true},
                        {"type": "text", "text": "hurry", "cache_control": border},
                    ]},
                ],
            })
        );
    }

    #[test]
    fn parts_of_results_become_blocks_and_images_of_a_failed_call_stand_behind_its_text() {
        let (pdf, line) = pdf_blob();
        let texts = [Part::text("seen"), Part::text(" "), example_json_part()];
        let parts = [&texts[..], &[Part::Blob(gif_blob()), Part::Blob(pdf)]].concat();
        let results = [("a", true), ("b", false)].map(|(id, is_error)| {
            Content::ToolResult(example_tool_result(id, parts.clone(), is_error))
        });
        let request = example_request(vec![
            Message::new(Role::User, vec![Content::Blob(gif_blob())]),
            Message::new(Role::Tool, results.into()),
        ]);
        let image = json!({"type": "image", "source": {"type": "base64", "media_type": "image/gif", "data": "R0lG"}});
        let (seen, value, line) = (
            text_block("seen"),
            text_block("{\"a\":1}"),
            text_block(line),
        );
        assert_eq!(
            write_body(&request, &example_request_images(&request))["messages"][0]["content"],
            json!([
                {"type": "tool_result", "tool_use_id": "a", "is_error": true, "content":
                    [seen, value, text_block("[image/gif, 10 B]"), text_block("[application/pdf, 4 B]")]},
                {"type": "tool_result", "tool_use_id": "b", "content": [seen, value, image, line]},
                image,
                image,
                line,
            ])
        );
    }

    #[test]
    fn results_of_several_messages_become_one_user_message() {
        let request = example_request(vec![
            Message::text(Role::User, "hi"),
            Message::from_tool_result(example_tool_result("a", "seen", false)),
            Message::from_tool_result(example_tool_result("b", "seen", false)),
        ]);
        let body = write_body(&request, &RequestImagesByBlobId::default());
        assert_eq!(body["messages"].as_array().unwrap().len(), 1);
        let blocks = body["messages"][0]["content"].as_array().unwrap();
        let kinds: Vec<&Value> = blocks.iter().map(|block| &block["type"]).collect();
        assert_eq!(kinds, ["tool_result", "tool_result", "text"]);
    }

    #[test]
    fn no_more_cache_borders_are_set_than_the_api_takes() {
        let borders = |n_tools| {
            [0, 1, 2, 3, 6].map(|n_blocks| {
                let mut request = example_request(vec![Message::text(Role::User, "hi")]);
                let block = |n| SystemPromptBlock::new(format!("block {n}"), true);
                request.system = (0..n_blocks).map(block).collect();
                request.tools = vec![example_tool_spec(); n_tools];
                let body = write_body(&request, &RequestImagesByBlobId::default());
                if let Some(last) = body["tools"].as_array().and_then(|tools| tools.last()) {
                    assert!(last.get("cache_control").is_some());
                }
                body.to_string().matches("cache_control").count()
            })
        };
        assert_eq!(borders(0), [0, 2, 3, 4, 4]);
        assert_eq!(borders(2), [2, 3, 4, 4, 4]);
    }

    #[test]
    fn a_step_with_many_calls_has_a_border_within_reach_of_the_step_before() {
        let ids: Vec<String> = (0..15).map(|n| format!("c{n}")).collect();
        let calls = ids
            .iter()
            .map(|id| example_tool_call(id, json!({})))
            .collect();
        let mut messages = vec![
            Message::text(Role::User, "hi"),
            Message::new(Role::Assistant, calls),
        ];
        messages.extend(
            ids.iter()
                .map(|id| Message::from_tool_result(example_tool_result(id, "seen", false))),
        );
        let mut request = example_request(messages);
        request.tools = vec![example_tool_spec()];
        request.system = ["a", "b", "c"]
            .map(|text| SystemPromptBlock::new(text, true))
            .into();
        let body = write_body(&request, &RequestImagesByBlobId::default());
        assert_eq!(
            body.to_string().matches("cache_control").count(),
            MAX_CACHE_BREAKPOINTS
        );
        let blocks = body["messages"].as_array().unwrap().iter();
        let blocks = blocks.flat_map(|message| message["content"].as_array().unwrap());
        let marked: Vec<usize> = blocks
            .enumerate()
            .filter(|(_, block)| block.get("cache_control").is_some())
            .map(|(at, _)| at)
            .collect();
        // The previous step ended with block 0.
        assert_eq!(marked, [CACHE_LOOKBACK_BLOCKS, 30]);
    }

    #[test]
    fn a_prompt_that_hooks_rewrote_whole_still_has_the_tools_and_the_conversation_cached() {
        let mut request = example_request(vec![Message::text(Role::User, "hi")]);
        request.system = vec![SystemPromptBlock::new("rewritten", false)];
        request.tools = vec![example_tool_spec()];
        let body = write_body(&request, &RequestImagesByBlobId::default());
        assert_eq!(body["system"][0].get("cache_control"), None);
        let border = json!({"type": "ephemeral"});
        assert_eq!(body["tools"][0]["cache_control"], border);
        assert_eq!(body["messages"][0]["content"][0]["cache_control"], border);
    }
}
