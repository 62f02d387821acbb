//! The operator's setup for one workspace: folders, settings, the files of a trusted project, and
//! secrets.

use std::sync::{Arc, OnceLock};

use super::chat::ChatConfig;
use super::environment::{OperatorEnvironment, WarningCallback, WarningsAlreadyShown};
use super::project::{self, ProjectTrustAsker, ProjectTrustDecision};
use super::project_hooks::load_approved_project_hooks;
use super::secrets::OperatorSecrets;
use super::settings::ModelSelection;
use super::usage::{Usage, bail_usage};
use rind_lib::agent::{AgentConfig, ArchivalConfig, SubagentsConfig, check_archival};
use rind_lib::config::{Config, ConfigLayer, PluginsConfig, Section};
use rind_lib::grant::held::InMemoryFolder;
use rind_lib::host;
use rind_lib::model::Models;
use rind_lib::paths::{HOME_VARIABLE, RindPaths};
use rind_lib::price::Prices;
use rind_lib::provider::{ProviderConfig, ProvidersConfig};
use rind_lib::script::{HookScript, HooksConfig};
use rind_lib::tool::policy::ToolPolicy;
use rind_lib::tool::sandbox::SandboxConfig;
use rind_mcp::McpConfig;
use rind_package::signature::InstallConfig;

/// Sections that the user's settings may have.
pub const ALLOWED_USER_SETTINGS_SECTIONS: &[&str] = &[
    AgentConfig::NAME,
    ArchivalConfig::NAME,
    SubagentsConfig::NAME,
    ProviderConfig::NAME,
    ProvidersConfig::NAME,
    Models::NAME,
    ToolPolicy::NAME,
    PluginsConfig::NAME,
    Prices::NAME,
    SandboxConfig::NAME,
    ChatConfig::NAME,
    InstallConfig::NAME,
    HooksConfig::NAME,
    McpConfig::NAME,
];

/// The operator's setup for one workspace.
///
/// A command creates the setup once, at its start. Everything that the operator decides about a run
/// is derived from the setup.
#[derive(Clone, Debug)]
pub struct OperatorWorkspaceSetup {
    /// Environment variables with which the program was started.
    pub environment: Arc<OperatorEnvironment>,
    /// Folders of Rind, and the workspace of the run.
    pub paths: RindPaths,
    /// Settings, merged from all settings files and command-line flags.
    pub config: Config,
    /// Files of the project in memory; `None` if the project is not trusted.
    pub project: Option<Arc<InMemoryFolder>>,
    /// Hooks of the project that a person has approved.
    pub project_hooks: Vec<HookScript>,
    /// Secrets of the operator, which are read when they are first needed.
    secrets: OnceLock<Arc<OperatorSecrets>>,
}

impl OperatorWorkspaceSetup {
    /// Creates a setup with these settings, and without a project.
    #[must_use]
    pub fn new(environment: Arc<OperatorEnvironment>, paths: RindPaths, config: Config) -> Self {
        Self {
            environment,
            paths,
            config,
            project: None,
            project_hooks: Vec::new(),
            secrets: OnceLock::new(),
        }
    }

    /// Decides whether the project and its hooks are used, and reads the settings. `ask` asks the
    /// user; if it is `None`, only earlier approvals apply.
    ///
    /// # Errors
    /// See [`project::decide_project_trust`], [`load_approved_project_hooks`] and
    /// [`OperatorWorkspaceSetup::read`].
    pub async fn with_project(
        environment: Arc<OperatorEnvironment>,
        paths: RindPaths,
        model: &ModelSelection,
        trust_project: bool,
        ask: Option<&dyn ProjectTrustAsker>,
    ) -> anyhow::Result<Self> {
        let answer =
            project::decide_project_trust(&environment, &paths, trust_project, ask).await?;
        // If the user did not trust the project, do not ask about its hooks. Hooks that the user
        // approved before still run, so that no guard disappears silently.
        let ask = ask.filter(|_| !matches!(answer, ProjectTrustDecision::NotTrusted));
        let mut setup = Self::read(environment, paths, model, answer.trusted_project_files())?;
        setup.project_hooks = load_approved_project_hooks(&setup, ask).await?;
        Ok(setup)
    }

