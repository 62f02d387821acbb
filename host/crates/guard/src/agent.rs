//! Lists the agents that Rind can guard, and the points of Rind that their hooks correspond to.

use serde::{Deserialize, Serialize};

use super::formats::{
    AgentFormat, ClaudeCodeHookFormat, CodexHookFormat, GooseHookFormat, OpenCodeHookFormat,
    PiHookFormat,
};
use super::table::{self, AgentHookCapabilities};

/// Coding agent whose tool calls Rind's plugins can judge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GuardedAgent {
    /// Claude Code, the agent of Anthropic.
    ClaudeCode,
    /// Codex, the agent of OpenAI.
    Codex,
    /// OpenCode, an open-source agent.
    #[serde(rename = "opencode")]
    OpenCode,
    /// goose, an open-source agent.
    Goose,
    /// pi, an open-source agent.
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

    /// Returns the agent with this name; `None` if there is none.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|agent| agent.name() == name)
    }

    /// Returns the table that describes the events and effects of the agent's hooks.
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
    /// Point before the agent runs a tool call.
    PreTool,
    /// Point after the agent has run a tool call.
    PostTool,
    /// Point after the user has sent a prompt: `turn-start`, followed by `pre-assess`.
    TurnStart,
}

impl AgentHookPoint {
    /// All points to which hooks of other agents correspond.
    pub const ALL: [Self; 3] = [Self::PreTool, Self::PostTool, Self::TurnStart];

    /// Returns the name of the point, such as `pre-tool`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::PreTool => "pre-tool",
            Self::PostTool => "post-tool",
            Self::TurnStart => "turn-start",
        }
    }

    /// Returns the point with this name; `None` if there is none.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|point| point.name() == name)
    }
}
