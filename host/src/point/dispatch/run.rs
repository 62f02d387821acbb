//! Represents one dispatch, which calls the hooks of a point with one payload: its state, and its
//! outcome.

use std::sync::Arc;
use std::time::Duration;

use super::report::HookAnswerHandler;
use crate::point::ExtensionPoint;
use crate::point::failure::{Failure, OnFailure};
use crate::point::merge::{HookObjection, MergedOutcome};
use crate::point::outcome::Injection;
use crate::point::registry::HookSpec;
use crate::point::trace::TraceOutcome;

/// Text from a plugin, with the plugin's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginAttributedText {
    /// Name of the plugin that wrote the text.
    pub plugin: Arc<str>,
    /// Text that the plugin wrote.
    pub text: String,
}

/// Combined verdict of all hooks that a dispatch called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CombinedHookVerdict {
    /// No hook has an objection to the value.
    #[default]
    Pass,
    /// The user must be asked first. Contains the reason of every hook that requires this.
    Ask(Vec<PluginAttributedText>),
    /// The value is refused. Contains the reason of the first hook that blocked; later hooks were
    /// not called.
    Block(PluginAttributedText),
}

/// Combined outcome of all hooks that a dispatch called.
#[derive(Clone, Debug)]
pub struct HookDispatchResult<T> {
    /// Payload after the changes of all hooks.
    pub value: T,
    /// Combined verdict of the hooks on the value.
    pub verdict: CombinedHookVerdict,
    /// Messages to add to the conversation, in order, each with the name of its plugin.
    pub inject: Vec<(Arc<str>, Injection)>,
    /// Warnings for the model, in the order of the hooks.
    pub notes: Vec<PluginAttributedText>,
}

/// State of a dispatch in progress.
pub(super) struct HookDispatchInProgress<'a, P: ExtensionPoint> {
    pub(super) report: HookAnswerHandler<'a>,
    pub(super) out: HookDispatchResult<P::Payload>,
}

impl<P: ExtensionPoint> HookDispatchInProgress<'_, P> {
    pub(super) fn has_hook_refused_value(&self) -> bool {
        matches!(self.out.verdict, CombinedHookVerdict::Block(_))
    }

    /// Merges the answer of a hook. Returns whether it changed the value that the hooks judge.
    pub(super) fn handle_hook_answer(
        &mut self,
        spec: &HookSpec,
        took: Duration,
        result: Result<P::Outcome, Failure>,
    ) -> bool {
        let value = &mut self.out.value;
        let mut merged = MergedOutcome::default();
        self.report
            .handle_hook_answer::<P>(spec, took, result, value, &mut merged);
        for injection in merged.inject {
            self.out.inject.push((spec.plugin.clone(), injection));
        }
        if let Some(text) = merged.note {
            self.out.notes.push(PluginAttributedText {
                plugin: spec.plugin.clone(),
                text,
            });
        }
        self.combine_verdict(spec, merged.answer);
        merged.rewrites
    }

    /// Merges the verdict of a hook at a gate that judges the value a second time, because a later
    /// hook changed the value. If the hook itself changes the value now, the value is refused:
    /// otherwise all other hooks would have to judge that change, possibly without end.
    pub(super) fn merge_repeated_gate_verdict(
        &mut self,
        spec: &HookSpec,
        took: Duration,
        result: Result<P::Outcome, Failure>,
    ) {
        let mut value = self.out.value.clone();
        let mut merged = MergedOutcome::default();
        self.report
            .handle_hook_answer::<P>(spec, took, result, &mut value, &mut merged);
        let answer = match merged.answer {
            None if merged.rewrites => Some(HookObjection::Block(
                "it wants to change a value that another hook changed after it".to_owned(),
            )),
            answer => answer,
        };
        self.combine_verdict(spec, answer);
    }

    /// Handles a quarantined hook, which is not called. If the hook blocks on failure, the value is
    /// still refused, and the refusal names the hook's plugin.
    pub(super) fn handle_quarantined_hook(&mut self, spec: &HookSpec, why: String) {
        let (outcome, answer) = match spec.on_failure {
            OnFailure::Block => {
                let reason = format!(
                    "the hook is disabled for the rest of this turn, so what it should have checked is refused: {why}"
                );
                (
                    TraceOutcome::DroppedBlocking,
                    Some(HookObjection::Block(reason)),
                )
            }
            OnFailure::Skip => (TraceOutcome::Dropped, None),
        };
        self.report
            .write_hook_trace(spec, outcome, Vec::new(), Some(why), 0.0);
        self.combine_verdict(spec, answer);
    }

    /// Combines the verdict of a hook with those of earlier hooks: `block` takes precedence over
    /// `ask`, and `ask` over `pass`.
    fn combine_verdict(&mut self, spec: &HookSpec, answer: Option<HookObjection>) {
        let said = |text| PluginAttributedText {
            plugin: spec.plugin.clone(),
            text,
        };
        match (answer, &mut self.out.verdict) {
            (None, _) | (Some(_), CombinedHookVerdict::Block(_)) => {}
            (Some(HookObjection::Block(text)), verdict) => {
                *verdict = CombinedHookVerdict::Block(said(text))
            }
            (Some(HookObjection::Ask(text)), CombinedHookVerdict::Ask(all)) => all.push(said(text)),
            (Some(HookObjection::Ask(text)), verdict) => {
                *verdict = CombinedHookVerdict::Ask(vec![said(text)])
            }
        }
    }
}
