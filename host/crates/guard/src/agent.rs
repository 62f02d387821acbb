//! Names of the agents that can be guarded, and of the points that their hooks reach.

use serde::{Deserialize, Serialize};

use super::formats::{
    AgentFormat, ClaudeFormat, CodexFormat, GooseFormat, OpenCodeFormat, PiFormat,
};
use super::table::{self, AgentTable};

/// An agent whose calls plugins of Rind can judge.
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
    /// All agents, in the order of the manual.
    pub const ALL: [Self; 5] = [
        Self::ClaudeCode,
        Self::Codex,
        Self::OpenCode,
        Self::Goose,
        Self::Pi,
    ];

    /// Returns the name on the command line and in ids of sessions.
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
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|agent| agent.name() == name)
    }

    /// Returns the table of its hooks.
    #[must_use]
    pub fn table(self) -> &'static AgentTable {
        table::table_of(self)
    }

    /// Returns the translation of its JSON.
    pub(crate) fn format(self) -> &'static dyn AgentFormat {
        match self {
            Self::ClaudeCode => &ClaudeFormat,
            Self::Codex => &CodexFormat,
            Self::OpenCode => &OpenCodeFormat,
            Self::Goose => &GooseFormat,
            Self::Pi => &PiFormat,
        }
    }
}

/// A point of Rind that a hook of another agent reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GuardPoint {
    /// Before a tool call runs.
    PreTool,
    /// After a tool call has run.
    PostTool,
    /// After the user has sent a prompt: `turn-start`, and then `pre-assess`.
    TurnStart,
}

impl GuardPoint {
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
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|point| point.name() == name)
    }
}
