//! Handles that tests create over their own data, with the same limits as those of the host.

use crate::payload::text_of;
use crate::payloads::Purpose;
use crate::types::{Message, Part, ToolCall, Usage};

/// Maximum number of messages per read.
const MAX_MESSAGES: u32 = 100;

/// Maximum size of a read, in bytes.
const MAX_READ_BYTES: u64 = 1 << 20;

/// Messages of a request.
#[derive(Clone, Debug)]
pub struct Conversation {
    pub(super) messages: Vec<Message>,
}

/// Messages that are compacted or archived.
#[derive(Clone, Debug)]
pub struct Slice {
    pub(super) reason: String,
    pub(super) summary: String,
    pub(super) messages: Vec<Message>,
}

/// Request as it is sent to a provider.
#[derive(Clone, Debug)]
pub struct WireRequest {
    pub(super) provider: String,
    pub(super) body: String,
}

/// Answer as it came from a provider.
#[derive(Clone, Debug)]
pub struct WireResponse {
    pub(super) purpose: Purpose,
    pub(super) provider: String,
    pub(super) status: u16,
    pub(super) latency_ms: u64,
    pub(super) model: String,
    pub(super) usage: Usage,
    pub(super) cost_usd: Option<f64>,
    pub(super) body: String,
}

/// A tool call that was made or refused.
#[derive(Clone, Debug)]
pub struct FinishedCall {
    pub(super) call: ToolCall,
    pub(super) plugin: Option<String>,
    pub(super) is_error: bool,
    pub(super) is_refused: bool,
    pub(super) duration_ms: u64,
    pub(super) parts: Vec<Part>,
    pub(super) content: String,
}

