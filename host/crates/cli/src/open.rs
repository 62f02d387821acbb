//! Opens a session for one turn (`run`) or many (`chat`), or builds the host for several sessions
//! (`serve`). Questions go to the person at the terminal.

use std::sync::Arc;

use anyhow::Context;
use futures_util::future::BoxFuture;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

use super::approve::{TerminalApprover, TerminalQuestion};
use super::command::{BuiltInCommandContext, SlashCommandSet};
use super::grants::TerminalPermissionGrantAsker;
use super::mcp::TerminalMcpServerApprovalAsker;
use super::permission::TerminalTrustAsker;
use super::terminal::ExitOnSignalGuard;
use super::{command, first_use, looks, render};
use rind_lib::grant::ask::PermissionAsker;
use rind_lib::host::Session;
use rind_lib::plugin::load::{BeforeCompileCallback, FoundPluginSet};
use rind_lib::provider::SelectedProviderAndModel;
use rind_lib::session::SessionStore;
use rind_lib::skill::SessionSkills;
use rind_lib::tool::approval::{Approver, DenyAllApprover};
use rind_lib::tool::builtin::CommandConfinementAndEnvironment as ShellCommands;
use rind_lib::tool::policy::{SharedApprovalMode, ToolPolicy};
use rind_mcp::ServerApprovalAsker;
use rind_operator::load::PluginLoadPlan;
use rind_operator::project::ProjectTrustAsker;
use rind_operator::settings::ProgramRunSettings;
use rind_operator::setup::OperatorWorkspaceSetup;
use rind_operator::start::{ConfiguredAgentHost, OperatorHostBuilder, RunFrontend};

/// Front end of a run from a terminal or a script. Asks a person at a terminal about trust, grants
/// and, at the first use, a model; otherwise asks nothing.
struct TerminalSessionStartFrontend {
    /// Whether a person at a terminal can answer questions.
    has_terminal: bool,
}

impl RunFrontend for TerminalSessionStartFrontend {
    fn project_trust_asker(&self) -> Option<&dyn ProjectTrustAsker> {
        self.has_terminal.then_some(&TerminalTrustAsker)
    }

    fn plugin_permission_asker(&self) -> Option<Arc<dyn PermissionAsker>> {
        self.has_terminal
            .then(|| Arc::new(TerminalPermissionGrantAsker) as Arc<dyn PermissionAsker>)
    }

    fn mcp_approval_asker(&self) -> Option<&dyn ServerApprovalAsker> {
        self.has_terminal.then_some(&TerminalMcpServerApprovalAsker)
    }

    fn choose_model<'a>(
        &'a self,
        setup: &'a OperatorWorkspaceSetup,
    ) -> BoxFuture<'a, anyhow::Result<Option<SelectedProviderAndModel>>> {
        Box::pin(async move {
            match self.has_terminal {
                true => first_use::ask_and_store_first_model(setup).await,
                false => Ok(None),
            }
        })
    }

    fn on_compile(&self) -> Option<BeforeCompileCallback> {
        // Show progress: the first compilation takes long.
        self.has_terminal
            .then(render::plugins::plugin_compile_notice_callback)
    }

    fn show_plugins(&self, plugins: &FoundPluginSet) {
        render::plugins::warn_about_plugins_not_loaded(plugins);
    }

    fn show_skills(&self, skills: &SessionSkills) {
        render::skills::warn_about_omitted_skills(skills);
    }

    fn reserved_skill_names(&self) -> Vec<&'static str> {
        command::reserved_skill_names()
    }
}

/// Run whose settings, model and plugins are ready, but whose session is not open yet.
pub(super) struct PreparedRun {
    run: OperatorHostBuilder,
    exits: ExitOnSignalGuard,
}

/// A host with the channels for questions to the person.
pub(super) struct HostWithUserQuestionChannels {
    pub(super) run: ConfiguredAgentHost,
    questions: UnboundedReceiver<TerminalQuestion>,
    asker: OptionalTerminalQuestionSender,
    /// Exits the program at signals. Dropped once another listener handles signals.
    pub(super) exits: ExitOnSignalGuard,
}

/// An open session with the channels for questions to the person.
pub(super) struct SessionWithUserQuestionChannels {
    pub(super) session: Session,
    /// Receiver of the questions to the person, such as approval questions about tool calls and
    /// questions of plugins; receives none if no person answers.
    pub(super) questions: UnboundedReceiver<TerminalQuestion>,
    pub(super) setup: OperatorWorkspaceSetup,
    /// Sender of further questions to the person, such as those of built-in commands; `None` if no
    /// person answers.
    pub(super) asker: OptionalTerminalQuestionSender,
    /// Runs shell commands, confined as the settings require.
    pub(super) commands: ShellCommands,
    /// Description of the model, with the reason why it was chosen.
    pub(super) chosen: String,
    /// Approval mode of the session, which can be switched while the session is open.
    pub(super) switch: SharedApprovalMode,
    /// Whether calls that do more than read are only described and not run.
    pub(super) is_dry_run: bool,
    /// Guard under which a signal ends the program at once. Dropped when another listener handles
    /// signals.
    pub(super) exits: ExitOnSignalGuard,
}

