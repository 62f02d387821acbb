//! Renders messages of the model, of plugins and of the host in a trace.

use super::super::row::{LongTextMode, TableRow, render_paragraph};
use super::super::{BAD, DIM, PLUGIN, WARN, format_millis, line, steps};
use super::TraceRenderer;
use rind_lib::event::{Event, Stamped, TurnPart};
use rind_lib::message::{Message, Role};

impl TraceRenderer {
    /// Prints the text that the model writes next to tool calls: of the main agent in full, of a
    /// subagent in one line.
    pub(super) fn trace_message(&mut self, stamped: &Stamped, message: &Message) {
        let text = message.joined_text();
        let is_said = message.role == Role::Assistant && message.tool_calls().next().is_some();
        if !is_said || text.trim().is_empty() || (stamped.is_main() && self.is_shown) {
            return;
        }
        let (part, level) = self.event_scope_and_level(stamped);
        let rows = if stamped.is_main() || self.is_full {
            render_paragraph(level, DIM, &text)
        } else {
            TableRow::at_level(level).with_trailing_text(DIM, &text, LongTextMode::Cut)
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
                Some((last, part @ TurnPart::Call(agent, _))),
            ) if **plugin == **last && *agent == stamped.agent => {
                self.inner_scope_and_level(part.clone())
            }
            _ => self.event_scope_and_level(stamped),
        };
        let row = TableRow::at_level(level);
        let rows = match &stamped.event {
            Event::Assessed {
                decision,
                confidence,
                reasons,
            } => {
                let text = line::format_assessment(*decision, *confidence, reasons);
                row.with_trailing_text(DIM, &text, LongTextMode::Cut)
            }
            Event::Retry {
                attempt,
                delay_ms,
                reason,
            } => {
                let what = format!("attempt {attempt} in {}:", format_millis(*delay_ms));
                row.add_text(WARN, &what)
                    .with_trailing_text(DIM, reason, LongTextMode::Wrap)
            }
            Event::Notice {
                level: loudness,
                plugin,
                text,
            } => {
                let (row, style) = steps::notice_row(level, *loudness, plugin);
                row.with_trailing_text(style, text, LongTextMode::Wrap)
            }
            Event::Injected { plugin, text, .. } => {
                let row = row
                    .add_text(PLUGIN, plugin)
                    .append_styled_text(DIM, "told the model:");
                row.with_trailing_text(DIM, text, self.long_text_mode())
            }
            Event::Error { place, message } => {
                let row = row.add_text(BAD, &format!("{place}:"));
                row.with_trailing_text(BAD, message, LongTextMode::Wrap)
            }
            event => match line::event_line(event) {
                Some(line) => vec![row.into_line() + &line],
                None => return,
            },
        };
        self.add_rows_before_fold(&part, level, rows);
    }
}
