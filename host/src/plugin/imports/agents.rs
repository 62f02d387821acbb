//! `rind:plugin/agents`: running subagents. Linked only where it was granted.

use super::super::bindings::rind::plugin::{agents, types};
use super::super::host::HostState;
use super::super::sanitize::Sanitizer;
use crate::point::handle::AgentTask;

impl agents::Host for HostState {
    async fn run(&mut self, task: agents::Task) -> wasmtime::Result<Result<String, types::Error>> {
        let backing = self.backing.clone();
        let caller = self.call.caller.caused_by(&backing.plugin);
        let task = AgentTask {
            prompt: Sanitizer::of(self, "agents").text("prompt", task.prompt),
            tools: task.tools,
            max_steps: task.max_steps,
        };
        let answer = backing
            .handle
            .run_agent(&backing.plugin, task, caller)
            .await;
        Ok(answer.map_err(Into::into))
    }
}
