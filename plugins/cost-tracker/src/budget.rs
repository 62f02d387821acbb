//! Budgets for tokens and cost, and the message that refuses a request when a budget is spent.

use std::fmt::Display;

use rind_sdk::data;

use crate::ledger::CostLedger;
use crate::say::format_dollars;

/// Limits of tokens or cost for a turn and for the session; `None` sets no limit.
#[data]
#[derive(Default)]
#[serde(default)]
pub(crate) struct CostLimits<T: Default> {
    pub(crate) turn: Option<T>,
    pub(crate) session: Option<T>,
}

impl<T: Default + Copy> CostLimits<T> {
    /// Whether neither the turn nor the session has a limit.
    pub(crate) fn is_empty(&self) -> bool {
        self.turn.is_none() && self.session.is_none()
    }
}

/// Returns the reason for refusing a request, if a budget is spent.
pub(crate) fn spent_budget_reason(
    ledger: &CostLedger,
    usd: &CostLimits<f64>,
    tokens: &CostLimits<u64>,
) -> Option<String> {
    let (turn, session) = (&ledger.this_turn, &ledger.session);
    over_limit_reason(
        "turn",
        turn.usd,
        usd.turn,
        format_dollars,
        "budget_usd.turn",
    )
    .or_else(|| {
        over_limit_reason(
            "session",
            session.usd,
            usd.session,
            format_dollars,
            "budget_usd.session",
        )
    })
    .or_else(|| {
        over_limit_reason(
            "turn",
            turn.total_tokens(),
            tokens.turn,
            format_token_count,
            "budget_tokens.turn",
        )
    })
    .or_else(|| {
        let used = session.total_tokens();
        over_limit_reason(
            "session",
            used,
            tokens.session,
            format_token_count,
            "budget_tokens.session",
        )
    })
}

fn over_limit_reason<T: PartialOrd + Copy, D: Display>(
    what: &str,
    used: T,
    limit: Option<T>,
    show: impl Fn(T) -> D,
    setting: &str,
) -> Option<String> {
    let limit = limit.filter(|limit| used >= *limit)?;
    Some(format!(
        "the budget of this {what} is spent: {} of {}; the operator can raise `{setting}` under [plugins.cost-tracker.config]",
        show(used),
        show(limit)
    ))
}

fn format_token_count(tokens: u64) -> String {
    format!("{tokens} tokens")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::UsageSum;

    #[test]
    fn each_budget_is_spent_when_it_is_reached() {
        let sum = |usd, input| UsageSum {
            usd,
            input,
            ..UsageSum::default()
        };
        let ledger = CostLedger {
            this_turn: sum(0.5, 100),
            session: sum(2.0, 900),
            ..CostLedger::default()
        };
        let limits = |turn, session| CostLimits { turn, session };
        for (usd, tokens, expected) in [
            (limits(None, None), CostLimits::default(), None),
            (limits(Some(0.51), Some(2.1)), limits_of(101, 901), None),
            (
                limits(Some(0.5), None),
                CostLimits::default(),
                Some("$0.50 of $0.50"),
            ),
            (
                limits(None, Some(1.0)),
                CostLimits::default(),
                Some("this session is spent: $2.00 of $1.00"),
            ),
            (
                limits(None, None),
                limits_of(100, 901),
                Some("`budget_tokens.turn`"),
            ),
            (
                limits(None, None),
                limits_of(101, 900),
                Some("900 tokens of 900 tokens"),
            ),
            (
                limits(Some(0.0), None),
                CostLimits::default(),
                Some("$0.0000"),
            ),
        ] {
            let reason = spent_budget_reason(&ledger, &usd, &tokens);
            match expected {
                None => assert_eq!(reason, None),
                Some(text) => assert!(
                    reason.as_ref().is_some_and(|r| r.contains(text)),
                    "{reason:?}"
                ),
            }
        }
    }

    fn limits_of(turn: u64, session: u64) -> CostLimits<u64> {
        CostLimits {
            turn: Some(turn),
            session: Some(session),
        }
    }
}