    /// Reads the settings, in increasing precedence: the user's files, those of the trusted
    /// `project`, the user's file for this workspace, and the settings of this run in `model`.
    ///
    /// # Errors
    /// A file cannot be read, or a setting is unknown or wrong.
    pub fn read(
        environment: Arc<OperatorEnvironment>,
        paths: RindPaths,
        model: &ModelSelection,
        project: Option<Arc<InMemoryFolder>>,
    ) -> anyhow::Result<Self> {
        let mut layers = ConfigLayer::read_files(&paths.user_config())?;
        if let Some(project) = &project {
            layers.extend(project::read_project_settings(&paths, project)?);
        }
        layers.extend(ConfigLayer::read_file(&paths.user_workspace_config_path())?);
        for flag in &model.set {
            layers.push(ConfigLayer::from_command_line_flag(flag)?);
        }
        let config = Config::new(layers);
        config.check_known_sections(ALLOWED_USER_SETTINGS_SECTIONS)?;
        if let Err(why) = check_archival(&config.section()?, &config.section()?) {
            let place = config.value_locations(&["archival", "enabled"]).pop();
            let place = place.map_or_else(String::new, |place| format!("{place}: "));
            bail_usage!("{place}{why}");
        }
        let setup = Self {
            project,
            ..Self::new(environment, paths, config)
        };
        // Check the settings of agents here, so that an error does not leave an empty session
        // behind.
        setup.agent_config()?;
        Ok(setup)
    }

    /// Returns the settings of agents.
    ///
    /// # Errors
    /// A setting is wrong.
    pub fn agent_config(&self) -> anyhow::Result<AgentConfig> {
        let config = &self.config;
        Ok(AgentConfig {
            archival: config.section()?,
            subagents: config.section()?,
            prices: config.section()?,
            ..config.section()?
        })
    }

    /// Returns the setup without cached secrets, so that the next use reads `secrets.toml` again.
    #[must_use]
    pub fn without_cached_secrets(mut self) -> Self {
        self.secrets = OnceLock::new();
        self
    }

    /// Returns the setup with `on_warning` as the function that shows warnings. It also gets the
    /// warnings that the previous function has already shown.
    #[must_use]
    pub fn with_warning_callback(mut self, on_warning: WarningCallback) -> Self {
        self.environment = Arc::new(OperatorEnvironment {
            on_warning,
            said: WarningsAlreadyShown::default(),
            ..OperatorEnvironment::clone(&self.environment)
        });
        self
    }

    /// Returns the secrets, which are read on first use.
    ///
    /// # Errors
    /// The file of secrets is invalid, or other users can read it.
    pub fn secrets(&self) -> anyhow::Result<Arc<OperatorSecrets>> {
        if let Some(secrets) = self.secrets.get() {
            return Ok(secrets.clone());
        }
        let secrets = OperatorSecrets::read(&self.environment, &self.paths.config)?;
        Ok(self.secrets.get_or_init(|| Arc::new(secrets)).clone())
    }
}

/// Checks that the workspace is in none of Rind's own folders.
///
/// # Errors
/// The workspace is in one of these folders; the message says how to fix it.
pub fn check_folders_are_separate(paths: &RindPaths) -> anyhow::Result<()> {
    host::check_workspace_outside_host_folders(paths).map_err(|error| match error {
        host::Error::Overlap { workspace, own } => Usage(format!(
            "the workspace {} is in Rind's own folder {}, so tools and plugins could access sessions and grants; choose \
             another one with --workspace, or move Rind's folders with {HOME_VARIABLE}",
            workspace.display(),
            own.display()
        ))
        .into(),
        other => other.into(),
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::secrets::SECRETS_FILE_NAME;

    #[test]
    fn secrets_are_read_once_until_they_are_to_be_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let paths = RindPaths::from_single_root(folder.path(), folder.path());
        fs::create_dir_all(&paths.config).unwrap();
        let setup = OperatorWorkspaceSetup::new(Arc::default(), paths, Config::default());
        assert_eq!(setup.secrets().unwrap().variable_or_secret("KEY"), None);
        let file = setup.paths.config.join(SECRETS_FILE_NAME);
        fs::write(&file, "KEY = \"value-1234\"\n").unwrap();
        fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
        assert_eq!(setup.secrets().unwrap().variable_or_secret("KEY"), None);
        let again = setup.without_cached_secrets();
        let value = again.secrets().unwrap().variable_or_secret("KEY");
        assert_eq!(value.as_deref(), Some("value-1234"));
    }
}
