//! A turn as it happens: for people on standard error with the answer on standard output, or as JSON lines.

use std::collections::BTreeMap;

use super::waiting::Waiting;
use super::{
    BAD, BOLD, DIM, WARN, answer, answer_line, count, duration, has_terminal, line, millis,
    printable, say, steps, styled, warning,
};
use crate::event::{Event, Stamped};
use crate::message::{Message, Role};
use crate::point::payload::{StopReason, TurnSummary};
use crate::point::trace::{AccessOutcome, AccessRecord, TraceOutcome, TraceRecord};

/// Refusals of one plugin that are shown to those who did not ask for a trace.
const MAX_REFUSALS: u32 = 5;

/// How a turn is shown.
#[derive(Clone, Copy, Debug, Default)]
pub(in super::super) struct View {
    /// JSON lines instead of text.
    pub(in super::super) json: bool,
    /// One line for every hook.
    pub(in super::super) trace: bool,
    /// Whether the model's words may be shown while they come. Not when a hook may still change or hold them back.
    pub(in super::super) live: bool,
    /// Whether no hook stands between what the model says and what is shown.
    pub(in super::super) passed: bool,
}

/// Shows events in the order they come.
pub(in super::super) struct TurnRenderer {
    view: View,
    waiting: Waiting,
    /// What was shown live of the last step's message.
    streamed: String,
    /// Whether what was shown live stops in the middle of a line.
    is_line_open: bool,
    /// Names of the tools that run, by the id of the call.
    running: BTreeMap<String, String>,
    hooks: BTreeMap<String, (u32, f64)>,
    /// How often each plugin was refused something.
    refusals: BTreeMap<String, u32>,
}

impl TurnRenderer {
    pub(in super::super) fn new(view: View) -> Self {
        Self {
            view,
            waiting: Waiting::new(!view.json && has_terminal()),
            streamed: String::new(),
            is_line_open: false,
            running: BTreeMap::new(),
            hooks: BTreeMap::new(),
            refusals: BTreeMap::new(),
        }
    }

    /// Shows one event.
    pub(in super::super) fn show(&mut self, stamped: &Stamped) {
        let event = &stamped.event;
        if self.view.json {
            // What hooks have not passed yet is shown to nobody.
            if is_draft(event) && !self.view.passed {
                return;
            }
            match serde_json::to_string(stamped) {
                Ok(line) => answer_line(line),
                Err(e) => say(format_args!("an event could not be written: {e}")),
            }
            return;
        }
        if !stamped.is_main() {
            return self.in_subagent(&stamped.agent, event);
        }
        match event {
            Event::StepStart { step } => self.step_start(*step),
            Event::TextDelta { text } => self.text(text),
            Event::ThinkingDelta { .. } => self.waiting.start("thinking"),
            Event::MessageEnd { message } => self.message_end(message),
            Event::Hook { record } => {
                if let Some(line) = self.hook(record) {
                    self.line(line);
                }
            }
            Event::Access { record } => self.access(record),
            Event::TurnEnd {
                summary, output, ..
            } => self.turn_end(summary, output),
            other => {
                if let Some(line) = line::line(other, self.view) {
                    self.line(line);
                }
            }
        }
        match event {
            Event::CompactStart { .. } => self.waiting.start("making the conversation shorter"),
            Event::CompactEnd { .. } => self.waiting.start("waiting for the model"),
            Event::ToolStart { call, .. } => {
                self.running.insert(call.id.clone(), call.name.clone());
                self.wait_for_tools();
            }
            Event::ToolEnd { result, .. } => {
                self.running.remove(&result.call_id);
                self.wait_for_tools();
            }
            _ => {}
        }
    }

    /// To be called every [`TICK`](super::waiting::TICK) or so.
    pub(in super::super) fn tick(&mut self) {
        self.waiting.tick();
    }

    /// Leaves the terminal to a question.
    pub(in super::super) fn pause(&mut self) {
        self.waiting.stop();
        self.end_line();
    }

    /// Says that the turn is being ended.
    pub(in super::super) fn interrupted(&mut self) {
        // The terminal shows what was typed, `^C`: the line goes over it.
        let over = if has_terminal() && !self.is_line_open {
            "\r"
        } else {
            ""
        };
        let text = warning("interrupted: ending the turn; once more ends the program");
        self.line(format!("{over}{text}"));
    }

    fn step_start(&mut self, step: u32) {
        self.streamed.clear();
        if self.view.trace {
            self.line(styled(BOLD, format_args!("step {step}")));
        }
        self.waiting
            .start(&format!("step {step}: waiting for the model"));
    }

    fn text(&mut self, text: &str) {
        if self.view.live {
            self.waiting.stop();
            answer(printable(text));
            self.streamed.push_str(text);
            self.is_line_open = !self.streamed.ends_with('\n');
        } else {
            self.waiting.start("the model is writing");
        }
    }

