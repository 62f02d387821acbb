//! The shapes of Messages answers, as far as they are read.
//!
//! Data, and how counts add up; what events mean is decided in `stream`. Start from [`Event`].

use serde::Deserialize;
use serde_json::Value;

use crate::message::Usage;

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Event {
    MessageStart {
        message: Start,
    },
    ContentBlockStart {
        index: u64,
        content_block: Block,
    },
    ContentBlockDelta {
        index: u64,
        delta: Delta,
    },
    MessageDelta {
        delta: Ending,
        #[serde(default)]
        usage: WireUsage,
    },
    MessageStop,
    Error {
        error: ErrorDetail,
    },
    /// A whole message that was not streamed.
    Message {
        #[serde(default)]
        model: Value,
        content: Vec<Block>,
        #[serde(flatten)]
        ending: Ending,
        #[serde(default)]
        usage: WireUsage,
    },
    /// `ping`, `content_block_stop`, and what later versions of the API add.
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
pub(super) struct Start {
    /// A text, where it is one.
    #[serde(default)]
    pub(super) model: Value,
    #[serde(default)]
    pub(super) usage: WireUsage,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Block {
    Text {
        #[serde(default)]
        text: String,
    },
    Thinking {
        #[serde(default)]
        thinking: String,
        #[serde(default)]
        signature: String,
    },
    RedactedThinking {
        data: String,
    },
    ToolUse {
        id: String,
        name: String,
        #[serde(default)]
        input: Value,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
#[serde(tag = "type")]
pub(super) enum Delta {
    #[serde(rename = "text_delta")]
    Text { text: String },
    #[serde(rename = "thinking_delta")]
    Thinking { thinking: String },
    #[serde(rename = "signature_delta")]
    Signature { signature: String },
    #[serde(rename = "input_json_delta")]
    InputJson { partial_json: String },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
pub(super) struct Ending {
    pub(super) stop_reason: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct ErrorDetail {
    #[serde(rename = "type", default)]
    pub(super) kind: String,
}

/// Counts as sent; those of a later event replace those of an earlier one.
#[derive(Default, Deserialize)]
pub(super) struct WireUsage {
    pub(super) input_tokens: Option<u64>,
    pub(super) output_tokens: Option<u64>,
    pub(super) cache_read_input_tokens: Option<u64>,
    pub(super) cache_creation_input_tokens: Option<u64>,
}

impl WireUsage {
    /// Counts of a later event.
    pub(super) fn update(&mut self, later: WireUsage) {
        self.input_tokens = later.input_tokens.or(self.input_tokens);
        self.output_tokens = later.output_tokens.or(self.output_tokens);
        self.cache_read_input_tokens = later
            .cache_read_input_tokens
            .or(self.cache_read_input_tokens);
        self.cache_creation_input_tokens = later
            .cache_creation_input_tokens
            .or(self.cache_creation_input_tokens);
    }

    /// The API counts cached input apart; our input counts all of it.
    pub(super) fn total(&self) -> Usage {
        let cache_read_tokens = self.cache_read_input_tokens.unwrap_or(0);
        let cache_write_tokens = self.cache_creation_input_tokens.unwrap_or(0);
        let fresh = self.input_tokens.unwrap_or(0);
        let cached = cache_read_tokens.saturating_add(cache_write_tokens);
        Usage {
            input_tokens: fresh.saturating_add(cached),
            output_tokens: self.output_tokens.unwrap_or(0),
            cache_read_tokens,
            cache_write_tokens,
            estimated: false,
        }
    }
}
