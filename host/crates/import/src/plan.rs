//! Defines the plan of an import: converted settings, files that Rind uses in place, and settings
//! that are not imported.

use std::path::{Path, PathBuf};

use rind_lib::tool::policy::PolicyRule;
use rind_mcp::ServerSettings;
use serde::Serialize;

/// Settings and files that an import would write, and settings that are not imported.
#[derive(Debug, Default, Serialize)]
pub struct ImportPlan {
    /// Settings files of the other agent that were read.
    pub read: Vec<PathBuf>,
    /// Rules for tool calls, in the order in which they were found.
    pub rules: Vec<ImportedRule>,
    /// MCP servers. The import starts none of them: the first session asks about each, as for a
    /// server that was added manually.
    pub servers: Vec<ImportedMcpServer>,
    /// Files that the import writes: templates of slash commands and presets of subagents.
    pub files: Vec<ImportedFile>,
    /// Files with hooks in the format of Claude Code, which `[hooks] claude` can name.
    pub hooks: Vec<PathBuf>,
    /// Files and folders that Rind reads in place, without an import.
    pub used: Vec<FileUsedInPlace>,
    /// Settings that are not imported, or only in part.
    pub losses: Vec<SettingNotImported>,
}

/// Rule for tool calls, with the rule from which it was converted.
#[derive(Debug, Serialize)]
pub struct ImportedRule {
    /// Rule as the settings of the other agent contain it.
    pub from: String,
    /// Equivalent rule of Rind.
    pub rule: PolicyRule,
}

/// MCP server of another agent, converted into Rind's settings.
#[derive(Debug, Serialize)]
pub struct ImportedMcpServer {
    /// Name of the server in Rind, which becomes part of its tools' names.
    pub name: String,
    /// Settings of the server, as Rind stores them.
    pub settings: ServerSettings,
}

/// Kind of a Markdown file that the import writes into the settings folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ImportedFileKind {
    /// Template of a slash command, in the folder `prompts`.
    Template,
    /// Preset of a subagent, in the folder `agents`.
    Preset,
}

impl ImportedFileKind {
    /// Returns the folder for files of this kind, relative to the settings folder.
    #[must_use]
    pub fn settings_subfolder(self) -> &'static str {
        match self {
            Self::Template => "prompts",
            Self::Preset => "agents",
        }
    }
}

/// Markdown file that the import writes into the settings folder.
#[derive(Debug, Serialize)]
pub struct ImportedFile {
    /// Kind of the file, which decides the folder.
    pub kind: ImportedFileKind,
    /// Name of the file without the extension `.md`.
    pub name: String,
    /// Text that the file gets.
    pub text: String,
    /// File of the other agent from which this file was converted.
    pub from: PathBuf,
}

/// File or folder that Rind uses in place, without a copy.
#[derive(Debug, Serialize)]
pub struct FileUsedInPlace {
    /// Path of the file or folder.
    pub path: PathBuf,
    /// Description of the use, for example "are found as your skills".
    pub how: &'static str,
}

/// Setting of another agent that is not imported, or only in part.
#[derive(Debug, Serialize)]
pub struct SettingNotImported {
    /// File of the other agent that contains the setting.
    pub path: PathBuf,
    /// Name of the setting in that file.
    pub what: String,
    /// Reason why the setting is not imported, with a remedy if there is one.
    pub why: String,
    /// Whether the setting is a rule that denies calls. Without it, Rind is less strict than the
    /// other agent.
    pub is_denial: bool,
}

impl ImportPlan {
    /// Records in the plan that a setting is not imported.
    pub(crate) fn record_setting_not_imported(
        &mut self,
        path: &Path,
        what: impl Into<String>,
        why: impl Into<String>,
    ) {
        self.losses.push(SettingNotImported {
            path: path.to_owned(),
            what: what.into(),
            why: why.into(),
            is_denial: false,
        });
    }

    /// Records a file or folder that Rind uses in place. Ignores a path that does not exist.
    pub(crate) fn record_file_used_without_import(&mut self, path: PathBuf, how: &'static str) {
        if path.exists() {
            self.used.push(FileUsedInPlace { path, how });
        }
    }

    /// Whether the import would write nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
            && self.servers.is_empty()
            && self.files.is_empty()
            && self.hooks.is_empty()
    }
}
