//! Renders messages of the model, of plugins and of the host in a trace.

use super::super::row::{LongTextOverflow, OutputRowBuilder, render_paragraph};
use super::super::{
    DIM_STYLE, ERROR_STYLE, PLUGIN_NAME_STYLE, WARNING_STYLE, format_duration_ms, line, steps,
};
use super::TraceRenderer;
use rind_lib::event::{Event, Stamped, TurnPartId};
use rind_lib::message::{Message, Role};

impl TraceRenderer {
    /// Prints the text that the model writes next to tool calls: of the main agent in full, of a
    /// subagent in one line.
    pub(super) fn render_tool_call_message_text(&mut self, stamped: &Stamped, message: &Message) {
        let text = message.joined_text();
        let is_said = message.role == Role::Assistant && message.tool_calls().next().is_some();
        if !is_said || text.trim().is_empty() || (stamped.is_from_main_agent() && self.is_shown) {
            return;
        }
        let (part, level) = self.event_scope_and_level(stamped);
        let rows = if stamped.is_from_main_agent() || self.is_full {
            render_paragraph(level, DIM_STYLE, &text)
        } else {
            OutputRowBuilder::with_indent_level(level).with_trailing_text(
                DIM_STYLE,
                &text,
                LongTextOverflow::Cut,
            )
        };
        self.add_rows_before_fold(&part, level, rows);
    }

    pub(super) fn trace_other_event(&mut self, stamped: &Stamped) {
        let (part, level) = match (&stamped.event, &self.last) {
            (
                Event::Notice {
                    plugin: Some(plugin),
                    ..
                },
                Some((last, part @ TurnPartId::Call(agent, _))),
            ) if **plugin == **last && *agent == stamped.agent => {
                self.inner_scope_and_level(part.clone())
            }
            _ => self.event_scope_and_level(stamped),
        };
        let row = OutputRowBuilder::with_indent_level(level);
        let rows = match &stamped.event {
            Event::Assessed {
                decision,
                confidence,
                reasons,
            } => {
                let text = line::format_user_input_assessment(*decision, *confidence, reasons);
                row.with_trailing_text(DIM_STYLE, &text, LongTextOverflow::Cut)
            }
            Event::Retry {
                attempt,
                delay_ms,
                reason,
            } => {
                let what = format!("attempt {attempt} in {}:", format_duration_ms(*delay_ms));
                row.with_styled_text(WARNING_STYLE, &what)
                    .with_trailing_text(DIM_STYLE, reason, LongTextOverflow::Wrap)
            }
            Event::Notice {
                level: loudness,
                plugin,
                text,
            } => {
                let (row, style) = steps::plugin_notice_row_and_style(level, *loudness, plugin);
                row.with_trailing_text(style, text, LongTextOverflow::Wrap)
            }
            Event::Injected { plugin, text, .. } => {
                let row = row
                    .with_styled_text(PLUGIN_NAME_STYLE, plugin)
                    .with_space_and_styled_text(DIM_STYLE, "told the model:");
                row.with_trailing_text(DIM_STYLE, text, self.long_text_mode())
            }
            Event::Error { place, message } => {
                let row = row.with_styled_text(ERROR_STYLE, &format!("{place}:"));
                row.with_trailing_text(ERROR_STYLE, message, LongTextOverflow::Wrap)
            }
            event => match line::format_event_line(event) {
                Some(line) => vec![row.into_line() + &line],
                None => return,
            },
        };
        self.add_rows_before_fold(&part, level, rows);
    }
}
