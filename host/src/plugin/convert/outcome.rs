//! Outcomes, from what guests answered to our types. Every text in them leaves the guest here, through [`Sanitizer`]; reasons
//! become one line, because they end on terminals and before models.

use super::super::bindings::exports::rind::plugin::implement as wi;
use super::super::bindings::rind::plugin::{outcomes as wo, payloads as wp, types as wt};
use super::super::sanitize::Sanitizer;
use super::MAX_REASON_BYTES;
use crate::json;
use crate::point::failure::Failure;
use crate::point::outcome as o;
use crate::point::payload as p;

/// Longest line of a log or a notice, in bytes.
const MAX_LINE_BYTES: usize = 4096;

/// Longest name of a metric, in bytes.
const MAX_METRIC_BYTES: usize = 128;

/// Made of what a guest answered.
pub(in super::super) trait FromGuest<G> {
    /// Field for field; `exit` is the way out for the call that was answered.
    fn from_guest(answer: G, sanitizer: Sanitizer<'_>) -> Self;
}

pub(in super::super) fn level(level: wt::Level) -> o::Level {
    match level {
        wt::Level::Debug => o::Level::Debug,
        wt::Level::Info => o::Level::Info,
        wt::Level::Warn => o::Level::Warn,
        wt::Level::Error => o::Level::Error,
    }
}

fn effects(effects: Vec<wt::Effect>, sanitizer: Sanitizer<'_>) -> Vec<o::Effect> {
    let line = |what: &str, line: wt::LogLine| {
        let text = sanitizer.line(what, &line.text, MAX_LINE_BYTES);
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
            name: sanitizer.line("metric", &metric.name, MAX_METRIC_BYTES),
            value: metric.value,
        },
        wt::Effect::Store(stored) => o::Effect::Store {
            key: sanitizer.text("stored key", stored.key),
            value: sanitizer.text("stored value", stored.value),
        },
    };
    effects.into_iter().map(one).collect()
}

fn inject(inject: Vec<wt::Injection>, sanitizer: Sanitizer<'_>) -> Vec<o::Injection> {
    inject
        .into_iter()
        .map(|injection| o::Injection {
            text: sanitizer.text("injected message", injection.text),
            keep: injection.keep,
        })
        .collect()
}

/// Reasons are shown on terminals and to models: one line, capped.
fn reason(what: &str, text: Option<String>, sanitizer: Sanitizer<'_>) -> Option<String> {
    text.map(|text| sanitizer.line(what, &text, MAX_REASON_BYTES))
}

/// The text that takes the place of the payload's.
fn replacement(what: &str, text: Option<String>, sanitizer: Sanitizer<'_>) -> Option<String> {
    text.map(|text| sanitizer.replacement(what, text))
}

fn option(what: &str, text: Option<String>, sanitizer: Sanitizer<'_>) -> Option<String> {
    text.map(|text| sanitizer.text(what, text))
}

/// Parts of a result. A blob is told by its id alone: what else is said of it is the host's to know.
fn replacing(parts: Vec<wt::Part>, sanitizer: Sanitizer<'_>) -> Vec<o::NewPart> {
    let one = |part| match part {
        wt::Part::Text(text) => o::NewPart::Text(sanitizer.text("content", text)),
        wt::Part::Json(text) => o::NewPart::Json(sanitizer.json("content", text)),
        wt::Part::Blob(blob) => o::NewPart::Blob(blob.id),
    };
    parts.into_iter().map(one).collect()
}

fn all(what: &str, texts: Vec<String>, sanitizer: Sanitizer<'_>) -> Vec<String> {
    let texts = texts.into_iter();
    texts.map(|text| sanitizer.text(what, text)).collect()
}

fn verdict(change: wo::VerdictChange, sanitizer: Sanitizer<'_>) -> o::VerdictChange {
    match change {
        wo::VerdictChange::Keep => o::VerdictChange::Keep,
        wo::VerdictChange::Done => o::VerdictChange::Done,
        wo::VerdictChange::Again(text) => {
            o::VerdictChange::Again(sanitizer.line("reason", &text, MAX_REASON_BYTES))
        }
    }
}

