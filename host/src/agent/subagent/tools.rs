//! Collects the model's tools for subagents.
//!
//! Start from [`add_subagent_tools`].

use std::sync::Arc;

use super::continued::ContinueSubagentTool;
use super::list::ListSubagentsTool;
use super::spawn::SpawnSubagentTool;
use super::stop::StopSubagentTool;
use super::wait::WaitSubagentsTool;
use crate::agent::scope::ActiveTurns;
use crate::agent::spec::AgentSpec;

/// Adds the tools for subagents if the settings enable them.
pub(in crate::agent) fn add_subagent_tools(spec: &mut AgentSpec, active_turns: &ActiveTurns) {
    if !spec.config.subagents.enabled {
        return;
    }
    let spawn = SpawnSubagentTool::new(active_turns.clone(), &spec.presets);
    spec.add_built_in_tool(Arc::new(spawn));
    spec.add_built_in_tool(Arc::new(WaitSubagentsTool::new(active_turns.clone())));
    spec.add_built_in_tool(Arc::new(ContinueSubagentTool::new(active_turns.clone())));
    spec.add_built_in_tool(Arc::new(ListSubagentsTool::new(active_turns.clone())));
    spec.add_built_in_tool(Arc::new(StopSubagentTool::new(active_turns.clone())));
}
