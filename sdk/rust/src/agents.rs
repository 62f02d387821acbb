//! Runs subagents. Needs the side effect `external` and `[external] agents = true`.

pub use crate::bindings::rind::plugin::agents::{Order, Preset, Report, Task};
use crate::types::Error;

#[cfg(target_family = "wasm")]
use crate::bindings::rind::plugin::agents as host;
#[cfg(not(target_family = "wasm"))]
use crate::testing::agents as host;

/// Runs a subagent to its end and returns its answer.
///
/// # Errors
/// A hook, a policy or a limit refused the subagent, or it failed.
pub fn run(task: &Task) -> Result<String, Error> {
    host::run(task)
}

/// Returns the presets of subagents in this session.
///
/// # Errors
/// No turn is running.
pub fn presets() -> Result<Vec<Preset>, Error> {
    host::presets()
}

/// Starts a subagent and returns its id without waiting for its end. The subagent is stopped at the
/// end of the turn.
///
/// # Errors
/// A policy or a limit refused the subagent, or the preset or a tool does not exist.
pub fn start(order: &Order) -> Result<String, Error> {
    host::start(order)
}

/// Continues a subagent of this plugin that has ended, with a further message. Returns without
/// waiting for its end.
///
/// # Errors
/// The plugin has no subagent with this id, the subagent still runs, or a limit refused to continue
/// it.
pub fn resume(id: &str, message: &str) -> Result<(), Error> {
    host::resume(id, message)
}

/// Waits at most `timeout_ms` milliseconds until the subagents of this plugin with the given ids
/// have ended, and returns their states.
///
/// # Errors
/// The plugin has no such subagent.
pub fn wait(ids: &[String], timeout_ms: u64) -> Result<Vec<Report>, Error> {
    host::wait(ids, timeout_ms)
}

/// Stops a subagent of this plugin. [`resume`] can continue it.
///
/// # Errors
/// The plugin has no such subagent, or it does not stop in time.
pub fn stop(id: &str) -> Result<Report, Error> {
    host::stop(id)
}

impl Order {
    /// Creates an order for a subagent of this preset, with all tools that the preset has here.
    #[must_use]
    pub fn new(preset: impl Into<String>, prompt: impl Into<String>) -> Self {
        Self {
            prompt: prompt.into(),
            preset: Some(preset.into()),
            tools: None,
            max_steps: None,
        }
    }
}

impl Task {
    /// Creates a task without tools and with at most 8 steps.
    #[must_use]
    pub fn new(prompt: impl Into<String>) -> Self {
        Self {
            prompt: prompt.into(),
            tools: Vec::new(),
            max_steps: 8,
        }
    }
}