fn parts(parts: Vec<wp::PromptPart>, sanitizer: Sanitizer<'_>) -> Vec<p::PromptPart> {
    let one = |part: wp::PromptPart| {
        let tier = match part.tier {
            wp::Tier::Stable => p::Tier::Stable,
            wp::Tier::Context => p::Tier::Context,
            wp::Tier::Volatile => p::Tier::Volatile,
        };
        p::PromptPart {
            tier,
            key: sanitizer.text("key of a part", part.key),
            source: sanitizer.text("source of a part", part.source),
            text: sanitizer.text("part", part.text),
        }
    };
    parts.into_iter().map(one).collect()
}

impl FromGuest<wo::Observed> for o::Observed {
    fn from_guest(outcome: wo::Observed, sanitizer: Sanitizer<'_>) -> Self {
        Self {
            effects: effects(outcome.effects, sanitizer),
        }
    }
}

impl FromGuest<wo::InputOutcome> for o::InputOutcome {
    fn from_guest(outcome: wo::InputOutcome, sanitizer: Sanitizer<'_>) -> Self {
        Self {
            text: replacement("text", outcome.text, sanitizer),
            inject: inject(outcome.inject, sanitizer),
            block: reason("reason", outcome.block, sanitizer),
            effects: effects(outcome.effects, sanitizer),
        }
    }
}

impl FromGuest<wo::AssessmentOutcome> for o::AssessmentOutcome {
    fn from_guest(outcome: wo::AssessmentOutcome, sanitizer: Sanitizer<'_>) -> Self {
        let assessment = outcome.assessment.map(|assessment| p::Assessment {
            input: sanitizer.text("text", assessment.input),
            decision: match assessment.decision {
                wp::Decision::Direct => p::Decision::Direct,
                wp::Decision::AskFirst => p::Decision::AskFirst,
                wp::Decision::Delegate => p::Decision::Delegate,
                wp::Decision::Plan => p::Decision::Plan,
                wp::Decision::Parallelize => p::Decision::Parallelize,
            },
            confidence: assessment.confidence,
            reasons: all("reason", assessment.reasons, sanitizer),
        });
        Self {
            assessment,
            effects: effects(outcome.effects, sanitizer),
        }
    }
}

impl FromGuest<wo::PromptOutcome> for o::PromptOutcome {
    fn from_guest(outcome: wo::PromptOutcome, sanitizer: Sanitizer<'_>) -> Self {
        Self {
            parts: parts(outcome.parts, sanitizer),
            effects: effects(outcome.effects, sanitizer),
        }
    }
}

impl FromGuest<wo::PartsOutcome> for o::PartsOutcome {
    fn from_guest(outcome: wo::PartsOutcome, sanitizer: Sanitizer<'_>) -> Self {
        Self {
            put: parts(outcome.put, sanitizer),
            remove: all("key of a part", outcome.remove, sanitizer),
            effects: effects(outcome.effects, sanitizer),
        }
    }
}

impl FromGuest<wo::TextOutcome> for o::TextOutcome {
    fn from_guest(outcome: wo::TextOutcome, sanitizer: Sanitizer<'_>) -> Self {
        Self {
            text: replacement("text", outcome.text, sanitizer),
            effects: effects(outcome.effects, sanitizer),
        }
    }
}

impl FromGuest<wo::ContextOutcome> for o::ContextOutcome {
    fn from_guest(outcome: wo::ContextOutcome, sanitizer: Sanitizer<'_>) -> Self {
        let edit = |edit| match edit {
            wo::MessageEdit::Drop(id) => o::MessageEdit::Drop(sanitizer.text("id", id)),
            wo::MessageEdit::Replace(replacement) => o::MessageEdit::Replace {
                id: sanitizer.text("id", replacement.id),
                text: sanitizer.text("text", replacement.text),
            },
            wo::MessageEdit::Append(text) => o::MessageEdit::Append(sanitizer.text("text", text)),
        };
        Self {
            edits: outcome.edits.into_iter().map(edit).collect(),
            effects: effects(outcome.effects, sanitizer),
        }
    }
}

