//! Collects the model's tools for subagents.
//!
//! Start from [`add_tools`].

use std::sync::Arc;

use super::continued::ContinueSubagent;
use super::list::ListSubagents;
use super::spawn::SpawnSubagent;
use super::stop::StopSubagent;
use super::wait::WaitSubagents;
use crate::agent::scope::ActiveTurns;
use crate::agent::spec::AgentSpec;

/// Adds the tools for subagents if the settings enable them.
pub(in crate::agent) fn add_tools(spec: &mut AgentSpec, active_turns: &ActiveTurns) {
    if !spec.config.subagents.enabled {
        return;
    }
    let spawn = SpawnSubagent::new(active_turns.clone(), &spec.presets);
    spec.add_built_in_tool(Arc::new(spawn));
    spec.add_built_in_tool(Arc::new(WaitSubagents::new(active_turns.clone())));
    spec.add_built_in_tool(Arc::new(ContinueSubagent::new(active_turns.clone())));
    spec.add_built_in_tool(Arc::new(ListSubagents::new(active_turns.clone())));
    spec.add_built_in_tool(Arc::new(StopSubagent::new(active_turns.clone())));
}
