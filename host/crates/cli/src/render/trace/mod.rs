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

use super::row::{LongTextOverflow, OutputRowBuilder};
use super::{BOLD_STYLE, DIM_STYLE, PLUGIN_NAME_STYLE, line, steps};
use fold::SummaryLineOfUneventfulHooks;
use rind_lib::event::{Event, Stamped, TurnPartId};
use rind_lib::message::ToolCall;
use rind_lib::point::trace::AccessRecord;
use scope::TurnPartTree;
pub(super) use totals::TracedHookCallTotals;

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
    scopes: TurnPartTree,
    agents: HashMap<Arc<str>, AgentTraceState>,
    /// Running tool calls as they were proposed, before hooks changed the arguments.
    calls: HashMap<TurnPartId, ToolCall>,
    /// Start events of the requests that have no answer yet.
    requests: HashMap<TurnPartId, Stamped>,
    fold: SummaryLineOfUneventfulHooks,
    /// Accesses to files, network or host by hooks whose record has not arrived yet.
    accesses: Vec<(TurnPartId, AccessRecord)>,
    /// Plugin of the hook that ran last, and the part of the turn in which it ran. A notice of a
    /// hook arrives after the hook's record, so a notice of the same plugin is shown in that part.
    last: Option<(Arc<str>, TurnPartId)>,
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
            Event::SessionOpened { .. } => {
                self.lines.extend(line::format_event_line(&stamped.event))
            }
            Event::TurnStart { turn, input, .. } if stamped.is_from_main_agent() => {
                let row = OutputRowBuilder::with_indent_level(0)
                    .with_styled_text(BOLD_STYLE, &format!("turn {turn}"));
                self.add_rows(
                    stamped,
                    row.with_trailing_text(DIM_STYLE, input, self.long_text_mode()),
                );
            }
            Event::TurnEnd { .. } => self.trace_turn_end(stamped),
            Event::StepStart { step } => self.trace_step_start(stamped, *step),
            Event::TextDelta { .. } => {
                self.is_shown |= self.is_live && stamped.is_from_main_agent()
            }
            Event::StepEnd { .. } => {
                self.flush_folded_hooks();
                self.progress(&stamped.agent).is_in_step = false;
            }
            Event::RequestStart { by, .. } => {
                self.trace_model_request_start(stamped, by.as_deref())
            }
            Event::RequestEnd { .. } => self.trace_model_request_end(stamped),
            Event::CompactStart { .. }
            | Event::CompactEnd { .. }
            | Event::ArchiveStart { .. }
            | Event::ArchiveEnd { .. } => self.trace_compaction(stamped),
            Event::ToolCall { .. } | Event::ToolStart { .. } | Event::SubagentStart { .. } => {
                self.trace_call_or_subagent_start(stamped);
            }
            Event::ToolEnd { .. } | Event::SubagentEnd { .. } => {
                self.trace_call_or_subagent_end(stamped)
            }
            Event::MessageEnd { message } => self.render_tool_call_message_text(stamped, message),
            Event::Hook { record } => self.trace_hook_call(stamped, record),
            Event::Access { record } => {
                let (part, _) = self.event_scope_and_level(stamped);
                match record.origin.point {
                    Some(_) => self.accesses.push((part, record.clone())),
                    None => self.trace_sandbox_access(part, record),
                }
            }
            Event::Metric {
                plugin,
                name,
                value,
            } if self.is_full => {
                let row = OutputRowBuilder::with_indent_level(self.nesting_level(&stamped.agent))
                    .with_styled_text(PLUGIN_NAME_STYLE, plugin);
                let rows = row.with_trailing_text(
                    DIM_STYLE,
                    &format!("{name} = {value}"),
                    LongTextOverflow::Wrap,
                );
                self.add_rows(stamped, rows);
            }
            _ => self.trace_other_event(stamped),
        }
        std::mem::take(&mut self.lines)
    }

    /// Returns the lines that are not shown yet when the turn has ended.
    pub(super) fn finish(&mut self) -> Vec<String> {
        self.flush_folded_hooks();
        std::mem::take(&mut self.lines)
    }

    fn long_text_mode(&self) -> LongTextOverflow {
        if self.is_full {
            LongTextOverflow::Wrap
        } else {
            LongTextOverflow::Cut
        }
    }

    /// Joins the lines of a text, and shortens the result unless the trace shows complete texts.
    fn shorten_text(&self, text: &str) -> String {
        let width = match self.is_full {
            true => usize::MAX,
            false => steps::MAX_OUTCOME_REASON_CHARS,
        };
        super::truncate_to_one_line(text, width)
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
    fn event_scope_and_level(&self, stamped: &Stamped) -> (TurnPartId, usize) {
        let part = TurnPartId::enclosing_part(stamped, |part| {
            self.scopes.part_indent_level(part).is_some()
        });
        self.inner_scope_and_level(part.unwrap_or_else(|| TurnPartId::Agent(stamped.agent.clone())))
    }

    fn inner_scope_and_level(&self, part: TurnPartId) -> (TurnPartId, usize) {
        let level = match &part {
            TurnPartId::Agent(agent) => self.nesting_level(agent),
            part => self
                .scopes
                .part_indent_level(part)
                .map_or(0, |level| level + 1),
        };
        (part, level)
    }

    fn add_rows(&mut self, stamped: &Stamped, rows: Vec<String>) {
        let (part, _) = self.event_scope_and_level(stamped);
        self.add_rows_below(&part, rows);
    }

    fn add_rows_below(&mut self, part: &TurnPartId, rows: Vec<String>) {
        self.flush_folded_hooks();
        self.lines
            .extend(self.scopes.enter_part_and_format_headers(part));
        self.lines.extend(rows);
    }

    /// Adds rows to `part`. If the hooks that are collected in `fold` have the same part and level,
    /// their common line is printed after the rows, so that later hooks can still be added to this
    /// line.
    fn add_rows_before_fold(&mut self, part: &TurnPartId, level: usize, rows: Vec<String>) {
        if self.fold.has_other_part_or_level(part, level) {
            self.flush_folded_hooks();
        }
        self.lines
            .extend(self.scopes.enter_part_and_format_headers(part));
        self.lines.extend(rows);
    }

    fn flush_folded_hooks(&mut self) {
        if let Some((part, line)) = self.fold.format_line_and_reset() {
            self.lines
                .extend(self.scopes.enter_part_and_format_headers(&part));
            self.lines.push(line);
        }
    }

    fn trace_step_start(&mut self, stamped: &Stamped, step: u32) {
        self.is_shown &= !stamped.is_from_main_agent();
        let progress = self.progress(&stamped.agent);
        (progress.is_in_step, progress.is_compacting) = (false, false);
        let row = OutputRowBuilder::with_indent_level(self.nesting_level(&stamped.agent))
            .with_styled_text(BOLD_STYLE, &format!("step {step}"));
        self.add_rows(stamped, vec![row.into_line()]);
        self.progress(&stamped.agent).is_in_step = true;
    }

    fn trace_turn_end(&mut self, stamped: &Stamped) {
        // Show the accesses of hooks that were cancelled and therefore have no record.
        let is_over = |(part, _): &mut (TurnPartId, _)| {
            stamped.is_from_main_agent() || *part.owning_agent() == stamped.agent
        };
        let over: Vec<_> = self.accesses.extract_if(.., is_over).collect();
        for (part, record) in over {
            self.trace_sandbox_access(part, &record);
        }
        self.flush_folded_hooks();
        let progress = self.progress(&stamped.agent);
        (progress.is_in_step, progress.is_compacting) = (false, false);
    }
}
