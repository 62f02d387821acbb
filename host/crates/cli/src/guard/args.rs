//! Arguments of `rind guard`.

use clap::{Args as ClapArgs, Subcommand, ValueEnum};

use rind_guard::GuardedAgent;

#[derive(Debug, Subcommand)]
pub(in super::super) enum GuardCommand {
    /// Show the changes of the agent's settings, ask, and write them
    Install(GuardInstallArgs),
    /// Show where the guard is installed, its powers there, and when the agent continues without it
    Status(GuardStatusArgs),
    /// Run the installed hook as the agent would: a dangerous call, a harmless one, and one without a
    /// daemon; exit code 1 when one of them does not end as it should
    Test(GuardAgentArgs),
    /// Take the hooks of `install` out of the agent's settings
    Remove(GuardInstallArgs),
    /// Answer as the hook of an agent, which runs this
    #[command(hide = true)]
    Hook(GuardHookArgs),
    /// Run the daemon that judges calls; `hook` starts it
    #[command(hide = true)]
    Serve,
}

#[derive(Debug, ClapArgs)]
pub(in super::super) struct GuardAgentArgs {
    /// The agent
    pub(super) agent: AgentName,
    /// The guard of the project in this folder, and not that of all projects
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
    /// The agent; without one, all agents
    pub(super) agent: Option<AgentName>,
    /// The guard of the project in this folder, and not that of all projects
    #[arg(long)]
    pub(super) project: bool,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// The words are read without this parser, which would load too much for a hook.
#[derive(Debug, ClapArgs)]
pub(in super::super) struct GuardHookArgs {
    /// The agent
    _agent: AgentName,
    /// The point: pre-tool, post-tool or turn-start
    _point: String,
    /// Folder to use instead of `RIND_HOME`
    #[arg(long, value_name = "DIR")]
    _home: Option<std::path::PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(in super::super) enum AgentName {
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

impl AgentName {
    pub(super) fn agent(self) -> GuardedAgent {
        match self {
            Self::ClaudeCode => GuardedAgent::ClaudeCode,
            Self::Codex => GuardedAgent::Codex,
            Self::OpenCode => GuardedAgent::OpenCode,
            Self::Goose => GuardedAgent::Goose,
            Self::Pi => GuardedAgent::Pi,
        }
    }
}

/// Returns the variable that moves the folder of an agent.
pub(super) fn folder_variable(agent: GuardedAgent) -> Option<&'static str> {
    match agent {
        GuardedAgent::ClaudeCode => Some("CLAUDE_CONFIG_DIR"),
        GuardedAgent::Codex => Some("CODEX_HOME"),
        GuardedAgent::OpenCode => Some("OPENCODE_CONFIG_DIR"),
        GuardedAgent::Goose => None,
        GuardedAgent::Pi => Some("PI_CODING_AGENT_DIR"),
    }
}
