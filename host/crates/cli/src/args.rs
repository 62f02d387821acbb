//! Arguments of the command line.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};

use super::completion;
use super::environment;
use super::guard::args::GuardCommand;
use super::listen::ListenAddress;
use super::mcp::args::McpCommand;
use super::plugin::args::PluginSubcommand;
use super::render::trace::TraceDetail;
use super::session::args::{
    SessionDiffArgs, SessionDoctorArgs, SessionEntriesArgs, SessionExportArgs, SessionForkArgs,
    SessionGcArgs, SessionImportArgs, SessionListArgs, SessionRenameArgs, SessionRmArgs,
    SessionSearchArgs, SessionShowArgs,
};
use super::skill::SkillCommand;
use rind_lib::grant::decide::GrantFlagValue;
use rind_lib::tool::policy::{ApprovalMode, ToolPolicyOptions};
use rind_operator::settings::{ModelSelection, PluginSelection, ProgramRunSettings, SessionChoice};

/// Usage lines of the program. Those of `rind chat` come first, because it is the default command.
const PROGRAM_USAGE_LINES: &str = "\
rind [\"PROMPT\"]     chat, with a first prompt of several words
       rind -c             chat: continue the last session of this folder
       rind -r [ID]        chat: continue a session, or choose one
       rind <COMMAND>";

/// An agent host whose plugins are sandboxed WebAssembly components.
#[derive(Debug, Parser)]
#[command(name = "rind", version, override_usage = PROGRAM_USAGE_LINES, after_help = super::exit_code::EXIT_CODES_HELP_TEXT)]
pub(super) struct CliArgs {
    /// Command; if it is absent, `rind chat` with all its options
    #[command(subcommand)]
    pub(super) command: Option<CliCommand>,
}

#[derive(Debug, Subcommand)]
pub(super) enum CliCommand {
    /// Chat: type while it works, steer it, and answer its questions
    Chat(ChatArgs),
    /// Run one turn: give the model a task and print its answer
    Run(Box<RunArgs>),
    /// Run the loops of plugins side by side until all are done or Ctrl-C; nobody is asked anything
    /// meanwhile
    Serve(ServeArgs),
    /// Be the agent of an editor: speak the Agent Client Protocol over standard input and output
    Acp(super::acp::AcpArgs),
    /// Run turns of sessions that many machines share over NATS, until SIGTERM
    #[cfg(feature = "nats")]
    Worker(Box<super::cluster::WorkerArgs>),
    /// Inspect the workers and queues of sessions over NATS
    #[cfg(feature = "nats")]
    Cluster {
        #[command(subcommand)]
        command: super::cluster::ClusterCommand,
    },
    /// See it work: a scripted turn on real files in a temporary folder, with the first-party
    /// plugins
    Demo(DemoArgs),
    /// Make, build, list, inspect, switch and install plugins, and take back what they were granted
    Plugin {
        #[command(subcommand)]
        command: PluginSubcommand,
    },
    /// Make, list, check, test, install, migrate and derive skills: guidance that the model reads
    /// when it needs it
    Skill {
        #[command(subcommand)]
        command: SkillCommand,
    },
    /// Add, list, inspect and remove MCP servers, whose tools the model may then call
    Mcp {
        #[command(subcommand)]
        command: McpCommand,
    },
    /// List and inspect sessions; alone, choose a session to continue
    Session {
        #[command(subcommand)]
        command: Option<SessionCommand>,
    },
    /// Show and check the settings
    Config {
        #[command(subcommand)]
        command: ConfigCommand,
    },
    /// Write a settings file with every setting as a comment
    Init(ConfigInitArgs),
    /// Let your plugins judge the tool calls of other agents, through the hooks of those agents
    Guard {
        #[command(subcommand)]
        command: GuardCommand,
    },
    /// Take over rules, MCP servers and commands that you have set up for another agent
    Import(super::import::ImportArgs),
    /// List the models that the provider offers
    Models(super::models::ModelsArgs),
    /// List the tools that the model may call, where they are from, and what the rules say of them
    Tools(super::tools::ToolsArgs),
    /// Print the JSON Schema of something that Rind writes
    Schema(SchemaArgs),
    /// Report which protections work on this machine, which are weaker and which are missing
    Doctor(super::doctor::DoctorArgs),
    /// Print the completions of commands and flags for a shell
    Completions(CompletionsArgs),
    /// Write the manual pages to a folder, for packages
    #[command(hide = true)]
    Manual(super::manual::ManualArgs),
}

#[derive(Debug, ClapArgs)]
pub(super) struct CompletionsArgs {
    /// The shell
    pub(super) shell: clap_complete::Shell,
}

