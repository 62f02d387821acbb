//! How many tokens a request has, before a provider says so.
//!
//! Texts are counted by [`tokens`], whose tokenizer is not that of every model. What corrects it is the provider: every
//! answer reports the tokens of its request. Counting takes its time, so each text is counted once, and a request that
//! could not be too long whatever its texts are is not counted at all: see [`most`].

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, PoisonError};

use crate::message::{Content, Message, ToolSpec};
use crate::provider::{Request, SystemBlock};
use crate::tokens;

/// Bytes of a token in English text and code, roughly.
const BYTES_PER_TOKEN: u64 = 4;

/// What a message costs besides its content: its role and its ends.
const MESSAGE_TOKENS: u64 = 4;

/// Requests smaller than this teach nothing: what providers add of their own weighs more than the conversation.
const LEAST_TO_LEARN: u64 = 500;

/// How far the ratio may go: from text of long common words to a tokenizer that knows few of them. A report outside of it
/// is a fault of the report, or of a hook that sent something else.
const RATIOS: (f64, f64) = (0.5, 4.0);

/// How much of the way to a new measurement the ratio goes.
const SMOOTHING: f64 = 0.3;

/// Texts shorter than this, in bytes, are counted again: that takes no longer than looking them up.
const LEAST_KEPT: usize = 64;

/// Most texts whose count is kept. After that all are forgotten, those of a long session that are not sent any more too.
const MAX_KEPT: usize = 1 << 16;

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

/// Counts tokens, and remembers those of texts it has seen.
#[derive(Debug, Default)]
pub(super) struct Counter {
    /// By the hash of the text.
    known: Mutex<HashMap<u64, u64>>,
    hash: RandomState,
}

impl Counter {
    /// Tokens of a message.
    pub(super) fn of_message(&self, message: &Message) -> u64 {
        let size = |text: &str| self.of_text(text);
        MESSAGE_TOKENS + content(message, &size)
    }

    /// Tokens of messages.
    pub(super) fn of_messages<'a>(&self, messages: impl IntoIterator<Item = &'a Message>) -> u64 {
        messages.into_iter().map(|m| self.of_message(m)).sum()
    }

    /// Tokens of what stands before the conversation.
    pub(super) fn of_head<'a>(
        &self,
        system: &[SystemBlock],
        tools: impl IntoIterator<Item = &'a ToolSpec>,
    ) -> u64 {
        head(system, tools, &|text| self.of_text(text))
    }

    /// Tokens of a request.
    pub(super) fn of_request(&self, request: &Request) -> u64 {
        self.of_head(&request.system, &request.tools) + self.of_messages(&request.messages)
    }

    fn of_text(&self, text: &str) -> u64 {
        if text.len() < LEAST_KEPT {
            return tokens::count(text);
        }
        let key = self.hash.hash_one(text);
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(n) = known().get(&key) {
            return *n;
        }
        let n = tokens::count(text);
        let mut known = known();
        if known.len() >= MAX_KEPT {
            known.clear();
        }
        known.insert(key, n);
        n
    }
}

/// Tokens of a request that no provider reported. Nothing of it is remembered.
pub(in super::super) fn request_tokens(request: &Request) -> u64 {
    let size = |text: &str| tokens::count(text);
    let message = |message| MESSAGE_TOKENS + content(message, &size);
    head(&request.system, &request.tools, &size) + request.messages.iter().map(message).sum::<u64>()
}

/// The most tokens that a request can have, whatever its texts are: no tokenizer makes more tokens of a text than it has
/// bytes.
pub(super) fn most<'a>(
    system: &[SystemBlock],
    tools: impl IntoIterator<Item = &'a ToolSpec>,
    messages: impl IntoIterator<Item = &'a Message>,
) -> u64 {
    let size = |text: &str| text.len() as u64;
    let message = |message| MESSAGE_TOKENS + content(message, &size);
    head(system, tools, &size) + messages.into_iter().map(message).sum::<u64>()
}

fn head<'a>(
    system: &[SystemBlock],
    tools: impl IntoIterator<Item = &'a ToolSpec>,
    size: &dyn Fn(&str) -> u64,
) -> u64 {
    let system: u64 = system.iter().map(|block| size(&block.text)).sum();
    let tool = |tool: &ToolSpec| {
        size(&tool.name) + size(&tool.description) + size(&tool.parameters.to_string())
    };
    system + tools.into_iter().map(tool).sum::<u64>()
}

fn content(message: &Message, size: &dyn Fn(&str) -> u64) -> u64 {
    let part = |part: &Content| match part {
        Content::Text { text } => size(text),
        Content::Thinking { text, signature } => size(text) + signature.as_deref().map_or(0, size),
        Content::ToolCall(call) => {
            size(&call.id) + size(&call.name) + size(&call.arguments.to_string())
        }
        Content::ToolResult(result) => {
            size(&result.call_id) + size(&result.name) + size(&result.content)
        }
    };
    message.content.iter().map(part).sum()
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
    fn every_part_of_a_message_counts_the_same_the_second_time_and_never_more_than_most() {
        let counter = Counter::default();
        let text = "The tide gauge reads four centimetres too high. ".repeat(20);
        let call = Content::ToolCall(crate::message::ToolCall {
            id: "12".to_owned(),
            name: "read_file".to_owned(),
            arguments: serde_json::json!({"path": "station.toml"}),
        });
        let said = Message::new(
            Role::Assistant,
            vec![Content::Text { text: text.clone() }, call],
        );
        let n = counter.of_message(&said);
        let parts = tokens::count(&text)
            + tokens::count("12")
            + tokens::count("read_file")
            + tokens::count("{\"path\":\"station.toml\"}");
        assert_eq!(n, MESSAGE_TOKENS + parts);
        assert_eq!(counter.of_message(&said), n);
        assert!(n < most(&[], [], [&said]), "{n}");
        assert_eq!(most(&[], [], [&Message::text(Role::User, "abc")]), 7);
    }
}
