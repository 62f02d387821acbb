//! Requests in the chat completions format.
//!
//! Owns the constraints of the many servers of this format on a conversation: text-only tool
//! messages that directly follow each other, and content as a plain string wherever possible. The
//! module sends nothing and must not know how answers are read. Start from [`write_body`].

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use crate::message::{Blob, Content, Message, Part, Role, ToolCall, ToolResult};
use crate::provider::assemble::arguments_as_object;
use crate::provider::images::encode_base64;
use crate::provider::output::OUTPUT_SCHEMA_NAME;
use crate::provider::schema::{self, JsonSchemaSubset};
use crate::provider::{Request, RequestImagesByBlobId};

pub(super) fn write_body(request: &Request, images: &RequestImagesByBlobId) -> Value {
    let mut body = Map::new();
    body.insert("model".to_owned(), json!(request.model));
    if let Some(max_tokens) = request.max_tokens {
        body.insert("max_tokens".to_owned(), json!(max_tokens));
    }
    if let Some(temperature) = request.temperature {
        body.insert("temperature".to_owned(), json!(temperature));
    }
    body.insert("stream".to_owned(), json!(true));
    body.insert("stream_options".to_owned(), json!({"include_usage": true}));
    if let Some(output) = request.output_format_unless_tools() {
        body.insert("response_format".to_owned(), json!({"type": "json_schema", "json_schema": {
            "name": OUTPUT_SCHEMA_NAME, "schema": *output.schema, "strict": schema::is_strict_schema(&output.schema),
        }}));
    }
    if !request.tools.is_empty() && !request.is_answer_reformat_request() {
        let tools = request.tools.iter().map(|tool| {
            json!({"type": "function", "function": {
                "name": tool.name, "description": tool.description, "parameters": schema::reduce_schema(&tool.parameters, JsonSchemaSubset::Common),
            }})
        });
        body.insert("tools".to_owned(), tools.collect());
    }
    let system: Vec<&str> = request
        .system
        .iter()
        .map(|block| block.text.as_str())
        .filter(|text| !text.trim().is_empty())
        .collect();
    let mut messages = Vec::new();
    if !system.is_empty() {
        messages.push(json!({"role": "system", "content": system.join("\n\n")}));
    }
    // A tool message can contain only text, and the tool messages of one answer must be adjacent,
    // so images are sent after them.
    let mut behind = Vec::new();
    for message in &request.messages {
        if message.role != Role::Tool {
            write_pending_image_parts(&mut behind, &mut messages);
        }
        write_message(message, images, &mut messages, &mut behind);
    }
    write_pending_image_parts(&mut behind, &mut messages);
    body.insert("messages".to_owned(), Value::Array(messages));
    Value::Object(body)
}

fn write_pending_image_parts(behind: &mut Vec<Value>, written: &mut Vec<Value>) {
    if !behind.is_empty() {
        written.push(json!({"role": "user", "content": std::mem::take(behind)}));
    }
}

fn write_message(
    message: &Message,
    images: &RequestImagesByBlobId,
    written: &mut Vec<Value>,
    behind: &mut Vec<Value>,
) {
    match message.role {
        Role::User => written.extend(user_message(message, images)),
        Role::Assistant => written.extend(assistant_message(message)),
        Role::Tool => {
            for result in message.tool_results() {
                written.push(json!({
                    "role": "tool", "tool_call_id": result.call_id, "content": tool_result_text(result, images),
                }));
                for blob in result.content.blobs() {
                    if let Ok(image) = image_part(blob, images) {
                        let said = format!(
                            "{blob} of the result of {} ({})",
                            result.name, result.call_id
                        );
                        behind.extend([text_part(&said), image]);
                    }
                }
            }
        }
    }
}

