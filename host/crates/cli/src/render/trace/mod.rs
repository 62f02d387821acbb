//! Renders a turn as a tree: steps, requests, tool calls and subagents, and below each the hooks
//! that ran, with their effect and duration.
//!
//! Lines are only appended as events arrive, never redrawn, so the output is the same in a pipe.
//! Decides the nesting and the order of lines; ignores where the events come from. Start from
//! [`TraceRenderer::show`].

mod call;
mod fold;
mod messages;
mod record;
mod request;
mod scope;
#[cfg(test)]
mod tests;
mod totals;

use std::collections::HashMap;
use std::sync::Arc;

use super::row::{LongTextMode, TableRow};
use super::{BOLD, DIM, PLUGIN, line, steps};
use fold::FoldedHookLine;
use rind_lib::event::{Event, Stamped, TurnPart};
use rind_lib::message::ToolCall;
use rind_lib::point::trace::AccessRecord;
use scope::TraceScopes;
pub(super) use totals::TraceTotals;

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(in super::super) enum TraceDetail {
    /// Hooks that had an effect have a line each; consecutive hooks without an effect share a line.
    Short,
    /// Every hook on its own line, and complete texts.
    Full,
}

#[derive(Default)]
struct AgentTraceState {
    level: usize,
    is_in_step: bool,
    /// Whether a compaction or archival has begun, below which further lines are nested.
    is_compacting: bool,
}

#[derive(Default)]
pub(super) struct TraceRenderer {
    is_full: bool,
    /// Whether the text of the main agent is also streamed to the terminal, outside of the trace.
    is_live: bool,
    /// Whether text of the main agent's current step was streamed outside of the trace, so that the
    /// trace omits it.
    is_shown: bool,
    scopes: TraceScopes,
    agents: HashMap<Arc<str>, AgentTraceState>,
    /// Running tool calls as they were proposed, before hooks changed the arguments.
    calls: HashMap<TurnPart, ToolCall>,
    /// Start events of the requests that have no answer yet.
    requests: HashMap<TurnPart, Stamped>,
    fold: FoldedHookLine,
    /// Accesses to files, network or host by hooks whose record has not arrived yet.
    accesses: Vec<(TurnPart, AccessRecord)>,
    /// Plugin of the hook that ran last, and the part of the turn in which it ran. A notice of a
    /// hook arrives after the hook's record, so a notice of the same plugin is shown in that part.
    last: Option<(Arc<str>, TurnPart)>,
    lines: Vec<String>,
}

impl TraceRenderer {
    pub(super) fn new(detail: TraceDetail, is_live: bool) -> Self {
        Self {
            is_full: detail == TraceDetail::Full,
            is_live,
            ..Self::default()
        }
    }

    pub(super) fn show(&mut self, stamped: &Stamped) -> Vec<String> {
        match &stamped.event {
            Event::SessionOpened { .. } => self.lines.extend(line::event_line(&stamped.event)),
            Event::TurnStart { turn, input, .. } if stamped.is_main() => {
                let row = TableRow::at_level(0).add_text(BOLD, &format!("turn {turn}"));
                self.add_rows(
                    stamped,
                    row.with_trailing_text(DIM, input, self.long_text_mode()),
                );
            }
            Event::TurnEnd { .. } => self.trace_turn_end(stamped),
            Event::StepStart { step } => self.trace_step_start(stamped, *step),
            Event::TextDelta { .. } => self.is_shown |= self.is_live && stamped.is_main(),
            Event::StepEnd { .. } => {
                self.flush_folded_hooks();
                self.progress(&stamped.agent).is_in_step = false;
            }
            Event::RequestStart { by, .. } => self.trace_request_start(stamped, by.as_deref()),
            Event::RequestEnd { .. } => self.trace_request_end(stamped),
            Event::CompactStart { .. }
            | Event::CompactEnd { .. }
            | Event::ArchiveStart { .. }
            | Event::ArchiveEnd { .. } => self.trace_compaction(stamped),
            Event::ToolCall { .. } | Event::ToolStart { .. } | Event::SubagentStart { .. } => {
                self.trace_call(stamped);
            }
            Event::ToolEnd { .. } | Event::SubagentEnd { .. } => self.trace_call_end(stamped),
            Event::MessageEnd { message } => self.trace_message(stamped, message),
            Event::Hook { record } => self.trace_hook(stamped, record),
            Event::Access { record } => {
                let (part, _) = self.event_scope_and_level(stamped);
                match record.origin.point {
                    Some(_) => self.accesses.push((part, record.clone())),
                    None => self.trace_access(part, record),
                }
            }
            Event::Metric {
                plugin,
                name,
                value,
            } if self.is_full => {
                let row =
                    TableRow::at_level(self.nesting_level(&stamped.agent)).add_text(PLUGIN, plugin);
                let rows =
                    row.with_trailing_text(DIM, &format!("{name} = {value}"), LongTextMode::Wrap);
                self.add_rows(stamped, rows);
            }
            _ => self.trace_other_event(stamped),
        }
        std::mem::take(&mut self.lines)
    }

