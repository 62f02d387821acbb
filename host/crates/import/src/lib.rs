//! Reads the settings of another agent and plans their counterparts here: rules for tool
//! calls, MCP servers, templates, presets of subagents. Settings without a counterpart are listed with the
//! reason.
//!
//! A plan changes nothing, starts nothing and copies no secret. It must not know how it is shown,
//! asked about and written: the command line does that. Start from [`read_plan`].

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

/// Places where the settings of an agent lie.
#[derive(Clone, Debug)]
pub struct ImportPlaces {
    /// Home folder of the person.
    pub home: PathBuf,
    /// Folder of the agent instead of the usual one below the home folder: the value of
    /// `CLAUDE_CONFIG_DIR`, `CODEX_HOME` or `OPENCODE_CONFIG_DIR`, if it is set.
    pub agent_folder: Option<PathBuf>,
    /// Folder of a project whose settings are read as well.
    pub project: Option<PathBuf>,
}

/// Reads the settings of an agent and plans the counterpart of each. Files that are not there are
/// passed over.
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
