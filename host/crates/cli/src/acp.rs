//! `rind acp`: serves sessions to an editor that speaks the Agent Client Protocol.
//!
//! Each session is a separate run in the folder that the editor names, with the settings, trust,
//! plugins, model and policy that `rind` has in that folder. Only messages of the protocol go to
//! standard output.

use std::io::IsTerminal;
use std::sync::{Arc, Mutex};

use anyhow::Context;
use clap::Args as ClapArgs;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use super::args::{ModelArgs, PluginArgs};
use super::command::{self, CommandCallResult, CommandSet, OpenFacts, OwnerAction, split_command};
use super::exit_code::{self, ExitStatus};
use super::signals::AnySignal;
use super::{environment, mcp, open, render};
use rind_acp::backend::{
    AcpBackend, BackendSession, ClientServer, ClientServerReach, CommandOutcome, ConfirmPerson,
    OfferedCommand, OpenError, OpenOrder, SessionCommands,
};
use rind_lib::Session;
use rind_lib::lock::lock;
use rind_lib::provider::{self, Selected};
use rind_lib::session::{self, SessionStore};
use rind_lib::tool::policy::{ApprovalMode, PolicyMode};
use rind_mcp::{AskServer, McpServer, ServerQuestion, ServerSettings, fit_server_name};
use rind_operator::environment::{OperatorEnvironment, ShownWarnings};
use rind_operator::mcp::{NO_YES, NamedServer};
use rind_operator::model;
use rind_operator::settings::{ModelSelection, PluginSelection, RunSettings, SessionChoice};
use rind_operator::setup::OperatorSetup;
use rind_operator::start::{PreparedRun, RunFrontend};

/// The editor starts it, names the folder of each session, and asks the questions about tool calls.
/// Permissions of plugins are not asked for: grant them with `--grant` or in a terminal before.
#[derive(Debug, ClapArgs)]
pub(super) struct AcpArgs {
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    plugins: PluginArgs,
    /// Mode of approval that sessions begin in: ask, accept-edits, plan or full; the editor switches
    /// it
    #[arg(
        long,
        value_name = "MODE",
        hide_possible_values = true,
        value_parser = PossibleValuesParser::new(ApprovalMode::ALL.map(ApprovalMode::name))
            .try_map(|name| name.parse::<ApprovalMode>())
    )]
    mode: Option<ApprovalMode>,
    /// Only describe what tool calls would do, except those that just read
    #[arg(long)]
    dry_run: bool,
}

pub(super) async fn run_acp(args: AcpArgs) -> anyhow::Result<ExitStatus> {
    if std::io::stdin().is_terminal() {
        render::print_note(
            "rind acp is started by an editor and talks to it; host/docs/acp.md shows the editor's settings. Ctrl-C ends it",
        );
    }
    let cancel = CancellationToken::new();
    let interrupted = AnySignal::interrupts().context("listen for signals")?;
    tokio::spawn(interrupted.pass_on(cancel.clone()));
    let backend = OperatorBackend {
        model: args.model.selection(),
        plugins: args.plugins.selection(),
        mode: args.mode.unwrap_or_default(),
        is_dry_run: args.dry_run,
    };
    let served = rind_acp::serve_client(
        Arc::new(backend),
        std::io::stdin(),
        std::io::stdout(),
        &cancel,
    );
    served.await.context("serve the client")?;
    Ok(match cancel.is_cancelled() {
        true => ExitStatus::Interrupted,
        false => ExitStatus::Done,
    })
}

/// Opens the sessions of an editor as the operator's settings and flags say.
struct OperatorBackend {
    model: ModelSelection,
    plugins: PluginSelection,
    mode: ApprovalMode,
    is_dry_run: bool,
}

impl AcpBackend for OperatorBackend {
    fn store(&self) -> Result<SessionStore, String> {
        let paths = environment::find_paths(None).map_err(|error| format!("{error:#}"))?;
        Ok(SessionStore::new(paths.sessions()))
    }

