//! Opens a session for one turn (`run`) or many (`chat`), or builds the host for several sessions
//! (`serve`). Questions go to the person at the terminal.

use std::sync::Arc;

use anyhow::Context;
use futures_util::future::BoxFuture;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

use super::approve::{TerminalApprover, TerminalQuestion};
use super::command::{BuiltInCommandContext, CommandSet};
use super::grants::TerminalGrantAsker;
use super::mcp::TerminalServerAsker;
use super::permission::TerminalTrustAsker;
use super::terminal::SignalExitGuard;
use super::{command, first_use, looks, render};
use rind_lib::grant::ask::Ask;
use rind_lib::host::Session;
use rind_lib::plugin::load::{CompileCallback, PluginSet};
use rind_lib::provider::SelectedModel;
use rind_lib::session::SessionStore;
use rind_lib::skill::Skills;
use rind_lib::tool::approval::{Approver, DenyAll};
use rind_lib::tool::builtin::CommandEnvironment as ShellCommands;
use rind_lib::tool::policy::{ModeSwitch, ToolPolicy};
use rind_mcp::AskServerApproval;
use rind_operator::load::PreparedPluginLoad;
use rind_operator::project::AskProjectTrust;
use rind_operator::settings::RunSettings;
use rind_operator::setup::OperatorSetup;
use rind_operator::start::{RunBeforeHost, RunFrontend, RunWithHost};

/// Front end of a run from a terminal or a script. Asks a person at a terminal about trust, grants
/// and, at the first use, a model; otherwise asks nothing.
struct TerminalFrontend {
    /// Whether a user at a terminal can answer questions.
    has_terminal: bool,
}

impl RunFrontend for TerminalFrontend {
    fn ask_project(&self) -> Option<&dyn AskProjectTrust> {
        self.has_terminal.then_some(&TerminalTrustAsker)
    }

    fn ask_plugin(&self) -> Option<Arc<dyn Ask>> {
        self.has_terminal
            .then(|| Arc::new(TerminalGrantAsker) as Arc<dyn Ask>)
    }

    fn server_approval_asker(&self) -> Option<&dyn AskServerApproval> {
        self.has_terminal.then_some(&TerminalServerAsker)
    }

    fn choose_model<'a>(
        &'a self,
        setup: &'a OperatorSetup,
    ) -> BoxFuture<'a, anyhow::Result<Option<SelectedModel>>> {
        Box::pin(async move {
            match self.has_terminal {
                true => first_use::choose_model(setup).await,
                false => Ok(None),
            }
        })
    }

    fn on_compile(&self) -> Option<CompileCallback> {
        // Show progress: the first compilation takes long.
        self.has_terminal.then(render::plugins::on_compile)
    }

    fn show_plugins(&self, plugins: &PluginSet) {
        render::plugins::warn_left_out(plugins);
    }

    fn show_skills(&self, skills: &Skills) {
        render::skills::warn_left_out(skills);
    }

    fn reserved_names(&self) -> Vec<&'static str> {
        command::reserved_names()
    }
}

/// A prepared run whose session is not open yet.
pub(super) struct PreparedSession {
    run: RunBeforeHost,
    exits: SignalExitGuard,
}

/// A host with the channels for questions to the person.
pub(super) struct ReadyHost {
    pub(super) run: RunWithHost,
    questions: UnboundedReceiver<TerminalQuestion>,
    asker: Asker,
    /// Exits the program at signals. Dropped once another listener handles signals.
    pub(super) exits: SignalExitGuard,
}

/// An open session with the channels for questions to the person.
pub(super) struct OpenedSession {
    pub(super) session: Session,
    /// Receiver of the questions to the person, such as approval questions about tool calls and
    /// questions of plugins; receives none if no person answers.
    pub(super) questions: UnboundedReceiver<TerminalQuestion>,
    pub(super) setup: OperatorSetup,
    /// Sender of further questions to the person, such as those of built-in commands; `None` if no
    /// person answers.
    pub(super) asker: Asker,
    /// Runs shell commands, confined as the settings require.
    pub(super) commands: ShellCommands,
    /// Describes the model and why it was chosen.
    pub(super) chosen: String,
    /// The current approval mode.
    pub(super) switch: ModeSwitch,
    /// Whether calls that do more than read are only described and not run.
    pub(super) is_dry_run: bool,
    /// Guard under which a signal ends the program at once. Dropped when another listener handles
    /// signals.
    pub(super) exits: SignalExitGuard,
}

