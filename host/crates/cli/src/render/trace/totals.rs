//! Sums up the hooks of a turn, and finds the slowest.

use std::collections::BTreeMap;

use super::super::row::OutputRowBuilder;
use super::super::{
    DIM_STYLE, ERROR_STYLE, PLUGIN_NAME_STYLE, format_count_with_noun, format_duration_micros,
    style_text,
};
use rind_lib::point::trace::{TraceOutcome, TraceRecord};

const N_SLOWEST_HOOKS_SHOWN: usize = 3;

#[derive(Default)]
pub(in super::super) struct TracedHookCallTotals(BTreeMap<(String, String), HookCallCountAndTime>);

#[derive(Clone, Copy, Default)]
struct HookCallCountAndTime {
    n_calls: u64,
    n_failed: u64,
    micros: f64,
    longest: f64,
}

impl TracedHookCallTotals {
    pub(in super::super) fn add_hook_record(&mut self, record: &TraceRecord) {
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
                format_count_with_noun(n_calls, "hook call"),
                format_count_with_noun(plugins.len() as u64, "plugin"),
                format_duration_micros(self.total_hook_micros())
            )
        })
    }

    fn total_hook_micros(&self) -> f64 {
        self.0.values().map(|sum| sum.micros).sum()
    }

    /// Returns the lines after a trace: the total of all hooks, the slowest ones, and the failed
    /// ones.
    pub(in super::super) fn format_total_lines(&self, turn_ms: u64) -> Vec<String> {
        let Some(short) = self.format_summary() else {
            return Vec::new();
        };
        let share = match turn_ms {
            0 => String::new(),
            ms => format!(
                ", {:.1} % of the turn",
                self.total_hook_micros() / (ms as f64 * 10.0)
            ),
        };
        let mut lines = vec![style_text(
            DIM_STYLE,
            format_args!("{short}{share}; the slowest:"),
        )];
        let mut sums: Vec<_> = self.0.iter().collect();
        sums.sort_by(|a, b| b.1.micros.total_cmp(&a.1.micros));
        for ((plugin, point), sum) in sums.iter().take(N_SLOWEST_HOOKS_SHOWN) {
            let often = if sum.n_calls == 1 {
                "in 1 call".to_owned()
            } else {
                format!(
                    "in {} calls, the longest {}",
                    sum.n_calls,
                    format_duration_micros(sum.longest)
                )
            };
            let row = OutputRowBuilder::with_indent_level(1)
                .with_styled_text(DIM_STYLE, point)
                .pad_to_plugin_column()
                .with_styled_text(PLUGIN_NAME_STYLE, plugin);
            lines.push(
                row.with_right_aligned_duration(&format_duration_micros(sum.micros))
                    .with_styled_text(DIM_STYLE, &often)
                    .into_line(),
            );
        }
        for ((plugin, point), sum) in &self.0 {
            if sum.n_failed > 0 {
                let what = format!("failed {}", format_count_with_noun(sum.n_failed, "time"));
                let row = OutputRowBuilder::with_indent_level(1)
                    .with_styled_text(DIM_STYLE, point)
                    .pad_to_plugin_column()
                    .with_styled_text(PLUGIN_NAME_STYLE, plugin);
                lines.push(
                    row.with_right_aligned_duration("")
                        .with_styled_text(ERROR_STYLE, &what)
                        .into_line(),
                );
            }
        }
        lines
    }
}