    /// Returns the remaining lines, after the last event.
    pub(super) fn finish(&mut self) -> Vec<String> {
        self.flush_folded_hooks();
        std::mem::take(&mut self.lines)
    }

    fn long_text_mode(&self) -> LongTextMode {
        if self.is_full {
            LongTextMode::Wrap
        } else {
            LongTextMode::Cut
        }
    }

    /// Joins the lines of a text, and shortens the result unless the trace shows complete texts.
    fn shorten_text(&self, text: &str) -> String {
        let width = match self.is_full {
            true => usize::MAX,
            false => steps::WHY_WIDTH,
        };
        super::one_line(text, width)
    }

    fn progress(&mut self, agent: &Arc<str>) -> &mut AgentTraceState {
        self.agents.entry(agent.clone()).or_default()
    }

    fn nesting_level(&self, agent: &Arc<str>) -> usize {
        self.agents.get(agent).map_or(1, |progress| {
            let (is_in_step, is_compacting) = (progress.is_in_step, progress.is_compacting);
            progress.level + 1 + usize::from(is_in_step) + usize::from(is_compacting)
        })
    }

    /// Returns the part that an event belongs to, and the nesting level of the lines in that part.
    fn event_scope_and_level(&self, stamped: &Stamped) -> (TurnPart, usize) {
        let part =
            TurnPart::enclosing_part(stamped, |part| self.scopes.scope_level(part).is_some());
        self.inner_scope_and_level(part.unwrap_or_else(|| TurnPart::Agent(stamped.agent.clone())))
    }

    fn inner_scope_and_level(&self, part: TurnPart) -> (TurnPart, usize) {
        let level = match &part {
            TurnPart::Agent(agent) => self.nesting_level(agent),
            part => self.scopes.scope_level(part).map_or(0, |level| level + 1),
        };
        (part, level)
    }

    fn add_rows(&mut self, stamped: &Stamped, rows: Vec<String>) {
        let (part, _) = self.event_scope_and_level(stamped);
        self.add_rows_below(&part, rows);
    }

    fn add_rows_below(&mut self, part: &TurnPart, rows: Vec<String>) {
        self.flush_folded_hooks();
        self.lines.extend(self.scopes.move_to_part(part));
        self.lines.extend(rows);
    }

    /// Adds rows to `part`. If the hooks that are collected in `fold` have the same part and level,
    /// their common line is printed after the rows, so that later hooks can still be added to this
    /// line.
    fn add_rows_before_fold(&mut self, part: &TurnPart, level: usize, rows: Vec<String>) {
        if self.fold.belongs_to_other_scope(part, level) {
            self.flush_folded_hooks();
        }
        self.lines.extend(self.scopes.move_to_part(part));
        self.lines.extend(rows);
    }

    fn flush_folded_hooks(&mut self) {
        if let Some((part, line)) = self.fold.take_folded_line() {
            self.lines.extend(self.scopes.move_to_part(&part));
            self.lines.push(line);
        }
    }

    fn trace_step_start(&mut self, stamped: &Stamped, step: u32) {
        self.is_shown &= !stamped.is_main();
        let progress = self.progress(&stamped.agent);
        (progress.is_in_step, progress.is_compacting) = (false, false);
        let row = TableRow::at_level(self.nesting_level(&stamped.agent))
            .add_text(BOLD, &format!("step {step}"));
        self.add_rows(stamped, vec![row.into_line()]);
        self.progress(&stamped.agent).is_in_step = true;
    }

    fn trace_turn_end(&mut self, stamped: &Stamped) {
        // Show the accesses of hooks that were cancelled and therefore have no record.
        let is_over =
            |(part, _): &mut (TurnPart, _)| stamped.is_main() || *part.agent() == stamped.agent;
        let over: Vec<_> = self.accesses.extract_if(.., is_over).collect();
        for (part, record) in over {
            self.trace_access(part, &record);
        }
        self.flush_folded_hooks();
        let progress = self.progress(&stamped.agent);
        (progress.is_in_step, progress.is_compacting) = (false, false);
    }
}
