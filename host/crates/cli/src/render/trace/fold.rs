//! Folds consecutive hooks that had no effect into one line of the trace.

use super::super::row::OutputRowBuilder;
use super::super::steps::hook_duration_text;
use super::super::{DIM_STYLE, format_count_with_noun, truncate_text};
use rind_lib::event::TurnPartId;
use rind_lib::point::trace::{TraceOutcome, TraceRecord};

/// Consecutive hook calls without an effect, collected into one line.
#[derive(Default)]
pub(super) struct SummaryLineOfUneventfulHooks {
    place: Option<(TurnPartId, usize)>,
    points: Vec<String>,
    n_passed: u64,
    n_left_out: u64,
    micros: f64,
}

impl SummaryLineOfUneventfulHooks {
    /// Whether the hook of this record gets no line of its own but is counted in a line for several
    /// hooks, because it neither objected nor changed anything, or was not called.
    pub(super) fn can_fold_hook_line(record: &TraceRecord) -> bool {
        matches!(record.outcome, TraceOutcome::Pass | TraceOutcome::Dropped)
    }

    /// Whether the collected hooks belong to another part of the turn or another level, so that
    /// their line must be printed before a hook of this part is added.
    pub(super) fn has_other_part_or_level(&self, scope: &TurnPartId, level: usize) -> bool {
        let place = self.place.as_ref();
        place.is_some_and(|(own, at)| own != scope || *at != level)
    }

    pub(super) fn add_hook_record(
        &mut self,
        scope: TurnPartId,
        level: usize,
        record: &TraceRecord,
    ) {
        self.place = Some((scope, level));
        if !self.points.iter().any(|point| *point == record.point) {
            self.points.push(record.point.to_string());
        }
        if record.was_hook_called() {
            self.n_passed += 1;
            self.micros += record.micros;
        } else {
            self.n_left_out += 1;
        }
    }

    pub(super) fn format_line_and_reset(&mut self) -> Option<(TurnPartId, String)> {
        let fold = std::mem::take(self);
        let (scope, level) = fold.place?;
        let row = OutputRowBuilder::with_indent_level(level);
        let points = truncate_text(
            fold.points.join(", "),
            row.columns_left_before_time_column(),
        );
        let mut said = Vec::new();
        if fold.n_passed > 0 {
            said.push(format!(
                "{} passed",
                format_count_with_noun(fold.n_passed, "hook")
            ));
        }
        if fold.n_left_out > 0 {
            said.push(format!("{} out this turn", fold.n_left_out));
        }
        let took = hook_duration_text(fold.n_passed > 0, fold.micros);
        let row = row
            .with_styled_text(DIM_STYLE, &points)
            .with_right_aligned_duration(&took);
        Some((
            scope,
            row.with_styled_text(DIM_STYLE, &said.join(", "))
                .into_line(),
        ))
    }
}
