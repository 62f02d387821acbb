//! A turn as a tree: steps, requests, tool calls, subagents, and below each the hooks that fired, with what they did and how
//! long it took.
//!
//! Lines are appended as things happen and nothing is redrawn, so it reads the same in a pipe. Owns what stands below what;
//! it must not know who is asked for the events. Start from [`Trace::show`].

mod call;
mod fold;
mod messages;
mod record;
mod request;
mod row;
mod scope;
#[cfg(test)]
mod tests;
mod totals;

use std::collections::HashMap;
use std::sync::Arc;

use super::{BOLD, DIM, PLUGIN, count, steps};
use crate::event::{Event, Stamped};
use crate::message::ToolCall;
use crate::point::trace::AccessRecord;
use fold::Fold;
use row::{Long, Row};
use scope::{Scope, Scopes};
pub(super) use totals::Totals;

/// Level of detail of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(in super::super) enum Detail {
    /// Only hooks that did something;.
    Short,
    /// Every hook on its own line, and complete texts.
    Full,
}

/// Progress of an agent.
#[derive(Default)]
struct Progress {
    /// Level of its turn.
    level: usize,
    is_in_step: bool,
    /// Whether older messages are being replaced.
    is_compacting: bool,
    /// Requests that are on their way.
    requests: HashMap<u32, Asked>,
}

/// A request that is on its way.
#[derive(Default)]
struct Asked {
    model: String,
    by: Option<String>,
    call: Option<String>,
}

/// State of the trace view of a turn.
pub(super) struct Trace {
    is_full: bool,
    /// Whether the words of the main agent are shown elsewhere, as they come.
    is_live: bool,
    /// Whether those of this step were.
    is_shown: bool,
    scopes: Scopes,
    agents: HashMap<Arc<str>, Progress>,
    /// Calls as they were proposed.
    calls: HashMap<Scope, ToolCall>,
    fold: Fold,
    /// Accesses of hooks that still run.
    accesses: Vec<AccessRecord>,
    /// The plugin whose hook was the last, and the tool call it belonged to: what it has to say comes after its record.
    last: (Arc<str>, Option<Arc<str>>),
    lines: Vec<String>,
}

impl Trace {
    pub(super) fn new(detail: Detail, is_live: bool) -> Self {
        Self {
            is_full: detail == Detail::Full,
            is_live,
            is_shown: false,
            scopes: Scopes::new("main"),
            agents: HashMap::new(),
            calls: HashMap::new(),
            fold: Fold::default(),
            accesses: Vec::new(),
            last: ("".into(), None),
            lines: Vec::new(),
        }
    }

    /// Shows the lines for an event.
    pub(super) fn show(&mut self, stamped: &Stamped) -> Vec<String> {
        let agent = &stamped.agent;
        match &stamped.event {
            Event::SessionOpened { .. } => self.lines.extend(super::line::session(&stamped.event)),
            Event::TurnStart { turn, input, .. } if stamped.is_main() => {
                let row = Row::at(0).add(BOLD, &format!("turn {turn}"));
                self.put(agent, None, row.tail(DIM, input, self.long()));
            }
            Event::TurnEnd { .. } => self.turn_end(agent, stamped.is_main()),
            Event::StepStart { step } => {
                self.is_shown &= !stamped.is_main();
                self.step_start(agent, *step);
            }
            Event::TextDelta { .. } => self.is_shown |= self.is_live && stamped.is_main(),
            Event::StepEnd { .. } => {
                self.flush();
                self.progress(agent).is_in_step = false;
            }
            Event::RequestStart {
                request,
                model,
                by,
                call_id,
                ..
            } => {
                self.flush();
                let progress = self.progress(agent);
                // That of the step comes when nothing is made shorter any more.
                progress.is_compacting &= by.is_some() || !progress.is_in_step;
                let asked = Asked {
                    model: model.clone(),
                    by: by.clone(),
                    call: call_id.clone(),
                };
                progress.requests.insert(*request, asked);
            }
            Event::RequestEnd { request, .. } => self.request_end(agent, *request, &stamped.event),
            Event::CompactStart { messages, tokens } => {
                let what = format!(
                    "≡ making {} shorter, the request would have {tokens} tokens",
                    count(u64::from(*messages), "message")
                );
                self.put(
                    agent,
                    None,
                    Row::at(self.level(agent)).tail(DIM, &what, Long::Cut),
                );
                self.progress(agent).is_compacting = true;
            }
            Event::CompactEnd { .. } => self.compact_end(agent, &stamped.event),
            Event::ArchiveStart {
                messages, reason, ..
            } => {
                let what = format!(
                    "≡ archiving an earlier turn of {}: {reason}",
                    count(u64::from(*messages), "message")
                );
                let rows = Row::at(self.level(agent)).tail(DIM, &what, Long::Cut);
                self.put(agent, None, rows);
                self.progress(agent).is_compacting = true;
            }
            Event::ArchiveEnd { .. } => self.archive_end(agent, &stamped.event),
            Event::ToolCall {
                call,
                plugin,
                by,
                parent_id,
            } => self.tool_call(agent, call, [plugin, by], parent_id.as_deref()),
            Event::ToolStart { call, .. } => self.tool_start(agent, call),
            Event::ToolEnd { result, .. } => {
                let scope = Scope::Call(agent.clone(), result.call_id.clone());
                self.tool_end(agent, &scope, &stamped.event);
            }
            Event::SubagentStart {
                subagent,
                plugin,
                task,
                call_id,
                ..
            } => self.subagent_start(agent, subagent, plugin, (task, call_id.as_deref())),
            Event::SubagentEnd { subagent, .. } => {
                self.subagent_end(agent, subagent, &stamped.event)
            }
            Event::MessageEnd { message } => self.message(stamped, message),
            Event::Hook { record } => self.hook(agent, record),
            Event::Access { record } if record.origin.point.is_some() => {
                self.accesses.push(record.clone());
            }
            Event::Access { record } => self.access(agent, record),
            Event::Metric {
                plugin,
                name,
                value,
            } if self.is_full => {
                let row = Row::at(self.level(agent)).add(PLUGIN, plugin);
                let rows = row.tail(DIM, &format!("{name} = {value}"), Long::Wrap);
                self.put(agent, None, rows);
            }
            event => self.other(agent, event),
        }
        std::mem::take(&mut self.lines)
    }

