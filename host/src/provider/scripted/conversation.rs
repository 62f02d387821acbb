//! The wire format of the scripted provider, which `before-provider-request` hooks see and may
//! change.
//!
//! The body is one JSON object:
//!
//! ```json
//! {
//!   "model": "scripted",
//!   "system": ["text of a block", "…"],
//!   "tools": [{"name": "look", "description": "…", "parameters": {}}],
//!   "temperature": 0.5,
//!   "max_tokens": 100,
//!   "messages": [
//!     {"role": "user", "text": "…"},
//!     {"role": "assistant", "thinking": "…", "text": "…",
//!      "tool_calls": [{"id": "…", "name": "look", "arguments": {}}]},
//!     {"role": "tool",
//!      "results": [{"call_id": "…", "name": "look", "content": "…", "is_error": true}]}
//!   ]
//! }
//! ```
//!
//! Empty and unset fields are omitted. The module owns both writing and reading of this format; it
//! must not know scripts. Start from [`ScriptedConversation`].

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::message::{Content, Message, Role, ToolCall, ToolResult};
use crate::provider::Request;

/// Conversation as the scripted provider reads it from a body. Ignores the fields that the provider
/// does not use.
#[derive(Debug, Deserialize)]
pub(super) struct ScriptedConversation {
    #[serde(default)]
    messages: Vec<WireMessage>,
}

#[derive(Debug, Serialize, Deserialize)]
struct WireMessage {
    role: Role,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    thinking: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    text: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<ToolCall>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    results: Vec<ToolResult>,
}

impl From<&Message> for WireMessage {
    fn from(message: &Message) -> Self {
        let thought = message.content.iter().filter_map(|part| match part {
            Content::Thinking { text, .. } => Some(text.as_str()),
            _ => None,
        });
        let thinking: Vec<&str> = thought.collect();
        Self {
            role: message.role,
            thinking: thinking.join("\n"),
            text: message.joined_text(),
            tool_calls: message.tool_calls().cloned().collect(),
            results: message.tool_results().cloned().collect(),
        }
    }
}

pub(super) fn build_scripted_request_body(request: &Request) -> Value {
    let mut body = json!({"model": request.model});
    if !request.system.is_empty() {
        let texts = request.system.iter().map(|block| json!(block.text));
        body["system"] = texts.collect();
    }
    if !request.tools.is_empty() {
        let tools = request.tools.iter().map(|tool| {
            json!({"name": tool.name, "description": tool.description, "parameters": tool.parameters})
        });
        body["tools"] = tools.collect();
    }
    if let Some(temperature) = request.temperature {
        body["temperature"] = json!(temperature);
    }
    if let Some(max_tokens) = request.max_tokens {
        body["max_tokens"] = json!(max_tokens);
    }
    let messages: Vec<WireMessage> = request.messages.iter().map(WireMessage::from).collect();
    body["messages"] = json!(messages);
    body
}

impl ScriptedConversation {
    /// Returns the text of the last user message; empty if there is none.
    pub(super) fn last_user_text(&self) -> &str {
        let mut newest = self.messages.iter().rev();
        let asked = newest.find(|message| message.role == Role::User);
        asked.map_or("", |message| &message.text)
    }

    /// Returns the number of this request since the last user message, from 1.
    pub(super) fn request_number(&self) -> u32 {
        let newest = self.messages.iter().rev();
        let answers = newest
            .take_while(|message| message.role != Role::User)
            .filter(|message| message.role == Role::Assistant);
        u32::try_from(answers.count() + 1).unwrap_or(u32::MAX)
    }

    /// Returns the tool results at the end of the conversation, the last one first.
    pub(super) fn last_tool_results(&self) -> impl Iterator<Item = &ToolResult> {
        self.messages
            .iter()
            .rev()
            .take_while(|message| message.role == Role::Tool)
            .flat_map(|message| message.results.iter().rev())
    }

    /// Returns the number of tool calls in the conversation.
    pub(super) fn n_calls(&self) -> usize {
        let calls = self.messages.iter().flat_map(|m| &m.tool_calls);
        calls.count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::SystemPromptBlock;

    #[test]
    fn a_request_is_written_whole_and_read_back() {
        let call = ToolCall::new("call_1", "look", json!({"at": 1}));
        let result = |name: &str, is_error| {
            Message::from_tool_result(ToolResult::new("call_1", name, "seen", is_error))
        };
        let request = Request {
            model: "scripted".to_owned(),
            system: vec![SystemPromptBlock::new("be brief", true)],
            messages: vec![
                Message::text(Role::User, "old"),
                Message::text(Role::Assistant, "older"),
                Message::text(Role::User, "look!"),
                Message::new(Role::Assistant, vec![Content::ToolCall(call)]),
                result("look", false),
                result("walk", true),
            ],
            max_tokens: Some(9),
            ..Request::default()
        };
        let body = build_scripted_request_body(&request);
        assert_eq!(
            body,
            json!({
                "model": "scripted",
                "system": ["be brief"],
                "max_tokens": 9,
                "messages": [
                    {"role": "user", "text": "old"},
                    {"role": "assistant", "text": "older"},
                    {"role": "user", "text": "look!"},
                    {"role": "assistant", "tool_calls": [{"id": "call_1", "name": "look", "arguments": {"at": 1}}]},
                    {"role": "tool", "results": [{"call_id": "call_1", "name": "look", "content": "seen"}]},
                    {"role": "tool", "results": [
                        {"call_id": "call_1", "name": "walk", "content": "seen", "is_error": true}]},
                ],
            })
        );
        let conversation: ScriptedConversation = serde_json::from_value(body).unwrap();
        assert_eq!(conversation.last_user_text(), "look!");
        assert_eq!(
            (conversation.request_number(), conversation.n_calls()),
            (2, 1)
        );
        let names: Vec<&str> = conversation.last_tool_results().map(|r| &*r.name).collect();
        assert_eq!(names, ["walk", "look"]);
    }
}
