//! Failures of hooks, and their effect on the turn.

use std::any::Any;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Reason why a hook returned no outcome. Texts come from guests or the engine; they are capped and carry no control
/// characters.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The hook returned its typed error.
    #[error("it reported an error: {0}")]
    Error(String),
    /// The guest trapped: a bug in the plugin. Its instance is gone.
    #[error("it trapped: {0}")]
    Trap(String),
    /// A signal that was not the host's ended the script.
    #[error("it crashed: {0}")]
    Crash(String),
    /// The hook was stopped at its deadline.
    #[error("it was stopped at its deadline of {} ms", .0.as_millis())]
    Deadline(Duration),
    /// The guest went over a limit of memory, tables, handles or data.
    #[error("it exceeded a limit: {0}")]
    Limit(String),
    /// The outcome does not check.
    #[error("its outcome was refused: {0}")]
    Malformed(String),
    /// The host's own code panicked while it called the hook or took its outcome in.
    #[error("an internal error of the host occurred during the call: {0}")]
    Panic(String),
    /// The plugin cannot be called here, for a reason that is not the guest's doing.
    #[error("it could not be called: {0}")]
    Unavailable(String),
}

impl Failure {
    /// Whether the hook is out for the rest of the turn after this: a guest that broke will break again, and a deadline
    /// is not waited for twice.
    #[must_use]
    pub fn drops_hook(&self) -> bool {
        matches!(
            self,
            Self::Trap(_) | Self::Crash(_) | Self::Deadline(_) | Self::Limit(_) | Self::Panic(_)
        )
    }

    /// The failure that a caught panic is.
    pub(super) fn panic(panic: &(dyn Any + Send)) -> Self {
        Self::Panic(panic_text(panic))
    }
}

/// The message of a caught panic.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "no message".to_owned())
}

/// Action when a hook fails, for what it was to judge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnFailure {
    /// Refuse it; the default of gates.
    Block,
    /// Go on without the hook; the default of the rest.
    Skip,
}
