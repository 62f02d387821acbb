//! Formats costs and token counts as text for the person.

use std::collections::BTreeMap;

use crate::ledger::{CostLedger, UsageSum};

/// Maximum number of names in each list of a summary. The most expensive ones are listed.
const MAX_NAMES_PER_SUMMARY_LIST: usize = 5;

/// Formats US dollars: with four decimals below 10 cents, else with two.
pub(crate) fn format_dollars(usd: f64) -> String {
    if usd < 0.1 {
        format!("${usd:.4}")
    } else {
        format!("${usd:.2}")
    }
}

/// Formats a cost as `$0.0123`, as `at least $0.0123` if some tokens have no price, or as a number
/// of tokens if no token has a price.
fn format_cost(sum: &UsageSum) -> String {
    let about = if sum.estimated { "about " } else { "" };
    match (sum.unpriced, sum.total_tokens()) {
        (0, _) => format!("{about}{}", format_dollars(sum.usd)),
        (unpriced, all) if unpriced == all => {
            format!("{about}{all} tokens without a price")
        }
        _ => format!("at least {}", format_dollars(sum.usd)),
    }
}

/// Returns the summary line for the end of a turn; `None` if the turn made no request.
pub(crate) fn format_ledger_summary(ledger: &CostLedger, has_details: bool) -> Option<String> {
    if ledger.this_turn.requests == 0 {
        return None;
    }
    let mut text = format!(
        "cost: {} this turn, {} this session",
        format_cost(&ledger.this_turn),
        format_cost(&ledger.session)
    );
    if has_details {
        let tools = ledger.tools.iter().map(|(name, tool)| {
            let ending = if tool.calls == 1 { "" } else { "s" };
            let said = format!(
                "{name} {} in {} call{ending}",
                format_dollars(tool.usd),
                tool.calls
            );
            (tool.usd, tool.tokens, said)
        });
        text += &format_highest_costs("models", sort_sums_by_cost(&ledger.models));
        text += &format_highest_costs("plugins", sort_sums_by_cost(&ledger.plugins));
        text += &format_highest_costs("skills", sort_sums_by_cost(&ledger.skills));
        text += &format_highest_costs("results of tools, estimated", tools.collect());
    }
    Some(text)
}

fn sort_sums_by_cost(of: &BTreeMap<String, UsageSum>) -> Vec<(f64, u64, String)> {
    of.iter()
        .map(|(name, sum)| {
            (
                sum.usd,
                sum.total_tokens(),
                format!("{name} {}", format_cost(sum)),
            )
        })
        .collect()
}

/// Formats the list of the most expensive rows, which `what` names, such as models or tools; rows
/// of equal cost are ordered by tokens.
fn format_highest_costs(what: &str, mut rows: Vec<(f64, u64, String)>) -> String {
    rows.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)));
    rows.truncate(MAX_NAMES_PER_SUMMARY_LIST);
    if rows.is_empty() {
        return String::new();
    }
    let rows: Vec<String> = rows.into_iter().map(|(_, _, said)| said).collect();
    format!("; {what}: {}", rows.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_that_is_not_all_known_says_so() {
        let sum = |usd, input, unpriced| UsageSum {
            requests: 1,
            usd,
            input,
            unpriced,
            ..UsageSum::default()
        };
        for (turn, session, expected) in [
            (
                sum(0.0123, 9, 0),
                sum(0.45, 9, 0),
                "cost: $0.0123 this turn, $0.45 this session",
            ),
            (
                sum(0.0, 9, 0),
                sum(12.345, 9, 3),
                "cost: $0.0000 this turn, at least $12.35 this session",
            ),
            (
                sum(0.0, 9, 9),
                sum(0.0, 20, 20),
                "cost: 9 tokens without a price this turn, 20 tokens without a price this session",
            ),
        ] {
            let ledger = CostLedger {
                this_turn: turn,
                session,
                ..CostLedger::default()
            };
            assert_eq!(
                format_ledger_summary(&ledger, true).as_deref(),
                Some(expected)
            );
        }
        assert_eq!(format_ledger_summary(&CostLedger::default(), true), None);
    }
}
