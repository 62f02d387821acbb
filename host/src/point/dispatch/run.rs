//! State of one dispatch, and its outcome.

use std::sync::Arc;
use std::time::Duration;

use super::report::Report;
use crate::point::Point;
use crate::point::failure::{Failure, OnFailure};
use crate::point::merge::{Merged, Objection};
use crate::point::outcome::Injection;
use crate::point::registry::HookSpec;
use crate::point::trace::TraceOutcome;

/// Text of a plugin, with its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttributedText {
    /// Name of the plugin.
    pub plugin: Arc<str>,
    /// Text.
    pub text: String,
}

/// Combined verdict of all hooks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum HookVerdict {
    /// No objection.
    #[default]
    Pass,
    /// Ask the user first; the reasons of every hook that asked.
    Ask(Vec<AttributedText>),
    /// Refused, by the first hook in order that did; those behind it were not asked.
    Block(AttributedText),
}

/// Outcome of a dispatch.
#[derive(Clone, Debug)]
pub struct Dispatched<T> {
    /// The payload as the hooks left it.
    pub value: T,
    /// Verdict of the hooks.
    pub verdict: HookVerdict,
    /// Messages to add, in order.
    pub inject: Vec<(Arc<str>, Injection)>,
    /// Warnings for the model, in order.
    pub notes: Vec<AttributedText>,
}

/// One dispatch on its way.
pub(super) struct Run<'a, P: Point> {
    pub(super) report: Report<'a>,
    pub(super) out: Dispatched<P::Payload>,
}

impl<P: Point> Run<'_, P> {
    pub(super) fn is_refused(&self) -> bool {
        matches!(self.out.verdict, HookVerdict::Block(_))
    }

    /// Takes in what a hook answered. Whether it changed what the hooks judge.
    pub(super) fn finish(
        &mut self,
        spec: &HookSpec,
        took: Duration,
        result: Result<P::Outcome, Failure>,
    ) -> bool {
        let value = &mut self.out.value;
        let mut merged = Merged::default();
        self.report
            .finish::<P>(spec, took, result, value, &mut merged);
        for injection in merged.inject {
            self.out.inject.push((spec.plugin.clone(), injection));
        }
        if let Some(text) = merged.note {
            self.out.notes.push(AttributedText {
                plugin: spec.plugin.clone(),
                text,
            });
        }
        self.answer(spec, merged.answer);
        merged.rewrites
    }

    /// Takes in what a hook says to a value that was changed after it had judged. Only its verdict counts: another change
    /// would have to be judged by all the others again, and so on without end.
    pub(super) fn judge_again(
        &mut self,
        spec: &HookSpec,
        took: Duration,
        result: Result<P::Outcome, Failure>,
    ) {
        let mut value = self.out.value.clone();
        let mut merged = Merged::default();
        self.report
            .finish::<P>(spec, took, result, &mut value, &mut merged);
        let answer = match merged.answer {
            None if merged.rewrites => Some(Objection::Block(
                "it wants to change what another hook changed after it".to_owned(),
            )),
            answer => answer,
        };
        self.answer(spec, answer);
    }

    /// A hook that is out for the rest of the turn: a guard goes on refusing, by name.
    pub(super) fn dropped(&mut self, spec: &HookSpec, why: String) {
        let (outcome, answer) = match spec.on_failure {
            OnFailure::Block => {
                let reason = format!(
                    "the hook is disabled for the rest of this turn and refuses what it would have checked: {why}"
                );
                (
                    TraceOutcome::DroppedBlocking,
                    Some(Objection::Block(reason)),
                )
            }
            OnFailure::Skip => (TraceOutcome::Dropped, None),
        };
        self.report.trace(spec, outcome, Vec::new(), Some(why), 0.0);
        self.answer(spec, answer);
    }

    /// `block` beats `ask` beats `pass`, whatever the order.
    fn answer(&mut self, spec: &HookSpec, answer: Option<Objection>) {
        let said = |text| AttributedText {
            plugin: spec.plugin.clone(),
            text,
        };
        match (answer, &mut self.out.verdict) {
            (None, _) | (Some(_), HookVerdict::Block(_)) => {}
            (Some(Objection::Block(text)), verdict) => *verdict = HookVerdict::Block(said(text)),
            (Some(Objection::Ask(text)), HookVerdict::Ask(all)) => all.push(said(text)),
            (Some(Objection::Ask(text)), verdict) => *verdict = HookVerdict::Ask(vec![said(text)]),
        }
    }
}