/// Builds another host while the program runs, for example for another folder. Asks no questions
/// and installs no signal handlers.
pub(super) async fn build_host_without_questions(
    settings: ProgramRunSettings,
    store: Option<SessionStore>,
) -> anyhow::Result<ConfiguredAgentHost> {
    let frontend = TerminalSessionStartFrontend {
        has_terminal: false,
    };
    let mut run = OperatorHostBuilder::from_run_settings(settings, &frontend).await?;
    run.store = store;
    let (approver, ..) = create_approver_and_question_channels(false);
    run.create_host(approver).await
}

/// Prepares a run: asks the questions, loads the plugins and selects the model. Until the exits are
/// dropped, a signal exits the program.
pub(super) async fn prepare_session(settings: ProgramRunSettings) -> anyhow::Result<PreparedRun> {
    let exits = ExitOnSignalGuard::new().context("cannot listen for signals")?;
    let frontend = TerminalSessionStartFrontend {
        has_terminal: settings.mode.has_terminal,
    };
    let run = OperatorHostBuilder::from_run_settings(settings, &frontend).await?;
    looks::configure_colors_and_links(&run.setup.config)?;
    Ok(PreparedRun { run, exits })
}

impl PreparedRun {
    /// Permits a run for which no model is configured.
    pub(super) fn allow_unconfigured_model(mut self) -> Self {
        self.run = self.run.allow_missing_model();
        self
    }

    /// Offers prompts and resources of these MCP servers to the clients of Rind's own server.
    pub(super) fn forward_mcp_servers_to_clients(mut self, servers: &[String]) -> Self {
        self.run = self.run.expose_mcp_servers_to_clients(servers);
        self
    }

    /// Replaces the store of sessions, which by default is a folder on this machine.
    pub(super) fn with_session_store(mut self, store: SessionStore) -> Self {
        self.run.store = Some(store);
        self
    }

    /// Returns the operator's settings and paths for this run.
    pub(super) fn operator_setup(&self) -> &OperatorWorkspaceSetup {
        &self.run.setup
    }

    /// Collects the slash commands from all sources.
    pub(super) async fn collect_slash_commands(&self) -> anyhow::Result<SlashCommandSet> {
        let about = built_in_command_context(&self.run)?;
        let project = self.run.setup.project.as_deref();
        let program = std::env::current_exe().context("cannot find the path of this program")?;
        Ok(SlashCommandSet::new(about, project, program).await)
    }

    /// Returns the plugins that were loaded for the run.
    pub(super) fn plugins(&self) -> Arc<FoundPluginSet> {
        self.run.plugins.plugin_set().clone()
    }

    /// Returns a plan with which later versions of this plugin can be loaded.
    pub(super) fn plan_plugin_reload(&self, plugin: &str) -> anyhow::Result<PluginLoadPlan> {
        self.run.prepare_plugin_reload(plugin)
    }

    /// Opens the session of this run.
    pub(super) async fn open_session(self) -> anyhow::Result<SessionWithUserQuestionChannels> {
        let is_dry_run = self.run.mode.dry_run;
        let ready = self.build_host().await?;
        Ok(SessionWithUserQuestionChannels {
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

    /// Creates the host, in which sessions can then be opened.
    pub(super) async fn build_host(self) -> anyhow::Result<HostWithUserQuestionChannels> {
        let (approver, questions, asker) =
            create_approver_and_question_channels(self.run.can_ask_user());
        Ok(HostWithUserQuestionChannels {
            run: self.run.create_host(approver).await?,
            questions,
            asker,
            exits: self.exits,
        })
    }
}

/// Collects the parts of the host that built-in commands show and change.
pub(super) fn built_in_command_context(
    run: &OperatorHostBuilder,
) -> anyhow::Result<BuiltInCommandContext> {
    let policy: ToolPolicy = run.setup.config.section()?;
    Ok(BuiltInCommandContext {
        paths: run.setup.paths.clone(),
        plugins: run.plugins.plugin_set().clone(),
        rules: policy.rules.iter().map(ToString::to_string).collect(),
        skills: run.skills.clone(),
        compact: run.setup.agent_config()?.compact,
        switch: run.switch.clone(),
        is_dry_run: run.mode.dry_run,
        servers: run.approved_mcp_prompts().to_vec(),
    })
}

/// Sender of questions to the person at the terminal; `None` if there is no person.
pub(super) type OptionalTerminalQuestionSender = Option<UnboundedSender<TerminalQuestion>>;

pub(super) fn create_approver_and_question_channels(
    has_terminal: bool,
) -> (
    Arc<dyn Approver>,
    UnboundedReceiver<TerminalQuestion>,
    OptionalTerminalQuestionSender,
) {
    let (sender, questions) = mpsc::unbounded_channel();
    if has_terminal {
        let approver = Arc::new(TerminalApprover(sender.clone()));
        return (approver, questions, Some(sender));
    }
    let approver = Arc::new(DenyAllApprover(
        "there is no terminal to ask at; pass --yes, or add a rule to [tools] in config.toml"
            .to_owned(),
    ));
    (approver, questions, None)
}
