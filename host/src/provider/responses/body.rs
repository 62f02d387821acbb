//! Requests in the Responses format.
//!
//! The conversation is a flat list of items in order: messages, calls, outputs of calls, and
//! reasoning. Pure; it must not know how answers are read, except for the items that
//! [`super::stream`] stores in a message to send them back. Start from [`write_body`].

use serde_json::{Map, Value, json};

use crate::message::{Blob, Content, Message, Part, Role, ToolResult};
use crate::provider::assemble::arguments_as_object;
use crate::provider::images::encode_base64;
use crate::provider::output::OUTPUT_SCHEMA_NAME;
use crate::provider::schema::{self, JsonSchemaSubset};
use crate::provider::{Request, RequestImagesByBlobId};

/// Name prefixes of models without reasoning. OpenAI refuses a request for encrypted reasoning from
/// them ("Encrypted content is not supported with this model").
const NON_REASONING_MODEL_PREFIXES: [&str; 4] = ["gpt-3.5", "gpt-4", "chatgpt-4", "gpt-5-chat"];

pub(super) fn write_body(request: &Request, images: &RequestImagesByBlobId) -> Value {
    let mut body = Map::new();
    let mut put = |name: &str, value: Value| body.insert(name.to_owned(), value);
    put("model", json!(request.model));
    if let Some(max_tokens) = request.max_tokens {
        put("max_output_tokens", json!(max_tokens));
    }
    if let Some(temperature) = request.temperature {
        put("temperature", json!(temperature));
    }
    put("stream", json!(true));
    put("store", json!(false));
    let name = request.model.rsplit('/').next().unwrap_or_default();
    if !NON_REASONING_MODEL_PREFIXES
        .iter()
        .any(|start| name.starts_with(start))
    {
        put("include", json!(["reasoning.encrypted_content"]));
    }
    let system: Vec<&str> = request
        .system
        .iter()
        .map(|block| block.text.as_str())
        .filter(|text| !text.trim().is_empty())
        .collect();
    if !system.is_empty() {
        put("instructions", json!(system.join("\n\n")));
    }
    if let Some(output) = &request.output {
        let strict = schema::is_strict_schema(&output.schema);
        put(
            "text",
            json!({"format": {
                "type": "json_schema", "name": OUTPUT_SCHEMA_NAME, "schema": *output.schema, "strict": strict,
            }}),
        );
    }
    if !request.tools.is_empty() {
        if request.is_answer_reformat_request() {
            put("tool_choice", json!("none"));
        }
        let tools = request.tools.iter().map(|tool| {
            // If `strict` is missing, this API makes every property required.
            json!({
                "type": "function", "name": tool.name, "description": tool.description, "strict": false,
                "parameters": schema::reduce_schema(&tool.parameters, JsonSchemaSubset::Common),
            })
        });
        put("tools", tools.collect());
    }
    let mut input = Vec::new();
    for message in &request.messages {
        match message.role {
            Role::User => input.extend(user_message(message, images)),
            Role::Assistant => push_assistant_items(message, &mut input),
            Role::Tool => input.extend(
                message
                    .tool_results()
                    .map(|one| tool_result_item(one, images)),
            ),
        }
    }
    put("input", Value::Array(input));
    Value::Object(body)
}

fn text_part(text: &str) -> Value {
    json!({"type": "input_text", "text": text})
}

/// Writes a part with an image, or with the placeholder text if the image is not sent.
fn image_part(blob: &Blob, images: &RequestImagesByBlobId) -> Value {
    match images.get(blob) {
        Ok(bytes) => {
            let url = format!("data:{};base64,{}", blob.media_type, encode_base64(bytes));
            // The documentation requires `detail`, and vLLM enforces it.
            json!({"type": "input_image", "image_url": url, "detail": "auto"})
        }
        Err(line) => text_part(&line),
    }
}

fn user_message(message: &Message, images: &RequestImagesByBlobId) -> Option<Value> {
    let parts = message.content.iter().filter_map(|part| match part {
        Content::Text { text: said } if !said.trim().is_empty() => Some(text_part(said)),
        Content::Blob(blob) => Some(image_part(blob, images)),
        _ => None,
    });
    let parts: Vec<Value> = parts.collect();
    (!parts.is_empty()).then(|| json!({"role": "user", "content": parts}))
}

