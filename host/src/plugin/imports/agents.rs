//! `rind:plugin/agents`: running subagents. Linked only if granted.

use super::super::bindings::rind::plugin::agents;
use super::super::host::HostState;
use super::super::sanitize::CallSanitizer;
use crate::point::handle::{AgentTask, HandleError};

impl agents::Host for HostState {
    async fn run(&mut self, task: agents::Task) -> Result<String, HandleError> {
        let backing = self.backing.clone();
        let caller = self.call.caller.caused_by(&backing.plugin);
        let task = AgentTask {
            prompt: CallSanitizer::sanitizer_of(self, "agents").text("prompt", task.prompt),
            tools: task.tools,
            max_steps: task.max_steps,
        };
        let handle = &backing.handle;
        handle.run_agent(&backing.plugin, task, caller).await
    }
}
