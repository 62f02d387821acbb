//! Running subagents. Needs the side effect `external` and `[external] agents = true`.

pub use crate::bindings::rind::plugin::agents::Task;
use crate::types::Error;

#[cfg(target_family = "wasm")]
use crate::bindings::rind::plugin::agents as host;
#[cfg(not(target_family = "wasm"))]
use crate::testing::agents as host;

/// Runs a subagent to its end and returns its answer.
///
/// # Errors
/// When a hook, a policy or a limit refused it, or the subagent failed.
pub fn run(task: &Task) -> Result<String, Error> {
    host::run(task)
}

impl Task {
    /// A task without tools, done in at most 8 steps.
    #[must_use]
    pub fn new(prompt: impl Into<String>) -> Self {
        Self {
            prompt: prompt.into(),
            tools: Vec::new(),
            max_steps: 8,
        }
    }
}
