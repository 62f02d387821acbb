//! Picks a model for a task, and explains the pick.

use std::cmp::Ordering;

use rind_sdk::data;

use crate::stats::{ModelStat, TaskStats};

/// Model that may be picked, with its prices and latency.
#[data]
pub(crate) struct ModelCandidate {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) input_price: Option<f64>,
    #[serde(default)]
    pub(crate) output_price: Option<f64>,
    #[serde(default)]
    pub(crate) latency_ms: Option<f64>,
}

/// Settings of the plugin: the candidate models, and thresholds for choosing one.
#[data]
pub(crate) struct ModelSelectionSettings {
    pub(crate) models: Vec<ModelCandidate>,
    pub(crate) enforce_from: f64,
    pub(crate) suggest_from: f64,
    pub(crate) observations: f64,
    pub(crate) margin: f64,
    pub(crate) explore: f64,
}

impl ModelSelectionSettings {
    pub(crate) fn model_names(&self) -> Vec<String> {
        self.models.iter().map(|model| model.name.clone()).collect()
    }

    fn is_candidate_model(&self, model: &str) -> bool {
        self.models.iter().any(|listed| listed.name == model)
    }
}

/// Decision about the model of a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TurnModelDecision {
    /// Keeps the current model.
    Defer,
    /// Keeps the current model, and notifies the user that the model with this name would be
    /// better.
    Suggest(String),
    /// Uses the model with this name.
    Enforce(String),
}

/// Decision about the model of a turn, with its reason.
pub(crate) struct ModelDecisionWithReason {
    pub(crate) action: TurnModelDecision,
    pub(crate) why: String,
}

fn keep_current_model_decision(why: String) -> ModelDecisionWithReason {
    let action = TurnModelDecision::Defer;
    ModelDecisionWithReason { action, why }
}

/// Picks a model for a task of this kind whose current model is `current`. If `chance`, a random
/// number from 0 to 1, is below the configured share of turns that explore, picks the model with
/// the fewest observed turns.
pub(crate) fn pick_model(
    kind: &str,
    current: &str,
    stats: &TaskStats,
    settings: &ModelSelectionSettings,
    chance: f64,
) -> ModelDecisionWithReason {
    if !settings.is_candidate_model(current) {
        return keep_current_model_decision(format!("`{current}` is not in the list of models"));
    }
    if chance < settings.explore
        && let Some(least) = least_observed_model(kind, stats, settings)
    {
        let why = format!("{kind}: tries `{least}`, the model with the fewest observed turns");
        return ModelDecisionWithReason {
            action: TurnModelDecision::Enforce(least),
            why,
        };
    }
    let known: Vec<(&ModelCandidate, ModelStat)> = settings
        .models
        .iter()
        .map(|model| (model, stats.model_stat(kind, &model.name)))
        .collect();
    let n: f64 = known.iter().map(|(_, stat)| stat.n).sum();
    if n < settings.observations {
        let wanted = settings.observations;
        return keep_current_model_decision(format!(
            "{kind}: observed {n:.0} of the {wanted:.0} turns that a pick needs"
        ));
    }
    let best = known.iter().map(|(_, stat)| stat.confident_success_rate());
    let best = best.fold(0.0, f64::max);
    let mut good: Vec<&(&ModelCandidate, ModelStat)> = known
        .iter()
        .filter(|(_, stat)| {
            stat.n >= 1.0 && stat.confident_success_rate() >= best - settings.margin
        })
        .collect();
    let has_prices = good
        .iter()
        .all(|(model, stat)| expected_cost_usd(model, stat).is_some());
    // The sort is stable: of two models with equal cost, the one listed first comes first.
    good.sort_by(|a, b| compare_cost_and_latency(a, b, has_prices));
    let Some((model, stat)) = good.first() else {
        return keep_current_model_decision(format!("{kind}: nothing is known"));
    };
    let (name, surely) = (&model.name, stat.confident_success_rate());
    let why = format!(
        "{kind}: `{name}` went well in {:.0} of {:.0} turns, with 95 % confidence in at least {:.0} %; {} of {} models within {:.0} % of the best, {}",
        stat.good,
        stat.n,
        surely * 100.0,
        good.len(),
        known.len(),
        settings.margin * 100.0,
        format_model_cost(model, stat, has_prices)
    );
    let action = if name == current || surely < settings.suggest_from {
        TurnModelDecision::Defer
    } else if surely < settings.enforce_from {
        TurnModelDecision::Suggest(name.clone())
    } else {
        TurnModelDecision::Enforce(name.clone())
    };
    ModelDecisionWithReason { action, why }
}

/// Returns the model with the fewest observed turns of a kind.
fn least_observed_model(
    kind: &str,
    stats: &TaskStats,
    settings: &ModelSelectionSettings,
) -> Option<String> {
    let turns = |model: &&ModelCandidate| stats.model_stat(kind, &model.name).n;
    let least = settings
        .models
        .iter()
        .min_by(|a, b| turns(a).total_cmp(&turns(b)));
    least.map(|model| model.name.clone())
}

/// Returns the expected cost of a turn in US dollars; `None` if the model has no prices.
fn expected_cost_usd(model: &ModelCandidate, stat: &ModelStat) -> Option<f64> {
    let (input, output) = (model.input_price?, model.output_price?);
    Some((stat.input * input + stat.output * output) / stat.n / 1_000_000.0)
}

fn predict_tokens(stat: &ModelStat) -> f64 {
    (stat.input + stat.output) / stat.n
}

/// Returns the expected time of a request in milliseconds: the observed mean, or else the
/// operator's setting.
fn predict_latency(model: &ModelCandidate, stat: &ModelStat) -> f64 {
    if stat.requests > 0.0 {
        stat.millis / stat.requests
    } else {
        model.latency_ms.unwrap_or(f64::MAX)
    }
}