fn text_part(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// Writes a part with an image. Returns `Err` with the placeholder text if the image is not sent.
fn image_part(blob: &Blob, images: &RequestImagesByBlobId) -> Result<Value, String> {
    let data = encode_base64(images.get(blob)?);
    let url = format!("data:{};base64,{data}", blob.media_type);
    Ok(json!({"type": "image_url", "image_url": {"url": url}}))
}

/// Writes a user message: a list of parts if there is an image, otherwise one text, because not
/// every server accepts lists.
fn user_message(message: &Message, images: &RequestImagesByBlobId) -> Option<Value> {
    let blobs = message.content.iter().filter_map(|part| match part {
        Content::Blob(blob) => Some(image_part(blob, images)),
        _ => None,
    });
    let blobs: Vec<Result<Value, String>> = blobs.collect();
    let said = message.joined_text();
    let lines = blobs
        .iter()
        .filter_map(|image| image.as_ref().err().cloned());
    let said: Vec<String> = std::iter::once(said)
        .chain(lines)
        .filter(|text| !text.trim().is_empty())
        .collect();
    let said = said.join("\n");
    let mut parts: Vec<Value> = blobs.into_iter().flatten().collect();
    if parts.is_empty() {
        return (!said.is_empty()).then(|| json!({"role": "user", "content": said}));
    }
    if !said.is_empty() {
        parts.insert(0, text_part(&said));
    }
    Some(json!({"role": "user", "content": parts}))
}

/// Writes an assistant message. If it has calls, its reasoning and the opaque data of the server
/// are sent back: DeepSeek and Kimi in thinking mode, Gemini and OpenRouter refuse the results of
/// calls without them. Other messages are sent as text only, because some servers refuse reasoning
/// where it is not needed.
fn assistant_message(message: &Message) -> Option<Value> {
    let text = message.joined_text();
    let calls: Vec<Value> = message.tool_calls().map(call_to_json).collect();
    if calls.is_empty() {
        return (!text.is_empty()).then(|| json!({"role": "assistant", "content": text}));
    }
    let mut fields = Map::new();
    fields.insert("role".to_owned(), json!("assistant"));
    // Omit an empty `content`: some servers refuse null, others refuse an empty string.
    if !text.is_empty() {
        fields.insert("content".to_owned(), json!(text));
    }
    for part in &message.content {
        if let Content::Thinking {
            text,
            extra: Some(Value::String(field)),
            ..
        } = part
            && let Value::String(written) = fields.entry(field).or_insert_with(|| json!(""))
        {
            written.push_str(text);
        }
    }
    add_server_provided_fields(&mut fields, message.extra.as_ref());
    fields.insert("tool_calls".to_owned(), Value::Array(calls));
    Some(Value::Object(fields))
}

fn call_to_json(call: &ToolCall) -> Value {
    let arguments = arguments_as_object(&call.arguments).to_string();
    let mut fields = Map::new();
    fields.insert("id".to_owned(), json!(call.id));
    fields.insert("type".to_owned(), json!("function"));
    let function = json!({"name": call.name, "arguments": arguments});
    fields.insert("function".to_owned(), function);
    add_server_provided_fields(&mut fields, call.extra.as_ref());
    Value::Object(fields)
}

/// Adds the opaque data that the server sent with a message or call to its fields, without
/// replacing existing fields.
fn add_server_provided_fields(fields: &mut Map<String, Value>, extra: Option<&Value>) {
    for (name, value) in extra.and_then(Value::as_object).into_iter().flatten() {
        fields.entry(name).or_insert_with(|| value.clone());
    }
}

/// Returns the text of a tool result. The format has no error flag, so the text of a failed call
/// begins by saying that the call failed.
fn tool_result_text(result: &ToolResult, images: &RequestImagesByBlobId) -> String {
    let parts = result.content.iter().map(|part| match part {
        Part::Text { text } => Cow::Borrowed(text.as_str()),
        Part::Json { value } => Cow::Owned(value.to_string()),
        Part::Blob(blob) => Cow::Owned(
            images
                .get(blob)
                .map_or_else(|line| line, |_| blob.to_string()),
        ),
    });
    let text = parts.collect::<Vec<Cow<'_, str>>>().join("\n");
    let says_so = text
        .get(..5)
        .is_some_and(|start| start.eq_ignore_ascii_case("error"));
    if result.is_error && !says_so {
        return format!("error: {text}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::SystemPromptBlock;
    use crate::provider::sample::{
        example_json_part, example_request, example_request_images, example_tool_call,
        example_tool_result, example_tool_spec, gif_blob, pdf_blob,
    };

    #[test]
    fn images_follow_all_results_of_an_answer_and_stand_in_messages_of_the_user() {
        let (pdf, line) = pdf_blob();
        let [image, other] = [gif_blob(), pdf.clone()].map(Content::Blob);
        let calls = vec![
            example_tool_call("a", json!({})),
            example_tool_call("b", json!({})),
        ];
        let request = example_request(vec![
            Message::new(Role::User, vec![Content::from_text("hi"), image, other]),
            Message::new(Role::Assistant, calls),
            Message::from_tool_result(example_tool_result(
                "a",
                vec![Part::Blob(gif_blob()), example_json_part()],
                false,
            )),
            Message::from_tool_result(example_tool_result("b", vec![Part::Blob(pdf)], false)),
            Message::text(Role::User, "and?"),
        ]);
        let body = write_body(&request, &example_request_images(&request));
        let written = body["messages"].as_array().unwrap();
        let image =
            json!({"type": "image_url", "image_url": {"url": "data:image/gif;base64,R0lG"}});
        let asked = text_part(&format!("hi\n{line}"));
        assert_eq!(
            written[0],
            json!({"role": "user", "content": [asked, image]})
        );
        assert_eq!(
            json!(written[2..]),
            json!([
                {"role": "tool", "tool_call_id": "a", "content": "[image/gif, 10 B]\n{\"a\":1}"},
                {"role": "tool", "tool_call_id": "b", "content": line},
                {"role": "user", "content": [text_part("[image/gif, 10 B] of the result of look (a)"), image]},
                {"role": "user", "content": "and?"},
            ])
        );
    }

    #[test]
    fn a_message_with_calls_goes_back_with_what_the_server_put_beside_it() {
        let thought = |text: &str| Content::Thinking {
            text: text.to_owned(),
            signature: None,
            extra: Some(json!("reasoning_content")),
        };
        let mut made = ToolCall::new("a", "look", json!({}));
        made.extra =
            Some(json!({"extra_content": {"google": {"thought_signature": "s"}}, "id": "other"}));
        let content = vec![
            thought("I should"),
            thought(" look"),
            Content::ToolCall(made),
        ];
        let mut message = Message::new(Role::Assistant, content);
        message.extra = Some(json!({"reasoning_details": [1], "role": "other"}));
        let expected = json!({
            "role": "assistant", "reasoning_content": "I should look", "reasoning_details": [1],
            "tool_calls": [{"id": "a", "type": "function", "function": {"name": "look", "arguments": "{}"},
                "extra_content": {"google": {"thought_signature": "s"}}}],
        });
        assert_eq!(assistant_message(&message), Some(expected));
        message.content = vec![thought("hm"), Content::from_text("done")];
        let expected = json!({"role": "assistant", "content": "done"});
        assert_eq!(assistant_message(&message), Some(expected));
    }

    #[test]
    fn a_request_is_written_whole() {
        let thinking = Content::from_thinking("hm");
        let calls = [
            example_tool_call("a", json!({"at": 1})),
            example_tool_call("b", json!("{bad")),
        ];
        let failed = [
            example_tool_result("b", "not JSON", true),
            example_tool_result("c", "Error: gone", true),
        ];
        let [b, c] = failed.map(Content::ToolResult);
        let a = Content::ToolResult(example_tool_result("a", "seen", false));
        let request = Request {
            system: vec![
                SystemPromptBlock::new("stable", true),
                SystemPromptBlock::new("volatile", false),
            ],
            tools: vec![example_tool_spec()],
            temperature: Some(0.5),
            max_tokens: Some(10),
            ..example_request(vec![
                Message::text(Role::User, "hi"),
                Message::new(Role::Assistant, [vec![thinking], calls.into()].concat()),
                Message::new(Role::Tool, vec![a, b]),
                Message::new(Role::Tool, vec![c]),
                Message::text(Role::Assistant, "done"),
                Message::text(Role::Assistant, ""),
            ])
        };
        let body = write_body(&request, &RequestImagesByBlobId::default());
        let expected = json!({
            "model": "m",
            "max_tokens": 10,
            "temperature": 0.5,
            "stream": true,
            "stream_options": {"include_usage": true},
            "tools": [{"type": "function", "function": {
                "name": "look", "description": "Looks.", "parameters": {"type": "object", "properties": {}}}}],
            "messages": [
                {"role": "system", "content": "stable\n\nvolatile"},
                {"role": "user", "content": "hi"},
                {"role": "assistant", "tool_calls": [
                    {"id": "a", "type": "function", "function": {"name": "look", "arguments": "{\"at\":1}"}},
                    {"id": "b", "type": "function", "function": {
                        "name": "look", "arguments": "{\"invalid_arguments\":\"{bad\"}"}},
                ]},
                {"role": "tool", "tool_call_id": "a", "content": "seen"},
                {"role": "tool", "tool_call_id": "b", "content": "error: not JSON"},
                {"role": "tool", "tool_call_id": "c", "content": "Error: gone"},
                {"role": "assistant", "content": "done"},
            ],
        });
        assert_eq!(body, expected);
    }
}