    /// The words that come with tool calls are no answer: when they were not shown live, they are shown beside it.
    fn message_end(&mut self, message: &Message) {
        if message.role != Role::Assistant {
            return;
        }
        self.waiting.stop();
        let text = message.joined_text();
        if !self.view.live && !text.trim().is_empty() && message.tool_calls().next().is_some() {
            self.line(styled(DIM, printable(text.trim())));
        }
    }

    /// Counts a call of a hook. A refusal is told where it takes effect; without its line, a failure that is skipped would not
    /// be told at all.
    fn hook(&mut self, record: &TraceRecord) -> Option<String> {
        if record.was_called() {
            let sum = self.hooks.entry(record.plugin.to_string()).or_default();
            *sum = (sum.0 + 1, sum.1 + record.micros);
        }
        let is_shown = self.view.trace || record.outcome == TraceOutcome::Failed;
        is_shown.then(|| steps::hook(record))
    }

    /// Of a subagent, people see its tool calls and what went wrong; everything else is for its caller.
    fn in_subagent(&mut self, agent: &str, event: &Event) {
        let line = match event {
            Event::Hook { record } => self.hook(record),
            Event::SessionOpened { .. } | Event::TurnStart { .. } | Event::Assessed { .. } => None,
            other => line::line(other, self.view),
        };
        if let Some(line) = line {
            self.line(format!("  {} {line}", styled(DIM, agent)));
        }
    }

    /// What was refused or masked is news; after some of it for one plugin, only for those who look for it.
    fn access(&mut self, record: &AccessRecord) {
        let is_news = matches!(
            record.outcome,
            AccessOutcome::Denied | AccessOutcome::Masked
        );
        let n_shown = self.refusals.entry(record.plugin.to_string()).or_default();
        *n_shown += u32::from(is_news);
        if self.view.trace || (is_news && *n_shown <= MAX_REFUSALS) {
            let is_last = !self.view.trace && *n_shown == MAX_REFUSALS;
            let more = if is_last {
                " (further ones with --trace)"
            } else {
                ""
            };
            self.line(format!("{}{}", steps::access(record), styled(DIM, more)));
        }
    }

    fn wait_for_tools(&mut self) {
        let mut names: Vec<&str> = self.running.values().map(String::as_str).collect();
        names.sort_unstable();
        names.dedup();
        if names.is_empty() {
            self.waiting.stop();
        } else {
            self.waiting.start(&format!("running {}", names.join(", ")));
        }
    }

    /// A line of its own: what is being streamed is ended first.
    fn line(&mut self, line: String) {
        self.waiting.hide();
        self.end_line();
        say(line);
    }

    fn end_line(&mut self) {
        if self.is_line_open {
            answer("\n");
            self.is_line_open = false;
        }
    }

    /// Standard output is for answers alone: why there is none goes where everything else goes.
    fn turn_end(&mut self, summary: &TurnSummary, output: &str) {
        self.waiting.stop();
        self.end_line();
        let output = output.trim_end();
        match summary.stop {
            StopReason::Done => {
                if self.streamed.trim() != output.trim() && !output.trim().is_empty() {
                    answer_line(printable(output));
                }
            }
            StopReason::Blocked | StopReason::MaxSteps => say(printable(output)),
            // The one was said by the user, the other by the error.
            StopReason::Cancelled | StopReason::Failed => {}
        }
        say(self.summary(summary));
    }

    fn summary(&self, summary: &TurnSummary) -> String {
        let mut words = vec![
            count(u64::from(summary.steps), "step"),
            count(u64::from(summary.tool_calls), "tool call"),
            format!(
                "{} tokens in, {} out",
                summary.usage.input_tokens, summary.usage.output_tokens
            ),
            millis(summary.duration_ms),
        ];
        let (calls, micros) = self
            .hooks
            .values()
            .fold((0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        if calls > 0 {
            words.push(format!(
                "{} of {} in {}",
                count(u64::from(calls), "hook call"),
                count(self.hooks.len() as u64, "plugin"),
                duration(micros)
            ));
        }
        let line = styled(DIM, words.join(" · "));
        match summary.stop {
            StopReason::Done => line,
            StopReason::MaxSteps => format!("{} {line}", styled(WARN, "stopped at the step limit")),
            StopReason::Blocked => format!("{} {line}", styled(BAD, "blocked")),
            StopReason::Cancelled => format!("{} {line}", styled(WARN, "interrupted")),
            StopReason::Failed => format!("{} {line}", styled(BAD, "failed")),
        }
    }
}

/// Whether it is a piece of what the model is still writing, here or in a subagent.
fn is_draft(event: &Event) -> bool {
    matches!(event, Event::TextDelta { .. } | Event::ThinkingDelta { .. })
}