    fn open<'a>(&'a self, order: OpenOrder) -> BoxFuture<'a, Result<BackendSession, OpenError>> {
        Box::pin(async move { self.open_session(order).await.map_err(|e| open_error(&e)) })
    }
}

impl OperatorBackend {
    async fn open_session(&self, order: OpenOrder) -> anyhow::Result<BackendSession> {
        let notes: Arc<Mutex<Vec<String>>> = Arc::default();
        let environment = Arc::new(session_environment(notes.clone()));
        let settings = RunSettings {
            paths: environment.paths(&order.workspace)?,
            environment,
            model: self.model.clone(),
            plugins: self.plugins.clone(),
            session: SessionChoice::resume(order.resume.as_deref()),
            mode: PolicyMode {
                yes: false,
                dry_run: self.is_dry_run,
                has_terminal: true,
            },
            approval: order.mode.unwrap_or(self.mode),
        };
        let is_deferred = order.confirm.is_deferred();
        let frontend = AcpFrontend {
            servers: order.servers,
            ask: AcpServerAsk(order.confirm),
        };
        let run = PreparedRun::new(settings, &frontend).await?;
        let facts = open::command_facts(&run)?;
        let program = std::env::current_exe().context("cannot find the path of this program")?;
        let commands = CommandSet::new(facts, run.setup.project.as_deref(), program).await;
        lock(&notes).extend(commands.faults());
        let ready = run.host(order.approver).await?;
        let session = ready.session()?;
        commands.note_open(OpenFacts::of(&session));
        let mut notes = std::mem::take(&mut *lock(&notes));
        // If questions are deferred, drop the note that a server was not approved: its question is
        // asked with the first prompt.
        notes.retain(|note| !is_deferred || !note.ends_with(NO_YES));
        Ok(BackendSession {
            session,
            switch: ready.switch,
            commands: Arc::new(AcpCommands {
                commands,
                setup: ready.setup,
            }),
            notes,
        })
    }
}

/// Returns the environment of a session. Its warnings go to standard error, and into `notes` for
/// the editor.
fn session_environment(notes: Arc<Mutex<Vec<String>>>) -> OperatorEnvironment {
    let warn = move |text: &str| {
        render::print_warning(text);
        lock(&notes).push(text.to_owned());
    };
    OperatorEnvironment {
        on_warning: Arc::new(warn),
        said: ShownWarnings::default(),
        ..OperatorEnvironment::clone(&environment::operator_environment())
    }
}

fn open_error(error: &anyhow::Error) -> OpenError {
    let text = format!("{error:#}");
    let lacks_model = error.chain().any(|cause| cause.is::<provider::Error>());
    let is_unknown = error.chain().any(|cause| {
        let of_host = cause.downcast_ref::<rind_lib::host::Error>();
        let own = match of_host {
            Some(rind_lib::host::Error::Session(own)) => Some(own),
            _ => cause.downcast_ref::<session::Error>(),
        };
        matches!(own, Some(session::Error::Unknown { .. }))
    });
    if lacks_model || text.starts_with("no model is set up") {
        OpenError::NoModel(text)
    } else if is_unknown {
        OpenError::Unknown(text)
    } else if exit_code::of_error(error) == ExitStatus::Usage {
        OpenError::Wrong(text)
    } else {
        OpenError::Failed(text)
    }
}

/// Asks the editor while a session starts. Never asks whether to trust a project or grant
/// permissions to plugins, because those questions are made for a terminal.
struct AcpFrontend {
    servers: Vec<ClientServer>,
    ask: AcpServerAsk,
}

impl RunFrontend for AcpFrontend {
    fn ask_server(&self) -> Option<&dyn AskServer> {
        Some(&self.ask)
    }

    fn named_servers(&self) -> Vec<NamedServer> {
        self.servers.iter().map(named_server).collect()
    }

    fn show_plugins(&self, plugins: &rind_lib::plugin::load::PluginSet) {
        render::plugins::warn_left_out(plugins);
    }

    fn show_skills(&self, skills: &rind_lib::skill::Skills) {
        render::skills::warn_left_out(skills);
    }

