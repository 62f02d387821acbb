//! Handles the answer of one hook: merges it or applies the failure policy, reports its effects,
//! and writes a trace record.
//!
//! Both awaited hooks and background hooks use this module, so it must not depend on the state of a
//! dispatch. Start from [`HookAnswerHandler::handle_hook_answer`].

use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use crate::point::ExtensionPoint;
use crate::point::caller::Caller;
use crate::point::failure::{Failure, OnFailure};
use crate::point::merge::{HookObjection, MergeEnv, MergedOutcome};
use crate::point::quarantine::QuarantinedHooks;
use crate::point::registry::HookSpec;
use crate::point::trace::{DispatchReportSink, TraceOutcome, TraceRecord};
use crate::text;

/// Maximum length of a failure text, in bytes. The text may quote names and keys that a guest
/// chose.
const MAX_FAILURE_TEXT_BYTES: usize = 2048;

/// Handles the answers of hooks at one point, in the same way for hooks for which the turn waits
/// and for hooks in the background.
pub(super) struct HookAnswerHandler<'a> {
    pub(super) quarantine: &'a QuarantinedHooks,
    pub(super) sink: &'a dyn DispatchReportSink,
    pub(super) point: &'a Cow<'static, str>,
    pub(super) caller: &'a Caller,
}

impl HookAnswerHandler<'_> {
    /// Merges the outcome in `result` into the empty `merged`, or applies the failure policy if the
    /// hook failed. Writes a trace record in both cases.
    pub(super) fn handle_hook_answer<P: ExtensionPoint>(
        &self,
        spec: &HookSpec,
        took: Duration,
        result: Result<P::Outcome, Failure>,
        payload: &mut P::Payload,
        merged: &mut MergedOutcome,
    ) {
        // Add seconds and nanoseconds as floats: `as_nanos` needs a 128-bit division, which takes
        // longer than the merge.
        let micros = took.as_secs() as f64 * 1e6 + f64::from(took.subsec_nanos()) / 1e3;
        if let Err(failure) =
            result.and_then(|outcome| merge_hook_outcome::<P>(spec, outcome, payload, merged))
        {
            *merged = self.report_hook_failure(spec, &failure, micros);
            return;
        }
        let (outcome, reason) = match &merged.answer {
            Some(HookObjection::Block(reason)) => (TraceOutcome::Blocked, Some(reason.clone())),
            Some(HookObjection::Ask(reason)) => (TraceOutcome::Asked, Some(reason.clone())),
            None if merged.changed.is_empty() => (TraceOutcome::Pass, None),
            None => (TraceOutcome::Changed, merged.note.clone()),
        };
        let changed = std::mem::take(&mut merged.changed);
        self.write_hook_trace(spec, outcome, changed, reason, micros);
        for effect in std::mem::take(&mut merged.effects) {
            self.sink.handle_hook_effect(&spec.plugin, effect);
        }
    }

    fn report_hook_failure(
        &self,
        spec: &HookSpec,
        failure: &Failure,
        micros: f64,
    ) -> MergedOutcome {
        let why = text::escape_and_truncate_line(&failure.to_string(), MAX_FAILURE_TEXT_BYTES);
        if failure.causes_quarantine() {
            self.quarantine
                .quarantine_hook(&spec.plugin, self.point, why.clone());
        }
        let (outcome, answer) = match spec.on_failure {
            OnFailure::Block => (
                TraceOutcome::FailedBlocking,
                Some(HookObjection::Block(format!(
                    "the hook failed, so what it checks is refused: {why}"
                ))),
            ),
            OnFailure::Skip => (TraceOutcome::Failed, None),
        };
        self.write_hook_trace(spec, outcome, Vec::new(), Some(why), micros);
        MergedOutcome {
            answer,
            ..MergedOutcome::default()
        }
    }

    pub(super) fn write_hook_trace(
        &self,
        spec: &HookSpec,
        outcome: TraceOutcome,
        changed: Vec<&'static str>,
        reason: Option<String>,
        micros: f64,
    ) {
        let (turn, step) = (self.caller.context.turn, self.caller.context.step);
        self.sink.record_hook_trace(TraceRecord {
            point: self.point.clone(),
            plugin: spec.plugin.clone(),
            outcome,
            changed,
            reason,
            micros,
            turn,
            step,
            call_id: self.caller.call.clone(),
        });
    }
}

/// Merges an outcome into `merged`. A panic counts as the hook's failure.
fn merge_hook_outcome<P: ExtensionPoint>(
    spec: &HookSpec,
    outcome: P::Outcome,
    payload: &mut P::Payload,
    merged: &mut MergedOutcome,
) -> Result<(), Failure> {
    let env = MergeEnv {
        plugin: &spec.plugin,
        may_change: spec.may_change,
    };
    let merge = AssertUnwindSafe(|| match &spec.may {
        None => P::merge_outcome(payload, outcome, merged, &env),
        // Merge into a copy, because the rights are checked after the merge: an outcome that uses a
        // right that the hook does not have must not change the payload.
        Some(may) => {
            let mut changed = payload.clone();
            P::merge_outcome(&mut changed, outcome, merged, &env)?;
            check_outcome_rights(merged, may)?;
            *payload = changed;
            Ok(())
        }
    });
    match catch_unwind(merge) {
        Ok(merged) => merged.map_err(Failure::Malformed),
        Err(panic) => Err(Failure::from_panic(&*panic)),
    }
}

/// Refuses an outcome that uses a right which the hook does not have according to the manifest or
/// the settings.
fn check_outcome_rights(merged: &MergedOutcome, may: &[String]) -> Result<(), String> {
    let answer = merged.answer.as_ref().map(|answer| match answer {
        HookObjection::Ask(_) => "ask",
        HookObjection::Block(_) => "block",
    });
    let mut done = merged.changed.iter().copied().chain(answer);
    match done.find(|right| !may.iter().any(|name| name == right)) {
        None => Ok(()),
        Some(right) => Err(format!(
            "the hook uses the right `{right}`, but its `may` allows only {may:?}"
        )),
    }
}
