//! The section `[agent.compact]` of the settings.

use serde::Deserialize;

use crate::config::number;
use crate::model::ModelProfile;

/// Settings for compaction: when the conversation is shortened, and how much of it stays. Tokens
/// are estimated before a request is sent, and the estimate is corrected by the counts that the
/// provider reports.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CompactConfig {
    /// Whether older messages are replaced by a summary when a request becomes too large.
    pub enabled: bool,
    /// Tokens of a request, system prompt and tools included, above which compaction runs first.
    /// Absent: four fifths of the part of the model's window that is not reserved for an answer, or
    /// 80,000 when the window is not known.
    #[serde(deserialize_with = "number::within_if_set::<100, 1_000_000_000, _, _>")]
    pub threshold_tokens: Option<u64>,
    /// Number of the newest messages that compaction always keeps.
    #[serde(deserialize_with = "number::within::<0, 1_000_000_000, _, _>")]
    pub keep_last_messages: usize,
    /// Tokens of the newest messages that are always kept. The kept part may be larger, because a
    /// tool call and its result are never separated. If `threshold_tokens` is absent, at most a
    /// quarter of the threshold that follows from the window.
    #[serde(deserialize_with = "number::within::<0, 1_000_000_000, _, _>")]
    pub keep_tokens: u64,
    /// Maximum length of a summary, in tokens; it is also at most half as long as the messages that
    /// it replaces.
    #[serde(deserialize_with = "number::within::<10, 1_000_000_000, _, _>")]
    pub max_summary_tokens: u64,
    /// Tokens of a request above which its tool results are cut, the oldest first, if compaction
    /// was not enough. The session keeps the complete results. Absent: the window minus the room
    /// for an answer, or no limit when the window is not known.
    #[serde(deserialize_with = "number::within_if_set::<100, 1_000_000_000, _, _>")]
    pub hard_limit_tokens: Option<u64>,
}

impl Default for CompactConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            threshold_tokens: None,
            keep_last_messages: 6,
            keep_tokens: 16_000,
            max_summary_tokens: 4_000,
            hard_limit_tokens: None,
        }
    }
}

/// Default threshold if the model's window is not known: it leaves room for an answer and a large
/// tool result in a window of 128,000 tokens, which is the smallest common window of models on the
/// internet.
const UNKNOWN_WINDOW_COMPACTION_THRESHOLD: u64 = 80_000;

/// Percentage of the model's window, without the part that is reserved for the answer, that a
/// request may use before the conversation is compacted. The rest is reserved for the next tool
/// results and for the error of the estimate.
const COMPACTION_THRESHOLD_PERCENT: u64 = 80;

/// Minimum of a threshold that is computed from the window. With a lower threshold, only the system
/// prompt would fit.
const MIN_COMPACTION_THRESHOLD_TOKENS: u64 = 1_000;

/// Limits of the requests to one model, in tokens. They come from the settings, or else from the
/// profile of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ModelRequestTokenLimits {
    pub(super) threshold: u64,
    pub(super) keep_last_messages: usize,
    pub(super) keep: u64,
    pub(super) max_summary: u64,
    /// Tokens of a request above which tool results are truncated; `None` for no limit.
    pub(super) hard: Option<u64>,
}

impl ModelRequestTokenLimits {
    /// Returns the number of tokens of a request below which neither compaction nor truncation is
    /// needed.
    pub(super) fn lowest_limit(&self) -> u64 {
        self.threshold.min(self.hard.unwrap_or(u64::MAX))
    }

    /// Lowers the limits below the size of a request that a server refused as too long, if there
    /// was one. Because counts are estimates, the limits become at most three quarters of that
    /// size.
    pub(super) fn lower_limits_after_refusal(mut self, refused: Option<u64>) -> Self {
        if let Some(refused) = refused {
            let most = refused / 4 * 3;
            self.threshold = self.threshold.min(most);
            self.keep = self.keep.min(most / 4);
            self.max_summary = self.max_summary.min(most / 4);
            self.hard = Some(self.hard.map_or(most, |hard| hard.min(most)));
        }
        self
    }
}

impl CompactConfig {
    /// Returns the tokens of a request to a model of this profile above which older messages are
    /// replaced; `None` if compaction is disabled.
    #[must_use]
    pub fn compaction_threshold(&self, model: &ModelProfile) -> Option<u64> {
        self.enabled
            .then(|| self.request_token_limits(model).threshold)
    }

    /// Returns the limits for a model. A setting has precedence over a limit that is computed from
    /// the model's window.
    pub(super) fn request_token_limits(&self, model: &ModelProfile) -> ModelRequestTokenLimits {
        // The answer shares the window with the prompt. If the longest answer could fill the
        // window, a quarter of the window is reserved for it.
        let room = model.window_tokens.map(|window| {
            let answer = model.answer_tokens.map_or(u64::MAX, u64::from);
            window - answer.min(window / 4)
        });
        let follows = room.map(|room| {
            (room / 100 * COMPACTION_THRESHOLD_PERCENT).max(MIN_COMPACTION_THRESHOLD_TOKENS)
        });
        let threshold = self.threshold_tokens.or(follows);
        let keep = match self.threshold_tokens.is_none() {
            true => self.keep_tokens.min(follows.unwrap_or(u64::MAX) / 4),
            false => self.keep_tokens,
        };
        ModelRequestTokenLimits {
            threshold: threshold.unwrap_or(UNKNOWN_WINDOW_COMPACTION_THRESHOLD),
            keep_last_messages: self.keep_last_messages,
            keep,
            max_summary: self.max_summary_tokens,
            hard: self.hard_limit_tokens.or(room.filter(|_| self.enabled)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(window: Option<u64>, answer: Option<u32>) -> ModelProfile {
        ModelProfile {
            window_tokens: window,
            answer_tokens: answer,
            ..ModelProfile::default()
        }
    }

    #[test]
    fn the_threshold_follows_the_window_unless_it_is_set() {
        let unset = CompactConfig::default();
        let set = CompactConfig {
            threshold_tokens: Some(5_000),
            ..CompactConfig::default()
        };
        // Columns: window, longest answer; expected threshold, kept tokens, hard limit.
        for (window, answer, expected) in [
            (None, None, (80_000, 16_000, None)),
            (None, Some(8_192), (80_000, 16_000, None)),
            (Some(32_768), None, (19_600, 4_900, Some(24_576))),
            (Some(8_192), Some(4_096), (4_880, 1_220, Some(6_144))),
            (
                Some(200_000),
                Some(64_000),
                (120_000, 16_000, Some(150_000)),
            ),
            (Some(200_000), Some(8_192), (153_440, 16_000, Some(191_808))),
            (
                Some(1_000_000),
                Some(128_000),
                (697_600, 16_000, Some(872_000)),
            ),
            (Some(256), Some(1), (1_000, 250, Some(255))),
        ] {
            let limits = unset.request_token_limits(&model(window, answer));
            let found = (limits.threshold, limits.keep, limits.hard);
            assert_eq!(found, expected, "{window:?} {answer:?}");
            let limits = set.request_token_limits(&model(window, answer));
            assert_eq!((limits.threshold, limits.keep), (5_000, 16_000));
        }
        let off = CompactConfig {
            enabled: false,
            ..CompactConfig::default()
        };
        let small = model(Some(32_768), None);
        assert_eq!(off.request_token_limits(&small).hard, None);
        assert_eq!(off.compaction_threshold(&small), None);
        assert_eq!(unset.compaction_threshold(&small), Some(19_600));
    }
}
