//! Keeps statistics for each kind of task and each model.

use std::collections::BTreeMap;

use rind_sdk::data;

/// Number of turns of a model and kind of task at which all their sums are halved, so that old
/// turns count less and no sum grows without limit.
const MODEL_STATS_HALVING_TURN_COUNT: f64 = 1000.0;

/// Quantile of the normal distribution for a two-sided confidence interval of 95 %.
const CONFIDENCE_95_PERCENT_Z_SCORE: f64 = 1.96;

/// Sums over the turns of one model for one kind of task. Sums that grow too large are halved, so
/// they can be fractional.
#[data]
#[derive(Default, PartialEq)]
pub(crate) struct ModelStat {
    /// Number of turns that are included in the sums.
    pub(crate) n: f64,
    /// Number of turns that went well.
    pub(crate) good: f64,
    pub(crate) input: f64,
    pub(crate) output: f64,
    pub(crate) requests: f64,
    pub(crate) millis: f64,
}

/// Tokens, requests, duration and success of one turn.
#[derive(Clone, Copy, Default)]
pub(crate) struct FinishedTurnStats {
    pub(crate) is_good: bool,
    pub(crate) input: u64,
    pub(crate) output: u64,
    pub(crate) requests: u64,
    pub(crate) millis: u64,
}

impl ModelStat {
    pub(crate) fn add_turn(&mut self, seen: FinishedTurnStats) {
        if self.n >= MODEL_STATS_HALVING_TURN_COUNT {
            for number in [
                &mut self.n,
                &mut self.good,
                &mut self.input,
                &mut self.output,
                &mut self.requests,
                &mut self.millis,
            ] {
                *number /= 2.0;
            }
        }
        self.n += 1.0;
        self.good += f64::from(u8::from(seen.is_good));
        self.input += seen.input as f64;
        self.output += seen.output as f64;
        self.requests += seen.requests as f64;
        self.millis += seen.millis as f64;
    }

    /// Returns the success rate, from 0 to 1, that the model reaches at least with 95 % confidence:
    /// the lower end of the Wilson score interval.
    pub(crate) fn confident_success_rate(&self) -> f64 {
        if self.n < 1.0 {
            return 0.0;
        }
        let (n, rate) = (self.n, self.good / self.n);
        let centre =
            rate + CONFIDENCE_95_PERCENT_Z_SCORE * CONFIDENCE_95_PERCENT_Z_SCORE / (2.0 * n);
        let spread = CONFIDENCE_95_PERCENT_Z_SCORE
            * (rate * (1.0 - rate) / n
                + CONFIDENCE_95_PERCENT_Z_SCORE * CONFIDENCE_95_PERCENT_Z_SCORE / (4.0 * n * n))
                .sqrt();
        ((centre - spread)
            / (1.0 + CONFIDENCE_95_PERCENT_Z_SCORE * CONFIDENCE_95_PERCENT_Z_SCORE / n))
            .max(0.0)
    }
}

/// Statistics of turns, by kind of task and then by model.
#[data]
#[derive(Default)]
#[serde(transparent)]
pub(crate) struct TaskStats(pub(crate) BTreeMap<String, BTreeMap<String, ModelStat>>);

impl TaskStats {
    pub(crate) fn model_stat(&self, kind: &str, model: &str) -> ModelStat {
        let found = self.0.get(kind).and_then(|models| models.get(model));
        found.cloned().unwrap_or_default()
    }

    /// Adds the figures of a turn with `model`, and removes models that are not in `listed`. Does
    /// nothing if `listed` does not contain `model`.
    pub(crate) fn add_turn(
        &mut self,
        kind: &str,
        model: &str,
        seen: FinishedTurnStats,
        listed: &[String],
    ) {
        if !listed.iter().any(|name| name == model) {
            return;
        }
        for models in self.0.values_mut() {
            models.retain(|name, _| listed.contains(name));
        }
        let models = self.0.entry(kind.to_owned()).or_default();
        models.entry(model.to_owned()).or_default().add_turn(seen);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_successes_say_less_than_many() {
        for (good, n, expected) in [
            (0.0, 0.0, 0.0),
            (1.0, 1.0, 0.207),
            (10.0, 10.0, 0.722),
            (50.0, 50.0, 0.929),
            (45.0, 50.0, 0.786),
            (25.0, 50.0, 0.366),
            (0.0, 50.0, 0.0),
        ] {
            let stat = ModelStat {
                n,
                good,
                ..ModelStat::default()
            };
            assert!(
                (stat.confident_success_rate() - expected).abs() < 0.001,
                "{good}/{n}: {}",
                stat.confident_success_rate()
            );
        }
    }

    #[test]
    fn what_is_kept_is_bounded_and_only_of_listed_models() {
        let listed = ["a".to_owned(), "b".to_owned()];
        let mut stats = TaskStats::default();
        let seen = FinishedTurnStats {
            is_good: true,
            ..FinishedTurnStats::default()
        };
        for _ in 0..5000 {
            stats.add_turn("k", "a", seen, &listed);
            stats.add_turn("k", "other", seen, &listed);
        }
        let stat = stats.model_stat("k", "a");
        assert!(
            stat.n <= MODEL_STATS_HALVING_TURN_COUNT
                && stat.n >= MODEL_STATS_HALVING_TURN_COUNT / 2.0
        );
        assert!((stat.good - stat.n).abs() < 1e-9);
        assert_eq!(stats.model_stat("k", "other"), ModelStat::default());
        stats.add_turn("k", "b", seen, &listed[1..]);
        assert_eq!(stats.model_stat("k", "a"), ModelStat::default());
    }
}
