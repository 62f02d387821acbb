//! Limits of a tenant, and its use in a minute and a day.

use std::time::Duration;

use rind_lib::point::payload::TurnSummary;
use serde::{Deserialize, Serialize};

use crate::NatsError;

/// Milliseconds of the two spans in which use is counted.
const MINUTE_MS: i64 = 60_000;
const DAY_MS: i64 = 86_400_000;

/// Millionths of a dollar, in which costs are counted.
const MICROS: f64 = 1e6;

/// Limits of a tenant; an absent one is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QuotaLimits {
    /// Sessions that may be begun in a day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sessions_a_day: Option<u64>,
    /// Turns that may begin in a minute, and inputs that may be sent in one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns_a_minute: Option<u64>,
    /// Tokens that turns may use in a day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_a_day: Option<u64>,
    /// US dollars that turns may cost in a day, as far as prices are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usd_a_day: Option<f64>,
}

/// Use of a tenant in the minute and the day that were counted last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct QuotaUse {
    /// Minutes since 1970.
    minute: i64,
    /// Inputs that were sent in the minute.
    pub inputs: u64,
    /// Turns that began in the minute.
    pub turns: u64,
    /// Days since 1970.
    day: i64,
    /// Sessions that began on the day.
    pub sessions: u64,
    /// Tokens that turns used on the day.
    pub tokens: u64,
    /// Millionths of US dollars that turns cost on the day.
    pub micro_usd: u64,
}

/// Limits of a tenant, and its use now.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct QuotaReport {
    /// Limits that the operator declared.
    pub limits: QuotaLimits,
    /// Use in this minute and on this day.
    pub used: QuotaUse,
}

/// Refusal of an input, a turn or a session for which a quota leaves no room.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error(
    "the tenant has used up its quota of {quota}: {used} of {limit}; it is free again at {free_at}, or when the operator raises it with `rind cluster quota`"
)]
pub struct QuotaRefusal {
    /// Quota in words, as in `turns a minute`.
    pub quota: String,
    /// Use so far.
    pub used: f64,
    /// Limit.
    pub limit: f64,
    /// Time at which the quota is free again, in milliseconds since 1970.
    free_ms: i64,
    /// The same time as text.
    free_at: String,
}

impl QuotaRefusal {
    /// Returns the time until the quota is free again.
    #[must_use]
    pub fn free_in(&self) -> Duration {
        let left = self.free_ms.saturating_sub(rind_lib::clock::now_ms());
        Duration::from_millis(u64::try_from(left).unwrap_or(0))
    }
}

/// Tokens and cost of a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TurnUse {
    /// Tokens.
    pub tokens: u64,
    /// Cost in US dollars, as far as prices are known.
    pub usd: f64,
}

impl TurnUse {
    /// Returns what a turn used that has ended.
    #[must_use]
    pub fn of(summary: &TurnSummary) -> Self {
        Self {
            tokens: summary.usage.total(),
            usd: summary.cost_usd,
        }
    }
}

impl QuotaUse {
    /// Forgets what was used in spans before this time. A clock that is behind changes nothing.
    pub(super) fn roll(&mut self, now_ms: i64) {
        let (minute, day) = (now_ms.div_euclid(MINUTE_MS), now_ms.div_euclid(DAY_MS));
        if minute > self.minute {
            (self.minute, self.inputs, self.turns) = (minute, 0, 0);
        }
        if day > self.day {
            (self.day, self.sessions, self.tokens, self.micro_usd) = (day, 0, 0, 0);
        }
    }

    /// Returns the US dollars that turns cost on the day.
    #[must_use]
    pub fn usd(&self) -> f64 {
        self.micro_usd as f64 / MICROS
    }

    /// Adds what a turn used that has ended.
    pub(super) fn add_turn(&mut self, turn: TurnUse) {
        self.tokens = self.tokens.saturating_add(turn.tokens);
        let micros = (turn.usd * MICROS).max(0.0).round();
        self.micro_usd = self.micro_usd.saturating_add(micros as u64);
    }

    pub(super) fn check_minute(
        &self,
        what: &str,
        used: u64,
        limit: Option<u64>,
    ) -> Result<(), NatsError> {
        let free_ms = self.minute.saturating_add(1).saturating_mul(MINUTE_MS);
        check(what, used as f64, limit.map(|limit| limit as f64), free_ms)
    }

    pub(super) fn check_day(
        &self,
        what: &str,
        used: f64,
        limit: Option<f64>,
    ) -> Result<(), NatsError> {
        let free_ms = self.day.saturating_add(1).saturating_mul(DAY_MS);
        check(what, used, limit, free_ms)
    }

    /// Checks whether a turn may begin.
    pub(super) fn check_turn(&self, limits: &QuotaLimits) -> Result<(), NatsError> {
        self.check_spent(limits)?;
        self.check_minute("turns a minute", self.turns, limits.turns_a_minute)
    }

    /// Checks what is used up for a day, whatever a minute allows.
    pub(super) fn check_spent(&self, limits: &QuotaLimits) -> Result<(), NatsError> {
        let tokens = limits.tokens_a_day.map(|limit| limit as f64);
        self.check_day("tokens a day", self.tokens as f64, tokens)?;
        self.check_day("US dollars a day", self.usd(), limits.usd_a_day)
    }
}

fn check(what: &str, used: f64, limit: Option<f64>, free_ms: i64) -> Result<(), NatsError> {
    match limit {
        Some(limit) if used >= limit => Err(NatsError::OverQuota(QuotaRefusal {
            quota: what.to_owned(),
            used,
            limit,
            free_ms,
            free_at: time_text(free_ms),
        })),
        _ => Ok(()),
    }
}

/// Returns a time in milliseconds since 1970 as text: RFC 3339 in UTC.
fn time_text(ms: i64) -> String {
    let at = jiff::Timestamp::from_millisecond(ms);
    at.map(|at| at.to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_behind_takes_no_count_back() {
        let mut used = QuotaUse::default();
        used.roll(3 * DAY_MS + 5 * MINUTE_MS);
        (used.turns, used.tokens) = (4, 100);
        used.roll(3 * DAY_MS + 4 * MINUTE_MS);
        used.roll(2 * DAY_MS);
        assert_eq!((used.turns, used.tokens), (4, 100));
        used.roll(3 * DAY_MS + 6 * MINUTE_MS);
        assert_eq!((used.turns, used.tokens), (0, 100));
        used.roll(4 * DAY_MS);
        assert_eq!((used.turns, used.tokens), (0, 0));
    }

    #[test]
    fn a_refusal_names_the_quota_the_use_and_when_it_is_free_again() {
        let used = QuotaUse {
            day: 20_000,
            micro_usd: 2_500_000,
            ..QuotaUse::default()
        };
        let limits = QuotaLimits {
            usd_a_day: Some(2.0),
            ..QuotaLimits::default()
        };
        let refused = used.check_spent(&limits).unwrap_err().to_string();
        for words in ["US dollars a day", "2.5 of 2", "2024-10-05T00:00:00Z"] {
            assert!(refused.contains(words), "{words}: {refused}");
        }
    }
}
