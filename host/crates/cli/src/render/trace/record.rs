//! Renders a hook call and the plugin's accesses during it, in the columns of the trace.

use super::super::row::{LongText, TableRow};
use super::super::steps::{WHY_WIDTH, duration_text, hook_outcome};
use super::super::{BAD, DIM, PLUGIN, WARN, one_line};
use super::Trace;
use super::fold::HookFold;
use rind_lib::event::{Stamped, TurnPart};
use rind_lib::point::trace::{AccessOutcome, AccessRecord, Reached, TraceOutcome, TraceRecord};

/// Returns the rows of one hook: point, plugin, time, effect. The reason of a failure or refusal is
/// never cut.
fn hook_rows(record: &TraceRecord, level: usize, long: LongText) -> Vec<String> {
    let (style, word) = hook_outcome(record.outcome);
    let took = duration_text(record.was_called(), record.micros);
    let row = TableRow::at_level(level)
        .add_text(DIM, &record.point)
        .at_plugin();
    let row = row
        .add_text(PLUGIN, &record.plugin)
        .with_time(&took)
        .add_text(style, word);
    let row = if record.changed.is_empty() {
        row
    } else {
        row.then_text(DIM, &record.changed.join(", "))
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
        LongText::Cut if is_loud => {
            row.with_tail(style, &one_line(reason, WHY_WIDTH), LongText::Wrap)
        }
        long => row.with_tail(if is_loud { style } else { DIM }, reason, long),
    }
}

/// Returns the rows of one access to files, network or host outside the sandbox. `is_named` adds
/// the plugin's name, for when the line above lacks it.
fn access_rows(record: &AccessRecord, level: usize, is_named: bool, long: LongText) -> Vec<String> {
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
        row = row.then_text(PLUGIN, &record.plugin);
    }
    row = row
        .then_text(DIM, what)
        .then_text(style, &one_line(&record.target, 70));
    if word.is_empty() {
        return vec![row.into_line()];
    }
    let reason = record.reason.as_deref().unwrap_or_default();
    let long = if record.outcome == AccessOutcome::Masked {
        long
    } else {
        LongText::Wrap
    };
    row.then_text(style, word).with_tail(DIM, reason, long)
}

impl Trace {
    pub(super) fn trace_hook(&mut self, stamped: &Stamped, record: &TraceRecord) {
        let is_own = |(part, access): &mut (TurnPart, AccessRecord)| {
            let origin = &access.origin;
            access.plugin == record.plugin
                && *part.agent() == stamped.agent
                && origin.point.as_ref() == Some(&record.point)
                && origin.call_id == record.call_id
        };
        let own: Vec<_> = self.accesses.extract_if(.., is_own).collect();
        // Hooks at these points run only after compaction, so it is over.
        if ["context", "pre-reason"].contains(&&*record.point) {
            self.progress(&stamped.agent).is_compacting = false;
        }
        let (part, level) = self.place(stamped);
        self.last = Some((record.plugin.clone(), part.clone()));
        if own.is_empty() && HookFold::takes_record(record) && !self.is_full {
            if self.fold.is_elsewhere(&part, level) {
                self.flush();
            }
            self.fold.add_record(part, level, record);
            return;
        }
        let long = self.long();
        let mut rows = hook_rows(record, level, long);
        let shown = own.iter().filter(|(_, reach)| self.is_news(reach));
        rows.extend(shown.flat_map(|(_, reach)| access_rows(reach, level + 1, false, long)));
        self.put_beside(&part, level, rows);
    }

    fn is_news(&self, record: &AccessRecord) -> bool {
        self.is_full || record.is_news()
    }

    pub(super) fn trace_access(&mut self, part: TurnPart, record: &AccessRecord) {
        if self.is_news(record) {
            let (part, level) = self.inside(part);
            self.put_below(&part, access_rows(record, level, true, self.long()));
        }
    }
}
