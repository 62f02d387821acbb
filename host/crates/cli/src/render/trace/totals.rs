//! Totals of a turn's hooks, and the slowest of them.

use std::collections::BTreeMap;

use super::super::row::Row;
use super::super::{BAD, DIM, PLUGIN, count, duration, styled};
use rind_lib::point::trace::{TraceOutcome, TraceRecord};

const N_SLOWEST: usize = 3;

#[derive(Default)]
pub(in super::super) struct Totals(BTreeMap<(String, String), Sum>);

#[derive(Clone, Copy, Default)]
struct Sum {
    n_calls: u64,
    n_failed: u64,
    micros: f64,
    longest: f64,
}

impl Totals {
    pub(in super::super) fn add(&mut self, record: &TraceRecord) {
        if !record.was_called() {
            return;
        }
        let key = (record.plugin.to_string(), record.point.to_string());
        let sum = self.0.entry(key).or_default();
        sum.n_calls += 1;
        sum.micros += record.micros;
        sum.longest = sum.longest.max(record.micros);
        let is_failed = matches!(
            record.outcome,
            TraceOutcome::Failed | TraceOutcome::FailedBlocking
        );
        sum.n_failed += u64::from(is_failed);
    }

    /// `41 hook calls of 9 plugins in 3 ms`, if there were any.
    pub(in super::super) fn short(&self) -> Option<String> {
        let n_calls: u64 = self.0.values().map(|sum| sum.n_calls).sum();
        let mut plugins: Vec<&str> = self.0.keys().map(|(plugin, _)| &**plugin).collect();
        plugins.dedup();
        (n_calls > 0).then(|| {
            format!(
                "{} of {} in {}",
                count(n_calls, "hook call"),
                count(plugins.len() as u64, "plugin"),
                duration(self.micros())
            )
        })
    }

    fn micros(&self) -> f64 {
        self.0.values().map(|sum| sum.micros).sum()
    }

    /// The lines under a trace: all together, the slowest, and those that failed.
    pub(in super::super) fn lines(&self, turn_ms: u64) -> Vec<String> {
        let Some(short) = self.short() else {
            return Vec::new();
        };
        let share = match turn_ms {
            0 => String::new(),
            ms => format!(", {:.1} % of the turn", self.micros() / (ms as f64 * 10.0)),
        };
        let mut lines = vec![styled(DIM, format_args!("{short}{share}; the slowest:"))];
        let mut sums: Vec<_> = self.0.iter().collect();
        sums.sort_by(|a, b| b.1.micros.total_cmp(&a.1.micros));
        for ((plugin, point), sum) in sums.iter().take(N_SLOWEST) {
            let often = if sum.n_calls == 1 {
                "in 1 call".to_owned()
            } else {
                format!(
                    "in {} calls, the longest {}",
                    sum.n_calls,
                    duration(sum.longest)
                )
            };
            let row = Row::at(1).add(DIM, point).at_plugin().add(PLUGIN, plugin);
            lines.push(row.time(&duration(sum.micros)).add(DIM, &often).line());
        }
        for ((plugin, point), sum) in &self.0 {
            if sum.n_failed > 0 {
                let what = format!("failed {}", count(sum.n_failed, "time"));
                let row = Row::at(1).add(DIM, point).at_plugin().add(PLUGIN, plugin);
                lines.push(row.time("").add(BAD, &what).line());
            }
        }
        lines
    }
}
