//! Requests in the `generateContent` format.
//!
//! Owns the constraints of the API on a conversation: all results of one answer in one content, no
//! empty parts, and each signature on the part with which it arrived. Pure; it must not know how
//! answers are read, except for the parts that [`super::stream`] stores in a message to send them
//! back. Start from [`write_body`].

use serde_json::{Map, Value, json};

use super::model;
use crate::message::{Blob, Content, Message, Part, Role, ToolResult, ToolSpec};
use crate::provider::assemble::arguments_as_object;
use crate::provider::images::encode_base64;
use crate::provider::schema::{self, JsonSchemaSubset};
use crate::provider::{Request, RequestImagesByBlobId};

/// Placeholder thought signature for a call without a signature, such as one that another API's
/// model made. Gemini 3 and later refuse a request with an unsigned call. Google documents this
/// value for histories of other models
/// (<https://ai.google.dev/gemini-api/docs/thought-signatures>, FAQ).
const THOUGHT_SIGNATURE_PLACEHOLDER: &str = "skip_thought_signature_validator";

pub(super) fn write_body(request: &Request, images: &RequestImagesByBlobId) -> Value {
    let mut body = Map::new();
    let mut put = |name: &str, value: Value| body.insert(name.to_owned(), value);
    // The name of the model becomes a part of the URL's path when the body is sent. Until then it
    // is in the body, so that hooks can see and change it, as in every other wire format.
    put("model", json!(request.model));
    let system: Vec<Value> = request
        .system
        .iter()
        .filter(|block| !block.text.trim().is_empty())
        .map(|block| json!({"text": block.text}))
        .collect();
    if !system.is_empty() {
        put("systemInstruction", json!({"parts": system}));
    }
    if !request.tools.is_empty() && !request.is_answer_reformat_request() {
        let declarations: Vec<Value> = request.tools.iter().map(write_tool_declaration).collect();
        put("tools", json!([{"functionDeclarations": declarations}]));
    }
    let mut config = Map::new();
    if let Some(max_tokens) = request.max_tokens {
        config.insert("maxOutputTokens".to_owned(), json!(max_tokens));
    }
    if let Some(temperature) = request.temperature {
        config.insert("temperature".to_owned(), json!(temperature));
    }
    if model::model_accepts_include_thoughts(&request.model) {
        let thinking = json!({"includeThoughts": true});
        config.insert("thinkingConfig".to_owned(), thinking);
    }
    if let Some(output) = request.output_format_unless_tools() {
        config.insert("responseMimeType".to_owned(), json!("application/json"));
        config.insert("responseJsonSchema".to_owned(), json!(*output.schema));
    }
    if !config.is_empty() {
        put("generationConfig", Value::Object(config));
    }
    let contents = write_contents(request, images)
        .into_iter()
        .map(|(role, parts)| json!({"role": role, "parts": parts}));
    put("contents", contents.collect());
    Value::Object(body)
}

/// Writes the declaration of a tool. The API refuses `parameters` without properties, so the
/// declaration of a tool without arguments omits `parameters`.
fn write_tool_declaration(tool: &ToolSpec) -> Value {
    let mut declaration = json!({"name": tool.name, "description": tool.description});
    let parameters = schema::reduce_schema(&tool.parameters, JsonSchemaSubset::Gemini);
    if parameters.get("properties").is_some() {
        declaration["parameters"] = parameters;
    }
    declaration
}

