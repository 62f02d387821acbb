//! Plan of an import: settings to copy, files that Rind uses in place, and losses.

use std::path::{Path, PathBuf};

use rind_lib::tool::policy::PolicyRule;
use rind_mcp::ServerSettings;
use serde::Serialize;

/// Plan of an import.
#[derive(Debug, Default, Serialize)]
pub struct ImportPlan {
    /// Files that were read.
    pub read: Vec<PathBuf>,
    /// Rules for tool calls, in the order in which they were found.
    pub rules: Vec<ImportedRule>,
    /// MCP servers. The import starts none of them: the first session asks about each, as about a
    /// server that was added by hand.
    pub servers: Vec<ImportedServer>,
    /// Templates of slash commands and presets of subagents.
    pub files: Vec<ImportedFile>,
    /// Files with hooks in the format of Claude Code, which `[hooks] claude` can name.
    pub hooks: Vec<PathBuf>,
    /// Things that Rind reads where they are, without an import.
    pub used: Vec<FoundText>,
    /// Things that are not taken over, or only in part.
    pub losses: Vec<ImportLoss>,
}

/// Rule for tool calls.
#[derive(Debug, Serialize)]
pub struct ImportedRule {
    /// Original rule of the other agent.
    pub from: String,
    /// Corresponding rule of Rind.
    pub rule: PolicyRule,
}

/// MCP server.
#[derive(Debug, Serialize)]
pub struct ImportedServer {
    /// Name here, from which the names of its tools are made.
    pub name: String,
    /// Settings here.
    pub settings: ServerSettings,
}

/// Kind of a text that is written into a folder of the settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TextKind {
    /// Template of a slash command, in the folder `prompts`.
    Template,
    /// Preset of a subagent, in the folder `agents`.
    Preset,
}

impl TextKind {
    /// Folder of such files, below the folder of the settings.
    #[must_use]
    pub fn folder(self) -> &'static str {
        match self {
            Self::Template => "prompts",
            Self::Preset => "agents",
        }
    }
}

/// File that is made.
#[derive(Debug, Serialize)]
pub struct ImportedFile {
    /// Kind of the file.
    pub kind: TextKind,
    /// Name without `.md`.
    pub name: String,
    /// Content of the file.
    pub text: String,
    /// Source file.
    pub from: PathBuf,
}

/// File or folder that Rind uses in place, without a copy.
#[derive(Debug, Serialize)]
pub struct FoundText {
    /// File or folder.
    pub path: PathBuf,
    /// Use of the file or folder.
    pub how: &'static str,
}

/// Thing that is lost, or only taken over in part.
#[derive(Debug, Serialize)]
pub struct ImportLoss {
    /// File that contains the setting.
    pub path: PathBuf,
    /// Name of the setting in the other agent's file.
    pub what: String,
    /// Reason and remedy.
    pub why: String,
    /// Whether it is a rule that denied something there.
    pub is_denial: bool,
}

impl ImportPlan {
    /// Records a loss.
    pub(crate) fn lose(&mut self, path: &Path, what: impl Into<String>, why: impl Into<String>) {
        self.losses.push(ImportLoss {
            path: path.to_owned(),
            what: what.into(),
            why: why.into(),
            is_denial: false,
        });
    }

    /// Records a file or folder that is used in place, if it exists.
    pub(crate) fn note_used(&mut self, path: PathBuf, how: &'static str) {
        if path.exists() {
            self.used.push(FoundText { path, how });
        }
    }

    /// Whether nothing would be written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
            && self.servers.is_empty()
            && self.files.is_empty()
            && self.hooks.is_empty()
    }
}
