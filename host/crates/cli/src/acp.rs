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
use super::command::{
    self, OpenSessionHandles, PostCommandSessionAction, SlashCommandRunOutcome, SlashCommandSet,
    split_command,
};
use super::exit_code::{self, ExitStatus};
use super::signals::ShutdownSignals;
use super::{environment, mcp, open, render};
use rind_acp::backend::{
    AcpSessionOpener, AcpSlashCommandOutcome, ClientMcpServer, ClientMcpServerTransport,
    OfferedSlashCommand, OpenSessionRequest, OpenedSessionWithCommands, SessionCommandRunner,
    SessionOpenError, YesNoQuestionAsker,
};
use rind_lib::Session;
use rind_lib::lock::lock_ignoring_poison;
use rind_lib::provider::{self, SelectedProviderAndModel};
use rind_lib::session::{self, SessionStore};
use rind_lib::tool::policy::{ApprovalMode, ToolPolicyOptions};
use rind_mcp::{
    McpServerApprovalQuestion, McpServerConnectionSpec, ServerApprovalAsker, ServerSettings,
    to_valid_server_name,
};
use rind_operator::environment::{OperatorEnvironment, WarningsAlreadyShown};
use rind_operator::mcp::{NamedMcpServerSettings, TOOLS_NOT_APPROVED_REASON};
use rind_operator::model;
use rind_operator::settings::{ModelSelection, PluginSelection, ProgramRunSettings, SessionChoice};
use rind_operator::setup::OperatorWorkspaceSetup;
use rind_operator::start::{OperatorHostBuilder, RunFrontend};

/// The editor starts this command, names the folder of each session, and asks the user about tool
/// calls. Nobody is asked for permissions of plugins: grant them with `--grant` or in a terminal
/// before.
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
    let interrupted =
        ShutdownSignals::listen_for_interrupts().context("cannot listen for signals")?;
    tokio::spawn(interrupted.cancel_then_exit_on_second_signal(cancel.clone()));
    let backend = OperatorAcpSessionOpener {
        model: args.model.to_model_selection(),
        plugins: args.plugins.to_plugin_selection(),
        mode: args.mode.unwrap_or_default(),
        is_dry_run: args.dry_run,
    };
    let served = rind_acp::serve_client(
        Arc::new(backend),
        std::io::stdin(),
        std::io::stdout(),
        &cancel,
    );
    served.await.context("cannot serve the client")?;
    Ok(match cancel.is_cancelled() {
        true => ExitStatus::Interrupted,
        false => ExitStatus::Done,
    })
}

/// Opens sessions for an editor, with the operator's settings and flags.
struct OperatorAcpSessionOpener {
    model: ModelSelection,
    plugins: PluginSelection,
    mode: ApprovalMode,
    is_dry_run: bool,
}

impl AcpSessionOpener for OperatorAcpSessionOpener {
    fn session_store(&self) -> Result<SessionStore, String> {
        let paths = environment::find_rind_paths(None).map_err(|error| format!("{error:#}"))?;
        Ok(SessionStore::new(paths.sessions()))
    }

    fn open<'a>(
        &'a self,
        order: OpenSessionRequest,
    ) -> BoxFuture<'a, Result<OpenedSessionWithCommands, SessionOpenError>> {
        Box::pin(async move {
            self.open_session(order)
                .await
                .map_err(|e| to_session_open_error(&e))
        })
    }
}

