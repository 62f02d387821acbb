//! Reads the settings of another agent and plans equivalent settings of Rind: rules for tool calls,
//! MCP servers, templates, presets of subagents. The plan lists settings without an equivalent,
//! with the reason.
//!
//! Making a plan writes no file, starts no program and copies no secret. The command line shows the
//! plan, lets the user confirm it, and writes the files. Start from [`plan_settings_import`].

mod claude;
mod codex;
mod codex_rules;
mod file;
mod literal_calls;
mod opencode;
mod permission;
mod plan;
mod server;
mod template;

use std::path::PathBuf;

pub use file::ImportFileReadError;
pub use plan::{
    FileUsedInPlace, ImportPlan, ImportedFile, ImportedFileKind, ImportedMcpServer, ImportedRule,
    SettingNotImported,
};
pub use server::{OtherAgentsMcpServer, convert_server_name, read_project_mcp_servers};
pub use template::{SlashCommandTemplate, convert_claude_command};

/// Coding agent from which settings are imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportSourceAgent {
    /// Claude Code, the agent of Anthropic.
    ClaudeCode,
    /// Codex, the agent of OpenAI.
    Codex,
    /// OpenCode, an open-source agent.
    OpenCode,
}

/// Folders in which the settings of an agent are searched.
#[derive(Clone, Debug)]
pub struct ImportSourceFolders {
    /// Home folder of the user.
    pub home: PathBuf,
    /// Folder of the agent's settings if it is not the default in the home folder: the value of
    /// `CLAUDE_CONFIG_DIR`, `CODEX_HOME` or `OPENCODE_CONFIG_DIR`, if set.
    pub agent_folder: Option<PathBuf>,
    /// Project whose settings are imported too; `None` for those of the user only.
    pub project: Option<PathBuf>,
}

/// Reads the settings of an agent and plans the equivalent settings of Rind. Skips missing files.
///
/// # Errors
/// A file exists but cannot be read, or is not in its format.
pub fn plan_settings_import(
    agent: ImportSourceAgent,
    places: &ImportSourceFolders,
) -> Result<ImportPlan, ImportFileReadError> {
    let mut plan = ImportPlan::default();
    match agent {
        ImportSourceAgent::ClaudeCode => claude::read_claude_code_settings(places, &mut plan)?,
        ImportSourceAgent::Codex => codex::read_codex_settings(places, &mut plan)?,
        ImportSourceAgent::OpenCode => opencode::read_opencode_settings(places, &mut plan)?,
    }
    Ok(plan)
}