/// Builds another host while the program runs, for example for another folder. Asks no questions
/// and installs no signal handlers.
pub(super) async fn build_another_host(
    settings: RunSettings,
    store: Option<SessionStore>,
) -> anyhow::Result<RunWithHost> {
    let frontend = TerminalFrontend {
        has_terminal: false,
    };
    let mut run = RunBeforeHost::new(settings, &frontend).await?;
    run.store = store;
    let (approver, ..) = choose_approver(false);
    run.create_host(approver).await
}

/// Prepares a run: asks the questions, loads the plugins and selects the model. Until the exits are
/// dropped, a signal exits the program.
pub(super) async fn prepare_session(settings: RunSettings) -> anyhow::Result<PreparedSession> {
    let exits = SignalExitGuard::new().context("listen for signals")?;
    let frontend = TerminalFrontend {
        has_terminal: settings.mode.has_terminal,
    };
    let run = RunBeforeHost::new(settings, &frontend).await?;
    looks::configure_terminal_style(&run.setup.config)?;
    Ok(PreparedSession { run, exits })
}

impl PreparedSession {
    /// Permits a run without a configured model.
    pub(super) fn without_model(mut self) -> Self {
        self.run = self.run.without_model();
        self
    }

    /// Offers prompts and resources of these MCP servers to the clients of Rind's own server.
    pub(super) fn expose_mcp_servers(mut self, servers: &[String]) -> Self {
        self.run = self.run.expose_mcp_servers(servers);
        self
    }

    /// Replaces the store of sessions, which by default is a folder on this machine.
    pub(super) fn with_store(mut self, store: SessionStore) -> Self {
        self.run.store = Some(store);
        self
    }

    /// Returns the setup of the operator.
    pub(super) fn setup(&self) -> &OperatorSetup {
        &self.run.setup
    }

    /// Collects the slash commands.
    pub(super) async fn commands(&self) -> anyhow::Result<CommandSet> {
        let about = built_in_command_context(&self.run)?;
        let project = self.run.setup.project.as_deref();
        let program = std::env::current_exe().context("cannot find the path of this program")?;
        Ok(CommandSet::new(about, project, program).await)
    }

    /// Returns the loaded plugins.
    pub(super) fn plugins(&self) -> Arc<PluginSet> {
        self.run.plugins.shared_set().clone()
    }

    /// Returns a loader for later versions of a plugin.
    pub(super) fn plugin_reload_loader(&self, plugin: &str) -> anyhow::Result<PreparedPluginLoad> {
        self.run.prepare_plugin_reload(plugin)
    }

    /// Opens the session.
    pub(super) async fn open_session(self) -> anyhow::Result<OpenedSession> {
        let is_dry_run = self.run.mode.dry_run;
        let ready = self.build_host().await?;
        Ok(OpenedSession {
            session: ready.run.session()?,
            questions: ready.questions,
            asker: ready.asker,
            setup: ready.run.setup,
            commands: ready.run.commands,
            chosen: ready.run.chosen,
            switch: ready.run.switch,
            is_dry_run,
            exits: ready.exits,
        })
    }

    /// Creates the host.
    pub(super) async fn build_host(self) -> anyhow::Result<ReadyHost> {
        let (approver, questions, asker) = choose_approver(self.run.has_terminal());
        Ok(ReadyHost {
            run: self.run.create_host(approver).await?,
            questions,
            asker,
            exits: self.exits,
        })
    }
}

/// Collects the parts of the host that built-in commands show and change.
pub(super) fn built_in_command_context(
    run: &RunBeforeHost,
) -> anyhow::Result<BuiltInCommandContext> {
    let policy: ToolPolicy = run.setup.config.section()?;
    Ok(BuiltInCommandContext {
        paths: run.setup.paths.clone(),
        plugins: run.plugins.shared_set().clone(),
        rules: policy.rules.iter().map(ToString::to_string).collect(),
        skills: run.skills.clone(),
        compact: run.setup.agent_config()?.compact,
        switch: run.switch.clone(),
        is_dry_run: run.mode.dry_run,
        servers: run.server_prompts().to_vec(),
    })
}

/// Sender of questions to the person at the terminal; `None` if there is no person.
pub(super) type Asker = Option<UnboundedSender<TerminalQuestion>>;

pub(super) fn choose_approver(
    has_terminal: bool,
) -> (
    Arc<dyn Approver>,
    UnboundedReceiver<TerminalQuestion>,
    Asker,
) {
    let (sender, questions) = mpsc::unbounded_channel();
    if has_terminal {
        let approver = Arc::new(TerminalApprover(sender.clone()));
        return (approver, questions, Some(sender));
    }
    let approver = Arc::new(DenyAll(
        "there is no terminal to ask at; pass --yes, or add a rule to [tools] in config.toml"
            .to_owned(),
    ));
    (approver, questions, None)
}
