//! Defines the limits of a tenant, counts its usage in the current minute and day, and compares the
//! two.

use std::time::Duration;

use rind_lib::point::payload::TurnSummary;
use serde::{Deserialize, Serialize};

use crate::NatsError;

/// Length in milliseconds of the two periods in which usage is counted.
const MILLISECONDS_PER_MINUTE: i64 = 60_000;
const MILLISECONDS_PER_DAY: i64 = 86_400_000;

/// Number of millionths in a US dollar; costs are counted in millionths.
const MICRODOLLARS_PER_DOLLAR: f64 = 1e6;

/// Limits of a tenant. `None` in a field means that there is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TenantQuotaLimits {
    /// Number of sessions that may be created in a day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sessions_a_day: Option<u64>,
    /// Number of turns that may begin in a minute, and of inputs that may be sent in a minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns_a_minute: Option<u64>,
    /// Number of tokens that turns may use in a day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_a_day: Option<u64>,
    /// US dollars that turns may cost in a day, as far as prices are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usd_a_day: Option<f64>,
}

/// Usage of a tenant in the minute and on the day of the last count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TenantUsage {
    /// Minute to which the counts of inputs and turns apply, in minutes since 1970.
    minute: i64,
    /// Number of inputs that were sent in the counted minute.
    pub inputs: u64,
    /// Number of the tenant's turns that began in the counted minute.
    pub turns: u64,
    /// Day to which the counts of sessions, tokens and cost apply, in days since 1970.
    day: i64,
    /// Number of sessions that were created on the counted day.
    pub sessions: u64,
    /// Number of tokens that turns used on the counted day.
    pub tokens: u64,
    /// Cost of turns on the counted day, in millionths of a US dollar.
    pub micro_usd: u64,
}

/// Quotas of a tenant, and how much of them is used.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct QuotaReport {
    /// Limits that the operator set for the tenant.
    pub limits: TenantQuotaLimits,
    /// Usage in the current minute and on the current day.
    pub used: TenantUsage,
}

/// Refusal of an input, a turn or a session because a quota is used up.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error(
    "the tenant has used up its quota of {quota}: {used} of {limit}; it is free again at {free_at}, or when the operator raises it with `rind cluster quota`"
)]
pub struct QuotaExceededError {
    /// Name of the quota that is used up, such as `turns a minute`.
    pub quota: String,
    /// Amount that was used so far, in the unit of the quota.
    pub used: f64,
    /// Limit of the quota, in its unit.
    pub limit: f64,
    /// Time at which the quota is available again, in milliseconds since 1970.
    free_ms: i64,
    /// Time at which the quota is available again, as text.
    free_at: String,
}

impl QuotaExceededError {
    /// Returns the time until the quota allows the request again.
    #[must_use]
    pub fn time_until_available(&self) -> Duration {
        let left = self.free_ms.saturating_sub(rind_lib::clock::now_ms());
        Duration::from_millis(u64::try_from(left).unwrap_or(0))
    }
}

/// Number of tokens and cost of one turn.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TurnTokensAndCost {
    /// Total number of tokens that the turn used.
    pub tokens: u64,
    /// Cost in US dollars, as far as prices are known.
    pub usd: f64,
}

impl TurnTokensAndCost {
    /// Returns the tokens and the cost of a turn that has ended.
    #[must_use]
    pub fn from_summary(summary: &TurnSummary) -> Self {
        Self {
            tokens: summary.usage.total(),
            usd: summary.cost_usd,
        }
    }
}

impl TenantUsage {
    /// Resets the counts if the minute or day of `now_ms` is later than the counted one. An earlier
    /// time, from a slow clock, changes nothing.
    pub(super) fn reset_counts_of_past_periods(&mut self, now_ms: i64) {
        let (minute, day) = (
            now_ms.div_euclid(MILLISECONDS_PER_MINUTE),
            now_ms.div_euclid(MILLISECONDS_PER_DAY),
        );
        if minute > self.minute {
            (self.minute, self.inputs, self.turns) = (minute, 0, 0);
        }
        if day > self.day {
            (self.day, self.sessions, self.tokens, self.micro_usd) = (day, 0, 0, 0);
        }
    }

