//! Sums up the hooks of a turn, and finds the slowest.

use std::collections::BTreeMap;

use super::super::row::TableRow;
use super::super::{BAD, DIM, PLUGIN, format_count, format_duration, style_text};
use rind_lib::point::trace::{TraceOutcome, TraceRecord};

const N_SLOWEST: usize = 3;

#[derive(Default)]
pub(in super::super) struct TraceTotals(BTreeMap<(String, String), TraceSum>);

#[derive(Clone, Copy, Default)]
struct TraceSum {
    n_calls: u64,
    n_failed: u64,
    micros: f64,
    longest: f64,
}

impl TraceTotals {
    pub(in super::super) fn add_record(&mut self, record: &TraceRecord) {
        if !record.was_hook_called() {
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

    /// Returns a summary such as `41 hook calls of 9 plugins in 3 ms`, if a hook was called.
    pub(in super::super) fn format_summary(&self) -> Option<String> {
        let n_calls: u64 = self.0.values().map(|sum| sum.n_calls).sum();
        let mut plugins: Vec<&str> = self.0.keys().map(|(plugin, _)| &**plugin).collect();
        plugins.dedup();
        (n_calls > 0).then(|| {
            format!(
                "{} of {} in {}",
                format_count(n_calls, "hook call"),
                format_count(plugins.len() as u64, "plugin"),
                format_duration(self.total_micros())
            )
        })
    }

    fn total_micros(&self) -> f64 {
        self.0.values().map(|sum| sum.micros).sum()
    }

    /// Returns the lines after a trace: the total of all hooks, the slowest ones, and the failed
    /// ones.
    pub(in super::super) fn total_lines(&self, turn_ms: u64) -> Vec<String> {
        let Some(short) = self.format_summary() else {
            return Vec::new();
        };
        let share = match turn_ms {
            0 => String::new(),
            ms => format!(
                ", {:.1} % of the turn",
                self.total_micros() / (ms as f64 * 10.0)
            ),
        };
        let mut lines = vec![style_text(
            DIM,
            format_args!("{short}{share}; the slowest:"),
        )];
        let mut sums: Vec<_> = self.0.iter().collect();
        sums.sort_by(|a, b| b.1.micros.total_cmp(&a.1.micros));
        for ((plugin, point), sum) in sums.iter().take(N_SLOWEST) {
            let often = if sum.n_calls == 1 {
                "in 1 call".to_owned()
            } else {
                format!(
                    "in {} calls, the longest {}",
                    sum.n_calls,
                    format_duration(sum.longest)
                )
            };
            let row = TableRow::at_level(1)
                .add_text(DIM, point)
                .pad_to_plugin_column()
                .add_text(PLUGIN, plugin);
            lines.push(
                row.with_duration(&format_duration(sum.micros))
                    .add_text(DIM, &often)
                    .into_line(),
            );
        }
        for ((plugin, point), sum) in &self.0 {
            if sum.n_failed > 0 {
                let what = format!("failed {}", format_count(sum.n_failed, "time"));
                let row = TableRow::at_level(1)
                    .add_text(DIM, point)
                    .pad_to_plugin_column()
                    .add_text(PLUGIN, plugin);
                lines.push(row.with_duration("").add_text(BAD, &what).into_line());
            }
        }
        lines
    }
}
