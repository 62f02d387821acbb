//! Starts a run: creates a host from the settings of the run, in the order that security requires.
//!
//! Trust in the project is decided before its settings are read, settings are read before a model
//! is selected, and guards are checked before a session can be opened. A program that shows the run
//! implements [`RunFrontend`].

use std::sync::Arc;

use anyhow::Context;
use futures_util::future::BoxFuture;
use tokio::task::JoinHandle;

use super::confinement::{self, CommandConfinement};
use super::host::{HostConstructionParts, HostWithOperatorPolicy};
use super::load::PluginLoadPlan;
use super::machine::SkillRequirementLookup;
use super::mcp::ApprovedMcpServers;
use super::no_model::RefusingModelProvider;
use super::project::ProjectTrustAsker;
use super::settings::{PluginSelection, ProgramRunSettings, SessionChoice};
use super::setup::{OperatorWorkspaceSetup, check_folders_are_separate};
use super::usage::bail_usage;
use super::{grants, mcp, model, other_agents, overlooked, plugin_flags, skills};
use rind_lib::disk::keep_temp_files_outside_workspace;
use rind_lib::grant::ask::{GrantOptions, PermissionAsker};
use rind_lib::grant::decide::GrantFlagValue;
use rind_lib::host::Session;
use rind_lib::plugin::load::{BeforeCompileCallback, FoundPluginSet};
use rind_lib::plugin::startable::StartablePluginSet;
use rind_lib::provider::SelectedProviderAndModel;
use rind_lib::session::{SessionStore, SessionWorkspaceAndModel};
use rind_lib::skill::{SessionSkills, discover_skills};
use rind_lib::tool::approval::Approver;
use rind_lib::tool::builtin::CommandConfinementAndEnvironment;
use rind_lib::tool::policy::{ApprovalMode, SharedApprovalMode, ToolPolicyOptions};
use rind_mcp::{ApprovedServerPrompts, ServerApprovalAsker};

/// Interface to the user while a run starts: asks questions, and shows which plugins and skills
/// were left out.
///
/// The default methods ask nothing and show nothing, which suits a server.
pub trait RunFrontend: Send + Sync {
    /// Returns the object that asks the user whether to trust a project; `None` if nobody is asked.
    fn project_trust_asker(&self) -> Option<&dyn ProjectTrustAsker> {
        None
    }

    /// Returns the implementation that asks the operator for permissions of plugins; `None` if
    /// nobody can be asked.
    fn plugin_permission_asker(&self) -> Option<Arc<dyn PermissionAsker>> {
        None
    }

    /// Returns the implementation that asks for approval of MCP servers and their tools.
    fn mcp_approval_asker(&self) -> Option<&dyn ServerApprovalAsker> {
        None
    }

    /// Returns the MCP servers that the program adds to those of the settings for this run.
    fn additional_mcp_servers(&self) -> Vec<mcp::NamedMcpServerSettings> {
        Vec::new()
    }

    /// Lets the person choose a model if none is set up. `None` continues without a model; no
    /// session can be opened then.
    fn choose_model<'a>(
        &'a self,
        _setup: &'a OperatorWorkspaceSetup,
    ) -> BoxFuture<'a, anyhow::Result<Option<SelectedProviderAndModel>>> {
        Box::pin(async { Ok(None) })
    }

    /// Returns a function that is called before a component is compiled.
    fn on_compile(&self) -> Option<BeforeCompileCallback> {
        None
    }

    /// Tells the user which plugins were left out, and why. By default does nothing.
    fn show_plugins(&self, _plugins: &FoundPluginSet) {}

    /// Tells the user which skills were left out, and why. By default does nothing.
    fn show_skills(&self, _skills: &SessionSkills) {}

    /// Returns the names that no skill may have, because the program has commands of these names.
    fn reserved_skill_names(&self) -> Vec<&'static str> {
        Vec::new()
    }
}

/// Settings and parts from which the host of a run is created.
pub struct OperatorHostBuilder {
    /// Settings, folders and trusted project files from which the host is built.
    pub setup: OperatorWorkspaceSetup,
    /// Loaded plugins. Every guard, a plugin that a policy requires or that the operator relies on,
    /// runs.
    pub plugins: StartablePluginSet,
    /// Skills that sessions can use.
    pub skills: Arc<SessionSkills>,
    /// Presets of subagents that sessions can use.
    pub presets: Arc<SessionSkills>,
    /// Flags of the run that change how the policy decides on tool calls.
    pub mode: ToolPolicyOptions,
    /// Approval mode for tool calls, which may be switched during the run.
    pub switch: SharedApprovalMode,
    /// Store of the sessions; without it, they are files on this machine.
    pub store: Option<SessionStore>,
    selection: PluginSelection,
    provider: SelectedProviderAndModel,
    /// Session of the run. A session to continue is given by its complete id.
    session: SessionChoice,
    confinement: CommandConfinement,
    servers: ApprovedMcpServers,
}