/// Defines getters that return clones of a handle's fields.
macro_rules! fields {
    ($($handle:ident { $($(#[$doc:meta])* $field:ident: $type:ty;)* })*) => {$(
        impl $handle {$(
            $(#[$doc])*
            #[must_use]
            pub fn $field(&self) -> $type {
                self.$field.clone()
            }
        )*}
    )*};
}

fields! {
    Slice {
        /// Reason of the compaction or archiving.
        reason: String;
        /// Text that replaces the messages; empty until it was made.
        summary: String;
    }
    WireRequest {
        /// Name of the provider.
        provider: String;
    }
    WireResponse {
        /// Purpose of the request.
        purpose: Purpose;
        /// Name of the provider.
        provider: String;
        /// HTTP status.
        status: u16;
        /// Milliseconds from sending the request to the end of the stream.
        latency_ms: u64;
        /// Name of the model.
        model: String;
        /// Tokens of the request.
        usage: Usage;
        /// Cost in US dollars; `None` if no price is known.
        cost_usd: Option<f64>;
    }
    FinishedCall {
        /// Call with its arguments.
        call: ToolCall;
        /// Name of the plugin that provides the tool; `None` for a built-in tool.
        plugin: Option<String>;
        /// Whether the call failed or was refused.
        is_error: bool;
        /// Whether the tool did not run, such as after a refusal.
        is_refused: bool;
        /// Milliseconds that the tool ran.
        duration_ms: u64;
    }
}

macro_rules! messages {
    ($($handle:ident),*) => {$(
        impl $handle {
            /// Number of messages.
            #[must_use]
            pub fn len(&self) -> u32 {
                u32::try_from(self.messages.len()).unwrap_or(u32::MAX)
            }

            /// Returns the message at `index`, from 0.
            #[must_use]
            pub fn message(&self, index: u32) -> Option<Message> {
                self.messages.get(index as usize).cloned()
            }

            /// Returns at most `count` messages from `start` on.
            #[must_use]
            pub fn messages(&self, start: u32, count: u32) -> Vec<Message> {
                let messages = self.messages.iter().skip(start as usize);
                messages.take(count.min(MAX_MESSAGES) as usize).cloned().collect()
            }
        }
    )*};
}
messages!(Conversation, Slice);

macro_rules! texts {
    ($($handle:ident: $part:ident;)*) => {$(
        impl $handle {
            /// Size of the text in bytes.
            #[must_use]
            pub fn size(&self) -> u64 {
                self.$part.len() as u64
            }

            /// Returns the part of the text at `offset` with about `length` bytes, extended to
            /// whole characters.
            #[must_use]
            pub fn $part(&self, offset: u64, length: u64) -> String {
                part(&self.$part, offset, length)
            }
        }
    )*};
}
texts! {
    WireRequest: body;
    WireResponse: body;
    FinishedCall: content;
}

fn part(text: &str, offset: u64, length: u64) -> String {
    let at = |place: u64| usize::try_from(place).unwrap_or(usize::MAX);
    let start = text.floor_char_boundary(at(offset));
    let end = offset.saturating_add(length.min(MAX_READ_BYTES));
    let end = text.ceil_char_boundary(at(end));
    text[start..end].to_owned()
}

impl Slice {
    /// Sets the summary, as if a model had already written it.
    #[must_use]
    pub fn with_summary(mut self, summary: impl Into<String>) -> Self {
        self.summary = summary.into();
        self
    }
}

impl WireResponse {
    /// Sets the purpose of the request.
    #[must_use]
    pub fn with_purpose(mut self, purpose: Purpose) -> Self {
        self.purpose = purpose;
        self
    }

    /// Sets the cost.
    #[must_use]
    pub fn with_cost(mut self, usd: Option<f64>) -> Self {
        self.cost_usd = usd;
        self
    }

    /// Sets the time that the request took.
    #[must_use]
    pub fn with_latency_ms(mut self, milliseconds: u64) -> Self {
        self.latency_ms = milliseconds;
        self
    }

    /// Sets the body.
    #[must_use]
    pub fn with_body(mut self, body: impl Into<String>) -> Self {
        self.body = body.into();
        self
    }
}

impl FinishedCall {
    /// Number of parts of the result.
    #[must_use]
    #[expect(
        clippy::len_without_is_empty,
        reason = "a result without parts means nothing"
    )]
    pub fn len(&self) -> u32 {
        u32::try_from(self.parts.len()).unwrap_or(u32::MAX)
    }

    /// Returns the part at `index`, from 0.
    #[must_use]
    pub fn part(&self, index: u32) -> Option<Part> {
        self.parts.get(index as usize).cloned()
    }

    /// Sets the parts of the result.
    #[must_use]
    pub fn with_parts(mut self, parts: Vec<Part>) -> Self {
        self.content = text_of(&parts);
        self.parts = parts;
        self
    }

    /// Sets the id of the call.
    #[must_use]
    pub fn with_id(mut self, id: impl Into<String>) -> Self {
        self.call.id = id.into();
        self
    }

    /// Sets the plugin that provides the tool.
    #[must_use]
    pub fn with_plugin(mut self, name: impl Into<String>) -> Self {
        self.plugin = Some(name.into());
        self
    }

    /// Sets the arguments of the call.
    #[must_use]
    pub fn with_arguments(mut self, arguments: impl Into<serde_json::Value>) -> Self {
        self.call.arguments = arguments.into().to_string();
        self
    }

    /// Sets whether the call failed.
    #[must_use]
    pub fn with_error(mut self, is_error: bool) -> Self {
        self.is_error = is_error;
        self
    }

    /// Sets whether the call was refused, so that the tool did not run.
    #[must_use]
    pub fn with_refused(mut self, is_refused: bool) -> Self {
        self.is_refused = is_refused;
        self
    }

    /// Sets the time that the tool ran.
    #[must_use]
    pub fn with_duration_ms(mut self, milliseconds: u64) -> Self {
        self.duration_ms = milliseconds;
        self
    }
}

#[cfg(test)]
mod tests {
    use crate::testing;

    #[test]
    fn a_text_is_read_in_whole_characters_and_comes_together_again() {
        let text = "aé€😀z".repeat(3);
        let call = testing::finished_call("t", text.clone());
        for length in 1..9 {
            let mut read = String::new();
            loop {
                let part = call.content(read.len() as u64, length);
                if part.is_empty() {
                    break;
                }
                read.push_str(&part);
            }
            assert_eq!(read, text, "{length}");
        }
        assert_eq!(call.content(u64::MAX, u64::MAX), "");
        assert_eq!(call.content(2, 1), "é", "within a character");
        let long = "x".repeat((1 << 20) + 1);
        let call = testing::finished_call("t", long.clone());
        assert_eq!(call.content(0, u64::MAX).len(), 1 << 20);
        assert_eq!(call.text(), long);
    }
}
