//! Estimates the tokens of a request before a provider reports them.
//!
//! [`tokens`] counts the tokens of texts with a single tokenizer, which differs from the tokenizers
//! of some models. Therefore the counts are corrected by the numbers that the provider reports with
//! each answer. Counting takes time and memory, so each text is counted once, and a request that
//! cannot be too long is not counted at all: see [`RequestTokenUpperBound`].

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Mutex;

use crate::lock::lock_ignoring_poison;
use crate::message::{Blob, Content, Message, Part, ToolSpec};
use crate::provider::{Request, SystemPromptBlock};
use crate::tokens;

/// Approximate number of bytes per token in English text and code.
const ESTIMATED_BYTES_PER_TOKEN: u64 = 4;

/// Tokens of a message in addition to its content, for its role and its delimiters.
const MESSAGE_OVERHEAD_TOKENS: u64 = 4;

/// Number of tokens of the placeholder text for a blob that is not sent to the model as an image.
const BLOB_PLACEHOLDER_TOKENS: u64 = 32;

/// Minimum estimate, in tokens, of a request from which the ratio of reported to estimated tokens
/// is learned. In a smaller request, the tokens that the provider adds outweigh those of the
/// conversation.
const MIN_TOKENS_TO_CORRECT_ESTIMATE: u64 = 500;

/// Bounds of the ratio between reported and estimated tokens. A ratio outside them means that the
/// report is wrong, or that a hook sent a different request.
const REPORTED_TO_ESTIMATED_RATIO_BOUNDS: (f64, f64) = (0.5, 4.0);

/// Weight of the latest request's ratio in the smoothed ratio of reported to estimated tokens.
const LATEST_TOKEN_RATIO_WEIGHT: f64 = 0.3;

/// Minimum length, in bytes, of a text whose count is cached. Counting a shorter text takes no
/// longer than a look-up in the cache.
const MIN_CACHED_TEXT_BYTES: usize = 64;

/// Maximum number of cached token counts. If it is reached, the cache is cleared, which also
/// removes texts that are no longer sent.
const MAX_CACHED_TOKEN_COUNTS: usize = 1 << 16;

/// Smoothed ratio of reported to estimated tokens, which corrects later estimates.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TokenEstimateCorrection {
    ratio: Option<f64>,
}

impl TokenEstimateCorrection {
    /// Updates the ratio of reported to estimated tokens with those of a request.
    pub(super) fn learn_ratio(&mut self, estimated: u64, reported: u64) {
        if estimated < MIN_TOKENS_TO_CORRECT_ESTIMATE || reported == 0 {
            return;
        }
        let measured = (reported as f64 / estimated as f64).clamp(
            REPORTED_TO_ESTIMATED_RATIO_BOUNDS.0,
            REPORTED_TO_ESTIMATED_RATIO_BOUNDS.1,
        );
        let ratio = self.ratio.unwrap_or(measured);
        self.ratio = Some(ratio + LATEST_TOKEN_RATIO_WEIGHT * (measured - ratio));
    }

    pub(super) fn corrected_tokens(self, estimated: u64) -> u64 {
        (estimated as f64 * self.ratio.unwrap_or(1.0)) as u64
    }

    /// Returns the approximate length, in bytes, of a text with this number of tokens.
    pub(super) fn bytes_for_tokens(self, tokens: u64) -> usize {
        (tokens as f64 / self.ratio.unwrap_or(1.0)) as usize * ESTIMATED_BYTES_PER_TOKEN as usize
    }
}

/// Counter of the tokens of texts, which caches the counts.
#[derive(Debug, Default)]
pub(super) struct TokenCounter {
    /// Cached token counts of texts, by the hash of the text.
    known: Mutex<HashMap<u64, u64>>,
    hash: RandomState,
}

impl TokenCounter {
    pub(super) fn message_tokens(&self, model: &str, message: &Message) -> u64 {
        let size = |text: &str| self.text_tokens(text);
        MESSAGE_OVERHEAD_TOKENS
            + sum_content_sizes(message, &size, &create_blob_token_counter(model))
    }

