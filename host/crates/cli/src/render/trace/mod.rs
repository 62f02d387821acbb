//! A turn as a tree: steps, requests, tool calls, subagents, and below each the hooks that fired,
//! with their effect and duration.
//!
//! Lines are appended as events arrive and nothing is redrawn, so it reads the same in a pipe. Owns
//! the parents and order of lines; it must not know the source of the events. Start from
//! [`Trace::show`].

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

use super::row::{Long, Row};
use super::{BOLD, DIM, PLUGIN, line, steps};
use fold::Fold;
use rind_lib::event::{Event, Part, Stamped};
use rind_lib::message::ToolCall;
use rind_lib::point::trace::AccessRecord;
use scope::Scopes;
pub(super) use totals::Totals;

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(in super::super) enum Detail {
    /// Hooks that did something, and no others.
    Short,
    /// Every hook on its own line, and complete texts.
    Full,
}

#[derive(Default)]
struct Progress {
    level: usize,
    is_in_step: bool,
    /// Whether older messages are being replaced.
    is_compacting: bool,
}

#[derive(Default)]
pub(super) struct Trace {
    is_full: bool,
    /// Whether the words of the main agent are shown elsewhere, as they come.
    is_live: bool,
    /// Whether those of this step were.
    is_shown: bool,
    scopes: Scopes,
    agents: HashMap<Arc<str>, Progress>,
    /// Calls as they were proposed.
    calls: HashMap<Part, ToolCall>,
    /// Starts of the requests that are on their way.
    requests: HashMap<Part, Stamped>,
    fold: Fold,
    /// Accesses of hooks that still run.
    accesses: Vec<(Part, AccessRecord)>,
    /// The plugin of the last hook, and the part of that hook: notices of the plugin come after its
    /// record.
    last: Option<(Arc<str>, Part)>,
    lines: Vec<String>,
}

impl Trace {
    pub(super) fn new(detail: Detail, is_live: bool) -> Self {
        Self {
            is_full: detail == Detail::Full,
            is_live,
            ..Self::default()
        }
    }

    pub(super) fn show(&mut self, stamped: &Stamped) -> Vec<String> {
        match &stamped.event {
            Event::SessionOpened { .. } => self.lines.extend(line::line(&stamped.event)),
            Event::TurnStart { turn, input, .. } if stamped.is_main() => {
                let row = Row::at(0).add(BOLD, &format!("turn {turn}"));
                self.put(stamped, row.tail(DIM, input, self.long()));
            }
            Event::TurnEnd { .. } => self.turn_end(stamped),
            Event::StepStart { step } => self.step_start(stamped, *step),
            Event::TextDelta { .. } => self.is_shown |= self.is_live && stamped.is_main(),
            Event::StepEnd { .. } => {
                self.flush();
                self.progress(&stamped.agent).is_in_step = false;
            }
            Event::RequestStart { by, .. } => self.request_start(stamped, by.as_deref()),
            Event::RequestEnd { .. } => self.request_end(stamped),
            Event::CompactStart { .. }
            | Event::CompactEnd { .. }
            | Event::ArchiveStart { .. }
            | Event::ArchiveEnd { .. } => self.aside(stamped),
            Event::ToolCall { .. } | Event::ToolStart { .. } | Event::SubagentStart { .. } => {
                self.call(stamped);
            }
            Event::ToolEnd { .. } | Event::SubagentEnd { .. } => self.call_end(stamped),
            Event::MessageEnd { message } => self.message(stamped, message),
            Event::Hook { record } => self.hook(stamped, record),
            Event::Access { record } => {
                let (part, _) = self.place(stamped);
                match record.origin.point {
                    Some(_) => self.accesses.push((part, record.clone())),
                    None => self.access(part, record),
                }
            }
            Event::Metric {
                plugin,
                name,
                value,
            } if self.is_full => {
                let row = Row::at(self.level(&stamped.agent)).add(PLUGIN, plugin);
                let rows = row.tail(DIM, &format!("{name} = {value}"), Long::Wrap);
                self.put(stamped, rows);
            }
            _ => self.other(stamped),
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
        let width = match self.is_full {
            true => usize::MAX,
            false => steps::WHY_WIDTH,
        };
        super::one_line(text, width)
    }

    fn progress(&mut self, agent: &Arc<str>) -> &mut Progress {
        self.agents.entry(agent.clone()).or_default()
    }

    fn level(&self, agent: &Arc<str>) -> usize {
        self.agents.get(agent).map_or(1, |progress| {
            let (is_in_step, is_compacting) = (progress.is_in_step, progress.is_compacting);
            progress.level + 1 + usize::from(is_in_step) + usize::from(is_compacting)
        })
    }

    /// Returns the part that an event belongs to, and the level of lines in it.
    fn place(&self, stamped: &Stamped) -> (Part, usize) {
        let part = Part::above(stamped, |part| self.scopes.level(part).is_some());
        self.inside(part.unwrap_or_else(|| Part::Agent(stamped.agent.clone())))
    }

    fn inside(&self, part: Part) -> (Part, usize) {
        let level = match &part {
            Part::Agent(agent) => self.level(agent),
            part => self.scopes.level(part).map_or(0, |level| level + 1),
        };
        (part, level)
    }

    fn put(&mut self, stamped: &Stamped, rows: Vec<String>) {
        let (part, _) = self.place(stamped);
        self.put_below(&part, rows);
    }

    fn put_below(&mut self, part: &Part, rows: Vec<String>) {
        self.flush();
        self.lines.extend(self.scopes.go_to(part));
        self.lines.extend(rows);
    }

    /// Lines that hooks which wait for theirs may come after: some of them fired before, some will
    /// after.
    fn put_beside(&mut self, part: &Part, level: usize, rows: Vec<String>) {
        if self.fold.is_elsewhere(part, level) {
            self.flush();
        }
        self.lines.extend(self.scopes.go_to(part));
        self.lines.extend(rows);
    }

    fn flush(&mut self) {
        if let Some((part, line)) = self.fold.take() {
            self.lines.extend(self.scopes.go_to(&part));
            self.lines.push(line);
        }
    }

    fn step_start(&mut self, stamped: &Stamped, step: u32) {
        self.is_shown &= !stamped.is_main();
        let progress = self.progress(&stamped.agent);
        (progress.is_in_step, progress.is_compacting) = (false, false);
        let row = Row::at(self.level(&stamped.agent)).add(BOLD, &format!("step {step}"));
        self.put(stamped, vec![row.line()]);
        self.progress(&stamped.agent).is_in_step = true;
    }

    fn turn_end(&mut self, stamped: &Stamped) {
        // Show the accesses of hooks that were cancelled and left no record.
        let is_over =
            |(part, _): &mut (Part, _)| stamped.is_main() || *part.agent() == stamped.agent;
        let over: Vec<_> = self.accesses.extract_if(.., is_over).collect();
        for (part, record) in over {
            self.access(part, &record);
        }
        self.flush();
        let progress = self.progress(&stamped.agent);
        (progress.is_in_step, progress.is_compacting) = (false, false);
    }
}
