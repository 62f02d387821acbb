//! Creates the host of a run with the operator's policy, scripts, confinement and agent settings.

use std::path::PathBuf;
use std::sync::Arc;

use super::environment::OperatorEnvironment;
use super::misplaced::ToolReferenceChecker;
use super::plugin_set::ExternalPluginSet;
use super::scripts;
use super::settings::SessionChoice;
use super::setup::OperatorWorkspaceSetup;
use rind_lib::agent::AgentConfig;
use rind_lib::host::{Host, Session, ToolSource};
use rind_lib::message::ToolSpec;
use rind_lib::paths::RindPaths;
use rind_lib::plugin::startable::StartablePluginSet;
use rind_lib::provider::SelectedProviderAndModel;
use rind_lib::script::HookScript;
use rind_lib::session::SessionStore;
use rind_lib::skill::SessionSkills;
use rind_lib::tool::approval::Approver;
use rind_lib::tool::builtin::CommandConfinementAndEnvironment;
use rind_lib::tool::policy::{Policy, SharedApprovalMode, ToolPolicy, ToolPolicyOptions};

/// Parts from which the host of a run is built.
pub struct HostConstructionParts {
    /// Model that the sessions use, with its provider.
    pub provider: SelectedProviderAndModel,
    /// Plugins that were loaded, ready to start. All guards among them run.
    pub plugins: StartablePluginSet,
    /// Skills that the sessions can use.
    pub skills: Arc<SessionSkills>,
    /// Presets from which the sessions can start subagents.
    pub presets: Arc<SessionSkills>,
    /// Flags of the run, such as `--dry-run`, that modify the policy's decisions.
    pub mode: ToolPolicyOptions,
    /// Approval mode, which may be switched while sessions run.
    pub switch: SharedApprovalMode,
    /// Approver that decides about tool calls for which the policy asks.
    pub approver: Arc<dyn Approver>,
    /// Confinement and environment variables of shell commands and scripts.
    pub commands: CommandConfinementAndEnvironment,
    /// Sources of tools besides the built-in ones and those of plugins: MCP servers.
    pub sources: Vec<Arc<dyn ToolSource>>,
    /// Store of the sessions; `None` stores them as files on this machine.
    pub store: Option<SessionStore>,
    /// Loaded plugin set, if any. Its rules apply in addition to the rules in the settings.
    pub set: Option<Arc<ExternalPluginSet>>,
}

/// Host of a run, with the policy for its tool calls and its scripts.
pub struct HostWithOperatorPolicy {
    /// Host in which sessions are opened.
    pub host: Host,
    setup: OperatorWorkspaceSetup,
    policy: Arc<ToolPolicy>,
    scripts: Vec<HookScript>,
    skills: Arc<SessionSkills>,
}

impl HostWithOperatorPolicy {
    /// Creates a host from these parts.
    ///
    /// # Errors
    /// A setting is wrong, or the parts do not fit together.
    pub async fn new(
        setup: &OperatorWorkspaceSetup,
        parts: HostConstructionParts,
    ) -> anyhow::Result<Self> {
        let mut policy: ToolPolicy = setup.config.section()?;
        policy.mode = parts.mode;
        policy.switch = parts.switch;
        let rules = parts.set.iter().flat_map(|set| set.denial_rules());
        policy.rules.extend(rules.cloned());
        let policy = Arc::new(policy);
        let scripts = scripts::read_scripts(setup)?;
        scripts::warn_writable_scripts(setup, &scripts)?;
        let mut builder = Host::builder();
        for source in parts.sources {
            builder = builder.tool_source(source);
        }
        let agent_config = AgentConfig {
            own_context_files: list_user_context_files(&setup.environment, &setup.paths),
            // Store approvals if programs share the store, because another one may continue the
            // session.
            keeps_approvals: parts.store.is_some(),
            plugin_set: parts.set.as_ref().map(|set| set.digest().to_owned()),
            ..setup.agent_config()?
        };
        if let Some(store) = parts.store {
            builder = builder.store(store);
        }
        let host = builder
            .provider(parts.provider.provider, parts.provider.model)
            .paths(setup.paths.clone())
            .plugins(parts.plugins)
            .scripts(scripts.clone(), parts.commands.clone())
            .built_in_tools(parts.commands)
            .skills(parts.skills.clone())
            .subagent_presets(parts.presets)
            .policy(policy.clone())
            .approver(parts.approver)
            .config(agent_config)
            .build()
            .await?;
        Ok(Self {
            host,
            setup: setup.clone(),
            policy,
            scripts,
            skills: parts.skills,
        })
    }

    /// Opens a new session, or resumes the session with the complete id in `choice`.
    ///
    /// # Errors
    /// The session cannot be written, its id is taken, or the resumed session cannot be read.
    pub fn open_session(&self, choice: &SessionChoice) -> anyhow::Result<Session> {
        let session = match choice {
            SessionChoice::Resume(id) => self.host.session().resume(id)?,
            SessionChoice::Named(id) => self.host.session().create_named(id)?,
            SessionChoice::New => self.host.session().create()?,
        };
        self.warn_ineffective_settings(&session.tools());
        Ok(session)
    }

    /// Returns the operator's policy with the modes of this run.
    #[must_use]
    pub fn policy(&self) -> Arc<dyn Policy> {
        self.policy.clone()
    }

    /// Returns the operator's policy for sessions whose questions a person answers, but not at a
    /// terminal. It allows questions even if the program has no terminal.
    #[must_use]
    pub fn policy_that_allows_questions(&self) -> Arc<dyn Policy> {
        let mut policy = ToolPolicy::clone(&self.policy);
        policy.mode.has_terminal = true;
        Arc::new(policy)
    }

    /// Returns the policy for tool calls of another agent, such as Claude Code, that also has
    /// permission checks of its own: rules that deny or ask apply, and all other calls are allowed.
    #[must_use]
    pub fn external_agent_policy(&self) -> Arc<dyn Policy> {
        Arc::new(self.policy.to_external_agent_policy())
    }

    /// Warns about rules, scripts and skills that match none of these tools.
    pub fn warn_ineffective_settings(&self, tools: &[Arc<ToolSpec>]) {
        let names = ToolReferenceChecker {
            config: &self.setup.config,
            policy: &self.policy,
            scripts: &self.scripts,
            skills: &self.skills,
        };
        let all = names.find_settings_matching_no_tool(tools);
        all.iter()
            .for_each(|text| self.setup.environment.warn_once(text));
    }
}

/// Returns the paths of the user's own context files: one of Rind and one of Claude Code.
fn list_user_context_files(environment: &OperatorEnvironment, paths: &RindPaths) -> Vec<PathBuf> {
    let claude = environment.home.clone().filter(|home| home.is_absolute());
    let claude = claude.map(|home| home.join(".claude/CLAUDE.md"));
    let own = paths.config.join("AGENTS.md");
    std::iter::once(own).chain(claude).collect()
}
