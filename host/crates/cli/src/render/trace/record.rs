//! Renders a hook call and the plugin's accesses during it, in the columns of the trace.

use super::super::row::{LongTextMode, TableRow};
use super::super::steps::{WHY_WIDTH, hook_duration_text, hook_outcome_style};
use super::super::{BAD, DIM, PLUGIN, WARN, one_line};
use super::TraceRenderer;
use super::fold::FoldedHookLine;
use rind_lib::event::{Stamped, TurnPart};
use rind_lib::point::trace::{AccessOutcome, AccessRecord, Reached, TraceOutcome, TraceRecord};

/// Returns the rows of one hook: point, plugin, time, effect. The reason of a failure or refusal is
/// never truncated.
fn format_hook_rows(record: &TraceRecord, level: usize, long: LongTextMode) -> Vec<String> {
    let (style, word) = hook_outcome_style(record.outcome);
    let took = hook_duration_text(record.was_hook_called(), record.micros);
    let row = TableRow::at_level(level)
        .add_text(DIM, &record.point)
        .pad_to_plugin_column();
    let row = row
        .add_text(PLUGIN, &record.plugin)
        .with_duration(&took)
        .add_text(style, word);
    let row = if record.changed.is_empty() {
        row
    } else {
        row.append_styled_text(DIM, &record.changed.join(", "))
    };
    let is_loud = matches!(
        record.outcome,
        TraceOutcome::Failed
            | TraceOutcome::FailedBlocking
            | TraceOutcome::Blocked
            | TraceOutcome::Asked
    );
    let reason = record.reason.as_deref().unwrap_or_default();
    match long {
        LongTextMode::Cut if is_loud => {
            row.with_trailing_text(style, &one_line(reason, WHY_WIDTH), LongTextMode::Wrap)
        }
        long => row.with_trailing_text(if is_loud { style } else { DIM }, reason, long),
    }
}

/// Returns the rows of one access to files, network or host outside the sandbox. `is_named` adds
/// the plugin's name, for when the line above lacks it.
fn render_access_rows(
    record: &AccessRecord,
    level: usize,
    is_named: bool,
    long: LongTextMode,
) -> Vec<String> {
    let (style, word) = match record.outcome {
        AccessOutcome::Done => (DIM, ""),
        AccessOutcome::Failed => (WARN, "failed:"),
        AccessOutcome::Denied => (BAD, "refused:"),
        AccessOutcome::Masked => (WARN, "masked:"),
    };
    let what = match record.reached {
        Reached::Files => "files",
        Reached::Network => "network",
        Reached::External => "host",
        Reached::Secret => "secret in",
    };
    let mut row = TableRow::at_level(level).add_text(DIM, "→");
    if is_named {
        row = row.append_styled_text(PLUGIN, &record.plugin);
    }
    row = row
        .append_styled_text(DIM, what)
        .append_styled_text(style, &one_line(&record.target, 70));
    if word.is_empty() {
        return vec![row.into_line()];
    }
    let reason = record.reason.as_deref().unwrap_or_default();
    let long = if record.outcome == AccessOutcome::Masked {
        long
    } else {
        LongTextMode::Wrap
    };
    row.append_styled_text(style, word)
        .with_trailing_text(DIM, reason, long)
}

impl TraceRenderer {
    pub(super) fn trace_hook(&mut self, stamped: &Stamped, record: &TraceRecord) {
        let is_own = |(part, access): &mut (TurnPart, AccessRecord)| {
            let origin = &access.origin;
            access.plugin == record.plugin
                && *part.agent() == stamped.agent
                && origin.point.as_ref() == Some(&record.point)
                && origin.call_id == record.call_id
        };
        let own: Vec<_> = self.accesses.extract_if(.., is_own).collect();
        // Hooks at these points run only after compaction, so compaction is over.
        if ["context", "pre-reason"].contains(&&*record.point) {
            self.progress(&stamped.agent).is_compacting = false;
        }
        let (part, level) = self.event_scope_and_level(stamped);
        self.last = Some((record.plugin.clone(), part.clone()));
        if own.is_empty() && FoldedHookLine::can_fold_hook_line(record) && !self.is_full {
            if self.fold.belongs_to_other_scope(&part, level) {
                self.flush_folded_hooks();
            }
            self.fold.add_record(part, level, record);
            return;
        }
        let long = self.long_text_mode();
        let mut rows = format_hook_rows(record, level, long);
        let shown = own.iter().filter(|(_, reach)| self.shows_access(reach));
        rows.extend(shown.flat_map(|(_, reach)| render_access_rows(reach, level + 1, false, long)));
        self.add_rows_before_fold(&part, level, rows);
    }

    fn shows_access(&self, record: &AccessRecord) -> bool {
        self.is_full || record.is_only_report_of_access()
    }

    pub(super) fn trace_access(&mut self, part: TurnPart, record: &AccessRecord) {
        if self.shows_access(record) {
            let (part, level) = self.inner_scope_and_level(part);
            self.add_rows_below(
                &part,
                render_access_rows(record, level, true, self.long_text_mode()),
            );
        }
    }
}
