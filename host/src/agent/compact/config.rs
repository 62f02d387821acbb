//! The section `[agent.compact]` of the settings.

use serde::Deserialize;

use crate::config::number;

/// Settings for compaction: when the conversation is shortened, and how much of it stays. Tokens are counted before a request
/// is sent, and the count follows what the provider reports.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CompactConfig {
    /// Whether it is done at all.
    pub enabled: bool,
    /// A request with more tokens than this, system prompt and tools included, is preceded by compaction.
    #[serde(deserialize_with = "number::within::<100, 1_000_000_000, _, _>")]
    pub threshold_tokens: u64,
    /// Number of the newest messages that always stay.
    #[serde(deserialize_with = "number::within::<0, 1_000_000_000, _, _>")]
    pub keep_last_messages: usize,
    /// Tokens of the newest messages that always stay. A tool call and its result are never parted, so it may be more.
    #[serde(deserialize_with = "number::within::<0, 1_000_000_000, _, _>")]
    pub keep_tokens: u64,
    /// Longest summary, in tokens; also at most half of the messages that it replaces.
    #[serde(deserialize_with = "number::within::<10, 1_000_000_000, _, _>")]
    pub max_summary_tokens: u64,
    /// A request that has more tokens than this after all is sent with its tool results cut, the oldest first. The session
    /// keeps them whole. Absent: never.
    #[serde(deserialize_with = "number::within_if_set::<100, 1_000_000_000, _, _>")]
    pub hard_limit_tokens: Option<u64>,
}

impl Default for CompactConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            // Leaves room for an answer and a large tool result in a window of 128,000, the smallest that is common.
            threshold_tokens: 80_000,
            keep_last_messages: 6,
            keep_tokens: 16_000,
            max_summary_tokens: 4_000,
            hard_limit_tokens: None,
        }
    }
}

impl CompactConfig {
    /// Tokens of a request below which nothing is ever done.
    pub(super) fn least_that_matters(&self) -> u64 {
        let threshold = if self.enabled {
            self.threshold_tokens
        } else {
            u64::MAX
        };
        threshold.min(self.hard_limit_tokens.unwrap_or(u64::MAX))
    }
}
