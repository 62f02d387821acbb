//! Renders a hook call and its accesses, in the columns of the trace.

use std::sync::Arc;

use super::super::steps::{WHY_WIDTH, hook_outcome};
use super::super::{BAD, DIM, PLUGIN, WARN, duration, one_line};
use super::Trace;
use super::fold::Fold;
use super::row::{Long, Row};
use crate::point::trace::{AccessOutcome, AccessRecord, Reached, TraceOutcome, TraceRecord};

/// One hook: point, plugin, time, what it did. Why it failed or refused is never cut to fit.
fn hook(record: &TraceRecord, level: usize, long: Long) -> Vec<String> {
    let (style, word) = hook_outcome(record.outcome);
    let took = if record.was_called() {
        duration(record.micros)
    } else {
        "–".to_owned()
    };
    let row = Row::at(level).add(DIM, &record.point).at_plugin();
    let row = row.add(PLUGIN, &record.plugin).time(&took).add(style, word);
    let row = if record.changed.is_empty() {
        row
    } else {
        row.then(DIM, &record.changed.join(", "))
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
        Long::Cut if is_loud => row.tail(style, &one_line(reason, WHY_WIDTH), Long::Wrap),
        long => row.tail(if is_loud { style } else { DIM }, reason, long),
    }
}

/// One reach out of the sandbox, with the plugin's name where the line above does not say it.
fn access(record: &AccessRecord, level: usize, is_named: bool, long: Long) -> Vec<String> {
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
    let mut row = Row::at(level).add(DIM, "→");
    if is_named {
        row = row.then(PLUGIN, &record.plugin);
    }
    row = row
        .then(DIM, what)
        .then(style, &one_line(&record.target, 70));
    if word.is_empty() {
        return vec![row.line()];
    }
    let reason = record.reason.as_deref().unwrap_or_default();
    let long = if record.outcome == AccessOutcome::Masked {
        long
    } else {
        Long::Wrap
    };
    row.then(style, word).tail(DIM, reason, long)
}

/// Whether it is the use of a model, a tool or a subagent that went well, which is shown as what it is.
fn is_done_elsewhere(record: &AccessRecord) -> bool {
    record.reached == Reached::External && record.outcome == AccessOutcome::Done
}

impl Trace {
    pub(super) fn hook(&mut self, agent: &Arc<str>, record: &TraceRecord) {
        let is_own = |access: &AccessRecord| {
            let origin = &access.origin;
            access.plugin == record.plugin
                && origin.agent == *agent
                && origin.point.as_ref() == Some(&record.point)
                && origin.call_id == record.call_id
        };
        let (own, others) = std::mem::take(&mut self.accesses)
            .into_iter()
            .partition(is_own);
        self.accesses = others;
        let own: Vec<AccessRecord> = own;
        // These come after it, where it is made.
        if ["context", "pre-reason"].contains(&&*record.point) {
            self.progress(agent).is_compacting = false;
        }
        self.last = (record.plugin.clone(), record.call_id.clone());
        let (scope, level) = self.place(agent, record.call_id.as_deref());
        if own.is_empty() && Fold::takes(record) && !self.is_full {
            if self.fold.is_elsewhere(&scope, level) {
                self.flush();
            }
            self.fold.add(scope, level, record);
            return;
        }
        let long = self.long();
        let mut rows = hook(record, level, long);
        let shown = own.iter().filter(|reach| self.is_news(reach));
        rows.extend(shown.flat_map(|reach| access(reach, level + 1, false, long)));
        self.put_beside(&scope, level, rows);
    }

    /// Uses of models, tools and subagents have lines of their own.
    pub(super) fn is_news(&self, record: &AccessRecord) -> bool {
        self.is_full || !is_done_elsewhere(record)
    }

    pub(super) fn access(&mut self, agent: &Arc<str>, record: &AccessRecord) {
        if self.is_news(record) {
            let (scope, level) = self.place(agent, record.origin.call_id.as_deref());
            let rows = access(record, level, true, self.long());
            self.put_below(&scope, rows);
        }
    }
}
