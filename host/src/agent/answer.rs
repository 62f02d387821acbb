//! Keeps the state of a turn's answer: the last text of the model, and the numbers of truncated and
//! of empty answers.
//!
//! Owns the counts and their limits. It must not depend on how requests are sent to the model.
//! Start from [`CurrentAnswerState`].

use super::reply::{IncompleteReplyKind, ReplyStepResult};

/// Maximum number of consecutive answers that the token limit truncates. If a model has not
/// shortened its answer after two of them, it usually repeats the same answer, at full cost.
const MAX_CONSECUTIVE_TRUNCATED_ANSWERS: u32 = 3;

/// Note at the end of a turn that stopped after [`MAX_CONSECUTIVE_TRUNCATED_ANSWERS`] truncated
/// answers.
pub(super) const REPEATEDLY_TRUNCATED_ANSWER_NOTE: &str = "[stopped: the answer was cut at the token limit three times in a row; raise the limit of the model's \
                         answer, or ask for less at once]";

/// Message for the model after the token limit has truncated its text.
pub(super) const CONTINUE_TRUNCATED_ANSWER_PROMPT: &str = "[your answer was cut by its token limit; continue exactly where it stopped, without repeating anything]";

/// Message for the model after an answer without text and tool calls.
pub(super) const EMPTY_ANSWER_RETRY_PROMPT: &str =
    "[your answer was empty; answer the last message of the user, or say why you cannot]";

/// Notice to the user after the second consecutive empty answer.
pub(super) const REPEATED_EMPTY_ANSWER_NOTICE: &str =
    "the model gave an empty answer twice in a row; ask again, or choose another model with /model";

/// Outcome of an attempt to end the turn with the last answer.
pub(super) enum TurnEndAttemptOutcome {
    /// The answer was sent to the user, and the turn is over.
    Done,
    /// The answer was sent to the user, who has followed up with a further input.
    FollowUp,
    /// The turn needs another step. Contains a short reason for it.
    Again(String),
}

impl TurnEndAttemptOutcome {
    pub(super) fn for_another_step(why: &str) -> Self {
        Self::Again(why.to_owned())
    }
}

/// State of the model's answer to the current input of the turn.
#[derive(Default)]
pub(super) struct CurrentAnswerState {
    /// Last text of the model that was not empty, after the truncated texts that it continues, if
    /// any.
    draft: String,
    /// Truncated beginning of the answer, which the next step continues.
    begun: String,
    n_cut: u32,
    n_empty: u32,
    /// Last step of the turn. It is removed when its answer is accepted or another step follows.
    last: Option<ReplyStepResult>,
    /// Draft of the answer that the reflection accepted; `None` if it accepted none yet.
    accepted: Option<String>,
}

impl CurrentAnswerState {
    /// Records the answer of a step. Returns whether the text of the answer was truncated.
    pub(super) fn record_step_result(&mut self, mut step: ReplyStepResult) -> bool {
        step.draft.insert_str(0, &self.begun);
        self.begun.clear();
        if !step.draft.is_empty() {
            self.draft.clone_from(&step.draft);
        }
        match step.shortfall {
            Some(IncompleteReplyKind::CutText | IncompleteReplyKind::CutCalls) => self.n_cut += 1,
            Some(IncompleteReplyKind::Empty) => self.n_empty += 1,
            None => (self.n_cut, self.n_empty) = (0, 0),
        }
        let is_cut_text = step.shortfall == Some(IncompleteReplyKind::CutText);
        self.last = Some(step);
        self.accepted = None;
        is_cut_text
    }

    /// Returns the last step of the turn; `None` if there is none or if it was removed, by
    /// [`take_last_step_result`](Self::take_last_step_result) or
    /// [`forget_last_answer`](Self::forget_last_answer).
    pub(super) fn last_step_result(&self) -> Option<&ReplyStepResult> {
        self.last.as_ref()
    }

    /// Removes the last step and returns it, so that the caller can decide whether another step
    /// follows.
    pub(super) fn take_last_step_result(&mut self) -> Option<ReplyStepResult> {
        self.last.take()
    }

    /// Whether the turn has an answer: the last step, or an answer that reflection has accepted.
    pub(super) fn has_answer(&self) -> bool {
        self.last.is_some() || self.accepted.is_some()
    }

    /// Discards the last answer, the accepted draft and any truncated text that the next step would
    /// continue, because other messages have followed in the conversation. The next answer starts
    /// from the beginning.
    pub(super) fn forget_last_answer(&mut self) {
        self.last = None;
        self.accepted = None;
        self.begun.clear();
    }

    /// Stores the text of a truncated answer, which the next step continues.
    pub(super) fn store_truncated_text(&mut self, begun: String) {
        self.begun = begun;
    }

    /// Stores the draft of an answer that the reflection accepted.
    pub(super) fn store_accepted_draft(&mut self, draft: String) {
        self.accepted = Some(draft);
    }

    /// Removes and returns the draft of the answer that the checks (reflection) have accepted.
    pub(super) fn take_accepted_draft(&mut self) -> Option<String> {
        self.accepted.take()
    }

    /// Whether the reflection accepted the last draft of the answer.
    pub(super) fn is_last_answer_accepted(&self) -> bool {
        self.accepted.is_some()
    }

    /// Whether [`MAX_CONSECUTIVE_TRUNCATED_ANSWERS`] answers in a row were truncated. The model is
    /// then not asked again.
    pub(super) fn is_truncated_too_often(&self) -> bool {
        self.n_cut >= MAX_CONSECUTIVE_TRUNCATED_ANSWERS
    }

    /// Whether the last answer was empty and the one before it was not.
    pub(super) fn is_first_empty_answer(&self) -> bool {
        self.n_empty == 1
    }

    /// Whether the model gave two or more empty answers in succession.
    pub(super) fn is_repeated_empty_answer(&self) -> bool {
        self.n_empty > 1
    }

    /// Removes the last text of the model, and returns it.
    pub(super) fn take_last_model_text(&mut self) -> String {
        std::mem::take(&mut self.draft)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(draft: &str) -> ReplyStepResult {
        ReplyStepResult {
            shortfall: Some(IncompleteReplyKind::CutText),
            ..ReplyStepResult::final_answer_step(draft.to_owned())
        }
    }

    #[test]
    fn a_cut_text_is_continued_unless_the_answer_was_forgotten_between() {
        for (is_forgotten, expected) in [(false, "one two"), (true, "two")] {
            let mut answer = CurrentAnswerState::default();
            assert!(answer.record_step_result(cut("one ")));
            let last = answer.take_last_step_result().unwrap();
            answer.store_truncated_text(last.draft);
            if is_forgotten {
                answer.forget_last_answer();
            }
            answer.record_step_result(ReplyStepResult::final_answer_step("two".to_owned()));
            assert_eq!(answer.last_step_result().unwrap().draft, expected);
        }
    }
}
