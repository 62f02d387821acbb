//! Failures of hooks, and their effect on the turn.

use std::any::Any;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Reason why a hook returned no outcome. The texts come from guests or the engine; they are
/// already truncated and free of control characters.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The hook returned an error, as its WIT type allows.
    #[error("the call reported an error: {0}")]
    Error(String),
    /// The guest trapped because of a bug in the plugin, and its instance was discarded.
    #[error("the plugin trapped: {0}")]
    Trap(String),
    /// The hook is a script, and a signal that the host did not send ended it.
    #[error("the script crashed: {0}")]
    Crash(String),
    /// The hook was stopped at its deadline.
    #[error("the call was stopped at its deadline of {} ms", .0.as_millis())]
    Deadline(Duration),
    /// The guest exceeded a limit on memory, tables, handles or data.
    #[error("the call exceeded a limit: {0}")]
    Limit(String),
    /// The outcome that the hook returned failed a check, which the text describes.
    #[error("the outcome of the call was refused: {0}")]
    Malformed(String),
    /// The host's own code panicked while it called the hook or merged its outcome.
    #[error("an internal error of the host occurred during the call: {0}")]
    Panic(String),
    /// The plugin cannot be called, for a reason that is not the guest's fault.
    #[error("the call could not be made: {0}")]
    Unavailable(String),
}

impl Failure {
    /// Whether the failure disables the hook for the rest of the turn. A guest that failed in such
    /// a way is likely to fail again, and the turn must not wait for a second deadline.
    #[must_use]
    pub fn causes_quarantine(&self) -> bool {
        matches!(
            self,
            Self::Trap(_) | Self::Crash(_) | Self::Deadline(_) | Self::Limit(_) | Self::Panic(_)
        )
    }

    /// Converts a caught panic into a failure.
    pub(super) fn from_panic(panic: &(dyn Any + Send)) -> Self {
        Self::Panic(panic_text(panic))
    }
}

/// Returns the message of a caught panic.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "no message".to_owned())
}

/// Action when a hook fails: refuse the value that the hook judges, or continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnFailure {
    /// Refuse the value that the hook judges; the default at gate points.
    Block,
    /// Continue without the failed hook; the default at points of all other kinds.
    Skip,
}
