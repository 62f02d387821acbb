//! The section `[subagents]` of the settings.

use std::time::Duration;

use serde::Deserialize;

use crate::config::{Section, number};

/// Settings for the model's subagents, and limits for all subagents. Subagents of plugins need a
/// grant instead of `enabled`. The nesting depth is limited by `archival.trigger.depth_cap`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SubagentsConfig {
    /// Whether the model gets the tools for subagents. Default: no.
    pub enabled: bool,
    /// Maximum number of subagents that run at once in a session, at all nesting levels together.
    /// Default: 8.
    #[serde(deserialize_with = "number::within::<1, 64, _, _>")]
    pub max_running: usize,
    /// Maximum number of subagents that the model starts in a session, including its earlier runs;
    /// at most 16 of them in one turn. Default: 200.
    #[serde(deserialize_with = "number::within::<1, 100_000, _, _>")]
    pub max_in_session: u32,
    /// Maximum number of steps of a subagent for one task; never more than `agent.max_steps`.
    /// Default: 50.
    #[serde(deserialize_with = "number::within::<1, 100_000, _, _>")]
    pub max_steps: u32,
    /// Maximum time that a subagent works on one task, in seconds. Default: 1800.
    #[serde(deserialize_with = "number::within::<1, 86_400, _, _>")]
    pub max_seconds: u64,
    /// Maximum cost of one task of a subagent, in US dollars; the step that exceeds it is the last
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
    /// Returns the maximum time that a subagent works on one task.
    pub(in crate::agent) fn max_task_duration(&self) -> Duration {
        Duration::from_secs(self.max_seconds)
    }
}
