//! `rind:plugin/agents`: running subagents. Linked only if granted.

use std::time::Duration;

use super::super::bindings::rind::plugin::agents;
use super::super::host::HostState;
use super::super::sanitize::GuestTextSanitizer;
use crate::point::handle::{
    BackgroundSubagentTask, HostFunctionError, SubagentReport, SubagentTask,
};

impl agents::Host for HostState {
    async fn run(&mut self, task: agents::Task) -> Result<String, HostFunctionError> {
        let backing = self.backing.clone();
        let caller = self.call.caller.with_calling_plugin(&backing.plugin);
        let task = SubagentTask {
            prompt: GuestTextSanitizer::for_current_guest_call(self, "agents")
                .text("prompt", task.prompt),
            tools: task.tools,
            max_steps: task.max_steps,
        };
        let handle = &backing.handle;
        handle.run_agent(&backing.plugin, task, caller).await
    }

    async fn presets(&mut self) -> Result<Vec<agents::Preset>, HostFunctionError> {
        let caller = self.call.caller.with_calling_plugin(&self.backing.plugin);
        let presets = self.backing.handle.agent_presets(&caller)?.into_iter();
        let presets = presets.map(|preset| agents::Preset {
            name: preset.name,
            description: preset.description,
        });
        Ok(presets.collect())
    }

    async fn start(&mut self, order: agents::Order) -> Result<String, HostFunctionError> {
        let backing = self.backing.clone();
        let caller = self.call.caller.with_calling_plugin(&backing.plugin);
        let order = BackgroundSubagentTask {
            prompt: GuestTextSanitizer::for_current_guest_call(self, "agents")
                .text("prompt", order.prompt),
            preset: order.preset,
            tools: order.tools,
            max_steps: order.max_steps,
        };
        let handle = &backing.handle;
        handle.start_agent(&backing.plugin, order, caller).await
    }

    async fn resume(&mut self, id: String, message: String) -> Result<(), HostFunctionError> {
        let backing = self.backing.clone();
        let caller = self.call.caller.with_calling_plugin(&backing.plugin);
        let message =
            GuestTextSanitizer::for_current_guest_call(self, "agents").text("message", message);
        let handle = &backing.handle;
        handle
            .resume_agent(&backing.plugin, id, message, caller)
            .await
    }

    async fn wait(
        &mut self,
        ids: Vec<String>,
        timeout_ms: u64,
    ) -> Result<Vec<agents::Report>, HostFunctionError> {
        let backing = self.backing.clone();
        let caller = self.call.caller.with_calling_plugin(&backing.plugin);
        let limit = Duration::from_millis(timeout_ms);
        let handle = &backing.handle;
        let reports = handle
            .wait_agents(&backing.plugin, ids, limit, caller)
            .await?;
        Ok(reports.into_iter().map(convert_agent_report).collect())
    }

    async fn stop(&mut self, id: String) -> Result<agents::Report, HostFunctionError> {
        let backing = self.backing.clone();
        let caller = self.call.caller.with_calling_plugin(&backing.plugin);
        let handle = &backing.handle;
        let report = handle.stop_agent(&backing.plugin, id, caller).await?;
        Ok(convert_agent_report(report))
    }
}

fn convert_agent_report(report: SubagentReport) -> agents::Report {
    agents::Report {
        id: report.id,
        state: report.state.to_owned(),
        answer: report.answer,
        steps: report.steps,
        cost_usd: report.cost_usd,
    }
}
