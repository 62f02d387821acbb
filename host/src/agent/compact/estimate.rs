//! How many tokens a request has, before a provider says so.
//!
//! Bytes over four is close for English and code and wrong for the rest, and no tokenizer on this side is that of every
//! model. What corrects it is the provider: every answer reports the tokens of its request.

use std::io;

use serde::Serialize;

use crate::message::{Content, Message, ToolSpec};
use crate::provider::{Request, SystemBlock};

/// Bytes of a token in English text and code, roughly.
const BYTES_PER_TOKEN: u64 = 4;

/// What a message costs besides its content: its role and its ends.
const MESSAGE_TOKENS: u64 = 4;

/// Requests smaller than this teach nothing: what providers add of their own weighs more than the conversation.
const LEAST_TO_LEARN: u64 = 500;

/// How far the ratio may go: from text of long common words to scripts of several tokens a character. A report outside of
/// it is a fault of the report, or of a hook that sent something else.
const RATIOS: (f64, f64) = (0.5, 4.0);

/// How much of the way to a new measurement the ratio goes.
const SMOOTHING: f64 = 0.3;

/// The ratio of reported to estimated tokens, as far as it is known.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Gauge {
    ratio: Option<f64>,
}

impl Gauge {
    /// Takes in what a provider reported for a request.
    pub(super) fn learn(&mut self, estimated: u64, reported: u64) {
        if estimated < LEAST_TO_LEARN || reported == 0 {
            return;
        }
        let measured = (reported as f64 / estimated as f64).clamp(RATIOS.0, RATIOS.1);
        let ratio = self.ratio.unwrap_or(measured);
        self.ratio = Some(ratio + SMOOTHING * (measured - ratio));
    }

    /// Tokens, from an estimate.
    pub(super) fn tokens(self, estimated: u64) -> u64 {
        (estimated as f64 * self.ratio.unwrap_or(1.0)) as u64
    }

    /// Bytes of text that have so many tokens.
    pub(super) fn bytes(self, tokens: u64) -> usize {
        (tokens as f64 / self.ratio.unwrap_or(1.0)) as usize * BYTES_PER_TOKEN as usize
    }
}

/// Estimated tokens of a message.
pub(super) fn of_message(message: &Message) -> u64 {
    let bytes: u64 = message.content.iter().map(bytes_of).sum();
    MESSAGE_TOKENS + bytes.div_ceil(BYTES_PER_TOKEN)
}

/// Estimated tokens of messages.
pub(super) fn of_messages<'a>(messages: impl IntoIterator<Item = &'a Message>) -> u64 {
    messages.into_iter().map(of_message).sum()
}

/// Estimated tokens of what stands before the conversation.
pub(super) fn of_head<'a>(
    system: &[SystemBlock],
    tools: impl IntoIterator<Item = &'a ToolSpec>,
) -> u64 {
    let system: u64 = system.iter().map(|block| size(&block.text)).sum();
    let tool =
        |tool: &ToolSpec| size(&tool.name) + size(&tool.description) + json_size(&tool.parameters);
    let tools: u64 = tools.into_iter().map(tool).sum();
    (system + tools).div_ceil(BYTES_PER_TOKEN)
}

/// Estimated tokens of a request.
pub(super) fn of_request(request: &Request) -> u64 {
    of_head(&request.system, &request.tools) + of_messages(&request.messages)
}

fn bytes_of(part: &Content) -> u64 {
    match part {
        Content::Text { text } => size(text),
        Content::Thinking { text, signature } => size(text) + signature.as_deref().map_or(0, size),
        Content::ToolCall(call) => size(&call.id) + size(&call.name) + json_size(&call.arguments),
        Content::ToolResult(result) => {
            size(&result.call_id) + size(&result.name) + size(&result.content)
        }
    }
}

fn size(text: &str) -> u64 {
    text.len() as u64
}

fn json_size(value: &impl Serialize) -> u64 {
    let mut counter = Counter(0);
    // Values that came out of JSON go into it again.
    let _ = serde_json::to_writer(&mut counter, value);
    counter.0
}

/// Counts what is written.
struct Counter(u64);

impl io::Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Role;

    #[test]
    fn what_providers_report_moves_the_estimate_step_by_step_and_not_too_far() {
        let mut gauge = Gauge::default();
        assert_eq!(gauge.tokens(1000), 1000);
        gauge.learn(1000, 1500);
        assert_eq!(gauge.tokens(1000), 1500);
        gauge.learn(1000, 2500);
        assert_eq!(gauge.tokens(1000), 1800);
        for _ in 0..50 {
            gauge.learn(1000, 1_000_000);
        }
        assert!((3990..=4000).contains(&gauge.tokens(1000)));
        for _ in 0..50 {
            gauge.learn(100_000, 1);
        }
        assert!((500..=501).contains(&gauge.tokens(1000)));
        assert!((7900..=8000).contains(&gauge.bytes(1000)));
    }

    #[test]
    fn small_requests_and_missing_reports_teach_nothing() {
        let mut gauge = Gauge::default();
        gauge.learn(100, 400);
        gauge.learn(10_000, 0);
        assert_eq!(gauge.tokens(1000), 1000);
    }

    #[test]
    fn every_part_of_a_message_counts() {
        let text = |n: usize| Message::text(Role::User, "x".repeat(n));
        assert_eq!(of_message(&text(400)), 104);
        let call = Content::ToolCall(crate::message::ToolCall {
            id: "12".to_owned(),
            name: "ab".to_owned(),
            arguments: serde_json::json!({"k": "v"}),
        });
        assert_eq!(of_message(&Message::new(Role::Assistant, vec![call])), 8);
    }
}
