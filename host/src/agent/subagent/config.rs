//! The section `[subagents]` of the settings.

use std::time::Duration;

use serde::Deserialize;

use crate::config::{Section, number};

/// Subagents of the model, and the limits of all subagents. Subagents of plugins need a grant and
/// not `enabled`. How deep they are nested is limited by `archival.trigger.depth_cap`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SubagentsConfig {
    /// Whether the model gets the tools for subagents. Default: no.
    pub enabled: bool,
    /// Maximum number of subagents that run at once in a session, all levels together. Default: 8.
    #[serde(deserialize_with = "number::within::<1, 64, _, _>")]
    pub max_running: usize,
    /// Maximum number of subagents that the model starts in a session, also after it is resumed; of
    /// them at most 16 in one turn. Default: 200.
    #[serde(deserialize_with = "number::within::<1, 100_000, _, _>")]
    pub max_in_session: u32,
    /// Maximum number of steps of a subagent for one task; never more than `agent.max_steps`.
    /// Default: 50.
    #[serde(deserialize_with = "number::within::<1, 100_000, _, _>")]
    pub max_steps: u32,
    /// Longest time that a subagent works on one task, in seconds. Default: 1800.
    #[serde(deserialize_with = "number::within::<1, 86_400, _, _>")]
    pub max_seconds: u64,
    /// Most that a subagent spends on one task, in US dollars: the step that exceeds it is its last
    /// one. Tokens of models without a known price do not count. Default: 5.
    #[serde(deserialize_with = "number::dollars")]
    pub max_cost_usd: f64,
}

impl Default for SubagentsConfig {
    fn default() -> Self {
        Self {
            enabled: false,
            max_running: 8,
            max_in_session: 200,
            max_steps: 50,
            max_seconds: 1800,
            max_cost_usd: 5.0,
        }
    }
}

impl Section for SubagentsConfig {
    const NAME: &'static str = "subagents";
}

impl SubagentsConfig {
    /// Longest time that a subagent works on one task.
    pub(in crate::agent) fn max_time(&self) -> Duration {
        Duration::from_secs(self.max_seconds)
    }
}