    pub(super) fn messages_tokens<'a>(
        &self,
        model: &str,
        messages: impl IntoIterator<Item = &'a Message>,
    ) -> u64 {
        let message_tokens = |message| self.message_tokens(model, message);
        messages.into_iter().map(message_tokens).sum()
    }

    /// Returns the number of tokens of the system prompt and the tools, which come before the
    /// conversation in a request.
    pub(super) fn system_and_tools_tokens<'a>(
        &self,
        system: &[SystemPromptBlock],
        tools: impl IntoIterator<Item = &'a ToolSpec>,
    ) -> u64 {
        estimate_system_and_tools(system, tools, &|text| self.text_tokens(text))
    }

    pub(super) fn count_request_tokens(&self, request: &Request) -> u64 {
        self.system_and_tools_tokens(&request.system, &request.tools)
            + self.messages_tokens(&request.model, &request.messages)
    }

    fn text_tokens(&self, text: &str) -> u64 {
        if text.len() < MIN_CACHED_TEXT_BYTES {
            return tokens::count_tokens(text);
        }
        let key = self.hash.hash_one(text);
        if let Some(n) = lock_ignoring_poison(&self.known).get(&key) {
            return *n;
        }
        let n = tokens::count_tokens(text);
        let mut known = lock_ignoring_poison(&self.known);
        if known.len() >= MAX_CACHED_TOKEN_COUNTS {
            known.clear();
        }
        known.insert(key, n);
        n
    }
}

/// Returns the estimated number of tokens of a request for which the provider has reported none.
/// Caches no counts.
pub(in super::super) fn estimate_request_tokens(request: &Request) -> u64 {
    sum_request_part_sizes(
        &request.system,
        &request.tools,
        &request.messages,
        &tokens::count_tokens,
        &create_blob_token_counter(&request.model),
    )
}

/// Returns a faster, rougher estimate than [`estimate_request_tokens`], made without the tokenizer.
pub(in super::super) fn estimate_request_tokens_roughly(request: &Request) -> u64 {
    sum_request_part_sizes(
        &request.system,
        &request.tools,
        &request.messages,
        &tokens::estimate_tokens,
        &create_blob_token_counter(&request.model),
    )
}

/// Maximum average number of bytes per token in a request. If a provider reports fewer tokens than
/// the number of bytes divided by this maximum, the report is wrong.
const MAX_PLAUSIBLE_BYTES_PER_TOKEN: u64 = 8;

/// Upper bound of the tokens of a request, computed without a tokenizer: the tokens of the last
/// report, plus the bytes of the messages that were added since, because a text has no more tokens
/// than bytes. Before the first report, the bound is twice the rough estimate.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RequestTokenUpperBound {
    /// Upper bounds for the parts of the request that is being prepared.
    now: RequestPartTokenUpperBounds,
    /// Sizes of the last request whose tokens were reported, and those tokens.
    reported: Option<(RequestPartTokenUpperBounds, u64)>,
}

/// Upper bounds of the tokens of a request's parts, from their bytes. See [`max_request_tokens`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RequestPartTokenUpperBounds {
    /// Upper bound for the tokens of the system prompt and the tools.
    pub(super) head: u64,
    /// Upper bound for the conversation's messages. The next request contains them again, followed
    /// by the messages that were added meanwhile.
    pub(super) kept: u64,
    /// Upper bound for the messages that only this request contains and later requests do not.
    pub(super) passing: u64,
}

impl RequestTokenUpperBound {
    /// Whether a request of these sizes may exceed `limit` tokens. `estimate` returns a rough
    /// estimate of the request's tokens, and is called only if no earlier request with reported
    /// tokens can be compared with this one.
    pub(super) fn may_exceed_token_limit(
        &mut self,
        limit: u64,
        now: RequestPartTokenUpperBounds,
        estimate: impl FnOnce() -> u64,
    ) -> bool {
        self.now = now;
        if now.head + now.kept + now.passing <= limit {
            return false;
        }
        let from_report = self.reported.and_then(|(then, tokens)| {
            let grown = now.kept.checked_sub(then.kept)?;
            let head = if now.head == then.head { 0 } else { now.head };
            Some(tokens + grown + head + now.passing)
        });
        from_report.unwrap_or_else(|| estimate() * 2) > limit
    }

