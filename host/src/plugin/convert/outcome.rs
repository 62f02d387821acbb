//! Outcomes, from what guests answered to our types. Reasons are cleaned here: they end on terminals and before models.

use super::super::bindings::rind::plugin::{outcomes as wo, payloads as wp, types as wt};
use super::MAX_REASON_BYTES;
use crate::point::outcome as o;
use crate::point::payload as p;
use crate::text::clean;

pub(in super::super) fn level(level: wt::Level) -> o::Level {
    match level {
        wt::Level::Debug => o::Level::Debug,
        wt::Level::Info => o::Level::Info,
        wt::Level::Warn => o::Level::Warn,
        wt::Level::Error => o::Level::Error,
    }
}

fn effects(effects: Vec<wt::Effect>) -> Vec<o::Effect> {
    let line = |line: wt::LogLine| (level(line.level), clean(&line.text, 4096));
    let one = |effect| match effect {
        wt::Effect::Log(log) => {
            let (level, text) = line(log);
            o::Effect::Log { level, text }
        }
        wt::Effect::Notify(notice) => {
            let (level, text) = line(notice);
            o::Effect::Notify { level, text }
        }
        wt::Effect::Metric(metric) => o::Effect::Metric {
            name: clean(&metric.name, 128),
            value: metric.value,
        },
        wt::Effect::Store(stored) => o::Effect::Store {
            key: stored.key,
            value: stored.value,
        },
    };
    effects.into_iter().map(one).collect()
}

fn inject(inject: Vec<wt::Injection>) -> Vec<o::Injection> {
    inject
        .into_iter()
        .map(|injection| o::Injection {
            text: injection.text,
            keep: injection.keep,
        })
        .collect()
}

/// Reasons are shown on terminals and to models: one line, capped.
fn reason(text: Option<String>) -> Option<String> {
    text.map(|text| clean(&text, MAX_REASON_BYTES))
}

fn parts(parts: Vec<wp::PromptPart>) -> Vec<p::PromptPart> {
    let one = |part: wp::PromptPart| {
        let tier = match part.tier {
            wp::Tier::Stable => p::Tier::Stable,
            wp::Tier::Context => p::Tier::Context,
            wp::Tier::Volatile => p::Tier::Volatile,
        };
        p::PromptPart {
            tier,
            key: part.key,
            source: part.source,
            text: part.text,
        }
    };
    parts.into_iter().map(one).collect()
}

impl From<wo::Observed> for o::Observed {
    fn from(outcome: wo::Observed) -> Self {
        Self {
            effects: effects(outcome.effects),
        }
    }
}

impl From<wo::InputOutcome> for o::InputOutcome {
    fn from(outcome: wo::InputOutcome) -> Self {
        Self {
            text: outcome.text,
            inject: inject(outcome.inject),
            block: reason(outcome.block),
            effects: effects(outcome.effects),
        }
    }
}

impl From<wo::AssessmentOutcome> for o::AssessmentOutcome {
    fn from(outcome: wo::AssessmentOutcome) -> Self {
        let assessment = outcome.assessment.map(|assessment| p::Assessment {
            input: assessment.input,
            decision: match assessment.decision {
                wp::Decision::Direct => p::Decision::Direct,
                wp::Decision::AskFirst => p::Decision::AskFirst,
                wp::Decision::Delegate => p::Decision::Delegate,
                wp::Decision::Plan => p::Decision::Plan,
                wp::Decision::Parallelize => p::Decision::Parallelize,
            },
            confidence: assessment.confidence,
            reasons: assessment.reasons,
        });
        Self {
            assessment,
            effects: effects(outcome.effects),
        }
    }
}

impl From<wo::PromptOutcome> for o::PromptOutcome {
    fn from(outcome: wo::PromptOutcome) -> Self {
        Self {
            parts: parts(outcome.parts),
            effects: effects(outcome.effects),
        }
    }
}

impl From<wo::PartsOutcome> for o::PartsOutcome {
    fn from(outcome: wo::PartsOutcome) -> Self {
        Self {
            put: parts(outcome.put),
            remove: outcome.remove,
            effects: effects(outcome.effects),
        }
    }
}

impl From<wo::TextOutcome> for o::TextOutcome {
    fn from(outcome: wo::TextOutcome) -> Self {
        Self {
            text: outcome.text,
            effects: effects(outcome.effects),
        }
    }
}

