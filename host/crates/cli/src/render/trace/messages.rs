//! Renders messages of the model, of plugins and of the host in a trace.

use super::super::row::{Long, Row, paragraph};
use super::super::{BAD, DIM, PLUGIN, WARN, line, millis, steps};
use super::Trace;
use rind_lib::event::{Event, Part, Stamped};
use rind_lib::message::{Message, Role};

impl Trace {
    /// Shows text next to tool calls: of the main agent in full, of a subagent in one line.
    pub(super) fn message(&mut self, stamped: &Stamped, message: &Message) {
        let text = message.joined_text();
        let is_said = message.role == Role::Assistant && message.tool_calls().next().is_some();
        if !is_said || text.trim().is_empty() || (stamped.is_main() && self.is_shown) {
            return;
        }
        let (part, level) = self.place(stamped);
        let rows = if stamped.is_main() || self.is_full {
            paragraph(level, DIM, &text)
        } else {
            Row::at(level).tail(DIM, &text, Long::Cut)
        };
        self.put_beside(&part, level, rows);
    }

    pub(super) fn other(&mut self, stamped: &Stamped) {
        let (part, level) = match (&stamped.event, &self.last) {
            (
                Event::Notice {
                    plugin: Some(plugin),
                    ..
                },
                Some((last, part @ Part::Call(agent, _))),
            ) if **plugin == **last && *agent == stamped.agent => self.inside(part.clone()),
            _ => self.place(stamped),
        };
        let row = Row::at(level);
        let rows = match &stamped.event {
            Event::Assessed {
                decision,
                confidence,
                reasons,
            } => {
                let text = line::assessed(*decision, *confidence, reasons);
                row.tail(DIM, &text, Long::Cut)
            }
            Event::Retry {
                attempt,
                delay_ms,
                reason,
            } => {
                let what = format!("attempt {attempt} in {}:", millis(*delay_ms));
                row.add(WARN, &what).tail(DIM, reason, Long::Wrap)
            }
            Event::Notice {
                level: loudness,
                plugin,
                text,
            } => {
                let (row, style) = steps::notice(level, *loudness, plugin);
                row.tail(style, text, Long::Wrap)
            }
            Event::Injected { plugin, text, .. } => {
                let row = row.add(PLUGIN, plugin).then(DIM, "told the model:");
                row.tail(DIM, text, self.long())
            }
            Event::Error { place, message } => {
                let row = row.add(BAD, &format!("{place}:"));
                row.tail(BAD, message, Long::Wrap)
            }
            event => match line::line(event) {
                Some(line) => vec![row.line() + &line],
                None => return,
            },
        };
        self.put_beside(&part, level, rows);
    }
}
