//! State of one dispatch, and its outcome.

use std::sync::Arc;
use std::time::Duration;

use super::report::AnswerReport;
use crate::point::Point;
use crate::point::failure::{Failure, OnFailure};
use crate::point::merge::{Merged, Objection};
use crate::point::outcome::Injection;
use crate::point::registry::HookSpec;
use crate::point::trace::TraceOutcome;

/// Text from a plugin, with the plugin's name.
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
    /// Ask the user first, with the reason of every hook that asked.
    Ask(Vec<AttributedText>),
    /// Refused by the first hook that blocked; later hooks were not called.
    Block(AttributedText),
}

/// Outcome of a dispatch.
#[derive(Clone, Debug)]
pub struct Dispatched<T> {
    /// Payload after all hooks.
    pub value: T,
    /// Verdict of the hooks.
    pub verdict: HookVerdict,
    /// Messages to add to the conversation, in order, each with the name of its plugin.
    pub inject: Vec<(Arc<str>, Injection)>,
    /// Warnings for the model, in order.
    pub notes: Vec<AttributedText>,
}

/// State of a dispatch in progress.
pub(super) struct DispatchRun<'a, P: Point> {
    pub(super) report: AnswerReport<'a>,
    pub(super) out: Dispatched<P::Payload>,
}

impl<P: Point> DispatchRun<'_, P> {
    pub(super) fn is_refused(&self) -> bool {
        matches!(self.out.verdict, HookVerdict::Block(_))
    }

    /// Merges the answer of a hook. Returns whether it changed the value that the hooks judge.
    pub(super) fn finish_hook(
        &mut self,
        spec: &HookSpec,
        took: Duration,
        result: Result<P::Outcome, Failure>,
    ) -> bool {
        let value = &mut self.out.value;
        let mut merged = Merged::default();
        self.report
            .finish_hook::<P>(spec, took, result, value, &mut merged);
        for injection in merged.inject {
            self.out.inject.push((spec.plugin.clone(), injection));
        }
        if let Some(text) = merged.note {
            self.out.notes.push(AttributedText {
                plugin: spec.plugin.clone(),
                text,
            });
        }
        self.take_answer(spec, merged.answer);
        merged.rewrites
    }

    /// Merges only the verdict of a gate that judges a value again after a later change. If the
    /// gate wants to change the value again, the value is refused: all other gates would have to
    /// judge that change, without end.
    pub(super) fn judge_again(
        &mut self,
        spec: &HookSpec,
        took: Duration,
        result: Result<P::Outcome, Failure>,
    ) {
        let mut value = self.out.value.clone();
        let mut merged = Merged::default();
        self.report
            .finish_hook::<P>(spec, took, result, &mut value, &mut merged);
        let answer = match merged.answer {
            None if merged.rewrites => Some(Objection::Block(
                "it wants to change a value that another hook changed after it".to_owned(),
            )),
            answer => answer,
        };
        self.take_answer(spec, answer);
    }

    /// Handles a quarantined hook, which is not called. If it blocks on failure, it still refuses,
    /// and the refusal names its plugin.
    pub(super) fn note_dropped(&mut self, spec: &HookSpec, why: String) {
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
        self.report
            .trace_hook(spec, outcome, Vec::new(), Some(why), 0.0);
        self.take_answer(spec, answer);
    }

    /// Combines verdicts: `block` beats `ask` beats `pass`, regardless of order.
    fn take_answer(&mut self, spec: &HookSpec, answer: Option<Objection>) {
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