impl From<wo::ContextOutcome> for o::ContextOutcome {
    fn from(outcome: wo::ContextOutcome) -> Self {
        let edit = |edit| match edit {
            wo::MessageEdit::Drop(id) => o::MessageEdit::Drop(id),
            wo::MessageEdit::Replace(replacement) => o::MessageEdit::Replace {
                id: replacement.id,
                text: replacement.text,
            },
            wo::MessageEdit::Append(text) => o::MessageEdit::Append(text),
        };
        Self {
            edits: outcome.edits.into_iter().map(edit).collect(),
            effects: effects(outcome.effects),
        }
    }
}

impl From<wo::RequestOutcome> for o::RequestOutcome {
    fn from(outcome: wo::RequestOutcome) -> Self {
        Self {
            model: outcome.model,
            temperature: outcome.temperature,
            max_tokens: outcome.max_tokens,
            tools: outcome.tools,
            inject: inject(outcome.inject),
            block: reason(outcome.block),
            effects: effects(outcome.effects),
        }
    }
}

impl From<wo::WireOutcome> for o::WireOutcome {
    fn from(outcome: wo::WireOutcome) -> Self {
        Self {
            body: outcome.body,
            effects: effects(outcome.effects),
        }
    }
}

impl From<wo::ReplyOutcome> for o::ReplyOutcome {
    fn from(outcome: wo::ReplyOutcome) -> Self {
        Self {
            text: outcome.text,
            inject: inject(outcome.inject),
            block: reason(outcome.block),
            effects: effects(outcome.effects),
        }
    }
}

impl From<wo::CallOutcome> for o::CallOutcome {
    fn from(outcome: wo::CallOutcome) -> Self {
        let verdict = match outcome.verdict {
            wo::CallVerdict::Pass => o::CallVerdict::Pass,
            wo::CallVerdict::Change(arguments) => o::CallVerdict::Change(arguments),
            wo::CallVerdict::Ask(text) => o::CallVerdict::Ask(clean(&text, MAX_REASON_BYTES)),
            wo::CallVerdict::Block(text) => o::CallVerdict::Block(clean(&text, MAX_REASON_BYTES)),
        };
        Self {
            verdict,
            note: reason(outcome.note),
            effects: effects(outcome.effects),
        }
    }
}

impl From<wo::ResultOutcome> for o::ResultOutcome {
    fn from(outcome: wo::ResultOutcome) -> Self {
        Self {
            content: outcome.content,
            is_error: outcome.is_error,
            inject: inject(outcome.inject),
            effects: effects(outcome.effects),
        }
    }
}

impl From<wo::SteeringOutcome> for o::SteeringOutcome {
    fn from(outcome: wo::SteeringOutcome) -> Self {
        let action = match outcome.action {
            wo::SteeringAction::Pass => o::SteeringAction::Pass,
            wo::SteeringAction::Replace(text) => o::SteeringAction::Replace(text),
            wo::SteeringAction::Drop(text) => {
                o::SteeringAction::Drop(clean(&text, MAX_REASON_BYTES))
            }
        };
        Self {
            action,
            inject: inject(outcome.inject),
            effects: effects(outcome.effects),
        }
    }
}

impl From<wo::ReflectionOutcome> for o::ReflectionOutcome {
    fn from(outcome: wo::ReflectionOutcome) -> Self {
        Self {
            draft: outcome.draft,
            criteria: outcome.criteria,
            effects: effects(outcome.effects),
        }
    }
}

impl From<wo::VerdictOutcome> for o::VerdictOutcome {
    fn from(outcome: wo::VerdictOutcome) -> Self {
        let verdict = match outcome.verdict {
            wo::VerdictChange::Keep => o::VerdictChange::Keep,
            wo::VerdictChange::Done => o::VerdictChange::Done,
            wo::VerdictChange::Again(text) => {
                o::VerdictChange::Again(clean(&text, MAX_REASON_BYTES))
            }
        };
        Self {
            verdict,
            effects: effects(outcome.effects),
        }
    }
}

impl From<wo::OutputOutcome> for o::OutputOutcome {
    fn from(outcome: wo::OutputOutcome) -> Self {
        Self {
            text: outcome.text,
            block: reason(outcome.block),
            effects: effects(outcome.effects),
        }
    }
}

impl From<wo::SliceOutcome> for o::SliceOutcome {
    fn from(outcome: wo::SliceOutcome) -> Self {
        let verdict = match outcome.verdict {
            wo::SliceVerdict::Pass => o::SliceVerdict::Pass,
            wo::SliceVerdict::Cancel(text) => {
                o::SliceVerdict::Cancel(clean(&text, MAX_REASON_BYTES))
            }
            wo::SliceVerdict::Summary(text) => o::SliceVerdict::Summary(text),
        };
        Self {
            verdict,
            effects: effects(outcome.effects),
        }
    }
}