impl OperatorAcpSessionOpener {
    async fn open_session(
        &self,
        order: OpenSessionRequest,
    ) -> anyhow::Result<OpenedSessionWithCommands> {
        let notes: Arc<Mutex<Vec<String>>> = Arc::default();
        let environment = Arc::new(operator_env_collecting_warnings(notes.clone()));
        let settings = ProgramRunSettings {
            paths: environment.paths_for_workspace(&order.workspace)?,
            environment,
            model: self.model.clone(),
            plugins: self.plugins.clone(),
            session: SessionChoice::resume_or_new(order.resume.as_deref()),
            mode: ToolPolicyOptions {
                yes: false,
                dry_run: self.is_dry_run,
                has_terminal: true,
            },
            approval: order.mode.unwrap_or(self.mode),
        };
        let is_deferred = order.confirm.is_postponing_until_prompt();
        let frontend = AcpSessionStartFrontend {
            servers: order.servers,
            ask: EditorMcpServerApprovalAsker(order.confirm),
        };
        let run = OperatorHostBuilder::from_run_settings(settings, &frontend).await?;
        let facts = open::built_in_command_context(&run)?;
        let program = std::env::current_exe().context("cannot find the path of this program")?;
        let commands = SlashCommandSet::new(facts, run.setup.project.as_deref(), program).await;
        lock_ignoring_poison(&notes).extend(commands.broken_template_warning_lines());
        let ready = run.create_host(order.approver).await?;
        let session = ready.session()?;
        commands.set_open_session(OpenSessionHandles::from_session(&session));
        let mut notes = std::mem::take(&mut *lock_ignoring_poison(&notes));
        // If questions are postponed, drop the notice that a server was not approved, because the
        // person is asked about it with the first prompt.
        notes.retain(|note| !is_deferred || !note.ends_with(TOOLS_NOT_APPROVED_REASON));
        Ok(OpenedSessionWithCommands {
            session,
            switch: ready.switch,
            commands: Arc::new(AcpSlashCommands {
                commands,
                setup: ready.setup,
            }),
            notes,
        })
    }
}

/// Returns the operator's environment for a session. Warnings are printed to standard error, and
/// added to `notes` for the editor.
fn operator_env_collecting_warnings(notes: Arc<Mutex<Vec<String>>>) -> OperatorEnvironment {
    let warn = move |text: &str| {
        render::print_warning(text);
        lock_ignoring_poison(&notes).push(text.to_owned());
    };
    OperatorEnvironment {
        on_warning: Arc::new(warn),
        said: WarningsAlreadyShown::default(),
        ..OperatorEnvironment::clone(&environment::process_environment())
    }
}

fn to_session_open_error(error: &anyhow::Error) -> SessionOpenError {
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
        SessionOpenError::NoModel(text)
    } else if is_unknown {
        SessionOpenError::Unknown(text)
    } else if exit_code::exit_status_for_error(error) == ExitStatus::Usage {
        SessionOpenError::Wrong(text)
    } else {
        SessionOpenError::Failed(text)
    }
}

/// Asks the person through the editor while a session starts. Never asks whether to trust a project
/// or to grant permissions to plugins, because those questions are made for a terminal.
struct AcpSessionStartFrontend {
    servers: Vec<ClientMcpServer>,
    ask: EditorMcpServerApprovalAsker,
}

impl RunFrontend for AcpSessionStartFrontend {
    fn mcp_approval_asker(&self) -> Option<&dyn ServerApprovalAsker> {
        Some(&self.ask)
    }

    fn additional_mcp_servers(&self) -> Vec<NamedMcpServerSettings> {
        self.servers.iter().map(to_mcp_server_settings).collect()
    }

    fn show_plugins(&self, plugins: &rind_lib::plugin::load::FoundPluginSet) {
        render::plugins::warn_about_plugins_not_loaded(plugins);
    }

    fn show_skills(&self, skills: &rind_lib::skill::SessionSkills) {
        render::skills::warn_about_omitted_skills(skills);
    }

    fn reserved_skill_names(&self) -> Vec<&'static str> {
        command::reserved_skill_names()
    }
}

fn to_mcp_server_settings(server: &ClientMcpServer) -> NamedMcpServerSettings {
    let mut settings = ServerSettings::default();
    let mut variables = Vec::new();
    match &server.reach {
        ClientMcpServerTransport::Program { command, args, env } => {
            settings.command = Some(command.clone());
            settings.args.clone_from(args);
            variables.clone_from(env);
        }
        ClientMcpServerTransport::Http { url, headers } => {
            settings.url = Some(url.clone());
            settings.headers = headers.iter().cloned().collect();
        }
    }
    NamedMcpServerSettings {
        name: to_valid_server_name(&server.name),
        settings,
        env: variables,
        ..NamedMcpServerSettings::default()
    }
}

