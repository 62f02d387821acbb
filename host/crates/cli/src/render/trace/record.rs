//! Renders a hook call and the plugin's accesses during it, in the columns of the trace.

use super::super::row::{LongTextOverflow, OutputRowBuilder};
use super::super::steps::{
    MAX_OUTCOME_REASON_CHARS, hook_duration_text, hook_outcome_style_and_word,
};
use super::super::{
    DIM_STYLE, ERROR_STYLE, PLUGIN_NAME_STYLE, WARNING_STYLE, truncate_to_one_line,
};
use super::TraceRenderer;
use super::fold::SummaryLineOfUneventfulHooks;
use rind_lib::event::{Stamped, TurnPartId};
use rind_lib::point::trace::{AccessOutcome, AccessRecord, Reached, TraceOutcome, TraceRecord};

/// Returns the rows of one hook: point, plugin, time, effect. The reason of a failure or refusal is
/// never truncated.
fn format_hook_rows(record: &TraceRecord, level: usize, long: LongTextOverflow) -> Vec<String> {
    let (style, word) = hook_outcome_style_and_word(record.outcome);
    let took = hook_duration_text(record.was_hook_called(), record.micros);
    let row = OutputRowBuilder::with_indent_level(level)
        .with_styled_text(DIM_STYLE, &record.point)
        .pad_to_plugin_column();
    let row = row
        .with_styled_text(PLUGIN_NAME_STYLE, &record.plugin)
        .with_right_aligned_duration(&took)
        .with_styled_text(style, word);
    let row = if record.changed.is_empty() {
        row
    } else {
        row.with_space_and_styled_text(DIM_STYLE, &record.changed.join(", "))
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
        LongTextOverflow::Cut if is_loud => row.with_trailing_text(
            style,
            &truncate_to_one_line(reason, MAX_OUTCOME_REASON_CHARS),
            LongTextOverflow::Wrap,
        ),
        long => row.with_trailing_text(if is_loud { style } else { DIM_STYLE }, reason, long),
    }
}

/// Returns the rows of one access to files, network or host outside the sandbox. `is_named` adds
/// the plugin's name, for when the line above lacks it.
fn format_sandbox_access_rows(
    record: &AccessRecord,
    level: usize,
    is_named: bool,
    long: LongTextOverflow,
) -> Vec<String> {
    let (style, word) = match record.outcome {
        AccessOutcome::Done => (DIM_STYLE, ""),
        AccessOutcome::Failed => (WARNING_STYLE, "failed:"),
        AccessOutcome::Denied => (ERROR_STYLE, "refused:"),
        AccessOutcome::Masked => (WARNING_STYLE, "masked:"),
    };
    let what = match record.reached {
        Reached::Files => "files",
        Reached::Network => "network",
        Reached::External => "host",
        Reached::Secret => "secret in",
    };
    let mut row = OutputRowBuilder::with_indent_level(level).with_styled_text(DIM_STYLE, "→");
    if is_named {
        row = row.with_space_and_styled_text(PLUGIN_NAME_STYLE, &record.plugin);
    }
    row = row
        .with_space_and_styled_text(DIM_STYLE, what)
        .with_space_and_styled_text(style, &truncate_to_one_line(&record.target, 70));
    if word.is_empty() {
        return vec![row.into_line()];
    }
    let reason = record.reason.as_deref().unwrap_or_default();
    let long = if record.outcome == AccessOutcome::Masked {
        long
    } else {
        LongTextOverflow::Wrap
    };
    row.with_space_and_styled_text(style, word)
        .with_trailing_text(DIM_STYLE, reason, long)
}

impl TraceRenderer {
    pub(super) fn trace_hook_call(&mut self, stamped: &Stamped, record: &TraceRecord) {
        let is_own = |(part, access): &mut (TurnPartId, AccessRecord)| {
            let origin = &access.origin;
            access.plugin == record.plugin
                && *part.owning_agent() == stamped.agent
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
        if own.is_empty()
            && SummaryLineOfUneventfulHooks::can_fold_hook_line(record)
            && !self.is_full
        {
            if self.fold.has_other_part_or_level(&part, level) {
                self.flush_folded_hooks();
            }
            self.fold.add_hook_record(part, level, record);
            return;
        }
        let long = self.long_text_mode();
        let mut rows = format_hook_rows(record, level, long);
        let shown = own
            .iter()
            .filter(|(_, reach)| self.should_show_access(reach));
        rows.extend(
            shown.flat_map(|(_, reach)| format_sandbox_access_rows(reach, level + 1, false, long)),
        );
        self.add_rows_before_fold(&part, level, rows);
    }

    fn should_show_access(&self, record: &AccessRecord) -> bool {
        self.is_full || record.has_no_separate_event()
    }

    pub(super) fn trace_sandbox_access(&mut self, part: TurnPartId, record: &AccessRecord) {
        if self.should_show_access(record) {
            let (part, level) = self.inner_scope_and_level(part);
            self.add_rows_below(
                &part,
                format_sandbox_access_rows(record, level, true, self.long_text_mode()),
            );
        }
    }
}