/// Host of a run, with the plugins, the setup and the session that belong to it.
pub struct ConfiguredAgentHost {
    /// Host on which the sessions of the run are opened.
    pub host: HostWithOperatorPolicy,
    /// Plugins that were loaded, and those that were left out.
    pub plugins: Arc<FoundPluginSet>,
    /// Settings and folders of the run, without the files of the project.
    pub setup: OperatorWorkspaceSetup,
    /// Confinement and environment of the commands that tools run.
    pub commands: CommandConfinementAndEnvironment,
    /// Selected model and the reason for its selection, as text for the user.
    pub chosen: String,
    /// Approval mode for tool calls, which may be switched during the run.
    pub switch: SharedApprovalMode,
    /// Session of the run. A session to continue is given by its complete id.
    session: SessionChoice,
}

impl OperatorHostBuilder {
    /// Reads the settings, selects the model, loads the plugins, and finds the confinement of
    /// commands and the approved MCP servers.
    ///
    /// # Errors
    /// A setting is wrong, the model cannot be used, or a guard does not run.
    pub async fn from_run_settings(
        settings: ProgramRunSettings,
        frontend: &dyn RunFrontend,
    ) -> anyhow::Result<Self> {
        let ProgramRunSettings {
            environment,
            paths,
            model,
            plugins: selection,
            session,
            mut mode,
            approval,
        } = settings;
        // `--yes` sets the initial mode and does not override later ones, so the user can switch to
        // another mode during the run.
        let switch = SharedApprovalMode::new(match std::mem::take(&mut mode.yes) {
            true => ApprovalMode::Full,
            false => approval,
        });
        let misspelt = overlooked::find_misspelled_variables(&environment);
        misspelt.iter().for_each(|text| environment.warn_once(text));
        check_folders_are_separate(&paths)?;
        keep_temp_files_outside_workspace(&paths.workspace, &paths.temporary_folder())
            .context("cannot set up a folder for temporary files that no tool can change")?;
        let (by_flag, ask) = (selection.trust_project, frontend.project_trust_asker());
        plugin_flags::check_plugin_folders_contain_plugin(&selection)?;
        let mut setup =
            OperatorWorkspaceSetup::with_project(environment, paths, &model, by_flag, ask).await?;
        if let Some(set) = &selection.set {
            setup.config = set.add_settings_to_config(setup.config)?;
        }
        let replaced = overlooked::describe_overridden_list_settings(&setup.config);
        replaced
            .iter()
            .for_each(|text| setup.environment.warn_once(text));
        other_agents::warn_unused_agent_settings(&setup);
        let resume = match &session {
            SessionChoice::Resume(wanted) => Some(resolve_session(&setup, wanted)?),
            SessionChoice::New | SessionChoice::Named(_) => None,
        };
        let mut provider = model::select_model(&setup, &model, resume.as_ref())?;
        if provider.is_stand_in
            && let Some(chosen) = frontend.choose_model(&setup).await?
        {
            // `choose_model` may have stored a key in secrets.toml, so read that file again.
            setup = setup.without_cached_secrets();
            provider = chosen;
        }
        let resume = resume.map(|session| session.id);
        let session = match &resume {
            Some(id) => SessionChoice::Resume(id.clone()),
            None => session,
        };
        let ask = frontend.plugin_permission_asker();
        let grants =
            grants::build_permission_grant_options(&setup.paths, &selection.grants, resume, ask)?;
        let load = PluginLoadPlan::new(&setup, &selection, grants)?
            .with_compile_callback(frontend.on_compile());
        // Run this in a separate task, because loading plugins blocks the current thread.
        let confinement: JoinHandle<_> = tokio::spawn({
            let setup = setup.clone();
            async move { confinement::find_command_confinement(&setup).await }
        });
        let plugins = load.load().await.context("load plugins")?;
        load.check_selected_plugins(&plugins)?;
        if let Some(set) = &selection.set {
            set.check_loaded_plugins_match_set(&plugins)?;
        }
        frontend.show_plugins(&plugins);
        let plugins = StartablePluginSet::try_from_plugin_set(Arc::new(plugins))?;
        let roots = skills::skill_roots(&setup, &plugins, load.in_memory_folder());
        let preset_roots =
            skills::list_subagent_preset_folders(&setup, &plugins, load.in_memory_folder());
        // Free the in-memory copies of the project's files, which may be large.
        drop(load);
        let machine = SkillRequirementLookup::new(&setup.environment);
        let skills = discover_skills(&roots, &frontend.reserved_skill_names(), &machine);
        frontend.show_skills(&skills);
        let presets = discover_skills(&preset_roots, &[], &machine);
        let confinement = confinement.await.context("cannot find a sandbox")??;
        let commands = confinement.command_environment_without_warning();
        let (named, ask) = (
            frontend.additional_mcp_servers(),
            frontend.mcp_approval_asker(),
        );
        let servers = mcp::approved_servers(&setup, &commands, named, ask).await?;
        Ok(Self {
            setup,
            plugins,
            skills: Arc::new(skills),
            presets: Arc::new(presets),
            mode,
            switch,
            store: None,
            selection,
            provider,
            session,
            confinement,
            servers,
        })
    }