    /// Records the tokens that the provider reported for the request. Returns this number, or the
    /// number that a request of this size has at least, if that is larger.
    pub(super) fn record_reported_tokens(&mut self, reported: u64) -> u64 {
        let RequestPartTokenUpperBounds {
            head,
            kept,
            passing,
        } = self.now;
        let least = (head + kept + passing) / MAX_PLAUSIBLE_BYTES_PER_TOKEN;
        let tokens = reported.max(least);
        self.reported = (reported > 0).then_some((self.now, tokens));
        tokens
    }

    /// Drops the token counts that the provider reported last, because the conversation has
    /// changed.
    pub(super) fn forget_reported_tokens(&mut self) {
        self.reported = None;
    }
}

/// Returns an upper bound of a request's tokens for any tokenizer: a text has no more tokens than
/// bytes, and each image counts as an image of the maximum size.
pub(super) fn max_request_tokens<'a>(
    system: &[SystemPromptBlock],
    tools: impl IntoIterator<Item = &'a ToolSpec>,
    messages: impl IntoIterator<Item = &'a Message>,
) -> u64 {
    sum_request_part_sizes(system, tools, messages, &|text| text.len() as u64, &|_| {
        tokens::MAX_IMAGE_TOKENS
    })
}

/// Estimates the tokens of a request roughly, without the tokenizer.
pub(super) fn estimate_tokens_without_tokenizer<'a>(
    system: &[SystemPromptBlock],
    tools: impl IntoIterator<Item = &'a ToolSpec>,
    messages: impl IntoIterator<Item = &'a Message>,
) -> u64 {
    sum_request_part_sizes(system, tools, messages, &tokens::estimate_tokens, &|_| {
        tokens::MAX_IMAGE_TOKENS
    })
}

fn sum_request_part_sizes<'a>(
    system: &[SystemPromptBlock],
    tools: impl IntoIterator<Item = &'a ToolSpec>,
    messages: impl IntoIterator<Item = &'a Message>,
    size: &dyn Fn(&str) -> u64,
    image: &dyn Fn(&Blob) -> u64,
) -> u64 {
    let message = |message| MESSAGE_OVERHEAD_TOKENS + sum_content_sizes(message, size, image);
    estimate_system_and_tools(system, tools, size) + messages.into_iter().map(message).sum::<u64>()
}

fn estimate_system_and_tools<'a>(
    system: &[SystemPromptBlock],
    tools: impl IntoIterator<Item = &'a ToolSpec>,
    size: &dyn Fn(&str) -> u64,
) -> u64 {
    let system: u64 = system.iter().map(|block| size(&block.text)).sum();
    let tool = |tool: &ToolSpec| {
        size(&tool.name) + size(&tool.description) + size(&tool.parameters.to_string())
    };
    system + tools.into_iter().map(tool).sum::<u64>()
}

/// Returns a function that counts the tokens of a blob for a model. A blob that is not sent as an
/// image counts as a short line of text.
fn create_blob_token_counter(model: &str) -> impl Fn(&Blob) -> u64 {
    move |blob| match blob.model_rejection_reason() {
        None => tokens::count_image_tokens(model, blob.pixels),
        Some(_) => BLOB_PLACEHOLDER_TOKENS,
    }
}

