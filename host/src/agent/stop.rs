//! Reasons for the early end of a turn, and the text that the user reads about them.

use super::outcome::Error;
use crate::point::dispatch::{AttributedText, Dispatched, HookVerdict};
use crate::session;

/// Reason why a turn ended early.
pub(super) enum EarlyStop {
    /// A hook refused to continue. The text says who and why.
    Blocked(String),
    /// The step limit was reached; the output says so.
    MaxSteps,
    Cancelled,
    /// The provider gave no answer, for this reason.
    Provider(String),
    /// The answer does not match the schema of the turn, for this reason.
    WrongAnswer(String),
    /// The loop of a plugin that orders the turn failed.
    Loop {
        /// Name of the plugin.
        plugin: String,
        /// Reason, as a continuation of "failed".
        why: String,
    },
    Host(Error),
}

impl From<session::Error> for EarlyStop {
    fn from(error: session::Error) -> Self {
        Self::Host(error.into())
    }
}

/// Returns the refusal, if a hook refused.
pub(super) fn blocked_by<T>(dispatched: &Dispatched<T>) -> Option<&AttributedText> {
    match &dispatched.verdict {
        HookVerdict::Block(said) => Some(said),
        _ => None,
    }
}

/// Ends the turn when a hook refused.
pub(super) fn refuse_turn(what: &str, said: Option<&AttributedText>) -> Result<(), EarlyStop> {
    said.map_or(Ok(()), |said| Err(refusal_stop(what, said)))
}

/// Placeholder for an answer that a hook withheld, or stopped while it was written.
pub(super) fn withheld_text(AttributedText { plugin, text }: &AttributedText) -> String {
    format!("[the answer was held back by plugin {plugin}: {text}]")
}

/// Returns the stop of a turn that a hook refused to continue.
pub(super) fn refusal_stop(
    what: &str,
    AttributedText { plugin, text }: &AttributedText,
) -> EarlyStop {
    EarlyStop::Blocked(format!(
        "[the {what} was refused by plugin {plugin}: {text}]"
    ))
}
