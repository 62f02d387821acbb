//! Reads the settings of another agent and plans their counterparts in Rind: rules for tool calls,
//! MCP servers, templates, presets of subagents. Settings without a counterpart are listed with the
//! reason.
//!
//! Making a plan changes nothing, starts nothing and copies no secret. Showing, confirming and
//! writing a plan is up to the command line. Start from [`read_plan`].

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

pub use file::ImportError;
pub use plan::{
    FoundText, ImportLoss, ImportPlan, ImportedFile, ImportedRule, ImportedServer, TextKind,
};
pub use server::{ForeignServer, read_servers, server_name};
pub use template::{CommandText, convert_command};

/// Agent whose settings are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportedAgent {
    /// Claude Code.
    ClaudeCode,
    /// Codex.
    Codex,
    /// OpenCode.
    OpenCode,
}

/// Folders in which the settings of an agent are searched.
#[derive(Clone, Debug)]
pub struct ImportPlaces {
    /// Home folder of the user.
    pub home: PathBuf,
    /// Folder of the agent's settings if it is not the default in the home folder: the value of
    /// `CLAUDE_CONFIG_DIR`, `CODEX_HOME` or `OPENCODE_CONFIG_DIR`, if set.
    pub agent_folder: Option<PathBuf>,
    /// Project whose settings are read too.
    pub project: Option<PathBuf>,
}

/// Reads the settings of an agent and plans the counterpart of each. Missing files are skipped.
///
/// # Errors
/// A file exists but cannot be read, or is not in its format.
pub fn read_plan(agent: ImportedAgent, places: &ImportPlaces) -> Result<ImportPlan, ImportError> {
    let mut plan = ImportPlan::default();
    match agent {
        ImportedAgent::ClaudeCode => claude::read_claude(places, &mut plan)?,
        ImportedAgent::Codex => codex::read_codex(places, &mut plan)?,
        ImportedAgent::OpenCode => opencode::read_opencode(places, &mut plan)?,
    }
    Ok(plan)
}
