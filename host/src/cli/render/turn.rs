//! A turn as it happens: for people on standard error with the answer on standard output, or as JSON lines.

use std::collections::BTreeMap;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::{
    BAD, BOLD, DIM, PLUGIN, WARN, answer, answer_line, duration, has_terminal, one_line, printable,
    say, steps, styled,
};
use crate::event::Event;
use crate::point::outcome::Level;
use crate::point::payload::{Decision, StopReason, TurnSummary};

/// How a turn is shown.
#[derive(Clone, Copy, Debug, Default)]
pub(in super::super) struct View {
    /// JSON lines instead of text.
    pub(in super::super) json: bool,
    /// One line for every hook.
    pub(in super::super) trace: bool,
    /// Whether the model's words may be shown while they come. Not when a hook may still change or hold them back.
    pub(in super::super) live: bool,
}

/// Shows events in the order they come.
pub(in super::super) struct TurnRenderer {
    view: View,
    progress: ProgressBar,
    /// What was shown live since the last message began.
    streamed: String,
    hooks: BTreeMap<String, (u32, f64)>,
}

impl TurnRenderer {
    pub(in super::super) fn new(view: View) -> Self {
        let target = if view.json || !has_terminal() {
            ProgressDrawTarget::hidden()
        } else {
            ProgressDrawTarget::stderr()
        };
        let progress = ProgressBar::with_draw_target(None, target);
        // The template is a constant that parses; the default is as good should it not.
        progress.set_style(
            ProgressStyle::with_template("{spinner:.dim} {msg:.dim} {elapsed:.dim}")
                .unwrap_or_else(|_| ProgressStyle::default_spinner()),
        );
        Self {
            view,
            progress,
            streamed: String::new(),
            hooks: BTreeMap::new(),
        }
    }

    /// Shows one event.
    pub(in super::super) fn show(&mut self, event: &Event) {
        if self.view.json {
            match serde_json::to_string(event) {
                Ok(line) => answer_line(line),
                Err(e) => say(format_args!("an event could not be written: {e}")),
            }
            return;
        }
        match event {
            Event::StepStart { step } => self.step_start(*step),
            Event::TextDelta { text } => self.text(text),
            Event::ThinkingDelta { .. } => self.progress.set_message("thinking"),
            Event::Hook { record } => {
                let sum = self.hooks.entry(record.plugin.to_string()).or_default();
                *sum = (sum.0 + 1, sum.1 + record.micros);
                if self.view.trace
                    || record.reason.is_some()
                        && !matches!(record.outcome, crate::point::trace::TraceOutcome::Changed)
                {
                    self.line(steps::hook(record));
                }
            }
            other => {
                if let Some(line) = line(other, self.view) {
                    self.line(line);
                }
            }
        }
        if let Event::TurnEnd {
            summary, output, ..
        } = event
        {
            self.turn_end(summary, output);
        }
    }

    /// Leaves the terminal to a question.
    pub(in super::super) fn pause(&mut self) {
        self.progress.disable_steady_tick();
        self.progress.finish_and_clear();
    }

    fn step_start(&mut self, step: u32) {
        self.progress
            .set_message(format!("step {step}: waiting for the model"));
        self.progress.reset_elapsed();
        // Nothing turns when the step is over within the second.
        self.progress.enable_steady_tick(Duration::from_millis(120));
        if self.view.trace {
            self.line(styled(BOLD, format_args!("step {step}")));
        }
    }

    fn text(&mut self, text: &str) {
        if self.view.live {
            self.progress.disable_steady_tick();
            self.progress.suspend(|| answer(printable(text)));
            self.streamed.push_str(text);
        } else {
            self.progress.set_message("the model is writing");
        }
    }

    /// A line of its own: what is being streamed is ended first.
    fn line(&mut self, line: String) {
        if !self.streamed.is_empty() && !self.streamed.ends_with('\n') {
            answer("\n");
        }
        self.streamed.clear();
        self.progress.suspend(|| say(line));
    }

    fn turn_end(&mut self, summary: &TurnSummary, output: &str) {
        self.progress.finish_and_clear();
        if self.streamed.trim() != output.trim() || output.trim().is_empty() {
            if !self.streamed.is_empty() {
                answer("\n");
            }
            answer_line(printable(output));
        } else if !output.ends_with('\n') {
            answer("\n");
        }
        self.streamed.clear();
        say(self.summary(summary));
    }

    fn summary(&self, summary: &TurnSummary) -> String {
        let mut words = vec![
            count(summary.steps, "step"),
            count(summary.tool_calls, "tool call"),
            format!(
                "{} + {} tokens",
                summary.usage.input_tokens, summary.usage.output_tokens
            ),
            duration(summary.duration_ms as f64 * 1000.0),
        ];
        let (calls, micros) = self
            .hooks
            .values()
            .fold((0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        if calls > 0 {
            words.push(format!(
                "{} of {} in {}",
                count(calls, "hook call"),
                count(self.hooks.len() as u32, "plugin"),
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

fn count(n: u32, what: &str) -> String {
    if n == 1 {
        format!("{n} {what}")
    } else {
        format!("{n} {what}s")
    }
}

/// The line for an event, if it has one.
fn line(event: &Event, view: View) -> Option<String> {
    match event {
        Event::SessionOpened {
            id,
            resumed,
            messages,
            provider,
            model,
        } => {
            let what = if *resumed {
                format!("resumed with {messages} messages")
            } else {
                "new".to_owned()
            };
            Some(styled(
                DIM,
                format_args!("session {id} ({what}) · {provider} {model}"),
            ))
        }
        Event::TurnStart { turn, input, .. } if view.trace => Some(format!(
            "{} {}",
            styled(BOLD, format_args!("turn {turn}")),
            styled(DIM, one_line(input, 100))
        )),
        Event::Assessed {
            decision,
            confidence,
            reasons,
        } if view.trace || *decision != Decision::Direct => {
            let word = serde_json::to_value(decision)
                .ok()
                .and_then(|v| v.as_str().map(str::to_owned))
                .unwrap_or_default();
            Some(styled(
                DIM,
                format_args!(
                    "assessed as {word} ({confidence:.2}): {}",
                    reasons.join(", ")
                ),
            ))
        }
        Event::Retry {
            attempt,
            delay_ms,
            reason,
        } => {
            let wait = duration(*delay_ms as f64 * 1000.0);
            Some(styled(
                WARN,
                format_args!("attempt {attempt} in {wait}: {}", one_line(reason, 160)),
            ))
        }
        Event::ToolStart { call, plugin, .. } => Some(steps::tool_start(call, plugin.as_deref())),
        Event::ToolEnd {
            result,
            duration_ms,
            refused_by,
        } => Some(steps::tool_end(result, *duration_ms, refused_by.as_deref())),
        Event::Notice {
            level,
            plugin,
            text,
        } => {
            let style = match level {
                Level::Debug | Level::Info => DIM,
                Level::Warn => WARN,
                Level::Error => BAD,
            };
            let who = plugin
                .as_deref()
                .map(|plugin| format!("{} ", styled(PLUGIN, plugin)))
                .unwrap_or_default();
            Some(format!(
                "{} {who}{}",
                styled(style, "▲"),
                styled(style, printable(text))
            ))
        }
        Event::Injected { plugin, text, .. } if view.trace => Some(format!(
            "  {} {}",
            styled(PLUGIN, plugin),
            styled(DIM, format_args!("told the model: {}", one_line(text, 120)))
        )),
        Event::Error { place, message } => Some(format!(
            "{} {}",
            styled(BAD, format_args!("{place}:")),
            printable(message)
        )),
        _ => None,
    }
}