/// Compares by cost, in dollars if all models have prices and in tokens otherwise, then by latency.
fn compare_cost_and_latency(
    a: &(&ModelCandidate, ModelStat),
    b: &(&ModelCandidate, ModelStat),
    has_prices: bool,
) -> Ordering {
    let cost = |(model, stat): &(&ModelCandidate, ModelStat)| match has_prices {
        true => expected_cost_usd(model, stat).unwrap_or(f64::MAX),
        false => predict_tokens(stat),
    };
    let by_cost = cost(a).total_cmp(&cost(b));
    by_cost.then(predict_latency(a.0, &a.1).total_cmp(&predict_latency(b.0, &b.1)))
}

fn format_model_cost(model: &ModelCandidate, stat: &ModelStat, has_prices: bool) -> String {
    match expected_cost_usd(model, stat).filter(|_| has_prices) {
        Some(usd) => format!("the cheapest of them at ${usd:.5} a turn"),
        None => format!(
            "the one with the fewest tokens, {:.0} a turn",
            predict_tokens(stat)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::FinishedTurnStats;

    fn settings(models: &[(&str, Option<f64>)]) -> ModelSelectionSettings {
        let models = models.iter().map(|(name, price)| ModelCandidate {
            name: (*name).to_owned(),
            input_price: *price,
            output_price: *price,
            latency_ms: None,
        });
        ModelSelectionSettings {
            models: models.collect(),
            enforce_from: 0.85,
            suggest_from: 0.65,
            observations: 50.0,
            margin: 0.05,
            explore: 0.0,
        }
    }

    /// Builds statistics from tuples: model, number of good turns, number of all turns, input
    /// tokens per turn.
    fn stats(of: &[(&str, u32, u32, u64)]) -> TaskStats {
        let mut stats = TaskStats::default();
        for (model, good, n, input) in of {
            for number in 0..*n {
                let seen = FinishedTurnStats {
                    is_good: number < *good,
                    input: *input,
                    requests: 1,
                    millis: 10,
                    ..FinishedTurnStats::default()
                };
                stats.add_turn(
                    "k",
                    model,
                    seen,
                    &[
                        (*model).to_owned(),
                        "a".to_owned(),
                        "b".to_owned(),
                        "c".to_owned(),
                    ],
                );
            }
        }
        stats
    }

    fn enforce(name: &str) -> TurnModelDecision {
        TurnModelDecision::Enforce(name.to_owned())
    }

    #[test]
    fn what_is_known_decides_and_the_cheapest_of_the_good_wins() {
        let priced = settings(&[("a", Some(10.0)), ("b", Some(1.0))]);
        let unpriced = settings(&[("a", None), ("b", Some(1.0))]);
        for (known, settings, expected) in [
            // Not enough turns of the kind were observed.
            (
                stats(&[("a", 20, 20, 9), ("b", 29, 29, 9)]),
                &priced,
                TurnModelDecision::Defer,
            ),
            (
                stats(&[("a", 50, 50, 9), ("b", 50, 50, 9)]),
                &priced,
                enforce("b"),
            ),
            // Tokens decide if one of the models has no prices.
            (
                stats(&[("a", 50, 50, 9), ("b", 50, 50, 10)]),
                &unpriced,
                TurnModelDecision::Defer,
            ),
            (
                stats(&[("a", 50, 50, 9), ("b", 50, 50, 8)]),
                &unpriced,
                enforce("b"),
            ),
            // Model b is cheaper, but too bad.
            (
                stats(&[("a", 50, 50, 9), ("b", 25, 50, 9)]),
                &priced,
                TurnModelDecision::Defer,
            ),
            // Model b is good enough to suggest, but not to enforce.
            (
                stats(&[("a", 10, 50, 9), ("b", 45, 50, 9)]),
                &priced,
                TurnModelDecision::Suggest("b".to_owned()),
            ),
            // Model b is the better one, but not good enough to suggest.
            (
                stats(&[("a", 10, 50, 9), ("b", 30, 50, 9)]),
                &priced,
                TurnModelDecision::Defer,
            ),
            // Only model b was observed.
            (stats(&[("b", 60, 60, 9)]), &priced, enforce("b")),
        ] {
            let pick = pick_model("k", "a", &known, settings, 0.9);
            assert_eq!(pick.action, expected, "{}", pick.why);
        }
    }

    #[test]
    fn a_model_outside_the_list_is_neither_picked_nor_replaced() {
        let known = stats(&[("a", 60, 60, 9), ("b", 60, 60, 1)]);
        let only_a = settings(&[("a", None)]);
        assert_eq!(
            pick_model("k", "a", &known, &only_a, 0.0).action,
            TurnModelDecision::Defer
        );
        assert_eq!(
            pick_model("k", "typed", &known, &only_a, 0.0).action,
            TurnModelDecision::Defer
        );
        assert_eq!(
            pick_model("k", "a", &known, &settings(&[]), 0.0).action,
            TurnModelDecision::Defer
        );
    }

    #[test]
    fn exploring_tries_what_is_known_least_and_is_off_by_default() {
        let known = stats(&[("a", 3, 3, 9)]);
        let mut settings = settings(&[("a", None), ("b", None)]);
        assert_eq!(
            pick_model("k", "a", &known, &settings, 0.0).action,
            TurnModelDecision::Defer
        );
        settings.explore = 0.1;
        assert_eq!(
            pick_model("k", "a", &known, &settings, 0.05).action,
            enforce("b")
        );
        assert_eq!(
            pick_model("k", "a", &known, &settings, 0.5).action,
            TurnModelDecision::Defer
        );
    }
}