impl FromGuest<wo::RequestOutcome> for o::RequestOutcome {
    fn from_guest(outcome: wo::RequestOutcome, sanitizer: Sanitizer<'_>) -> Self {
        Self {
            model: option("model", outcome.model, sanitizer),
            temperature: match outcome.temperature {
                wo::FloatChange::Keep => o::Change::Keep,
                wo::FloatChange::Unset => o::Change::Unset,
                wo::FloatChange::Set(number) => o::Change::Set(number),
            },
            max_tokens: match outcome.max_tokens {
                wo::CountChange::Keep => o::Change::Keep,
                wo::CountChange::Unset => o::Change::Unset,
                wo::CountChange::Set(number) => o::Change::Set(number),
            },
            tools: match outcome.tools {
                wo::NamesChange::Keep => o::Change::Keep,
                wo::NamesChange::Unset => o::Change::Unset,
                wo::NamesChange::Set(tools) => o::Change::Set(all("tool", tools, sanitizer)),
            },
            inject: inject(outcome.inject, sanitizer),
            block: reason("reason", outcome.block, sanitizer),
            effects: effects(outcome.effects, sanitizer),
        }
    }
}

impl FromGuest<wo::WireOutcome> for o::WireOutcome {
    fn from_guest(outcome: wo::WireOutcome, sanitizer: Sanitizer<'_>) -> Self {
        Self {
            body: outcome.body.map(|body| sanitizer.json("body", body)),
            effects: effects(outcome.effects, sanitizer),
        }
    }
}

impl FromGuest<wo::ReplyOutcome> for o::ReplyOutcome {
    fn from_guest(outcome: wo::ReplyOutcome, sanitizer: Sanitizer<'_>) -> Self {
        Self {
            text: option("text", outcome.text, sanitizer),
            inject: inject(outcome.inject, sanitizer),
            block: reason("reason", outcome.block, sanitizer),
            effects: effects(outcome.effects, sanitizer),
        }
    }
}

impl FromGuest<wo::CallOutcome> for o::CallOutcome {
    fn from_guest(outcome: wo::CallOutcome, sanitizer: Sanitizer<'_>) -> Self {
        let verdict = match outcome.verdict {
            wo::CallVerdict::Pass => o::CallVerdict::Pass,
            wo::CallVerdict::Change(arguments) => {
                o::CallVerdict::Change(sanitizer.json("arguments", arguments))
            }
            wo::CallVerdict::Ask(text) => {
                o::CallVerdict::Ask(sanitizer.line("reason", &text, MAX_REASON_BYTES))
            }
            wo::CallVerdict::Block(text) => {
                o::CallVerdict::Block(sanitizer.line("reason", &text, MAX_REASON_BYTES))
            }
        };
        Self {
            verdict,
            note: reason("note", outcome.note, sanitizer),
            effects: effects(outcome.effects, sanitizer),
        }
    }
}

impl FromGuest<wo::ResultOutcome> for o::ResultOutcome {
    fn from_guest(outcome: wo::ResultOutcome, sanitizer: Sanitizer<'_>) -> Self {
        Self {
            content: outcome.content.map(|content| replacing(content, sanitizer)),
            is_error: outcome.is_error,
            inject: inject(outcome.inject, sanitizer),
            effects: effects(outcome.effects, sanitizer),
        }
    }
}

