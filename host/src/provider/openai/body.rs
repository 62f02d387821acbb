//! Requests in the chat completions format.
//!
//! Pure; it must not know how answers are read. Start from [`write`].

use serde_json::{Map, Value, json};

use crate::message::{Message, Role, ToolResult};
use crate::provider::Request;
use crate::provider::assemble::sendable_arguments;

/// Name of the parameter for the maximum number of output tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenLimit {
    MaxTokens,
    MaxCompletionTokens,
}

/// The body for `request`.
pub(super) fn write(request: &Request, token_limit: TokenLimit) -> Value {
    let mut body = Map::new();
    body.insert("model".to_owned(), json!(request.model));
    if let Some(max_tokens) = request.max_tokens {
        let name = match token_limit {
            TokenLimit::MaxTokens => "max_tokens",
            TokenLimit::MaxCompletionTokens => "max_completion_tokens",
        };
        body.insert(name.to_owned(), json!(max_tokens));
    }
    if let Some(temperature) = request.temperature {
        body.insert("temperature".to_owned(), json!(temperature));
    }
    body.insert("stream".to_owned(), json!(true));
    body.insert("stream_options".to_owned(), json!({"include_usage": true}));
    if !request.tools.is_empty() {
        let tools = request.tools.iter().map(|tool| {
            json!({"type": "function", "function": {
                "name": tool.name, "description": tool.description, "parameters": tool.parameters,
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
    for message in &request.messages {
        write_message(message, &mut messages);
    }
    body.insert("messages".to_owned(), Value::Array(messages));
    Value::Object(body)
}

fn write_message(message: &Message, written: &mut Vec<Value>) {
    let text = message.joined_text();
    match message.role {
        Role::User => {
            if !text.trim().is_empty() {
                written.push(json!({"role": "user", "content": text}));
            }
        }
        Role::Assistant => written.extend(assistant(message, text)),
        Role::Tool => {
            let results = message.tool_results().map(|result| {
                json!({"role": "tool", "tool_call_id": result.call_id, "content": content(result)})
            });
            written.extend(results);
        }
    }
}

/// Reasoning is left out: the servers that write it refuse to take it back.
fn assistant(message: &Message, text: String) -> Option<Value> {
    let calls: Vec<Value> = message
        .tool_calls()
        .map(|call| {
            json!({"id": call.id, "type": "function", "function": {
                "name": call.name,
                "arguments": sendable_arguments(&call.arguments).to_string(),
            }})
        })
        .collect();
    if calls.is_empty() {
        return (!text.is_empty()).then(|| json!({"role": "assistant", "content": text}));
    }
    let content = if text.is_empty() {
        Value::Null
    } else {
        Value::String(text)
    };
    Some(json!({"role": "assistant", "content": content, "tool_calls": calls}))
}

/// The format has no flag for failure, so the text must say it.
fn content(result: &ToolResult) -> String {
    let says_so = result
        .content
        .get(..5)
        .is_some_and(|start| start.eq_ignore_ascii_case("error"));
    if result.is_error && !says_so {
        return format!("error: {}", result.content);
    }
    result.content.clone()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Content, EffectClass, ToolCall, ToolSpec};
    use crate::provider::SystemBlock;

    fn result(call_id: &str, text: &str, is_error: bool) -> Content {
        Content::ToolResult(ToolResult {
            call_id: call_id.to_owned(),
            name: "look".to_owned(),
            content: text.to_owned(),
            is_error,
        })
    }

    fn call(id: &str, arguments: Value) -> Content {
        Content::ToolCall(ToolCall {
            id: id.to_owned(),
            name: "look".to_owned(),
            arguments,
        })
    }

    #[test]
    fn a_request_is_written_whole() {
        let thinking = Content::Thinking {
            text: "hm".to_owned(),
            signature: None,
        };
        let request = Request {
            model: "m".to_owned(),
            system: vec![
                SystemBlock {
                    text: "stable".to_owned(),
                    is_cached: true,
                },
                SystemBlock {
                    text: "volatile".to_owned(),
                    is_cached: false,
                },
            ],
            messages: vec![
                Message::text(Role::User, "hi"),
                Message::new(
                    Role::Assistant,
                    vec![
                        thinking,
                        call("a", json!({"at": 1})),
                        call("b", json!("{bad")),
                    ],
                ),
                Message::new(
                    Role::Tool,
                    vec![result("a", "seen", false), result("b", "not JSON", true)],
                ),
                Message::new(Role::Tool, vec![result("c", "Error: gone", true)]),
                Message::text(Role::Assistant, "done"),
                Message::text(Role::Assistant, ""),
            ],
            tools: vec![ToolSpec {
                name: "look".to_owned(),
                description: "Looks.".to_owned(),
                parameters: json!({"type": "object"}),
                effect_class: EffectClass::Read,
                plugin: None,
            }],
            temperature: Some(0.5),
            max_tokens: Some(10),
        };
        let expected = json!({
            "model": "m",
            "max_tokens": 10,
            "temperature": 0.5,
            "stream": true,
            "stream_options": {"include_usage": true},
            "tools": [{"type": "function", "function": {
                "name": "look", "description": "Looks.", "parameters": {"type": "object"}}}],
            "messages": [
                {"role": "system", "content": "stable\n\nvolatile"},
                {"role": "user", "content": "hi"},
                {"role": "assistant", "content": null, "tool_calls": [
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
        assert_eq!(write(&request, TokenLimit::MaxTokens), expected);
        let body = write(&request, TokenLimit::MaxCompletionTokens);
        assert_eq!(body["max_completion_tokens"], 10);
        assert_eq!(body.get("max_tokens"), None);
    }
}
