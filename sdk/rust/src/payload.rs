//! Reads payloads of hooks, such as the text of a message and the arguments of a call, and builds
//! answers of tools.

use crate::types::{
    Answer, AnswerPart, Blob, Bytes, Content, Error, Message, Part, ToolCall, ToolResult, Usage,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;

impl Message {
    /// Returns the text parts of the message, joined with line breaks. Reasoning, calls and results
    /// are omitted.
    #[must_use]
    pub fn text(&self) -> String {
        let texts = self.content.iter().filter_map(|part| match part {
            Content::Text(text) => Some(text.as_str()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }

    /// Iterates over the blobs of the message and of its tool results.
    pub fn blobs(&self) -> impl Iterator<Item = &Blob> {
        self.content.iter().flat_map(|content| {
            let (own, parts) = match content {
                Content::Blob(blob) => (Some(blob), &[][..]),
                Content::ToolResult(result) => (None, &result.parts[..]),
                _ => (None, &[][..]),
            };
            own.into_iter()
                .chain(parts.iter().filter_map(Part::as_blob))
        })
    }

    /// Iterates over the tool calls in the message.
    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.content.iter().filter_map(|part| match part {
            Content::ToolCall(call) => Some(call),
            _ => None,
        })
    }

    /// Iterates over the tool results in the message.
    pub fn tool_results(&self) -> impl Iterator<Item = &ToolResult> {
        self.content.iter().filter_map(|part| match part {
            Content::ToolResult(result) => Some(result),
            _ => None,
        })
    }
}

impl ToolResult {
    /// Returns the result as one text: JSON as it was written, a blob as its type and size.
    #[must_use]
    pub fn text(&self) -> String {
        text_of(&self.parts)
    }
}

/// Formats the parts of a result as one text: JSON as it was written, a blob as its type and size.
#[must_use]
pub fn text_of(parts: &[Part]) -> String {
    let texts: Vec<String> = parts.iter().map(ToString::to_string).collect();
    texts.join("\n")
}

impl Part {
    /// Returns the blob, if the part is one.
    #[must_use]
    pub fn as_blob(&self) -> Option<&Blob> {
        match self {
            Self::Blob(blob) => Some(blob),
            Self::Text(_) | Self::Json(_) => None,
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) | Self::Json(text) => f.write_str(text),
            Self::Blob(blob) => write!(f, "[{}, {} bytes]", blob.media_type, blob.size),
        }
    }
}

impl Answer {
    /// Creates an answer with one text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::of(AnswerPart::Text(text.into()))
    }

    /// Creates an answer with one value, which the model reads as JSON.
    ///
    /// # Errors
    /// The value cannot be written as JSON.
    pub fn json<T: Serialize + ?Sized>(value: &T) -> Result<Self, Error> {
        Ok(Self::of(AnswerPart::Json(serde_json::to_string(value)?)))
    }

    /// Creates an answer with bytes, such as an image.
    #[must_use]
    pub fn bytes(media_type: impl Into<String>, content: Vec<u8>) -> Self {
        Self::of(AnswerPart::Bytes(Bytes {
            media_type: media_type.into(),
            content,
        }))
    }

    /// Returns the texts and JSON of the answer, joined with line breaks. Useful for assertions in
    /// a tool's tests.
    #[must_use]
    pub fn words(&self) -> String {
        let texts = self.parts.iter().filter_map(|part| match part {
            AnswerPart::Text(text) | AnswerPart::Json(text) => Some(text.as_str()),
            AnswerPart::Bytes(_) => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }

    /// Appends the parts of another answer. The combined answer is an error if one of the two is.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.parts.extend(other.parts);
        self.is_error |= other.is_error;
        self
    }

    /// Marks the call as failed.
    #[must_use]
    pub fn failed(mut self) -> Self {
        self.is_error = true;
        self
    }

    fn of(part: AnswerPart) -> Self {
        Self {
            parts: vec![part],
            is_error: false,
        }
    }
}

impl ToolCall {
    /// Parses the arguments as a type of the plugin, or as [`serde_json::Value`].
    ///
    /// # Errors
    /// The arguments do not fit the type.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, Error> {
        serde_json::from_str(&self.arguments)
            .map_err(|error| Error::InvalidInput(format!("arguments of {}: {error}", self.name)))
    }
}

impl Default for Usage {
    /// Returns a usage of zero tokens.
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
    /// Returns the sum of input and output tokens.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }
}