impl FromGuest<wo::SteeringOutcome> for o::SteeringOutcome {
    fn from_guest(outcome: wo::SteeringOutcome, sanitizer: Sanitizer<'_>) -> Self {
        let action = match outcome.action {
            wo::SteeringAction::Pass => o::SteeringAction::Pass,
            wo::SteeringAction::Replace(text) => {
                o::SteeringAction::Replace(sanitizer.text("text", text))
            }
            wo::SteeringAction::Drop(text) => {
                o::SteeringAction::Drop(sanitizer.line("reason", &text, MAX_REASON_BYTES))
            }
        };
        Self {
            action,
            inject: inject(outcome.inject, sanitizer),
            effects: effects(outcome.effects, sanitizer),
        }
    }
}

impl FromGuest<wo::ReflectionOutcome> for o::ReflectionOutcome {
    fn from_guest(outcome: wo::ReflectionOutcome, sanitizer: Sanitizer<'_>) -> Self {
        Self {
            draft: option("draft", outcome.draft, sanitizer),
            criteria: all("criterion", outcome.criteria, sanitizer),
            verdict: verdict(outcome.verdict, sanitizer),
            effects: effects(outcome.effects, sanitizer),
        }
    }
}

impl FromGuest<wo::VerdictOutcome> for o::VerdictOutcome {
    fn from_guest(outcome: wo::VerdictOutcome, sanitizer: Sanitizer<'_>) -> Self {
        Self {
            verdict: verdict(outcome.verdict, sanitizer),
            effects: effects(outcome.effects, sanitizer),
        }
    }
}

impl FromGuest<wo::OutputOutcome> for o::OutputOutcome {
    fn from_guest(outcome: wo::OutputOutcome, sanitizer: Sanitizer<'_>) -> Self {
        Self {
            text: replacement("text", outcome.text, sanitizer),
            block: reason("reason", outcome.block, sanitizer),
            effects: effects(outcome.effects, sanitizer),
        }
    }
}

impl FromGuest<wo::DeltaOutcome> for o::DeltaOutcome {
    fn from_guest(outcome: wo::DeltaOutcome, sanitizer: Sanitizer<'_>) -> Self {
        Self {
            text: replacement("text", outcome.text, sanitizer),
            keep: outcome.keep as usize,
            stop: reason("reason", outcome.stop, sanitizer),
            effects: effects(outcome.effects, sanitizer),
        }
    }
}

impl FromGuest<wo::SliceOutcome> for o::SliceOutcome {
    fn from_guest(outcome: wo::SliceOutcome, sanitizer: Sanitizer<'_>) -> Self {
        let verdict = match outcome.verdict {
            wo::SliceVerdict::Pass => o::SliceVerdict::Pass,
            wo::SliceVerdict::Cancel(text) => {
                o::SliceVerdict::Cancel(sanitizer.line("reason", &text, MAX_REASON_BYTES))
            }
            wo::SliceVerdict::Summary(text) => {
                o::SliceVerdict::Summary(sanitizer.text("summary", text))
            }
        };
        Self {
            verdict,
            effects: effects(outcome.effects, sanitizer),
        }
    }
}

/// The outcome of an implementation of a plugin-defined point.
pub(in super::super) fn point_outcome(
    outcome: wi::Outcome,
    sanitizer: Sanitizer<'_>,
) -> Result<o::PointOutcome, Failure> {
    let verdict = match outcome.verdict {
        wi::Verdict::Pass => o::PointVerdict::Pass,
        wi::Verdict::Value(value) => {
            let value = json::parse(&sanitizer.json("answer", value), json::MAX_BYTES)
                .map_err(|e| Failure::Malformed(format!("the answer {e}")))?;
            o::PointVerdict::Value(value)
        }
        wi::Verdict::Ask(text) => {
            o::PointVerdict::Ask(sanitizer.line("reason", &text, MAX_REASON_BYTES))
        }
        wi::Verdict::Block(text) => {
            o::PointVerdict::Block(sanitizer.line("reason", &text, MAX_REASON_BYTES))
        }
    };
    Ok(o::PointOutcome {
        verdict,
        effects: effects(outcome.effects, sanitizer),
    })
}
