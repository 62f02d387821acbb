//! Renders tool calls and subagents in the trace. The lines of what happens within them are
//! indented below them.

use super::super::row::{LongTextOverflow, OutputRowBuilder};
use super::super::steps::{self, ToolCallOutcomeText};
use super::super::{DIM_STYLE, WARNING_STYLE, truncate_to_one_line};
use super::TraceRenderer;
use rind_lib::event::{Event, Stamped, SubagentState, TurnPartId};
use rind_lib::message::ToolCall;

impl TraceRenderer {
    pub(super) fn trace_call_or_subagent_start(&mut self, stamped: &Stamped) {
        match &stamped.event {
            Event::ToolCall {
                call, plugin, by, ..
            } => {
                self.progress(&stamped.agent).is_compacting &= by.is_some();
                let arguments = self.format_arguments(call);
                let name = truncate_to_one_line(&format!("{} {arguments}", call.name), 60);
                let row = |level| steps::tool_call_row(level, call, plugin, by);
                let (part, _) =
                    self.print_first_line_and_open_scope(stamped, row, &arguments, name);
                self.calls.insert(part, call.clone());
            }
            // Show the arguments again if hooks changed them after the call was proposed.
            Event::ToolStart { call, .. } => {
                let (part, level) = self.event_scope_and_level(stamped);
                let proposed = self.calls.get(&part);
                if proposed.is_some_and(|proposed| proposed.arguments != call.arguments) {
                    let row = OutputRowBuilder::with_indent_level(level)
                        .with_styled_text(WARNING_STYLE, "now with");
                    let rows = row.with_trailing_text(
                        DIM_STYLE,
                        &self.format_arguments(call),
                        self.long_text_mode(),
                    );
                    self.add_rows_below(&part, rows);
                }
            }
            Event::SubagentStart {
                subagent,
                plugin,
                task,
                preset,
                ..
            } => {
                let row = |level| steps::subagent_row(level, subagent, plugin, preset);
                let (part, level) =
                    self.print_first_line_and_open_scope(stamped, row, task, subagent.clone());
                self.progress(part.owning_agent()).level = level;
            }
            _ => {}
        }
    }

    /// Prints the line about the beginning of a part of the turn, and opens the part, so that the
    /// lines of its events are nested below it.
    fn print_first_line_and_open_scope(
        &mut self,
        stamped: &Stamped,
        row: impl Fn(usize) -> OutputRowBuilder,
        text: &str,
        name: String,
    ) -> (TurnPartId, usize) {
        let (above, level) = self.event_scope_and_level(stamped);
        self.add_rows_below(
            &above,
            row(level).with_trailing_text(DIM_STYLE, text, self.long_text_mode()),
        );
        let part = TurnPartId::part_begun_by_event(stamped).unwrap_or_else(|| above.clone());
        self.scopes
            .add_and_enter_part(part.clone(), above, level, name);
        (part, level)
    }

    fn format_arguments(&self, call: &ToolCall) -> String {
        if self.is_full {
            call.arguments.to_string()
        } else {
            steps::summarize_call_arguments(call)
        }
    }

    pub(super) fn trace_call_or_subagent_end(&mut self, stamped: &Stamped) {
        match &stamped.event {
            Event::ToolEnd {
                result,
                duration_ms,
                refused_by,
                ..
            } => {
                let (part, level) = self.event_scope_and_level(stamped);
                self.flush_folded_hooks();
                let text = result.content.text();
                let refused_by = refused_by.as_deref();
                let end =
                    ToolCallOutcomeText::from_tool_result(result, &text, *duration_ms, refused_by);
                let row = OutputRowBuilder::with_indent_level(level)
                    .with_styled_text(end.style, end.mark);
                // The reason of a refusing hook may be truncated here: the hook's own line has it.
                let is_of_hook = refused_by.is_some_and(|who| who.starts_with("plugin "));
                let long = if is_of_hook {
                    self.long_text_mode()
                } else {
                    LongTextOverflow::Wrap
                };
                let why = self.shorten_text(end.why);
                match self.calls.remove(&part) {
                    // A parallel call may have printed lines since this call began: name the call
                    // in its end line, so that no separate header line is needed.
                    Some(call) if !self.scopes.is_part_open(&part) => {
                        let name = format!("{} {}: ", call.name, self.format_arguments(&call));
                        let row = row
                            .with_space_and_styled_text(DIM_STYLE, &name)
                            .with_styled_text(end.style, &end.what);
                        let rows = row.with_trailing_text(DIM_STYLE, &why, long);
                        self.add_rows_below(&TurnPartId::Agent(stamped.agent.clone()), rows);
                    }
                    _ => {
                        let row = row.with_space_and_styled_text(end.style, &end.what);
                        self.add_rows_below(&part, row.with_trailing_text(DIM_STYLE, &why, long));
                    }
                }
            }
            Event::SubagentEnd {
                subagent,
                answer,
                usage,
                state,
                steps: n_steps,
                cost_usd,
                ..
            } => {
                let part = TurnPartId::Agent(subagent.as_str().into());
                let level = self.scopes.part_indent_level(&part);
                let level = level.unwrap_or(self.nesting_level(&stamped.agent)) + 1;
                let work = steps::describe_subagent_work(*n_steps, usage.total(), *cost_usd);
                let what = format!("└ {subagent}, {work}, ");
                let (style, word) = steps::subagent_state_style(*state);
                let long = match state {
                    SubagentState::Answered => self.long_text_mode(),
                    _ => LongTextOverflow::Wrap,
                };
                let row = OutputRowBuilder::with_indent_level(level)
                    .with_styled_text(DIM_STYLE, &what)
                    .with_styled_text(style, &format!("{word}:"));
                let rows = row.with_trailing_text(DIM_STYLE, &self.shorten_text(answer), long);
                self.add_rows_below(&part, rows);
            }
            _ => {}
        }
    }
}
