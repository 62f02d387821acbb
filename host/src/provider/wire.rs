//! Lists the wires that Rind speaks. A wire is the format of a model API.
//!
//! Owns the names of the wires. The code that reads and writes a wire is in the folder of that
//! wire. Start from [`ModelApiFormat`].

use serde::{Deserialize, Serialize};

/// Format of a model API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ModelApiFormat {
    /// The Messages API of Anthropic.
    AnthropicMessages,
    /// Chat completions of OpenAI, which most other servers speak as well.
    OpenaiChat,
    /// The Responses API of OpenAI.
    OpenaiResponses,
    /// `generateContent` of the Gemini API.
    Gemini,
}

impl ModelApiFormat {
    /// List of all formats.
    pub const ALL: [Self; 4] = [
        Self::AnthropicMessages,
        Self::OpenaiChat,
        Self::OpenaiResponses,
        Self::Gemini,
    ];

    /// Returns the name of the wire, as in settings and in
    /// [`Writer::wire`](crate::message::Writer::wire).
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::AnthropicMessages => "anthropic-messages",
            Self::OpenaiChat => "openai-chat",
            Self::OpenaiResponses => "openai-responses",
            Self::Gemini => "gemini",
        }
    }
}