    /// Returns the prompts of the approved MCP servers.
    #[must_use]
    pub fn approved_mcp_prompts(&self) -> &[ApprovedServerPrompts] {
        &self.servers.prompts
    }

    /// Whether a person can answer questions during this run.
    #[must_use]
    pub fn can_ask_user(&self) -> bool {
        self.mode.has_terminal
    }

    /// Prepares to load later versions of a plugin during the run. A later version gets at most the
    /// permissions of the running one, and no question is asked in the middle of a turn.
    ///
    /// # Errors
    /// The plugin does not run, or a setting is wrong.
    pub fn prepare_plugin_reload(&self, plugin: &str) -> anyhow::Result<PluginLoadPlan> {
        let mut loaded = self.plugins.plugins.iter();
        let Some(loaded) = loaded.find(|loaded| loaded.manifest.name == plugin) else {
            bail_usage!("plugin `{plugin}` does not run, so there is nothing to watch");
        };
        let granted = loaded.granted_capabilities().capabilities().iter();
        let granted: Vec<String> = granted.map(ToString::to_string).collect();
        let flag = (!granted.is_empty()).then(|| format!("{plugin}={}", granted.join(",")));
        let flag = flag.map(|flag| flag.parse::<GrantFlagValue>()).transpose();
        let grants = GrantOptions {
            policy: grants::read_grant_policy(&self.setup.paths)?,
            flags: flag.map_err(anyhow::Error::msg)?.into_iter().collect(),
            ..GrantOptions::default()
        };
        PluginLoadPlan::new(&self.setup, &self.selection, grants)
    }

    /// If no model is set up, uses a provider that refuses every request. This suits a host whose
    /// callers are other agents: a plugin that requests a completion gets an error.
    #[must_use]
    pub fn allow_missing_model(mut self) -> Self {
        if self.provider.is_stand_in {
            self.provider = SelectedProviderAndModel {
                provider: Arc::new(RefusingModelProvider),
                model: "none".to_owned(),
                why: std::mem::take(&mut self.provider.why),
                is_stand_in: false,
            };
        }
        self
    }

    /// Lets clients of the program fetch the prompts and resources of the MCP servers in `names`.
    #[must_use]
    pub fn expose_mcp_servers_to_clients(mut self, names: &[String]) -> Self {
        for (name, source) in &mut self.servers.sources {
            if names.contains(name) {
                source.add_prompt_and_resource_tools();
            }
        }
        self
    }

    /// Removes all MCP servers, for a host that runs no tools.
    #[must_use]
    pub fn without_mcp_servers(mut self) -> Self {
        self.servers = ApprovedMcpServers::default();
        self
    }

    /// Creates the host, which asks `approver` whether a tool call may run.
    ///
    /// # Errors
    /// No model is set up, a setting is wrong, or the parts do not fit together.
    pub async fn create_host(
        self,
        approver: Arc<dyn Approver>,
    ) -> anyhow::Result<ConfiguredAgentHost> {
        if self.provider.is_stand_in {
            bail_usage!(
                "no model is set up: {}; set ANTHROPIC_API_KEY, OPENAI_API_KEY or OPENAI_BASE_URL, or name a provider in \
                 [provider] of {}. A script answers with --provider scripted or --script FILE",
                self.provider.why,
                self.setup.paths.user_config().display()
            );
        }
        let mut setup = self.setup;
        setup.project = None;
        let chosen = format!(
            "model: {} ({})",
            provider_and_model_text(&self.provider),
            self.provider.why
        );
        let commands = self.confinement.command_environment_with_warning();
        let plugins = self.plugins.plugin_set().clone();
        let parts = HostConstructionParts {
            provider: self.provider,
            plugins: self.plugins,
            skills: self.skills,
            presets: self.presets,
            mode: self.mode,
            switch: self.switch.clone(),
            approver,
            commands: commands.clone(),
            sources: self.servers.into_sources(),
            store: self.store,
            set: self.selection.set,
        };
        Ok(ConfiguredAgentHost {
            host: HostWithOperatorPolicy::new(&setup, parts).await?,
            plugins,
            setup,
            commands,
            chosen,
            switch: self.switch,
            session: self.session,
        })
    }
}