#[derive(Debug, Default, ClapArgs)]
pub(super) struct ChatArgs {
    /// First prompt
    pub(super) prompt: Option<String>,
    #[command(flatten)]
    pub(super) open: SessionOpenArgs,
    /// Continue the last session of this folder
    #[arg(short = 'c', long = "continue", conflicts_with = "resume")]
    pub(super) go_on: bool,
    /// Continue a session: its id, the beginning of it, or `last`; without a value, choose one
    #[arg(
        short = 'r',
        long,
        value_name = "ID",
        num_args = 0..=1,
        default_missing_value = "",
        hide_default_value = true
    )]
    pub(super) resume: Option<String>,
    /// Read and write lines, without a screen that changes: for screen readers and simple terminals
    #[arg(long, env = "RIND_PLAIN", value_parser = clap::builder::FalseyValueParser::new(), hide_env = true)]
    pub(super) plain: bool,
    #[cfg(feature = "nats")]
    #[command(flatten)]
    pub(super) remote: super::cluster::AttachArgs,
}

#[derive(Debug, ClapArgs)]
pub(super) struct RunArgs {
    /// Task for the model; read from standard input when it is absent or `-`.
    pub(super) prompt: Option<String>,
    #[command(flatten)]
    pub(super) open: SessionOpenArgs,
    #[command(flatten)]
    pub(super) show: TurnOutputArgs,
    /// Show an image to the model; may be given several times
    #[arg(long, value_name = "FILE")]
    pub(super) image: Vec<PathBuf>,
    /// Continue a session: its id, the beginning of it, or `last`; without a prompt, its
    /// interrupted turn continues
    #[arg(long, value_name = "ID", add = completion::session_id_candidates())]
    pub(super) resume: Option<String>,
    /// Begin a session with this id, which must be new
    #[arg(long, value_name = "ID", conflicts_with = "resume")]
    pub(super) session: Option<String>,
    /// Run the prompt only once: if the session already has a prompt with this id, its outcome is
    /// given again, or its interrupted turn continues
    #[arg(long, value_name = "ID", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(super) input_id: Option<String>,
    /// Demand an answer that is JSON of the JSON Schema in this file; exit code 1 when the model does
    /// not give one
    #[arg(long, value_name = "FILE")]
    pub(super) output_schema: Option<PathBuf>,
    /// Stop before the turn costs more than this, in US dollars; exit code 3
    #[arg(long, value_name = "USD", value_parser = parse_cost_usd)]
    pub(super) max_cost: Option<f64>,
    /// Stop after this number of requests to the model; exit code 4
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(super) max_steps: Option<u32>,
    /// Steer the turn with lines of JSON from this file or named pipe; `-` is standard input
    #[arg(long, value_name = "FILE")]
    pub(super) steer_from: Option<PathBuf>,
    #[cfg(feature = "nats")]
    #[command(flatten)]
    pub(super) remote: super::cluster::RemoteArgs,
}

/// Reads an amount of US dollars.
fn parse_cost_usd(text: &str) -> Result<f64, String> {
    let usd: f64 = text
        .trim_start_matches('$')
        .parse()
        .map_err(|_| format!("`{text}` is not an amount of US dollars, such as 0.50"))?;
    match usd.is_finite() && usd > 0.0 {
        true => Ok(usd),
        false => Err("the amount must be more than 0".to_owned()),
    }
}

/// Questions are answered as where there is no terminal: grant permissions with `--grant` or
/// before, and allow tool calls with rules in [tools] or `--yes`.
#[derive(Debug, ClapArgs)]
pub(super) struct ServeArgs {
    #[command(flatten)]
    pub(super) open: SessionOpenArgs,
    /// Print every event as a line of JSON on standard output; `session` tells the loops apart
    #[arg(long)]
    pub(super) json: bool,
    /// Serve the HTTP API and its pages at this address of loopback, or at `unix:PATH`; port 0 takes
    /// any that is free
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = "127.0.0.1:7463")]
    pub(super) listen: Option<ListenAddress>,
    /// Another folder that sessions of the API may work in, with the settings and the trust of that
    /// folder; may be repeated
    #[arg(long, value_name = "DIR", requires = "listen")]
    pub(super) also_workspace: Vec<PathBuf>,
    #[cfg(feature = "nats")]
    #[command(flatten)]
    pub(super) shared: super::cluster::ServerSessionStoreArgs,
}

