//! Reflection: decides whether an answer may go out or is sent back to the model.
//!
//! Owns the built-in checks, which are local and cheap, and the limit on how often an answer may be
//! sent back. The review by the model is in `second`. A plugin can replace all of this with its own
//! verdict at `pre-reflect`, or change the verdict at `post-reflect`. Start from
//! [`ReflectionState::reflect_on_draft`].

pub(super) mod config;
pub(super) mod second;

pub use config::ReflectConfig;

use self::second::ReflectionState;
use super::ctx::TurnContext;
use super::stop::EarlyTurnEndReason;
use crate::point::catalog as at;
use crate::point::outcome::{Level, VerdictChange};
use crate::point::payload::{ReflectVerdict, Reflection};
use crate::text::escape_and_truncate_line;

/// Maximum length of a reason in a notice for the user, in bytes; the agent gets the complete
/// reason.
const MAX_USER_NOTICE_REASON_BYTES: usize = 300;

/// Prefix of the message with which reflection sends an answer back. It shows that the message is
/// not from the user.
pub(super) const REFLECTION_MESSAGE_PREFIX: &str = "[reflection] ";

impl ReflectionState {
    /// Decides whether the draft of an answer is good enough: calls the hooks of `pre-reflect`,
    /// then the built-in checks (reflection), then the hooks of `post-reflect`. The verdict may ask
    /// for another step while rounds and steps are left.
    pub(super) async fn reflect_on_draft(
        &mut self,
        ctx: &TurnContext,
        input: &str,
        draft: String,
        has_step: bool,
    ) -> Result<ReflectVerdict, EarlyTurnEndReason> {
        let reflection = Reflection {
            draft,
            input: input.to_owned(),
            tools: self.used.clone(),
            criteria: Vec::new(),
            verdict: VerdictChange::Keep,
        };
        let mut reflection = ctx
            .dispatch_hooks_or_end_turn::<at::PreReflect>("answer", reflection)
            .await?;
        let continue_because = match std::mem::take(&mut reflection.verdict) {
            VerdictChange::Done => None,
            VerdictChange::Again(reason) => Some(reason),
            VerdictChange::Keep => {
                self.run_reflection_checks(ctx, &reflection, has_step)
                    .await?
            }
        };
        let verdict = ReflectVerdict {
            draft: reflection.draft,
            continue_because,
        };
        let mut verdict = ctx
            .dispatch_hooks_or_end_turn::<at::PostReflect>("answer", verdict)
            .await?;
        let Some(reason) = verdict.continue_because.clone() else {
            return Ok(verdict);
        };
        let reason = ctx
            .scope
            .emitter
            .text_for_observers(&ctx.caller(), reason)
            .await;
        let (level, told) = if self.can_request_better_answer(ctx, has_step) {
            self.n_rounds += 1;
            let reason = escape_and_truncate_line(&reason, MAX_USER_NOTICE_REASON_BYTES);
            (
                Level::Info,
                format!("reflection sent the answer back to the model: {reason}"),
            )
        } else {
            verdict.continue_because = None;
            let told = format!(
                "reflection asked the model to continue, but the turn has no step left: {reason}"
            );
            (Level::Warn, told)
        };
        ctx.emit_notice(level, told);
        Ok(verdict)
    }

    /// Runs the built-in checks, then the model's review of drafts that pass them. If no step or no
    /// round of reflection is left in which the model could improve the draft, the model does not
    /// review it.
    async fn run_reflection_checks(
        &mut self,
        ctx: &TurnContext,
        reflection: &Reflection,
        has_step: bool,
    ) -> Result<Option<String>, EarlyTurnEndReason> {
        let new = self.take_new_answer_criteria(&reflection.criteria);
        let again = reason_to_revise_draft(reflection, &new);
        if again.is_some() || !self.can_request_better_answer(ctx, has_step) {
            return Ok(again);
        }
        self.review_draft(ctx, reflection).await
    }

    /// Whether reflection can still ask the model for a better answer: neither the maximum of steps
    /// nor that of reflection rounds is reached.
    fn can_request_better_answer(&self, ctx: &TurnContext, has_step: bool) -> bool {
        has_step && self.n_rounds < ctx.scope.spec.config.reflect.rounds
    }
}

/// Returns the reason for sending a draft back to the model. `new` are the criteria that the model
/// was not asked to check before: with criteria that it was already asked to check, the drafts
/// would be sent back without end.
fn reason_to_revise_draft(reflection: &Reflection, new: &[String]) -> Option<String> {
    if reflection.draft.trim().is_empty() && !reflection.tools.is_empty() {
        Some(
            "You used tools and then gave no answer. Say what you did and what the result was."
                .to_owned(),
        )
    } else if !new.is_empty() {
        Some(format!(
            "Before this is done, check your answer against these criteria and correct what does not meet them:\n- {}",
            new.join("\n- ")
        ))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::point::payload::UsedTool;

    fn reflection(draft: &str, n_tools: usize) -> Reflection {
        let used = UsedTool {
            name: "read_file".to_owned(),
            is_error: false,
        };
        Reflection {
            draft: draft.to_owned(),
            input: "do it".to_owned(),
            tools: vec![used; n_tools],
            criteria: Vec::new(),
            verdict: VerdictChange::Keep,
        }
    }

    #[test]
    fn an_answer_is_done() {
        assert_eq!(
            reason_to_revise_draft(&reflection("here you are", 2), &[]),
            None
        );
        assert_eq!(reason_to_revise_draft(&reflection("", 0), &[]), None);
    }

    #[test]
    fn an_empty_answer_after_tools_is_not_done() {
        assert!(reason_to_revise_draft(&reflection(" \n", 1), &[]).is_some());
    }

    #[test]
    fn criteria_are_asked_for_once() {
        let criteria = |texts: &[&str]| -> Vec<String> {
            texts.iter().map(|text| (*text).to_owned()).collect()
        };
        let mut reflected = ReflectionState::default();
        let new = reflected.take_new_answer_criteria(&criteria(&["tests pass", "docs updated"]));
        let asked = reason_to_revise_draft(&reflection("here", 0), &new).unwrap();
        assert!(asked.contains("- tests pass\n- docs updated"), "{asked}");
        let new = reflected.take_new_answer_criteria(&criteria(&["docs updated", "it is short"]));
        assert_eq!(new, ["it is short"]);
        reflected.reset_reflection_rounds();
        assert_eq!(
            reflected
                .take_new_answer_criteria(&criteria(&["tests pass"]))
                .len(),
            1
        );
    }
}
