//! Outcomes, from what guests answered to our types. Every text in them leaves the guest here, through [`Exit`]; reasons
//! become one line, because they end on terminals and before models.

use super::super::bindings::rind::plugin::{outcomes as wo, payloads as wp, types as wt};
use super::super::exit::Exit;
use super::MAX_REASON_BYTES;
use crate::point::outcome as o;
use crate::point::payload as p;

/// Longest line of a log or a notice, in bytes.
const MAX_LINE_BYTES: usize = 4096;

/// Longest name of a metric, in bytes.
const MAX_METRIC_BYTES: usize = 128;

/// Made of what a guest answered.
pub(in super::super) trait FromGuest<G> {
    /// Field for field; `exit` is the way out for the call that was answered.
    fn from_guest(answer: G, exit: Exit<'_>) -> Self;
}

pub(in super::super) fn level(level: wt::Level) -> o::Level {
    match level {
        wt::Level::Debug => o::Level::Debug,
        wt::Level::Info => o::Level::Info,
        wt::Level::Warn => o::Level::Warn,
        wt::Level::Error => o::Level::Error,
    }
}

fn effects(effects: Vec<wt::Effect>, exit: Exit<'_>) -> Vec<o::Effect> {
    let line = |what: &str, line: wt::LogLine| {
        let text = exit.line(what, &line.text, MAX_LINE_BYTES);
        (level(line.level), text)
    };
    let one = |effect| match effect {
        wt::Effect::Log(log) => {
            let (level, text) = line("log", log);
            o::Effect::Log { level, text }
        }
        wt::Effect::Notify(notice) => {
            let (level, text) = line("notice", notice);
            o::Effect::Notify { level, text }
        }
        wt::Effect::Metric(metric) => o::Effect::Metric {
            name: exit.line("metric", &metric.name, MAX_METRIC_BYTES),
            value: metric.value,
        },
        wt::Effect::Store(stored) => o::Effect::Store {
            key: exit.text("stored key", stored.key),
            value: exit.text("stored value", stored.value),
        },
    };
    effects.into_iter().map(one).collect()
}

fn inject(inject: Vec<wt::Injection>, exit: Exit<'_>) -> Vec<o::Injection> {
    inject
        .into_iter()
        .map(|injection| o::Injection {
            text: exit.text("injected message", injection.text),
            keep: injection.keep,
        })
        .collect()
}

/// Reasons are shown on terminals and to models: one line, capped.
fn reason(what: &str, text: Option<String>, exit: Exit<'_>) -> Option<String> {
    text.map(|text| exit.line(what, &text, MAX_REASON_BYTES))
}

fn option(what: &str, text: Option<String>, exit: Exit<'_>) -> Option<String> {
    text.map(|text| exit.text(what, text))
}

fn all(what: &str, texts: Vec<String>, exit: Exit<'_>) -> Vec<String> {
    let texts = texts.into_iter();
    texts.map(|text| exit.text(what, text)).collect()
}

fn verdict(change: wo::VerdictChange, exit: Exit<'_>) -> o::VerdictChange {
    match change {
        wo::VerdictChange::Keep => o::VerdictChange::Keep,
        wo::VerdictChange::Done => o::VerdictChange::Done,
        wo::VerdictChange::Again(text) => {
            o::VerdictChange::Again(exit.line("reason", &text, MAX_REASON_BYTES))
        }
    }
}

fn parts(parts: Vec<wp::PromptPart>, exit: Exit<'_>) -> Vec<p::PromptPart> {
    let one = |part: wp::PromptPart| {
        let tier = match part.tier {
            wp::Tier::Stable => p::Tier::Stable,
            wp::Tier::Context => p::Tier::Context,
            wp::Tier::Volatile => p::Tier::Volatile,
        };
        p::PromptPart {
            tier,
            key: exit.text("key of a part", part.key),
            source: exit.text("source of a part", part.source),
            text: exit.text("part", part.text),
        }
    };
    parts.into_iter().map(one).collect()
}

impl FromGuest<wo::Observed> for o::Observed {
    fn from_guest(outcome: wo::Observed, exit: Exit<'_>) -> Self {
        Self {
            effects: effects(outcome.effects, exit),
        }
    }
}

impl FromGuest<wo::InputOutcome> for o::InputOutcome {
    fn from_guest(outcome: wo::InputOutcome, exit: Exit<'_>) -> Self {
        Self {
            text: option("text", outcome.text, exit),
            inject: inject(outcome.inject, exit),
            block: reason("reason", outcome.block, exit),
            effects: effects(outcome.effects, exit),
        }
    }
}

impl FromGuest<wo::AssessmentOutcome> for o::AssessmentOutcome {
    fn from_guest(outcome: wo::AssessmentOutcome, exit: Exit<'_>) -> Self {
        let assessment = outcome.assessment.map(|assessment| p::Assessment {
            input: exit.text("text", assessment.input),
            decision: match assessment.decision {
                wp::Decision::Direct => p::Decision::Direct,
                wp::Decision::AskFirst => p::Decision::AskFirst,
                wp::Decision::Delegate => p::Decision::Delegate,
                wp::Decision::Plan => p::Decision::Plan,
                wp::Decision::Parallelize => p::Decision::Parallelize,
            },
            confidence: assessment.confidence,
            reasons: all("reason", assessment.reasons, exit),
        });
        Self {
            assessment,
            effects: effects(outcome.effects, exit),
        }
    }
}

impl FromGuest<wo::PromptOutcome> for o::PromptOutcome {
    fn from_guest(outcome: wo::PromptOutcome, exit: Exit<'_>) -> Self {
        Self {
            parts: parts(outcome.parts, exit),
            effects: effects(outcome.effects, exit),
        }
    }
}

impl FromGuest<wo::PartsOutcome> for o::PartsOutcome {
    fn from_guest(outcome: wo::PartsOutcome, exit: Exit<'_>) -> Self {
        Self {
            put: parts(outcome.put, exit),
            remove: all("key of a part", outcome.remove, exit),
            effects: effects(outcome.effects, exit),
        }
    }
}

impl FromGuest<wo::TextOutcome> for o::TextOutcome {
    fn from_guest(outcome: wo::TextOutcome, exit: Exit<'_>) -> Self {
        Self {
            text: option("text", outcome.text, exit),
            effects: effects(outcome.effects, exit),
        }
    }
}

impl FromGuest<wo::ContextOutcome> for o::ContextOutcome {
    fn from_guest(outcome: wo::ContextOutcome, exit: Exit<'_>) -> Self {
        let edit = |edit| match edit {
            wo::MessageEdit::Drop(id) => o::MessageEdit::Drop(exit.text("id", id)),
            wo::MessageEdit::Replace(replacement) => o::MessageEdit::Replace {
                id: exit.text("id", replacement.id),
                text: exit.text("text", replacement.text),
            },
            wo::MessageEdit::Append(text) => o::MessageEdit::Append(exit.text("text", text)),
        };
        Self {
            edits: outcome.edits.into_iter().map(edit).collect(),
            effects: effects(outcome.effects, exit),
        }
    }
}

impl FromGuest<wo::RequestOutcome> for o::RequestOutcome {
    fn from_guest(outcome: wo::RequestOutcome, exit: Exit<'_>) -> Self {
        Self {
            model: option("model", outcome.model, exit),
            temperature: outcome.temperature,
            max_tokens: outcome.max_tokens,
            tools: outcome.tools.map(|tools| all("tool", tools, exit)),
            inject: inject(outcome.inject, exit),
            block: reason("reason", outcome.block, exit),
            effects: effects(outcome.effects, exit),
        }
    }
}

impl FromGuest<wo::WireOutcome> for o::WireOutcome {
    fn from_guest(outcome: wo::WireOutcome, exit: Exit<'_>) -> Self {
        Self {
            body: outcome.body.map(|body| exit.json("body", body)),
            effects: effects(outcome.effects, exit),
        }
    }
}

impl FromGuest<wo::ReplyOutcome> for o::ReplyOutcome {
    fn from_guest(outcome: wo::ReplyOutcome, exit: Exit<'_>) -> Self {
        Self {
            text: option("text", outcome.text, exit),
            inject: inject(outcome.inject, exit),
            block: reason("reason", outcome.block, exit),
            effects: effects(outcome.effects, exit),
        }
    }
}

impl FromGuest<wo::CallOutcome> for o::CallOutcome {
    fn from_guest(outcome: wo::CallOutcome, exit: Exit<'_>) -> Self {
        let verdict = match outcome.verdict {
            wo::CallVerdict::Pass => o::CallVerdict::Pass,
            wo::CallVerdict::Change(arguments) => {
                o::CallVerdict::Change(exit.json("arguments", arguments))
            }
            wo::CallVerdict::Ask(text) => {
                o::CallVerdict::Ask(exit.line("reason", &text, MAX_REASON_BYTES))
            }
            wo::CallVerdict::Block(text) => {
                o::CallVerdict::Block(exit.line("reason", &text, MAX_REASON_BYTES))
            }
        };
        Self {
            verdict,
            note: reason("note", outcome.note, exit),
            effects: effects(outcome.effects, exit),
        }
    }
}

impl FromGuest<wo::ResultOutcome> for o::ResultOutcome {
    fn from_guest(outcome: wo::ResultOutcome, exit: Exit<'_>) -> Self {
        Self {
            content: option("content", outcome.content, exit),
            is_error: outcome.is_error,
            inject: inject(outcome.inject, exit),
            effects: effects(outcome.effects, exit),
        }
    }
}

impl FromGuest<wo::SteeringOutcome> for o::SteeringOutcome {
    fn from_guest(outcome: wo::SteeringOutcome, exit: Exit<'_>) -> Self {
        let action = match outcome.action {
            wo::SteeringAction::Pass => o::SteeringAction::Pass,
            wo::SteeringAction::Replace(text) => {
                o::SteeringAction::Replace(exit.text("text", text))
            }
            wo::SteeringAction::Drop(text) => {
                o::SteeringAction::Drop(exit.line("reason", &text, MAX_REASON_BYTES))
            }
        };
        Self {
            action,
            inject: inject(outcome.inject, exit),
            effects: effects(outcome.effects, exit),
        }
    }
}

impl FromGuest<wo::ReflectionOutcome> for o::ReflectionOutcome {
    fn from_guest(outcome: wo::ReflectionOutcome, exit: Exit<'_>) -> Self {
        Self {
            draft: option("draft", outcome.draft, exit),
            criteria: all("criterion", outcome.criteria, exit),
            verdict: verdict(outcome.verdict, exit),
            effects: effects(outcome.effects, exit),
        }
    }
}

impl FromGuest<wo::VerdictOutcome> for o::VerdictOutcome {
    fn from_guest(outcome: wo::VerdictOutcome, exit: Exit<'_>) -> Self {
        Self {
            verdict: verdict(outcome.verdict, exit),
            effects: effects(outcome.effects, exit),
        }
    }
}

impl FromGuest<wo::OutputOutcome> for o::OutputOutcome {
    fn from_guest(outcome: wo::OutputOutcome, exit: Exit<'_>) -> Self {
        Self {
            text: option("text", outcome.text, exit),
            block: reason("reason", outcome.block, exit),
            effects: effects(outcome.effects, exit),
        }
    }
}

impl FromGuest<wo::DeltaOutcome> for o::DeltaOutcome {
    fn from_guest(outcome: wo::DeltaOutcome, exit: Exit<'_>) -> Self {
        Self {
            text: option("text", outcome.text, exit),
            keep: outcome.keep as usize,
            stop: reason("reason", outcome.stop, exit),
            effects: effects(outcome.effects, exit),
        }
    }
}

impl FromGuest<wo::SliceOutcome> for o::SliceOutcome {
    fn from_guest(outcome: wo::SliceOutcome, exit: Exit<'_>) -> Self {
        let verdict = match outcome.verdict {
            wo::SliceVerdict::Pass => o::SliceVerdict::Pass,
            wo::SliceVerdict::Cancel(text) => {
                o::SliceVerdict::Cancel(exit.line("reason", &text, MAX_REASON_BYTES))
            }
            wo::SliceVerdict::Summary(text) => o::SliceVerdict::Summary(exit.text("summary", text)),
        };
        Self {
            verdict,
            effects: effects(outcome.effects, exit),
        }
    }
}