    /// Returns the cost of turns on the counted day, in US dollars.
    #[must_use]
    pub fn daily_cost_usd(&self) -> f64 {
        self.micro_usd as f64 / MICRODOLLARS_PER_DOLLAR
    }

    /// Adds the tokens and the cost of a turn that has ended to the day's counts.
    pub(super) fn add_turn(&mut self, turn: TurnTokensAndCost) {
        self.tokens = self.tokens.saturating_add(turn.tokens);
        let micros = (turn.usd * MICRODOLLARS_PER_DOLLAR).max(0.0).round();
        self.micro_usd = self.micro_usd.saturating_add(micros as u64);
    }

    pub(super) fn check_minute_quota(
        &self,
        what: &str,
        used: u64,
        limit: Option<u64>,
    ) -> Result<(), NatsError> {
        let free_ms = self
            .minute
            .saturating_add(1)
            .saturating_mul(MILLISECONDS_PER_MINUTE);
        check_limit(what, used as f64, limit.map(|limit| limit as f64), free_ms)
    }

    pub(super) fn check_day_quota(
        &self,
        what: &str,
        used: f64,
        limit: Option<f64>,
    ) -> Result<(), NatsError> {
        let free_ms = self
            .day
            .saturating_add(1)
            .saturating_mul(MILLISECONDS_PER_DAY);
        check_limit(what, used, limit, free_ms)
    }

    /// Checks the quotas of tokens, cost and turns, before a turn begins.
    pub(super) fn check_turn_quotas(&self, limits: &TenantQuotaLimits) -> Result<(), NatsError> {
        self.check_daily_spending(limits)?;
        self.check_minute_quota("turns a minute", self.turns, limits.turns_a_minute)
    }

    /// Checks only the quotas of tokens and cost for a day.
    pub(super) fn check_daily_spending(&self, limits: &TenantQuotaLimits) -> Result<(), NatsError> {
        let tokens = limits.tokens_a_day.map(|limit| limit as f64);
        self.check_day_quota("tokens a day", self.tokens as f64, tokens)?;
        self.check_day_quota("US dollars a day", self.daily_cost_usd(), limits.usd_a_day)
    }
}

fn check_limit(what: &str, used: f64, limit: Option<f64>, free_ms: i64) -> Result<(), NatsError> {
    match limit {
        Some(limit) if used >= limit => Err(NatsError::OverQuota(QuotaExceededError {
            quota: what.to_owned(),
            used,
            limit,
            free_ms,
            free_at: format_unix_time_ms(free_ms),
        })),
        _ => Ok(()),
    }
}

/// Formats a time in milliseconds since 1970 (RFC 3339, UTC).
fn format_unix_time_ms(ms: i64) -> String {
    let at = jiff::Timestamp::from_millisecond(ms);
    at.map(|at| at.to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_behind_takes_no_count_back() {
        let mut used = TenantUsage::default();
        used.reset_counts_of_past_periods(3 * MILLISECONDS_PER_DAY + 5 * MILLISECONDS_PER_MINUTE);
        (used.turns, used.tokens) = (4, 100);
        used.reset_counts_of_past_periods(3 * MILLISECONDS_PER_DAY + 4 * MILLISECONDS_PER_MINUTE);
        used.reset_counts_of_past_periods(2 * MILLISECONDS_PER_DAY);
        assert_eq!((used.turns, used.tokens), (4, 100));
        used.reset_counts_of_past_periods(3 * MILLISECONDS_PER_DAY + 6 * MILLISECONDS_PER_MINUTE);
        assert_eq!((used.turns, used.tokens), (0, 100));
        used.reset_counts_of_past_periods(4 * MILLISECONDS_PER_DAY);
        assert_eq!((used.turns, used.tokens), (0, 0));
    }

    #[test]
    fn a_refusal_names_the_quota_the_use_and_when_it_is_free_again() {
        let used = TenantUsage {
            day: 20_000,
            micro_usd: 2_500_000,
            ..TenantUsage::default()
        };
        let limits = TenantQuotaLimits {
            usd_a_day: Some(2.0),
            ..TenantQuotaLimits::default()
        };
        let refused = used.check_daily_spending(&limits).unwrap_err().to_string();
        for words in ["US dollars a day", "2.5 of 2", "2024-10-05T00:00:00Z"] {
            assert!(refused.contains(words), "{words}: {refused}");
        }
    }
}
