//! Defines the section `[agent]` of the settings.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use super::archive::config::ArchivalConfig;
use super::compact::config::CompactConfig;
use super::reflect::config::ReflectConfig;
use super::subagent::config::SubagentsConfig;
use crate::checkpoint::CheckpointConfig;
use crate::config::{Section, number};
use crate::price::Prices;

/// Limits and other settings of the agent's turns: the section `[agent]`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AgentConfig {
    /// Maximum number of steps of one turn; a follow-up gets as many again.
    #[serde(deserialize_with = "number::within::<1, 100_000, _, _>")]
    pub max_steps: u32,
    /// Maximum number of tokens of one answer of the model, reasoning included; never more than the
    /// model can write. Absent: the server's own limit, or, if the API requires a number, the
    /// longest answer of the model, at most 64,000.
    #[serde(deserialize_with = "number::within_if_set::<1, 1_000_000_000, _, _>")]
    pub max_tokens: Option<u32>,
    /// Settings for reflection, the review of an answer before it is shown.
    pub reflect: ReflectConfig,
    /// Maximum number of tool calls per answer; further calls are dropped, and the model is told
    /// which. Default: 128.
    #[serde(deserialize_with = "number::within::<1, 100_000, _, _>")]
    pub max_calls: usize,
    /// Maximum number of calls that run in parallel; only calls that just read do. Default: 8.
    #[serde(deserialize_with = "number::within::<1, 64, _, _>")]
    pub max_parallel_calls: usize,
    /// Timeout of one tool call, in seconds. The default is a little longer than the maximum of ten
    /// minutes that the built-in `bash` documents for a command.
    #[serde(deserialize_with = "number::within::<1, 86_400, _, _>")]
    pub tool_timeout_seconds: u64,
    /// Maximum length of a tool's result, in bytes; the rest is cut off.
    #[serde(deserialize_with = "number::within::<1024, 0x4000_0000, _, _>")]
    pub tool_output_bytes: usize,
    /// Maximum share of the model's window, in percent, for the descriptions of tools of MCP
    /// servers and of plugins with many tools. If they exceed it, the model has to search for these
    /// tools.
    #[serde(deserialize_with = "number::within::<0, 100, _, _>")]
    pub deferred_tools_percent: u32,
    /// Whether the model gets `AGENTS.md`, `CLAUDE.md` and the files that they import: those of the
    /// user and the project in the system prompt, those of a subfolder with the first result of a
    /// call in that folder.
    pub context_files: bool,
    /// Name of the plugin whose loop controls the turns. Absent: the built-in loop.
    #[serde(rename = "loop")]
    pub agent_loop: Option<String>,
    /// Models of the same provider that this loop may ask in addition to the session's model; `*`
    /// stands for all.
    pub loop_models: Vec<String>,
    /// Maximum cost of all turns that one loop starts within 24 hours, in US dollars, counted since
    /// the host was started. Tokens of models without a known price do not count. Absent: no limit.
    #[serde(deserialize_with = "number::dollars_if_set")]
    pub max_loop_cost_usd: Option<f64>,
    /// The user's own context files, which precede those of the project. Missing files are ignored.
    #[serde(skip)]
    pub own_context_files: Vec<PathBuf>,
    /// Settings for compaction, the replacement of older messages by a summary.
    pub compact: CompactConfig,
    /// Checkpoints: the contents of files are stored before calls change them.
    pub checkpoint: CheckpointConfig,
    /// Settings for the archival of finished turns; the section `[archival]`.
    #[serde(skip)]
    pub archival: ArchivalConfig,
    /// Maximum cost of a turn, in US dollars: the step that exceeds it is the last one. Tokens of
    /// models without a known price do not count. `None` sets no limit.
    #[serde(skip)]
    pub max_cost_usd: Option<f64>,
    /// Whether the model may run and query subagents; the section `[subagents]`.
    #[serde(skip)]
    pub subagents: SubagentsConfig,
    /// Prices of models as set by the operator; the section `[prices]`.
    #[serde(skip)]
    pub prices: Prices,
    /// Whether "always" answers are recorded in the session and restored from it, so that they also
    /// apply in another program that continues the session. For sessions in a store that several
    /// programs share.
    #[serde(skip)]
    pub keeps_approvals: bool,
    /// Digest of the set of loaded plugins, which is recorded with each turn.
    #[serde(skip)]
    pub plugin_set: Option<String>,
    /// Whether hooks of `output-delta` check an answer only at its first piece and at its end, so
    /// that the number of their calls does not depend on timing. For cases of plugins.
    #[serde(skip)]
    pub checks_ends_only: bool,
}

impl Default for AgentConfig {
    fn default() -> Self {
        Self {
            max_steps: 50,
            max_tokens: None,
            reflect: ReflectConfig::default(),
            max_calls: 128,
            max_parallel_calls: 8,
            tool_timeout_seconds: 660,
            tool_output_bytes: 4 << 20,
            deferred_tools_percent: 2,
            context_files: true,
            agent_loop: None,
            loop_models: Vec::new(),
            max_loop_cost_usd: None,
            own_context_files: Vec::new(),
            compact: CompactConfig::default(),
            checkpoint: CheckpointConfig::default(),
            archival: ArchivalConfig::default(),
            max_cost_usd: None,
            subagents: SubagentsConfig::default(),
            prices: Prices::default(),
            keeps_approvals: false,
            plugin_set: None,
            checks_ends_only: false,
        }
    }
}

impl Section for AgentConfig {
    const NAME: &'static str = "agent";
}

impl AgentConfig {
    /// Returns the time after which a tool call is stopped.
    #[must_use]
    pub fn tool_timeout(&self) -> Duration {
        Duration::from_secs(self.tool_timeout_seconds)
    }
}