/// Writes the conversation as (role, parts). Adjacent messages of one role are merged: all results
/// of an answer must be in one content.
fn write_contents(
    request: &Request,
    images: &RequestImagesByBlobId,
) -> Vec<(&'static str, Vec<Value>)> {
    let is_strict = model::requires_thought_signatures(&request.model);
    let mut written: Vec<(&'static str, Vec<Value>)> = Vec::new();
    for message in &request.messages {
        let (role, parts) = match message.role {
            Role::Assistant => ("model", assistant_message_parts(message, is_strict)),
            Role::User | Role::Tool => ("user", user_parts(message, images)),
        };
        match written.last_mut() {
            _ if parts.is_empty() => {}
            Some((last, before)) if *last == role => before.extend(parts),
            _ => written.push((role, parts)),
        }
    }
    for (_, parts) in written.iter_mut().filter(|(role, _)| *role == "user") {
        // The sort is stable: results move to the front, other parts keep their order.
        parts.sort_by_key(|part| part.get("functionResponse").is_none());
    }
    written
}

fn text_part(text: &str) -> Value {
    json!({"text": text})
}

/// Writes a part with an image, or with the placeholder text if the image is not sent.
fn image_part(blob: &Blob, images: &RequestImagesByBlobId) -> Value {
    match images.get(blob) {
        Ok(bytes) => {
            json!({"inlineData": {"mimeType": blob.media_type, "data": encode_base64(bytes)}})
        }
        Err(line) => text_part(&line),
    }
}

fn user_parts(message: &Message, images: &RequestImagesByBlobId) -> Vec<Value> {
    let mut parts = Vec::new();
    for part in &message.content {
        match part {
            Content::Text { text: said } if !said.trim().is_empty() => parts.push(text_part(said)),
            Content::Blob(blob) => parts.push(image_part(blob, images)),
            Content::ToolResult(result) => parts.extend(tool_response_parts(result, images)),
            _ => {}
        }
    }
    parts
}

/// Writes the parts of an answer in their original order, each with its signature.
fn assistant_message_parts(message: &Message, is_strict: bool) -> Vec<Value> {
    let mut parts = Vec::new();
    let mut of_text: Option<&Value> = None;
    let mut is_first_call = true;
    for part in &message.content {
        match part {
            Content::Text { text: said } => {
                let signature = of_text.take();
                if signature.is_some() || !said.trim().is_empty() {
                    let mut part = text_part(said);
                    if let Some(signature) = signature {
                        part["thoughtSignature"] = signature.clone();
                    }
                    parts.push(part);
                }
            }
            Content::Thinking {
                extra: Some(extra), ..
            } => match extra.as_object() {
                // An opaque part with nothing but a signature: the signature belongs to the text
                // after it.
                Some(fields) if fields.len() == 1 => of_text = fields.get("thoughtSignature"),
                Some(_) => parts.push(extra.clone()),
                None => {}
            },
            Content::ToolCall(call) => {
                let args = arguments_as_object(&call.arguments);
                let mut part =
                    json!({"functionCall": {"id": call.id, "name": call.name, "args": args}});
                let signature = call
                    .extra
                    .as_ref()
                    .and_then(|extra| extra.get("thoughtSignature"));
                // Gemini signs only the first of several parallel calls.
                match signature {
                    Some(signature) => part["thoughtSignature"] = signature.clone(),
                    None if is_strict && is_first_call => {
                        part["thoughtSignature"] = json!(THOUGHT_SIGNATURE_PLACEHOLDER)
                    }
                    None => {}
                }
                is_first_call = false;
                parts.push(part);
            }
            Content::Blob(blob) => parts.push(text_part(&blob.to_string())),
            // Omit a thought summary without a signature: it is only meant for display.
            Content::Thinking { extra: None, .. } | Content::ToolResult(_) => {}
        }
    }
    parts
}

/// Writes the part of a tool result, followed by the parts of its images: older models refuse
/// images inside a result.
fn tool_response_parts(result: &ToolResult, images: &RequestImagesByBlobId) -> Vec<Value> {
    let mut behind = Vec::new();
    let mut texts = Vec::new();
    for part in result.content.iter() {
        match part {
            Part::Text { text } => texts.push(text.clone()),
            Part::Json { value } => texts.push(value.to_string()),
            Part::Blob(blob) if images.get(blob).is_ok() => {
                texts.push(blob.to_string());
                let from = format!(
                    "{blob} of the result of {} ({})",
                    result.name, result.call_id
                );
                behind.extend([text_part(&from), image_part(blob, images)]);
            }
            Part::Blob(blob) => texts.extend(images.get(blob).err()),
        }
    }
    let name = if result.is_error { "error" } else { "output" };
    let response = json!({"functionResponse": {
        "id": result.call_id, "name": result.name, "response": {name: texts.join("\n")},
    }});
    behind.insert(0, response);
    behind
}
