//! Lists the agents that Rind can guard, and the points of Rind that their hooks correspond to.

use serde::{Deserialize, Serialize};

use super::formats::{
    AgentFormat, ClaudeCodeHookFormat, CodexHookFormat, GooseHookFormat, OpenCodeHookFormat,
    PiHookFormat,
};
use super::table::{self, AgentHookCapabilities};

/// Agent whose tool calls plugins of Rind can judge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GuardedAgent {
    /// Claude Code.
    ClaudeCode,
    /// Codex.
    Codex,
    /// OpenCode.
    #[serde(rename = "opencode")]
    OpenCode,
    /// goose.
    Goose,
    /// pi.
    Pi,
}

impl GuardedAgent {
    /// All agents, in the order in which the manual describes them.
    pub const ALL: [Self; 5] = [
        Self::ClaudeCode,
        Self::Codex,
        Self::OpenCode,
        Self::Goose,
        Self::Pi,
    ];

    /// Returns the agent's name on the command line and in session ids.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
            Self::OpenCode => "opencode",
            Self::Goose => "goose",
            Self::Pi => "pi",
        }
    }

    /// Finds an agent by its name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|agent| agent.name() == name)
    }

    /// Returns the table of the agent's hooks.
    #[must_use]
    pub fn hook_table(self) -> &'static AgentHookCapabilities {
        table::agent_hook_capabilities(self)
    }

    /// Returns the translation between the agent's JSON and Rind's events.
    pub(crate) fn hook_format(self) -> &'static dyn AgentFormat {
        match self {
            Self::ClaudeCode => &ClaudeCodeHookFormat,
            Self::Codex => &CodexHookFormat,
            Self::OpenCode => &OpenCodeHookFormat,
            Self::Goose => &GooseHookFormat,
            Self::Pi => &PiHookFormat,
        }
    }
}

/// Point of Rind that a hook of another agent corresponds to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AgentHookPoint {
    /// Point before a tool call runs.
    PreTool,
    /// Point after a tool call has run.
    PostTool,
    /// Point after the user has sent a prompt: `turn-start`, followed by `pre-assess`.
    TurnStart,
}

impl AgentHookPoint {
    /// All points.
    pub const ALL: [Self; 3] = [Self::PreTool, Self::PostTool, Self::TurnStart];

    /// Returns the name of the point.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::PreTool => "pre-tool",
            Self::PostTool => "post-tool",
            Self::TurnStart => "turn-start",
        }
    }

    /// Finds a point by its name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|point| point.name() == name)
    }
}