/// Converts an assistant message to items of the request in their original order, and appends them
/// to `input`.
fn push_assistant_items(message: &Message, input: &mut Vec<Value>) {
    let mut phase = None;
    for part in &message.content {
        match part {
            Content::Text { text } if text.trim().is_empty() => {}
            Content::Text { text } => {
                let mut item = json!({"role": "assistant", "content": text});
                if let Some(phase) = phase.take() {
                    item["phase"] = phase;
                }
                input.push(item);
            }
            Content::Thinking {
                extra: Some(extra), ..
            } => match extra.get("phase") {
                Some(of_text) if extra.get("type").is_none() => phase = Some(of_text.clone()),
                _ => input.extend(to_input_item(extra)),
            },
            Content::ToolCall(call) => input.push(json!({
                "type": "function_call", "call_id": call.id, "name": call.name,
                "arguments": arguments_as_object(&call.arguments).to_string(),
            })),
            Content::Blob(blob) => {
                input.push(json!({"role": "assistant", "content": blob.to_string()}));
            }
            // This reasoning was written by another server, or the server sent no item for it that
            // could be sent back.
            Content::Thinking { extra: None, .. } | Content::ToolResult(_) => {}
        }
    }
}

/// Converts an output item of an earlier answer to an input item: removes the fields that the API
/// refuses as input. `None` if nothing useful remains.
fn to_input_item(item: &Value) -> Option<Value> {
    let mut item = item.as_object()?.clone();
    item.get("type")?;
    let is_reasoning = item.get("type").is_some_and(|kind| kind == "reasoning");
    // The API refuses the status of reasoning ("Unknown parameter: 'input[1].status'") but requires
    // the status of server-side tools.
    if is_reasoning {
        item.remove("status");
    }
    item.retain(|_, value| !value.is_null());
    let has = |name: &str| {
        item.get(name).is_some_and(|value| match value {
            Value::String(text) => !text.is_empty(),
            Value::Array(items) => !items.is_empty(),
            _ => false,
        })
    };
    // Reasoning that is neither stored nor encrypted is only an id, and the server would fail to
    // look it up. Servers without encryption send the text itself as `content`.
    if is_reasoning && !has("encrypted_content") {
        if !has("content") {
            return None;
        }
        item.remove("encrypted_content");
    }
    Some(Value::Object(item))
}

/// Writes the item with the output of a call. The format has no error flag, so the text of a failed
/// call begins by saying that the call failed.
fn tool_result_item(result: &ToolResult, images: &RequestImagesByBlobId) -> Value {
    let is_shown = |blob: &Blob| images.get(blob).is_ok();
    let parts = result.content.iter().map(|part| match part {
        Part::Text { text: said } => text_part(said),
        Part::Json { value } => text_part(&value.to_string()),
        Part::Blob(blob) => image_part(blob, images),
    });
    let mut parts: Vec<Value> = parts.collect();
    let first = parts.first().and_then(|part| part["text"].as_str());
    let says_so = first
        .and_then(|text| text.get(..5))
        .is_some_and(|start| start.eq_ignore_ascii_case("error"));
    if result.is_error && !says_so {
        let said = format!("error: {}", first.unwrap_or_default());
        match parts
            .first_mut()
            .filter(|part| part["type"] == "input_text")
        {
            Some(first) => *first = text_part(&said),
            None => parts.insert(0, text_part(&said)),
        }
    }
    // Use a list only if there is an image: not every server with this format accepts lists.
    let output = if result.content.blobs().any(is_shown) {
        parts.retain(|part| part["text"].as_str().is_none_or(|text| !text.is_empty()));
        Value::Array(parts)
    } else {
        let texts = parts.iter().filter_map(|part| part["text"].as_str());
        Value::String(texts.collect::<Vec<_>>().join("\n"))
    };
    json!({"type": "function_call_output", "call_id": result.call_id, "output": output})
}
