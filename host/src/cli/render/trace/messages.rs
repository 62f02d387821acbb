//! Renders messages of the model, of plugins and of the host in a trace.

use std::sync::Arc;

use super::super::{BAD, DIM, PLUGIN, WARN, line, millis};
use super::Trace;
use super::row::{Long, Row, paragraph};
use super::scope::Scope;
use crate::event::{Event, Stamped};
use crate::message::{Message, Role};
use crate::point::outcome::Level;

impl Trace {
    /// The words that come with tool calls: those of the main agent whole, those of a subagent in a line.
    pub(super) fn message(&mut self, stamped: &Stamped, message: &Message) {
        let text = message.joined_text();
        let is_said = message.role == Role::Assistant && message.tool_calls().next().is_some();
        if !is_said || text.trim().is_empty() || (stamped.is_main() && self.is_shown) {
            return;
        }
        let level = self.level(&stamped.agent);
        let rows = if stamped.is_main() || self.is_full {
            paragraph(level, DIM, &text)
        } else {
            Row::at(level).tail(DIM, &text, Long::Cut)
        };
        let scope = Scope::Agent(stamped.agent.clone());
        self.put_beside(&scope, level, rows);
    }

    pub(super) fn other(&mut self, agent: &Arc<str>, event: &Event) {
        let call = match event {
            Event::Notice {
                plugin: Some(plugin),
                ..
            } if **plugin == *self.last.0 => self.last.1.clone(),
            _ => None,
        };
        let (scope, level) = self.place(agent, call.as_deref());
        let rows = match event {
            Event::Assessed { .. } => {
                let Some(text) = line::assessed(event) else {
                    return;
                };
                Row::at(level).tail(DIM, &text, Long::Cut)
            }
            Event::Retry {
                attempt,
                delay_ms,
                reason,
            } => {
                let what = format!("attempt {attempt} in {}:", millis(*delay_ms));
                Row::at(level)
                    .add(WARN, &what)
                    .tail(DIM, reason, Long::Wrap)
            }
            Event::Notice {
                level: how,
                plugin,
                text,
            } => {
                let style = match how {
                    Level::Debug | Level::Info => DIM,
                    Level::Warn => WARN,
                    Level::Error => BAD,
                };
                let row = Row::at(level).add(style, "▲");
                let row = match plugin {
                    Some(plugin) => row.then(PLUGIN, plugin),
                    None => row,
                };
                row.tail(style, text, Long::Wrap)
            }
            Event::Injected { plugin, text, .. } => {
                let row = Row::at(level)
                    .add(PLUGIN, plugin)
                    .then(DIM, "told the model:");
                row.tail(DIM, text, self.long())
            }
            Event::Error { place, message } => {
                let row = Row::at(level).add(BAD, &format!("{place}:"));
                row.tail(BAD, message, Long::Wrap)
            }
            _ => match line::line(event) {
                Some(line) => vec![Row::at(level).line() + &line],
                None => return,
            },
        };
        self.put_beside(&scope, level, rows);
    }
}
