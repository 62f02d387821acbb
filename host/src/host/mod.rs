//! Provides the host as a library: the parts of an agent, and the sessions in which it runs.
//!
//! [`Host::builder`] takes provider, plugins, native hooks and tools, policy, approver and the home
//! folder; [`Host::session`] opens sessions, each with an agent of its own over the same compiled
//! plugins; [`Session::turn`] runs a turn. Agents are built only here. This module must not know
//! terminals or the environment: everything that depends on them is passed in.

mod agent;
mod builder;
mod command;
mod error;
mod folders;
mod loops;
mod material;
mod native;
mod offers;
mod outside;
mod replace;
mod session;
mod skill;
mod source;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tempfile::TempDir;

use crate::agent::{AgentConfig, PluginKeyValueWriter, SubagentPresets};
use crate::event::EventObserver;
use crate::grant::answers::{GrantAnswerStore, GrantAnswersError};
use crate::paths::RindPaths;
use crate::plugin::load::SkippedPlugin;
use crate::plugin::startable::StartablePluginSet;
use crate::provider::Provider;
use crate::script::HookScript;
use crate::session::SessionStore;
use crate::skill::SessionSkills;
use crate::tool::approval::Approver;
use crate::tool::builtin::CommandConfinementAndEnvironment;
use crate::tool::policy::Policy;
use crate::tool::registry::ToolRegistry;

pub use crate::agent::{
    ClientOfferedToolsReceiver, ClientToolCall, ClientToolCallReceiver, ClientToolCallResult,
    ClientToolCallSender,
};
pub use crate::agent::{
    ExternalAgentRequest, ExternalAgentRequestContent, HookChangedValue, VerdictForExternalAgent,
};
pub use builder::HostBuilder;
pub use command::PluginCommandError;
pub use error::{Error, check_workspace_outside_host_folders};
pub use folders::{HostPlugins, PluginFolders};
pub use loops::{LoopRunError, LoopTurnRunner, PluginLoopTurnRequest, plugin_owning_loop_session};
pub(crate) use loops::{LoopServiceOptions, PluginLoopHostService};
pub use material::{
    FetchedPromptOrResource, InputCompletionRequest, ListedResource, PromptResourceProvider,
    SessionPromptsAndResources,
};
pub use replace::{PluginReplaceError, PluginReplacer};
pub use session::{Session, SessionBuilder, Turn};
pub use skill::SkillUnusableError;
pub use source::{OpenedToolSource, ToolSource, ToolSourceSessionHandle};

/// Runs agents. Cheap to clone, and any number of sessions may be open at once; they share the
/// host's parts. Temporary folders that were created for the host are deleted when the last clone
/// and the last session are dropped.
#[derive(Clone)]
pub struct Host(Arc<HostSharedState>);

/// Parts that the sessions of a host share, and the initial values of each session.
struct HostSharedState {
    provider: Arc<dyn Provider>,
    model: String,
    paths: RindPaths,
    store: SessionStore,
    plugins: StartablePluginSet,
    tools: ToolRegistry,
    /// Sources of tools, such as MCP servers, that each session opens for itself.
    sources: Vec<Arc<dyn ToolSource>>,
    skills: Arc<SessionSkills>,
    presets: Arc<SubagentPresets>,
    hooks: Vec<native::NativeHookBinding>,
    scripts: Vec<Arc<HookScript>>,
    /// Confinement and environment in which scripts run.
    commands: CommandConfinementAndEnvironment,
    policy: Arc<dyn Policy>,
    approver: Arc<dyn Approver>,
    observers: Vec<EventObserver>,
    config: AgentConfig,
    /// Callback that saves the values which native hooks put into their stores.
    keep: Option<PluginKeyValueWriter>,
    /// Whether a session has stored, or is storing, the answers that the operator gave while
    /// plugins were loaded.
    has_kept_answers: AtomicBool,
    /// Temporary folder that is deleted when the host is dropped.
    _temporary: Option<TempDir>,
}

impl Host {
    /// Returns a builder without any parts. It needs at least a provider.
    #[must_use]
    pub fn builder() -> HostBuilder {
        HostBuilder::default()
    }

    /// Opens a session: [`create`](SessionBuilder::create) for a new one,
    /// [`resume`](SessionBuilder::resume) for an existing one.
    pub fn session(&self) -> SessionBuilder {
        SessionBuilder::new(self)
    }

    /// Returns the store of all sessions, to list and read them.
    #[must_use]
    pub fn store(&self) -> &SessionStore {
        &self.0.store
    }

    /// Returns the path of the folder in which the agents of this host work.
    #[must_use]
    pub fn workspace(&self) -> &Path {
        &self.0.paths.workspace
    }

    /// Returns the skills that the sessions of this host can use.
    #[must_use]
    pub fn skills(&self) -> &SessionSkills {
        &self.0.skills
    }

    /// Returns the plugins that were found but do not run, each with the cause. Every session also
    /// emits them as events.
    #[must_use]
    pub fn left_out(&self) -> &[SkippedPlugin] {
        &self.0.plugins.left_out
    }

    /// Returns the names of the plugins that have a loop.
    #[must_use]
    pub fn loops(&self) -> Vec<&str> {
        let plugins = self.0.plugins.plugins.iter();
        let with_loop = plugins.filter(|plugin| plugin.has_loop());
        with_loop
            .map(|plugin| plugin.manifest.name.as_str())
            .collect()
    }

    /// Checks that a preset of subagents of this name exists.
    pub(crate) fn check_preset(&self, name: &str) -> Result<(), String> {
        self.0.presets.find_preset(name).map(drop)
    }

    /// Returns the settings of plugins that have no effect, each as one line with the reason.
    #[must_use]
    pub fn refused_settings(&self) -> &[String] {
        &self.0.plugins.refused
    }
}

impl HostSharedState {
    /// Stores the answers that the operator gave while plugins were loaded. This is done once, with
    /// the id of the first session: answers for one session apply to that session.
    fn store_grant_answers(&self, session: &str) -> Result<(), GrantAnswersError> {
        use std::sync::atomic::Ordering::Relaxed;

        let given = self.plugins.given.iter();
        let answers: Vec<_> = given
            .filter_map(|given| {
                given.to_stored_answer(session, crate::clock::format_current_time())
            })
            .collect();
        // Set the flag before the write: of two sessions that open at the same time, only one
        // stores the operator's answers, under its own id. If the write fails, the next session
        // tries it again.
        if answers.is_empty() || self.has_kept_answers.swap(true, Relaxed) {
            return Ok(());
        }
        let kept = GrantAnswerStore::read(&self.paths.grant_answers_path())
            .and_then(|mut own| own.add(answers));
        self.has_kept_answers.store(kept.is_ok(), Relaxed);
        kept
    }
}

impl_partial_debug!(
    Host,
    self,
    model = self.0.model,
    paths = self.0.paths,
    plugins = self.0.plugins.plugins
);