    fn reserved_names(&self) -> Vec<&'static str> {
        command::reserved_names()
    }
}

fn named_server(server: &ClientServer) -> NamedServer {
    let mut settings = ServerSettings::default();
    let mut variables = Vec::new();
    match &server.reach {
        ClientServerReach::Program { command, args, env } => {
            settings.command = Some(command.clone());
            settings.args.clone_from(args);
            variables.clone_from(env);
        }
        ClientServerReach::Http { url, headers } => {
            settings.url = Some(url.clone());
            settings.headers = headers.iter().cloned().collect();
        }
    }
    NamedServer {
        name: fit_server_name(&server.name),
        settings,
        env: variables,
        ..NamedServer::default()
    }
}

/// Asks about MCP servers with a form of the editor.
struct AcpServerAsk(Arc<dyn ConfirmPerson>);

impl AskServer for AcpServerAsk {
    fn ask_start<'a>(&'a self, server: &'a McpServer, place: &'a str) -> BoxFuture<'a, bool> {
        self.0.confirm(mcp::start_text(server, place))
    }

    fn ask<'a>(&'a self, question: ServerQuestion<'a>) -> BoxFuture<'a, bool> {
        self.0.confirm(mcp::question_text(&question))
    }
}

/// Slash commands of a session, for an editor.
struct AcpCommands {
    commands: CommandSet,
    setup: OperatorSetup,
}

impl SessionCommands for AcpCommands {
    fn offered(&self) -> Vec<OfferedCommand> {
        let offers = self.commands.offered_commands().into_iter();
        let offers = offers.map(|own| OfferedCommand {
            name: own.name,
            description: own.description,
            arguments: own.arguments,
        });
        offers.collect()
    }

    fn is_command(&self, line: &str) -> bool {
        split_command(line).is_some()
    }

    fn run<'a>(
        &'a self,
        line: &'a str,
        session: &'a mut Session,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<CommandOutcome, String>> {
        Box::pin(async move {
            let call = self.commands.parse_call(line)?;
            let ran = self.commands.run_call(&call, Some(session), cancel).await;
            ran.map(command_outcome)
                .map_err(|error| format!("{error:#}"))
        })
    }

    fn select_model(&self, name: &str, is_listed: bool) -> Result<Selected, String> {
        // A listed name belongs to the provider that listed it, even if the name contains a slash.
        let provider = self.commands.open_model().filter(|_| is_listed);
        let wanted = ModelSelection {
            provider: provider.map(|(provider, _)| provider.name().to_owned()),
            model: Some(name.to_owned()),
            ..ModelSelection::default()
        };
        let selected = model::select_in_session(&self.setup, &wanted);
        let selected = selected.map_err(|error| format!("{error:#}"))?;
        self.commands.note_model(&selected);
        Ok(selected)
    }

    fn release_session(&self) {
        self.commands.forget_open();
    }
}

fn command_outcome(result: CommandCallResult) -> CommandOutcome {
    let text = |words: &str| CommandOutcome::Text(words.to_owned());
    match result {
        CommandCallResult::Text(text) => CommandOutcome::Text(text),
        CommandCallResult::Prompt {
            text,
            command,
            images,
        } => CommandOutcome::Prompt {
            text,
            command,
            images,
        },
        CommandCallResult::Nothing => CommandOutcome::Nothing,
        CommandCallResult::Action(action) => match action {
            OwnerAction::Continue => CommandOutcome::Continue,
            OwnerAction::Model(name) => CommandOutcome::Model(name),
            OwnerAction::Copy(answer) => CommandOutcome::Text(answer),
            OwnerAction::Quit => text("close the session in your editor"),
            OwnerAction::New => text("begin a new session in your editor"),
            OwnerAction::Reload => text(
                "load the session again in your editor, which reloads settings, plugins and skills",
            ),
            OwnerAction::Resume { id, text } => CommandOutcome::Text(format!(
                "{text}; your editor loads it as session {id}, and a terminal with: rind chat --resume {id}"
            )),
        },
    }
}
