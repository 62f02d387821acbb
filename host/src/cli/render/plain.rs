//! A turn in lines for people who did not ask for a trace: tool calls, and what went wrong.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::{DIM, line, steps, styled};
use crate::event::{Event, Stamped};
use crate::point::trace::{AccessOutcome, AccessRecord, TraceOutcome};

/// Refusals of one plugin that are shown to those who did not ask for a trace.
const MAX_REFUSALS: u32 = 5;

/// Notices of one plugin that are shown to those who did not ask for a trace.
const MAX_NOTICES: u32 = 8;

/// State of the plain view of a turn.
#[derive(Default)]
pub(super) struct Plain {
    /// Number of refusals by plugin.
    refusals: BTreeMap<String, u32>,
    /// Number of notices of each plugin.
    notices: BTreeMap<String, u32>,
    /// The calls that run, in words, by agent and id.
    calls: BTreeMap<(Arc<str>, String), String>,
    /// The call that the last line tells the start of.
    above: Option<(Arc<str>, String)>,
}

impl Plain {
    /// Shows the line for an event, if it has one. Of a subagent, people see its tool calls and what went wrong; everything
    /// else is for its caller.
    pub(super) fn show(&mut self, stamped: &Stamped) -> Option<String> {
        let line = match &stamped.event {
            // A refusal is told where it takes effect; without its line, a failure that is skipped would not be told at all.
            Event::Hook { record } => {
                (record.outcome == TraceOutcome::Failed).then(|| steps::hook(record))
            }
            Event::Access { record } => self.access(record),
            Event::Notice {
                plugin: Some(plugin),
                ..
            } => self.notice(plugin, &stamped.event),
            Event::Assessed { .. } if !stamped.is_main() => None,
            Event::ToolEnd {
                result,
                duration_ms,
                refused_by,
                ..
            } => {
                let call = (stamped.agent.clone(), result.call_id.clone());
                let words = self.calls.remove(&call);
                // Right below its start a result needs no name; among others it does.
                let named = words.filter(|_| self.above.as_ref() != Some(&call));
                let named = named.unwrap_or_default();
                Some(steps::tool_end(
                    result,
                    *duration_ms,
                    refused_by.as_deref(),
                    &named,
                ))
            }
            event => line::line(event),
        };
        if let Event::ToolStart { call, .. } = &stamped.event {
            let id = (stamped.agent.clone(), call.id.clone());
            let words = format!("{} {}", call.name, steps::arguments(call));
            self.calls.insert(id.clone(), words);
            self.above = Some(id);
        } else if line.is_some() {
            self.above = None;
        }
        let is_access = matches!(stamped.event, Event::Access { .. });
        if stamped.is_main() || is_access {
            return line;
        }
        line.map(|line| format!("  {} {line}", styled(DIM, &stamped.agent)))
    }

    /// A plugin that says much must not scroll away what led to a question.
    fn notice(&mut self, plugin: &str, event: &Event) -> Option<String> {
        let n_shown = self.notices.entry(plugin.to_owned()).or_default();
        *n_shown = n_shown.saturating_add(1);
        let more = match (*n_shown).cmp(&MAX_NOTICES) {
            Ordering::Less => "",
            Ordering::Equal => " (further ones with --trace)",
            Ordering::Greater => return None,
        };
        line::line(event).map(|line| format!("{line}{}", styled(DIM, more)))
    }

    /// Prints accesses that were refused or masked: the first few of each plugin, further ones only in detailed views.
    fn access(&mut self, record: &AccessRecord) -> Option<String> {
        let is_news = matches!(
            record.outcome,
            AccessOutcome::Denied | AccessOutcome::Masked
        );
        let n_shown = self.refusals.entry(record.plugin.to_string()).or_default();
        *n_shown += u32::from(is_news);
        if !is_news || *n_shown > MAX_REFUSALS {
            return None;
        }
        let more = if *n_shown == MAX_REFUSALS {
            " (further ones with --trace)"
        } else {
            ""
        };
        Some(format!("{}{}", steps::access(record), styled(DIM, more)))
    }
}