    /// The lines that still wait when nothing more comes.
    pub(super) fn finish(&mut self) -> Vec<String> {
        self.flush();
        std::mem::take(&mut self.lines)
    }

    fn long(&self) -> Long {
        if self.is_full { Long::Wrap } else { Long::Cut }
    }

    /// Cuts words that are on their own lines.
    fn cut(&self, text: &str) -> String {
        let width = if self.is_full {
            usize::MAX
        } else {
            steps::WHY_WIDTH
        };
        super::one_line(text, width)
    }

    fn progress(&mut self, agent: &Arc<str>) -> &mut Progress {
        self.agents.entry(agent.clone()).or_default()
    }

    /// Returns the current level of an agent's lines.
    fn level(&self, agent: &Arc<str>) -> usize {
        self.agents.get(agent).map_or(1, |progress| {
            let (is_in_step, is_compacting) = (progress.is_in_step, progress.is_compacting);
            progress.level + 1 + usize::from(is_in_step) + usize::from(is_compacting)
        })
    }

    /// Returns the scope and level of a line: a known tool call, or the agent.
    fn place(&self, agent: &Arc<str>, call: Option<&str>) -> (Scope, usize) {
        let scope = call.map(|id| Scope::Call(agent.clone(), id.to_owned()));
        let known = scope.and_then(|scope| Some((self.scopes.level(&scope)?, scope)));
        match known {
            Some((level, scope)) => (scope, level + 1),
            None => (Scope::Agent(agent.clone()), self.level(agent)),
        }
    }

    /// Lines below an agent or one of its calls.
    fn put(&mut self, agent: &Arc<str>, call: Option<&str>, rows: Vec<String>) {
        let (scope, _) = self.place(agent, call);
        self.put_below(&scope, rows);
    }

    fn put_below(&mut self, scope: &Scope, rows: Vec<String>) {
        self.flush();
        self.lines.extend(self.scopes.go_to(scope));
        self.lines.extend(rows);
    }

    /// Lines that hooks which wait for theirs may come after: some of them fired before, some will after.
    fn put_beside(&mut self, scope: &Scope, level: usize, rows: Vec<String>) {
        if self.fold.is_elsewhere(scope, level) {
            self.flush();
        }
        self.lines.extend(self.scopes.go_to(scope));
        self.lines.extend(rows);
    }

    /// Shows the hooks that wait for their line.
    fn flush(&mut self) {
        if let Some((scope, line)) = self.fold.take() {
            self.lines.extend(self.scopes.go_to(&scope));
            self.lines.push(line);
        }
    }

    fn step_start(&mut self, agent: &Arc<str>, step: u32) {
        let progress = self.progress(agent);
        (progress.is_in_step, progress.is_compacting) = (false, false);
        let level = self.level(agent);
        let row = Row::at(level).add(BOLD, &format!("step {step}"));
        self.put(agent, None, vec![row.line()]);
        self.progress(agent).is_in_step = true;
    }

    fn turn_end(&mut self, agent: &Arc<str>, is_main: bool) {
        // A hook that was cut left no record, but what it reached for happened.
        let (own, others) = std::mem::take(&mut self.accesses)
            .into_iter()
            .partition(|record| is_main || record.origin.agent == *agent);
        self.accesses = others;
        let own: Vec<AccessRecord> = own;
        for record in &own {
            self.access(agent, record);
        }
        self.flush();
        let progress = self.progress(agent);
        *progress = Progress {
            level: progress.level,
            ..Progress::default()
        };
    }
}