impl ConfiguredAgentHost {
    /// Opens the session of the run.
    ///
    /// # Errors
    /// A new session cannot be written, or the session to continue cannot be read.
    pub fn session(&self) -> anyhow::Result<Session> {
        self.host.open_session(&self.session)
    }
}

/// Returns the names of the provider and the model, or a single name if both are equal.
fn provider_and_model_text(selected: &SelectedProviderAndModel) -> String {
    let provider = selected.provider.name();
    if provider == selected.model {
        provider.to_owned()
    } else {
        format!("{provider} {}", selected.model)
    }
}

/// Resolves the id of the session to continue; `last` names the last session of this workspace.
/// Warns if the session worked in another folder before.
fn resolve_session(
    setup: &OperatorWorkspaceSetup,
    wanted: &str,
) -> anyhow::Result<SessionWorkspaceAndModel> {
    let paths = &setup.paths;
    let store = SessionStore::new(paths.sessions());
    let session = store.read_workspace_and_model(
        &store.resolve_session_id_in_workspace(wanted, &paths.workspace)?,
    )?;
    let before = &session.workspace;
    if !before.as_os_str().is_empty() && *before != paths.workspace {
        setup.environment.warn(&format!(
            "session {} worked in the folder {} before, and now continues in {}",
            session.id,
            before.display(),
            paths.workspace.display()
        ));
    }
    Ok(session)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::settings::ModelSelection;
    use rind_lib::paths::RindPaths;
    use rind_lib::plugin::Error;
    use rind_lib::tool::approval::DenyAllApprover;

    /// Frontend of a program that asks no questions and shows nothing.
    struct Embedder;

    impl RunFrontend for Embedder {}

    fn settings(folder: &tempfile::TempDir) -> ProgramRunSettings {
        let root = folder.path().canonicalize().unwrap();
        let paths = RindPaths::from_single_root(&root.join("home"), &root.join("work"));
        fs::create_dir_all(&paths.config).unwrap();
        fs::create_dir_all(&paths.workspace).unwrap();
        ProgramRunSettings {
            environment: Arc::default(),
            paths,
            model: ModelSelection {
                provider: Some("scripted".to_owned()),
                set: vec!["sandbox.bash=off".to_owned()],
                ..ModelSelection::default()
            },
            plugins: PluginSelection::default(),
            session: SessionChoice::New,
            mode: ToolPolicyOptions::default(),
            approval: ApprovalMode::default(),
        }
    }

    #[tokio::test]
    async fn a_program_without_a_command_line_opens_a_session_by_the_operators_rules() {
        let folder = tempfile::tempdir().unwrap();
        let run = OperatorHostBuilder::from_run_settings(settings(&folder), &Embedder)
            .await
            .unwrap();
        let nobody = Arc::new(DenyAllApprover("nobody is asked".to_owned()));
        let ready = run.create_host(nobody).await.unwrap();
        let session = ready.session().unwrap();
        assert!(!session.tools().is_empty());
        session.close().await.unwrap();
    }

    #[tokio::test]
    async fn without_a_model_no_host_is_made_and_the_error_says_what_to_set() {
        let folder = tempfile::tempdir().unwrap();
        let mut settings = settings(&folder);
        settings.model.provider = None;
        let run = OperatorHostBuilder::from_run_settings(settings, &Embedder)
            .await
            .unwrap();
        let nobody = Arc::new(DenyAllApprover("nobody is asked".to_owned()));
        let refused = run.create_host(nobody).await.err().unwrap();
        assert!(refused.is::<super::super::usage::Usage>());
        let refused = refused.to_string();
        for part in [
            "ANTHROPIC_API_KEY",
            "OPENAI_BASE_URL",
            "--provider scripted",
        ] {
            assert!(refused.contains(part), "{refused}");
        }
    }

    #[tokio::test]
    async fn without_a_plugin_that_the_policy_requires_no_run_is_prepared() {
        let folder = tempfile::tempdir().unwrap();
        let settings = settings(&folder);
        let policy = "[plugins.guard]\nrequire = true\n";
        fs::write(settings.paths.user_policy_path(), policy).unwrap();
        let refused = OperatorHostBuilder::from_run_settings(settings, &Embedder)
            .await
            .err()
            .unwrap();
        let refused = refused.downcast::<Error>().unwrap();
        assert!(matches!(refused, Error::Required { plugin, .. } if plugin == "guard"));
    }
}
