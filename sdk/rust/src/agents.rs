//! Running subagents. Needs the side effect `external` and `[external] agents = true`.

pub use crate::bindings::rind::plugin::agents::{Task, run};

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
