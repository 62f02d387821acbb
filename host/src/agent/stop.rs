//! Reasons why a turn ends early, and the texts about them for the user.

use super::outcome::Error;
use crate::point::dispatch::{CombinedHookVerdict, HookDispatchResult, PluginAttributedText};
use crate::session;

/// Reason why a turn ended before the model's final answer.
pub(super) enum EarlyTurnEndReason {
    /// A hook blocked the turn. The text names the hook's plugin and the reason.
    Blocked(String),
    /// The step limit was reached; the output of the turn says so.
    MaxSteps,
    Cancelled,
    /// The model provider gave no answer, for this reason.
    Provider(String),
    /// The answer does not match the schema of the turn, for this reason.
    WrongAnswer(String),
    /// The plugin's agent loop that runs the turn failed.
    Loop {
        /// Name of the plugin whose loop failed.
        plugin: String,
        /// Reason for the failure, worded to follow "failed".
        why: String,
    },
    Host(Error),
}

impl From<session::Error> for EarlyTurnEndReason {
    fn from(error: session::Error) -> Self {
        Self::Host(error.into())
    }
}

/// Returns the plugin and the text of the hook that blocked; `None` if no hook blocked.
pub(super) fn hook_block_reason<T>(
    dispatched: &HookDispatchResult<T>,
) -> Option<&PluginAttributedText> {
    match &dispatched.verdict {
        CombinedHookVerdict::Block(said) => Some(said),
        _ => None,
    }
}

/// Ends the turn if a hook blocked. `what` names the blocked part, such as "request".
pub(super) fn fail_if_hook_blocked(
    what: &str,
    said: Option<&PluginAttributedText>,
) -> Result<(), EarlyTurnEndReason> {
    said.map_or(Ok(()), |said| Err(hook_refusal_error(what, said)))
}

/// Returns the text that replaces an answer that a hook blocked, possibly while it streamed.
pub(super) fn blocked_answer_placeholder(
    PluginAttributedText { plugin, text }: &PluginAttributedText,
) -> String {
    format!("[the answer was held back by plugin {plugin}: {text}]")
}

/// Returns the error that stops a turn because a hook blocked a part of it. `what` names the
/// blocked part, such as "request".
pub(super) fn hook_refusal_error(
    what: &str,
    PluginAttributedText { plugin, text }: &PluginAttributedText,
) -> EarlyTurnEndReason {
    EarlyTurnEndReason::Blocked(format!(
        "[the {what} was refused by plugin {plugin}: {text}]"
    ))
}
