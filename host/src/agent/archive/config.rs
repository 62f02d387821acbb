//! The section `[archival]` of the settings.

use std::time::Duration;

use serde::Deserialize;

use crate::agent::subagent::config::SubagentsConfig;
use crate::config::{Section, number};

/// Settings for archiving finished turns: which are archived, and the summary that replaces them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ArchivalConfig {
    /// Whether finished turns are archived. Default: no. Needs `subagents.enabled`.
    pub enabled: bool,
    /// Conditions under which a finished turn is archived.
    pub trigger: ArchiveTriggerConfig,
    /// Settings for the summary that replaces an archived turn in the conversation.
    pub summary: ArchiveSummaryConfig,
    /// Settings for the list in the system prompt of the subagents that hold archived turns.
    pub list: ArchivalSubagentListConfig,
}

impl Section for ArchivalConfig {
    const NAME: &'static str = "archival";
}

/// Settings for the list of holders in the system prompt.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ArchivalSubagentListConfig {
    /// Longest list, in tokens, estimated. It names the newest holders and says how many older ones
    /// there are. Every request carries it. Default: 1000.
    #[serde(deserialize_with = "number::within::<0, 1_000_000, _, _>")]
    pub max_tokens: u64,
}

impl Default for ArchivalSubagentListConfig {
    fn default() -> Self {
        Self { max_tokens: 1000 }
    }
}

/// Conditions for archiving a turn: it is archived if it meets any of them.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ArchiveTriggerConfig {
    /// A turn that ended at the step limit. Default: yes.
    pub on_max_turns: bool,
    /// Tokens of a turn's messages from which it is archived, estimated as for compaction.
    /// Default: 8000.
    #[serde(deserialize_with = "number::within::<1, 1_000_000_000, _, _>")]
    pub token_threshold: u64,
    /// Tool calls of the model from which a turn is archived. Default: 5.
    #[serde(deserialize_with = "number::within::<1, 1_000_000_000, _, _>")]
    pub tool_call_threshold: usize,
    /// Exclusive bound of the nesting of agents: the main agent has depth 0, its subagents 1 and so
    /// on. The default of 3 gives two levels of subagents, 1 none. An agent of any depth below it
    /// archives its own turns; with 0 nothing is archived. At most 8.
    #[serde(deserialize_with = "number::within::<0, MAX_DEPTH_CAP_SETTING, _, _>")]
    pub depth_cap: u32,
}

impl Default for ArchiveTriggerConfig {
    fn default() -> Self {
        Self {
            on_max_turns: true,
            token_threshold: 8000,
            tool_call_threshold: 5,
            depth_cap: 3,
        }
    }
}

/// Style in which the summary of an archived turn is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SummaryStyle {
    /// A JSON object: outcome, key findings, files, tools, open questions.
    #[default]
    Structured,
    /// Summary of three to five sentences.
    Paragraph,
}

/// Settings for the summary of an archived turn.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ArchiveSummaryConfig {
    /// Style of the summary. Default: structured; with the provider `ollama` always paragraph.
    pub style: SummaryStyle,
    /// Model of the same provider that writes the summary. Absent: the model of the agent.
    pub model: Option<String>,
    /// Deadline of the model request for the summary, in seconds. Default: 60.
    #[serde(deserialize_with = "number::within::<1, 3600, _, _>")]
    pub timeout_seconds: u64,
}

impl Default for ArchiveSummaryConfig {
    fn default() -> Self {
        Self {
            style: SummaryStyle::default(),
            model: None,
            timeout_seconds: 60,
        }
    }
}

impl ArchiveSummaryConfig {
    pub(super) fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout_seconds)
    }

    /// Returns the style for a provider. Ollama mostly serves small models, which rarely keep to a
    /// JSON format.
    pub(super) fn summary_style_for_provider(&self, provider: &str) -> SummaryStyle {
        if provider == "ollama" {
            SummaryStyle::Paragraph
        } else {
            self.style
        }
    }
}

/// Maximum of `depth_cap`. Sessions of agents are not searched at a greater depth.
const MAX_DEPTH_CAP_SETTING: u64 = 8;

impl ArchiveTriggerConfig {
    /// Returns the maximum depth that a subagent can have, counted from 0 for the main agent.
    pub(in crate::agent) fn max_subagent_depth(&self) -> u32 {
        self.depth_cap.saturating_sub(1)
    }
}

/// Refuses settings that contradict each other.
///
/// # Errors
/// A sentence that names both keys and the correction.
pub fn check_archival_config(
    archival: &ArchivalConfig,
    subagents: &SubagentsConfig,
) -> Result<(), String> {
    if archival.enabled && !subagents.enabled {
        return Err(
            "archival.enabled requires subagents.enabled, since the model queries archived turns through subagents; set \
             subagents.enabled = true, or archival.enabled = false"
                .to_owned(),
        );
    }
    Ok(())
}