fn sum_content_sizes(
    message: &Message,
    size: &dyn Fn(&str) -> u64,
    image: &dyn Fn(&Blob) -> u64,
) -> u64 {
    let part = |part: &Part| match part {
        Part::Text { text } => size(text),
        Part::Json { value } => size(&value.to_string()),
        Part::Blob(blob) => image(blob),
    };
    let content = |content: &Content| match content {
        Content::Text { text } => size(text),
        Content::Thinking {
            text, signature, ..
        } => size(text) + signature.as_deref().map_or(0, size),
        Content::Blob(blob) => image(blob),
        Content::ToolCall(call) => {
            size(&call.id) + size(&call.name) + size(&call.arguments.to_string())
        }
        Content::ToolResult(result) => {
            let parts: u64 = result.content.iter().map(part).sum();
            size(&result.call_id) + size(&result.name) + parts
        }
    };
    message.content.iter().map(content).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Role;

    #[test]
    fn what_providers_report_moves_the_estimate_step_by_step_and_not_too_far() {
        let mut gauge = TokenEstimateCorrection::default();
        assert_eq!(gauge.corrected_tokens(1000), 1000);
        gauge.learn_ratio(1000, 1500);
        assert_eq!(gauge.corrected_tokens(1000), 1500);
        gauge.learn_ratio(1000, 2500);
        assert_eq!(gauge.corrected_tokens(1000), 1800);
        for _ in 0..50 {
            gauge.learn_ratio(1000, 1_000_000);
        }
        assert!((3990..=4000).contains(&gauge.corrected_tokens(1000)));
        for _ in 0..50 {
            gauge.learn_ratio(100_000, 1);
        }
        assert!((500..=501).contains(&gauge.corrected_tokens(1000)));
        assert!((7900..=8000).contains(&gauge.bytes_for_tokens(1000)));
    }

    #[test]
    fn small_requests_and_missing_reports_teach_nothing() {
        let mut gauge = TokenEstimateCorrection::default();
        gauge.learn_ratio(100, 400);
        gauge.learn_ratio(10_000, 0);
        assert_eq!(gauge.corrected_tokens(1000), 1000);
    }

    #[test]
    fn what_was_reported_bounds_the_next_request_by_the_bytes_that_were_added() {
        let sizes = |head, kept, passing| RequestPartTokenUpperBounds {
            head,
            kept,
            passing,
        };
        let mut bound = RequestTokenUpperBound::default();
        // The bound without a report: the test has no texts, so it is made up.
        let check = |bound: &mut RequestTokenUpperBound,
                     now: RequestPartTokenUpperBounds,
                     expected: u64| {
            assert!(
                !bound.may_exceed_token_limit(expected, now, || 3000),
                "{now:?}"
            );
            assert!(
                bound.may_exceed_token_limit(expected - 1, now, || 3000),
                "{now:?}"
            );
        };
        check(&mut bound, sizes(1000, 5000, 10), 6000);
        assert_eq!(bound.record_reported_tokens(2000), 2000);
        check(&mut bound, sizes(1000, 5300, 0), 2300);
        check(&mut bound, sizes(1000, 5300, 50), 2350);
        check(&mut bound, sizes(900, 5300, 0), 3200);
        check(&mut bound, sizes(900, 5600, 0), 3500);
        check(&mut bound, sizes(100, 400, 0), 500);
        // The conversation has shrunk: the report for the longer request does not apply to it.
        check(&mut bound, sizes(1000, 4999, 1000), 6000);
        check(&mut bound, sizes(1000, 7000, 0), 4000);
        assert_eq!(bound.record_reported_tokens(3), 1000, "no text has so few");
        assert_eq!(bound.record_reported_tokens(0), 1000);
        check(&mut bound, sizes(1000, 7000, 0), 6000);
        bound.record_reported_tokens(2000);
        bound.forget_reported_tokens();
        check(&mut bound, sizes(1000, 7000, 0), 6000);
    }

    #[test]
    fn every_part_of_a_message_counts_the_same_the_second_time_and_never_more_than_most() {
        let counter = TokenCounter::default();
        let text = "The tide gauge reads four centimetres too high. ".repeat(20);
        let call = Content::ToolCall(crate::message::ToolCall::new(
            "12",
            "read_file",
            serde_json::json!({"path": "station.toml"}),
        ));
        let said = Message::new(
            Role::Assistant,
            vec![Content::from_text(text.clone()), call],
        );
        let n = counter.message_tokens("m", &said);
        let parts = tokens::count_tokens(&text)
            + tokens::count_tokens("12")
            + tokens::count_tokens("read_file")
            + tokens::count_tokens("{\"path\":\"station.toml\"}");
        assert_eq!(n, MESSAGE_OVERHEAD_TOKENS + parts);
        assert_eq!(counter.message_tokens("m", &said), n);
        assert!(n < max_request_tokens(&[], [], [&said]), "{n}");
        assert_eq!(
            max_request_tokens(&[], [], [&Message::text(Role::User, "abc")]),
            7
        );
    }
}
