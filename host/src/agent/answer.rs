//! State of a turn's answer: the last text of the model, and the counts of cut and empty answers.
//!
//! Owns the counts and their limits. It must not know how the model is asked. Start from
//! [`AnswerState`].

use super::reply::{ReplyShortfall, ReplyStep};

/// Maximum number of consecutive answers that a token limit cut. A model that has not shortened its
/// answer after two cuts usually repeats the same answer, at full cost.
const MAX_CUT: u32 = 3;

/// Note at the end of a turn after [`MAX_CUT`] cut answers.
pub(super) const CUT_AGAIN: &str = "[stopped: the answer was cut at the token limit three times in a row; raise the limit of the model's \
                         answer, or ask for less at once]";

/// Message for the model after the token limit cut its text.
pub(super) const CONTINUE: &str = "[your answer was cut by its token limit; continue exactly where it stopped, without repeating anything]";

/// Message for the model after an answer without text and tool calls.
pub(super) const EMPTY: &str =
    "[your answer was empty; answer the last message of the user, or say why you cannot]";

/// Notice after the second consecutive empty answer.
pub(super) const EMPTY_AGAIN: &str =
    "the model gave an empty answer twice in a row; ask again, or choose another model with /model";

/// Outcome of an attempt to end the turn with the last answer.
pub(super) enum AnswerEnd {
    /// The answer was sent to the user, and the turn is over.
    Done,
    /// The answer was sent to the user, who has followed up with a further input.
    FollowUp,
    /// The turn needs another step, for this short reason.
    Again(String),
}

impl AnswerEnd {
    pub(super) fn again(why: &str) -> Self {
        Self::Again(why.to_owned())
    }
}

/// State of the answer to the current input.
#[derive(Default)]
pub(super) struct AnswerState {
    /// Last text of the model that was not empty, joined with the cut texts that it continues.
    draft: String,
    /// Beginning of the answer, which was cut; the next step continues it.
    begun: String,
    n_cut: u32,
    n_empty: u32,
    /// Last step, until its answer is accepted or another step follows.
    last: Option<ReplyStep>,
    /// Draft that reflection accepted.
    accepted: Option<String>,
}

impl AnswerState {
    /// Records the answer of a step. Returns whether the answer's text was cut.
    pub(super) fn take_step(&mut self, mut step: ReplyStep) -> bool {
        step.draft.insert_str(0, &self.begun);
        self.begun.clear();
        if !step.draft.is_empty() {
            self.draft.clone_from(&step.draft);
        }
        match step.shortfall {
            Some(ReplyShortfall::CutText | ReplyShortfall::CutCalls) => self.n_cut += 1,
            Some(ReplyShortfall::Empty) => self.n_empty += 1,
            None => (self.n_cut, self.n_empty) = (0, 0),
        }
        let is_cut_text = step.shortfall == Some(ReplyShortfall::CutText);
        self.last = Some(step);
        self.accepted = None;
        is_cut_text
    }

    /// Returns the last step, unless it was taken.
    pub(super) fn last_step(&self) -> Option<&ReplyStep> {
        self.last.as_ref()
    }

    /// Takes the last step, to decide whether another one follows.
    pub(super) fn take_last(&mut self) -> Option<ReplyStep> {
        self.last.take()
    }

    /// Whether there is a last step or an accepted answer.
    pub(super) fn is_there(&self) -> bool {
        self.last.is_some() || self.accepted.is_some()
    }

    /// Forgets the last answer and a cut text before it, because other messages have followed in
    /// the conversation: the next answer starts afresh.
    pub(super) fn forget_answer(&mut self) {
        self.last = None;
        self.accepted = None;
        self.begun.clear();
    }

    /// Stores a cut text, which the next step continues.
    pub(super) fn continue_text(&mut self, begun: String) {
        self.begun = begun;
    }

    /// Stores the draft that reflection accepted.
    pub(super) fn accept_draft(&mut self, draft: String) {
        self.accepted = Some(draft);
    }

    /// Takes the draft that reflection accepted.
    pub(super) fn take_accepted(&mut self) -> Option<String> {
        self.accepted.take()
    }

    /// Whether reflection accepted the last answer.
    pub(super) fn is_accepted(&self) -> bool {
        self.accepted.is_some()
    }

    /// Whether [`MAX_CUT`] answers in a row were cut, so that the model is not asked again.
    pub(super) fn is_cut_again(&self) -> bool {
        self.n_cut >= MAX_CUT
    }

    /// Whether the last answer was empty and the one before it was not.
    pub(super) fn is_empty_once(&self) -> bool {
        self.n_empty == 1
    }

    /// Whether the model gave two or more empty answers in succession.
    pub(super) fn is_empty_again(&self) -> bool {
        self.n_empty > 1
    }

    /// Takes the last text of the model.
    pub(super) fn take_draft(&mut self) -> String {
        std::mem::take(&mut self.draft)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(draft: &str) -> ReplyStep {
        ReplyStep {
            shortfall: Some(ReplyShortfall::CutText),
            ..ReplyStep::whole(draft.to_owned())
        }
    }

    #[test]
    fn a_cut_text_is_continued_unless_the_answer_was_forgotten_between() {
        for (is_forgotten, expected) in [(false, "one two"), (true, "two")] {
            let mut answer = AnswerState::default();
            assert!(answer.take_step(cut("one ")));
            let last = answer.take_last().unwrap();
            answer.continue_text(last.draft);
            if is_forgotten {
                answer.forget_answer();
            }
            answer.take_step(ReplyStep::whole("two".to_owned()));
            assert_eq!(answer.last_step().unwrap().draft, expected);
        }
    }
}
