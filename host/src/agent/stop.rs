//! Reasons why a turn ends early, and the texts about them for the user.

use super::outcome::Error;
use crate::point::dispatch::{AttributedText, DispatchResult, HookVerdict};
use crate::session;

/// Reason why a turn ended early.
pub(super) enum EarlyStop {
    /// A hook blocked the turn. The text names the hook's plugin and the reason.
    Blocked(String),
    /// The step limit was reached; the output of the turn says so.
    MaxSteps,
    Cancelled,
    /// The provider gave no answer, for this reason.
    Provider(String),
    /// The answer does not match the schema of the turn, for this reason.
    WrongAnswer(String),
    /// The plugin's agent loop that runs the turn failed.
    Loop {
        /// Name of the plugin.
        plugin: String,
        /// Reason, as the words that follow "failed".
        why: String,
    },
    Host(Error),
}

impl From<session::Error> for EarlyStop {
    fn from(error: session::Error) -> Self {
        Self::Host(error.into())
    }
}

/// Returns the plugin and the text of the hook that blocked; `None` if no hook blocked.
pub(super) fn blocking_hook_text<T>(dispatched: &DispatchResult<T>) -> Option<&AttributedText> {
    match &dispatched.verdict {
        HookVerdict::Block(said) => Some(said),
        _ => None,
    }
}

/// Ends the turn if a hook blocked. `what` names the blocked part, such as "request".
pub(super) fn stop_if_blocked(what: &str, said: Option<&AttributedText>) -> Result<(), EarlyStop> {
    said.map_or(Ok(()), |said| Err(stop_for_refusal(what, said)))
}

/// Returns the text that replaces an answer that a hook blocked, possibly while it streamed.
pub(super) fn withheld_text(AttributedText { plugin, text }: &AttributedText) -> String {
    format!("[the answer was held back by plugin {plugin}: {text}]")
}

/// Returns the error that stops a turn because a hook blocked a part of it. `what` names the
/// blocked part, such as "request".
pub(super) fn stop_for_refusal(
    what: &str,
    AttributedText { plugin, text }: &AttributedText,
) -> EarlyStop {
    EarlyStop::Blocked(format!(
        "[the {what} was refused by plugin {plugin}: {text}]"
    ))
}
