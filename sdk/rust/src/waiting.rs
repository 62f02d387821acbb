//! Waits in a loop for a timer, a change of files, a message, or the shutdown of the host.

use std::time::Duration;

pub use crate::bindings::rind::plugin::waiting::{LoopMessage, WakeConditions, Wakeup};
use crate::types::Error;

#[cfg(target_family = "wasm")]
use crate::bindings::rind::plugin::waiting as host;
#[cfg(not(target_family = "wasm"))]
use crate::testing::waiting as host;

/// Waits until the first of these conditions holds. The wait does not count toward the deadline of
/// the run.
///
/// # Errors
/// The caller is a hook, a tool or a command, or a path was not granted.
pub fn wait(until: &WakeConditions) -> Result<Wakeup, Error> {
    host::wait(until)
}

impl WakeConditions {
    /// Creates empty conditions, with which only the shutdown of the host ends the wait.
    #[must_use]
    pub fn new() -> Self {
        Self {
            timeout_ms: None,
            paths: Vec::new(),
            messages: false,
        }
    }

    /// Adds a condition: the wait ends after this time.
    #[must_use]
    pub fn timeout(mut self, time: Duration) -> Self {
        self.timeout_ms = Some(u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        self
    }

    /// Adds a condition: the wait ends when this file, or an entry of this folder, changes.
    #[must_use]
    pub fn change_of(mut self, path: impl Into<String>) -> Self {
        self.paths.push(path.into());
        self
    }

    /// Adds a condition: the wait ends when a message arrives, to the loop or on a connection of
    /// [`websocket`](crate::websocket).
    #[must_use]
    pub fn message(mut self) -> Self {
        self.messages = true;
        self
    }
}

impl Default for WakeConditions {
    fn default() -> Self {
        Self::new()
    }
}
