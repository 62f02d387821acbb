//! Tools of a turn: those of the agent, and those that the current step offers to the model.

use std::sync::{Arc, Mutex, PoisonError, RwLock};

use crate::lock::lock_ignoring_poison;
use crate::tool::registry::ToolRegistry;

/// Tools of the agent and of the current step, before skills and presets restrict them.
pub(super) struct UnrestrictedTurnTools {
    /// Current tools of the agent. The agent's `AgentSpec` still has the tools from the beginning
    /// of the turn.
    all: RwLock<Arc<ToolRegistry>>,
    /// Names of the tools that the current step offers to the model; `None` before the first step.
    of_step: Mutex<Option<Arc<[String]>>>,
}

impl UnrestrictedTurnTools {
    pub(super) fn new(tools: ToolRegistry) -> Self {
        Self {
            all: RwLock::new(Arc::new(tools)),
            of_step: Mutex::default(),
        }
    }

    pub(super) fn all_tools(&self) -> Arc<ToolRegistry> {
        let tools = self.all.read();
        tools.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces all tools of the agent, which must be between two steps.
    pub(super) fn set_all_tools(&self, tools: ToolRegistry) {
        let mut own = self.all.write().unwrap_or_else(PoisonError::into_inner);
        *own = Arc::new(tools);
    }

    pub(super) fn step_tools(&self) -> Option<Arc<[String]>> {
        lock_ignoring_poison(&self.of_step).clone()
    }

    pub(super) fn set_step_tools(&self, names: Vec<String>) {
        *lock_ignoring_poison(&self.of_step) = Some(names.into());
    }
}