/// Asks about MCP servers with a form of the editor.
struct EditorMcpServerApprovalAsker(Arc<dyn YesNoQuestionAsker>);

impl ServerApprovalAsker for EditorMcpServerApprovalAsker {
    fn ask_before_starting<'a>(
        &'a self,
        server: &'a McpServerConnectionSpec,
        place: &'a str,
    ) -> BoxFuture<'a, bool> {
        self.0.confirm(mcp::server_start_question(server, place))
    }

    fn ask<'a>(&'a self, question: McpServerApprovalQuestion<'a>) -> BoxFuture<'a, bool> {
        self.0.confirm(mcp::server_tools_question(&question))
    }
}

/// Slash commands of a session that an editor can call.
struct AcpSlashCommands {
    commands: SlashCommandSet,
    setup: OperatorWorkspaceSetup,
}

impl SessionCommandRunner for AcpSlashCommands {
    fn list_commands(&self) -> Vec<OfferedSlashCommand> {
        let offers = self.commands.list_commands_without_terminal().into_iter();
        let offers = offers.map(|own| OfferedSlashCommand {
            name: own.name,
            description: own.description,
            arguments: own.arguments,
        });
        offers.collect()
    }

    fn is_command(&self, line: &str) -> bool {
        split_command(line).is_some()
    }

    fn run_line<'a>(
        &'a self,
        line: &'a str,
        session: &'a mut Session,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<AcpSlashCommandOutcome, String>> {
        Box::pin(async move {
            let call = self.commands.parse_call(line)?;
            let ran = self
                .commands
                .run_command_call(&call, Some(session), cancel)
                .await;
            ran.map(to_acp_command_outcome)
                .map_err(|error| format!("{error:#}"))
        })
    }

    fn select_model(
        &self,
        name: &str,
        is_listed: bool,
    ) -> Result<SelectedProviderAndModel, String> {
        // Use the current provider for a listed name, even if the name contains a slash, because
        // this provider listed it.
        let provider = self.commands.model_of_open_session().filter(|_| is_listed);
        let wanted = ModelSelection {
            provider: provider.map(|(provider, _)| provider.name().to_owned()),
            model: Some(name.to_owned()),
            ..ModelSelection::default()
        };
        let selected = model::select_model_in_session(&self.setup, &wanted);
        let selected = selected.map_err(|error| format!("{error:#}"))?;
        self.commands.set_open_session_model(&selected);
        Ok(selected)
    }

    fn free_session_resources(&self) {
        self.commands.drop_open_session_reference();
    }
}

fn to_acp_command_outcome(result: SlashCommandRunOutcome) -> AcpSlashCommandOutcome {
    let text = |words: &str| AcpSlashCommandOutcome::Text(words.to_owned());
    match result {
        SlashCommandRunOutcome::Text(text) => AcpSlashCommandOutcome::Text(text),
        SlashCommandRunOutcome::Prompt {
            text,
            command,
            images,
        } => AcpSlashCommandOutcome::Prompt {
            text,
            command,
            images,
        },
        SlashCommandRunOutcome::Nothing => AcpSlashCommandOutcome::Nothing,
        SlashCommandRunOutcome::Action(action) => match action {
            PostCommandSessionAction::Continue => AcpSlashCommandOutcome::Continue,
            PostCommandSessionAction::Model(name) => AcpSlashCommandOutcome::Model(name),
            PostCommandSessionAction::Copy(answer) => AcpSlashCommandOutcome::Text(answer),
            PostCommandSessionAction::Quit => text("close the session in your editor"),
            PostCommandSessionAction::New => text("begin a new session in your editor"),
            PostCommandSessionAction::Reload => text(
                "load the session again in your editor, which reloads settings, plugins and skills",
            ),
            PostCommandSessionAction::Resume { id, text } => AcpSlashCommandOutcome::Text(format!(
                "{text}; your editor loads it as session {id}, and a terminal with: rind chat --resume {id}"
            )),
        },
    }
}
