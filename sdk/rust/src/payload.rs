//! Reading what hooks are given: the text of a message, the arguments of a call.

use crate::types::{Content, Error, Message, ToolCall, ToolResult, Usage};
use serde::de::DeserializeOwned;

impl Message {
    /// The message's text parts, joined with line breaks. Reasoning and tool parts are left out.
    #[must_use]
    pub fn text(&self) -> String {
        let texts = self.content.iter().filter_map(|part| match part {
            Content::Text(text) => Some(text.as_str()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }

    /// The tool calls in the message.
    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.content.iter().filter_map(|part| match part {
            Content::ToolCall(call) => Some(call),
            _ => None,
        })
    }

    /// The tool results in the message.
    pub fn tool_results(&self) -> impl Iterator<Item = &ToolResult> {
        self.content.iter().filter_map(|part| match part {
            Content::ToolResult(result) => Some(result),
            _ => None,
        })
    }
}

impl ToolCall {
    /// The arguments as a type of the plugin's own, or as [`serde_json::Value`].
    ///
    /// # Errors
    /// When they do not fit the type.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, Error> {
        serde_json::from_str(&self.arguments)
            .map_err(|error| Error::InvalidInput(format!("arguments of {}: {error}", self.name)))
    }
}

impl Default for Usage {
    /// Returns zero usage.
    fn default() -> Self {
        Self {
            input_tokens: 0,
            output_tokens: 0,
            cache_read_tokens: 0,
            cache_write_tokens: 0,
            estimated: false,
        }
    }
}

impl Usage {
    /// Input and output tokens together.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }
}
