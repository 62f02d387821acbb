//! Arguments of `rind guard`.

use clap::{Args as ClapArgs, Subcommand, ValueEnum};

use rind_guard::GuardedAgent;

#[derive(Debug, Subcommand)]
pub(in super::super) enum GuardCommand {
    /// Show the changes to the agent's settings, ask, and write them
    Install(GuardInstallArgs),
    /// Show where the guard is installed, what it can do there, and when the agent continues
    /// without it
    Status(GuardStatusArgs),
    /// Run the installed hook as the agent would: with a dangerous call, with a harmless one, and
    /// with a harmless one while no daemon runs; exit code 1 if any result is not as expected
    Test(GuardAgentArgs),
    /// Remove the hooks of `install` from the agent's settings
    Remove(GuardInstallArgs),
    /// Answer as a hook; agents run this command
    #[command(hide = true)]
    Hook(GuardHookArgs),
    /// Run the daemon that judges calls; `hook` starts it
    #[command(hide = true)]
    Serve,
}

#[derive(Debug, ClapArgs)]
pub(in super::super) struct GuardAgentArgs {
    /// Agent whose guard is meant
    pub(super) agent: GuardedAgentName,
    /// Use the guard of the project in this folder instead of that of all projects
    #[arg(long)]
    pub(super) project: bool,
}

#[derive(Debug, ClapArgs)]
pub(in super::super) struct GuardInstallArgs {
    #[command(flatten)]
    pub(super) target: GuardAgentArgs,
    /// Write without asking
    #[arg(long, short)]
    pub(super) yes: bool,
}

#[derive(Debug, ClapArgs)]
pub(in super::super) struct GuardStatusArgs {
    /// Agent to show; by default all agents
    pub(super) agent: Option<GuardedAgentName>,
    /// Show the guard of the project in this folder instead of that of all projects
    #[arg(long)]
    pub(super) project: bool,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// Arguments of `rind guard hook`, only for its help: `run_guard_hook_if_requested` reads them
/// without clap, whose setup would delay every hook.
#[derive(Debug, ClapArgs)]
pub(in super::super) struct GuardHookArgs {
    /// Agent that runs the hook
    _agent: GuardedAgentName,
    /// Point of the hook: pre-tool, post-tool or turn-start
    _point: String,
    /// Folder to use instead of `RIND_HOME`
    #[arg(long, value_name = "DIR")]
    _home: Option<std::path::PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(in super::super) enum GuardedAgentName {
    /// Claude Code
    ClaudeCode,
    /// Codex
    Codex,
    /// OpenCode
    #[value(name = "opencode")]
    OpenCode,
    /// goose
    Goose,
    /// pi
    Pi,
}

impl GuardedAgentName {
    pub(super) fn to_guarded_agent(self) -> GuardedAgent {
        match self {
            Self::ClaudeCode => GuardedAgent::ClaudeCode,
            Self::Codex => GuardedAgent::Codex,
            Self::OpenCode => GuardedAgent::OpenCode,
            Self::Goose => GuardedAgent::Goose,
            Self::Pi => GuardedAgent::Pi,
        }
    }
}

/// Returns the environment variable that sets the settings folder of an agent.
pub(super) fn agent_settings_folder_env_variable(agent: GuardedAgent) -> Option<&'static str> {
    match agent {
        GuardedAgent::ClaudeCode => Some("CLAUDE_CONFIG_DIR"),
        GuardedAgent::Codex => Some("CODEX_HOME"),
        GuardedAgent::OpenCode => Some("OPENCODE_CONFIG_DIR"),
        GuardedAgent::Goose => None,
        GuardedAgent::Pi => Some("PI_CODING_AGENT_DIR"),
    }
}