/// Arguments of commands that open a session.
#[derive(Debug, Default, ClapArgs)]
pub(super) struct SessionOpenArgs {
    #[command(flatten)]
    pub(super) model: ModelArgs,
    #[command(flatten)]
    pub(super) plugins: PluginArgs,
    /// Say yes to every tool call that would be asked about; what is denied stays denied
    #[arg(long)]
    pub(super) yes: bool,
    /// Mode of approval: ask, accept-edits, plan (only reading runs, and the answer is a plan) or full
    /// (the same as --yes); Shift-Tab switches it in the chat
    #[arg(
        long,
        value_name = "MODE",
        conflicts_with = "yes",
        hide_possible_values = true,
        value_parser = PossibleValuesParser::new(ApprovalMode::ALL.map(ApprovalMode::name))
            .try_map(|name| name.parse::<ApprovalMode>())
    )]
    pub(super) mode: Option<ApprovalMode>,
    /// Only describe what tool calls would do, except those that just read
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Append every event as a line of JSON to this file
    #[arg(long, value_name = "FILE")]
    pub(super) events: Option<PathBuf>,
    /// Folder to work in, instead of the current one
    #[arg(long, value_name = "DIR")]
    pub(super) workspace: Option<PathBuf>,
}

impl SessionOpenArgs {
    /// Combines the arguments and the environment into the settings of a run.
    pub(super) fn to_run_settings(
        &self,
        session: SessionChoice,
        has_terminal: bool,
    ) -> anyhow::Result<ProgramRunSettings> {
        Ok(ProgramRunSettings {
            environment: environment::process_environment(),
            paths: environment::find_rind_paths(self.workspace.as_deref())?,
            model: self.model.to_model_selection(),
            plugins: self.plugins.to_plugin_selection(),
            session,
            mode: ToolPolicyOptions {
                yes: self.yes,
                dry_run: self.dry_run,
                has_terminal,
            },
            approval: self.mode.unwrap_or_default(),
        })
    }
}

#[derive(Debug, Default, ClapArgs)]
pub(super) struct ModelArgs {
    /// anthropic, openai, ollama, openrouter, another provider or scripted
    #[arg(long, value_name = "NAME", add = completion::provider_name_candidates())]
    pub(super) provider: Option<String>,
    /// Name of the model, or PROVIDER/NAME
    #[arg(long, value_name = "NAME", add = completion::model_name_candidates())]
    pub(super) model: Option<String>,
    /// Script of the scripted provider, TOML or JSON
    #[arg(long, value_name = "FILE")]
    pub(super) script: Option<PathBuf>,
    /// One setting, as in `--set agent.max_steps=10`
    #[arg(long, value_name = "KEY=VALUE")]
    pub(super) set: Vec<String>,
}

impl ModelArgs {
    /// Returns the provider, model and settings that the arguments select.
    pub(super) fn to_model_selection(&self) -> ModelSelection {
        ModelSelection {
            provider: self.provider.clone(),
            model: self.model.clone(),
            script: self.script.clone(),
            set: self.set.clone(),
        }
    }
}

#[derive(Debug, Default, ClapArgs)]
pub(super) struct PluginArgs {
    /// Load the plugin, or the plugins, in this folder as well.
    #[arg(long, value_name = "PATH")]
    pub(super) plugin: Vec<PathBuf>,
    /// Load no plugins but those of `--plugin`, and audit-log, which only the administrator can
    /// switch off
    #[arg(long)]
    pub(super) no_plugins: bool,
    /// Leave this plugin out, also where nothing would run without it
    #[arg(long, value_name = "NAME", add = completion::plugin_name_candidates())]
    pub(super) without: Vec<String>,
    /// Trust the project's `.rind`, settings and plugins, for this run.
    #[arg(long)]
    pub(super) trust_project: bool,
    /// Grant a plugin all that it asks for, in this run; `PLUGIN=CAPABILITY,…` grants only that
    #[arg(long, value_name = "PLUGIN", add = completion::plugin_name_candidates())]
    pub(super) grant: Vec<GrantFlagValue>,
}

impl PluginArgs {
    /// Returns which plugins the arguments add, leave out and grant.
    pub(super) fn to_plugin_selection(&self) -> PluginSelection {
        PluginSelection {
            local: self.plugin.clone(),
            components: Vec::new(),
            is_local_only: self.no_plugins,
            without: self.without.clone(),
            unsuited: Vec::new(),
            trust_project: self.trust_project,
            grants: self.grant.clone(),
            set: None,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, ClapArgs)]
pub(super) struct TurnOutputArgs {
    /// Print every event as a line of JSON on standard output
    #[arg(long)]
    pub(super) json: bool,
    /// Whether standard output omits the model's answer, because it is for another result.
    #[arg(skip)]
    pub(super) hides_answer: bool,
    /// Show the turn as a tree with every hook, what it did, and how long it took; `--trace=full`
    /// folds and cuts nothing
    #[arg(
        long,
        value_name = "HOW",
        value_enum,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "short",
        hide_possible_values = true
    )]
    pub(super) trace: Option<TraceDetail>,
}

