//! Renders messages of the model, of plugins and of the host in a trace.

use super::super::row::{LongText, TableRow, render_paragraph};
use super::super::{BAD, DIM, PLUGIN, WARN, format_millis, line, steps};
use super::Trace;
use rind_lib::event::{Event, Stamped, TurnPart};
use rind_lib::message::{Message, Role};

impl Trace {
    /// Prints the text that the model writes next to tool calls: of the main agent in full, of a
    /// subagent in one line.
    pub(super) fn trace_message(&mut self, stamped: &Stamped, message: &Message) {
        let text = message.joined_text();
        let is_said = message.role == Role::Assistant && message.tool_calls().next().is_some();
        if !is_said || text.trim().is_empty() || (stamped.is_main() && self.is_shown) {
            return;
        }
        let (part, level) = self.place(stamped);
        let rows = if stamped.is_main() || self.is_full {
            render_paragraph(level, DIM, &text)
        } else {
            TableRow::at_level(level).with_tail(DIM, &text, LongText::Cut)
        };
        self.put_beside(&part, level, rows);
    }

    pub(super) fn trace_other(&mut self, stamped: &Stamped) {
        let (part, level) = match (&stamped.event, &self.last) {
            (
                Event::Notice {
                    plugin: Some(plugin),
                    ..
                },
                Some((last, part @ TurnPart::Call(agent, _))),
            ) if **plugin == **last && *agent == stamped.agent => self.inside(part.clone()),
            _ => self.place(stamped),
        };
        let row = TableRow::at_level(level);
        let rows = match &stamped.event {
            Event::Assessed {
                decision,
                confidence,
                reasons,
            } => {
                let text = line::assessed_line(*decision, *confidence, reasons);
                row.with_tail(DIM, &text, LongText::Cut)
            }
            Event::Retry {
                attempt,
                delay_ms,
                reason,
            } => {
                let what = format!("attempt {attempt} in {}:", format_millis(*delay_ms));
                row.add_text(WARN, &what)
                    .with_tail(DIM, reason, LongText::Wrap)
            }
            Event::Notice {
                level: loudness,
                plugin,
                text,
            } => {
                let (row, style) = steps::notice_row(level, *loudness, plugin);
                row.with_tail(style, text, LongText::Wrap)
            }
            Event::Injected { plugin, text, .. } => {
                let row = row
                    .add_text(PLUGIN, plugin)
                    .then_text(DIM, "told the model:");
                row.with_tail(DIM, text, self.long())
            }
            Event::Error { place, message } => {
                let row = row.add_text(BAD, &format!("{place}:"));
                row.with_tail(BAD, message, LongText::Wrap)
            }
            event => match line::event_line(event) {
                Some(line) => vec![row.into_line() + &line],
                None => return,
            },
        };
        self.put_beside(&part, level, rows);
    }
}
