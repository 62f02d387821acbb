//! Tool calls and subagents: what other lines stand below.

use std::sync::Arc;

use super::super::{BAD, BOLD, DIM, GOOD, PLUGIN, WARN, millis, one_line, steps};
use super::Trace;
use super::row::{Long, Row};
use super::scope::Scope;
use crate::event::Event;
use crate::message::ToolCall;

impl Trace {
    pub(super) fn tool_call(
        &mut self,
        agent: &Arc<str>,
        call: &ToolCall,
        [plugin, by]: [&Option<String>; 2],
        parent: Option<&str>,
    ) {
        self.progress(agent).is_compacting &= by.is_some();
        let (parent, level) = self.place(agent, parent);
        let mut row = Row::at(level).add(GOOD, "●");
        if let Some(by) = by {
            row = row.then(PLUGIN, by);
        }
        row = row.then(BOLD, &one_line(&call.name, 64));
        if let Some(plugin) = plugin {
            row = row.then(DIM, &format!("of {plugin}"));
        }
        let arguments = self.arguments(call);
        let rows = row.tail(DIM, &arguments, self.long());
        self.put_below(&parent, rows);
        let scope = Scope::Call(agent.clone(), call.id.clone());
        let name = one_line(&format!("{} {arguments}", call.name), 60);
        self.scopes.open(scope.clone(), parent, level, name);
        self.calls.insert(scope, call.clone());
    }

    pub(super) fn arguments(&self, call: &ToolCall) -> String {
        if self.is_full {
            call.arguments.to_string()
        } else {
            steps::arguments(call)
        }
    }

    /// Hooks may have changed what is run.
    pub(super) fn tool_start(&mut self, agent: &Arc<str>, call: &ToolCall) {
        let scope = Scope::Call(agent.clone(), call.id.clone());
        let proposed = self.calls.get(&scope);
        if proposed.is_some_and(|proposed| proposed.arguments != call.arguments) {
            let (_, level) = self.place(agent, Some(&call.id));
            let row = Row::at(level).add(WARN, "now with");
            let rows = row.tail(DIM, &self.arguments(call), self.long());
            self.put_below(&scope, rows);
        }
    }

    pub(super) fn tool_end(&mut self, agent: &Arc<str>, scope: &Scope, event: &Event) {
        let Event::ToolEnd {
            result,
            duration_ms,
            refused_by,
            ..
        } = event
        else {
            return;
        };
        let (_, level) = self.place(agent, Some(&result.call_id));
        self.flush();
        // Of a call that others ran beside: named, so that its end needs no line before it.
        let name = match self.calls.remove(scope) {
            Some(call) if !self.scopes.is_open(scope) => {
                format!("{} {}: ", call.name, self.arguments(&call))
            }
            _ => String::new(),
        };
        let text = result.content.text();
        let (style, mark, what, why) = match refused_by {
            Some(who) => {
                let (style, mark) = if result.is_error {
                    (BAD, "✗")
                } else {
                    (WARN, "○")
                };
                let what = format!("refused by {who}:");
                (style, mark, what, steps::why_refused(&text, who))
            }
            None if result.is_error => (WARN, "└", "error:".to_owned(), &*text),
            None => {
                let what = format!(
                    "{}, {}",
                    steps::amount(&result.content),
                    millis(*duration_ms)
                );
                (DIM, "└", what, "")
            }
        };
        let row = Row::at(level).add(style, mark).then(DIM, &name);
        let row = if name.is_empty() {
            Row::at(level).add(style, mark).then(style, &what)
        } else {
            row.add(style, &what)
        };
        // The hook's own line says the same.
        let is_of_hook = refused_by
            .as_deref()
            .is_some_and(|who| who.starts_with("plugin "));
        let long = if is_of_hook { self.long() } else { Long::Wrap };
        let rows = row.tail(DIM, &self.cut(why), long);
        if name.is_empty() {
            self.put_below(scope, rows);
        } else {
            self.put(agent, None, rows);
        }
    }

    pub(super) fn subagent_start(
        &mut self,
        agent: &Arc<str>,
        id: &str,
        plugin: &Option<String>,
        (task, call): (&str, Option<&str>),
    ) {
        let (parent, level) = self.place(agent, call);
        let mut row = Row::at(level).add(GOOD, "◆");
        if let Some(plugin) = plugin {
            row = row.then(PLUGIN, plugin);
        }
        let rows = row.then(BOLD, id).tail(DIM, task, self.long());
        self.put_below(&parent, rows);
        let scope = Scope::Agent(id.into());
        self.scopes.open(scope, parent, level, id.to_owned());
        self.progress(&id.into()).level = level;
    }

    pub(super) fn subagent_end(&mut self, agent: &Arc<str>, id: &str, event: &Event) {
        let Event::SubagentEnd {
            answer,
            is_error,
            usage,
            ..
        } = event
        else {
            return;
        };
        let scope = Scope::Agent(id.into());
        let level = self.scopes.level(&scope).unwrap_or(self.level(agent)) + 1;
        let what = format!("└ {id}, {} tokens, ", usage.total());
        let (style, word, long) = match is_error {
            true => (WARN, "failed:", Long::Wrap),
            false => (DIM, "answered:", self.long()),
        };
        let row = Row::at(level).add(DIM, &what).add(style, word);
        let rows = row.tail(DIM, &self.cut(answer), long);
        self.put_below(&scope, rows);
    }
}