#[derive(Debug, ClapArgs)]
pub(super) struct DemoArgs {
    /// A longer turn in which all ten core plugins act, and then who did what
    #[arg(long)]
    pub(super) all: bool,
    /// Print every event as a line of JSON on standard output
    #[arg(long)]
    pub(super) json: bool,
    /// Keep the temporary folder, and say where it is
    #[arg(long)]
    pub(super) keep: bool,
}

#[derive(Debug, ClapArgs)]
pub(super) struct SchemaArgs {
    /// Subject of the schema.
    pub(super) of: SchemaName,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum SchemaName {
    /// A file of cases of a plugin, `tests/NAME.toml`
    Cases,
    /// Output of `rind plugin check --json`
    CheckReport,
    /// One line of `rind run --json`
    Events,
    /// Calls and outcomes of scripts at each point
    Hooks,
    /// `plugin.toml`, the manifest of a plugin
    Manifest,
    /// Output of `rind plugin list --json`
    PluginList,
    /// One line of the file of a session
    Session,
    /// The front matter of `SKILL.md`
    Skill,
    /// Report of `rind plugin test`, `--report json=FILE`
    TestReport,
}

#[derive(Debug, Subcommand)]
pub(super) enum ConfigCommand {
    /// Show the value of every setting, and which file and line or flag set it
    Show(ConfigShowArgs),
}

#[derive(Debug, ClapArgs)]
pub(super) struct ConfigShowArgs {
    #[command(flatten)]
    pub(super) model: ModelArgs,
    /// Trust the project's `.rind` for this command
    #[arg(long)]
    pub(super) trust_project: bool,
    /// Folder of the project, instead of the current one
    #[arg(long, value_name = "DIR")]
    pub(super) workspace: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(super) struct ConfigInitArgs {
    /// Write your own settings, instead of those of the project in this folder
    #[arg(long)]
    pub(super) user: bool,
}

#[derive(Debug, ClapArgs)]
pub(super) struct JsonOutputArgs {
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Subcommand)]
pub(super) enum SessionCommand {
    /// List the sessions of this folder, the last used first
    List(SessionListArgs),
    /// Show what happened in a session, turn by turn: what was said, calls, what hooks decided, subagents
    Show(SessionShowArgs),
    /// Print the entries of a session as JSON lines, each with its number
    Entries(SessionEntriesArgs),
    /// Show which files a turn changed, with the changed lines
    Diff(SessionDiffArgs),
    /// Find a text in all sessions, subagents and archived turns
    Search(SessionSearchArgs),
    /// Write a session as Markdown, as a page of HTML, as a trajectory, or byte for byte
    Export(SessionExportArgs),
    /// Read a session that was exported as JSONL back, byte for byte
    Import(SessionImportArgs),
    /// Copy a session, to continue the copy
    Fork(SessionForkArgs),
    /// Give a session a title
    Rename(SessionRenameArgs),
    /// Remove sessions, with their images, subagents and archived turns
    Rm(SessionRmArgs),
    /// List sessions that are old or use too much space, and remove them with --yes
    Gc(SessionGcArgs),
    /// Find damage of sessions, say how large they are and what a resume would cut, and repair
    Doctor(SessionDoctorArgs),
    /// Show who added what to each turn's system prompt, what changed, and the cost in cache misses
    Prompt(SessionPromptArgs),
    /// Show what the plugin audit-log wrote of a session, and check that it was not modified
    Audit(AuditArgs),
}

#[derive(Debug, ClapArgs)]
pub(super) struct SessionPromptArgs {
    /// Id of the session, the beginning of it, or `last`; `ID/agents/AGENT` is a subagent or holder
    #[arg(default_value = "last", value_name = "ID", add = completion::session_id_candidates())]
    pub(super) session: String,
    /// Print the text of the last prompt, as it was sent to the model
    #[arg(long)]
    pub(super) text: bool,
    /// Print the text of the prompt of this turn
    #[arg(long, value_name = "N", requires = "text")]
    pub(super) turn: Option<u32>,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(super) struct AuditArgs {
    /// The session: its id, the beginning of it, or `last`; `ID/agents/AGENT` shows what a subagent
    /// did
    #[arg(default_value = "last", value_name = "ID", add = completion::session_id_candidates())]
    pub(super) session: String,
    /// Check the log, and exit with 1 when it is broken
    #[arg(long)]
    pub(super) verify: bool,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}
