//! Settings of a run, as a program resolved them from its arguments and environment.
//!
//! Plain data: nothing is read or checked here. The command line fills it from flags, a server from
//! its own requests.

use std::path::PathBuf;
use std::sync::Arc;

use super::component::ComponentFile;
use super::environment::OperatorEnvironment;
use super::plugin_set::GivenSet;
use rind_lib::grant::decide::GrantFlag;
use rind_lib::paths::Paths;
use rind_lib::tool::policy::{ApprovalMode, PolicyMode};

/// Choice of a model for a run; an empty one leaves the choice to the settings.
#[derive(Clone, Debug, Default)]
pub struct ModelSelection {
    /// Name of the provider.
    pub provider: Option<String>,
    /// Name of the model, or `PROVIDER/NAME`.
    pub model: Option<String>,
    /// Script of the scripted provider.
    pub script: Option<PathBuf>,
    /// Single settings, each as `KEY=VALUE`.
    pub set: Vec<String>,
}

/// Choice of plugins for a run, and their grants in it.
#[derive(Clone, Debug, Default)]
pub struct PluginSelection {
    /// Folders of plugins that are loaded as well.
    pub local: Vec<PathBuf>,
    /// Third-party components, whose functions become tools.
    pub components: Vec<ComponentFile>,
    /// Whether only those are loaded, and the plugins that the administrator alone can switch off.
    pub is_local_only: bool,
    /// Names of plugins that are left out.
    pub without: Vec<String>,
    /// Names of plugins that are left out if they are installed, because they do not suit the
    /// program.
    pub unsuited: Vec<String>,
    /// Whether the project's `.rind` is trusted for this run.
    pub trust_project: bool,
    /// Permissions that are given for this run.
    pub grants: Vec<GrantFlag>,
    /// Set of plugins that is loaded instead of those of the user, of the project and of flags; the
    /// plugins of the installation stay.
    pub set: Option<Arc<GivenSet>>,
}

/// The session of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SessionChoice {
    /// A new session with a generated id.
    #[default]
    New,
    /// A new session with this id.
    Named(String),
    /// Session to continue: its id, the beginning of it, or `last`.
    Resume(String),
}

impl SessionChoice {
    /// Returns the session to continue, or a new one.
    #[must_use]
    pub fn resume(wanted: Option<&str>) -> Self {
        wanted.map_or(Self::New, |wanted| Self::Resume(wanted.to_owned()))
    }
}

/// Settings of one run.
#[derive(Clone, Debug)]
pub struct RunSettings {
    /// Surroundings of the program.
    pub environment: Arc<OperatorEnvironment>,
    /// Folders, among them the workspace.
    pub paths: Paths,
    /// Choice of the model.
    pub model: ModelSelection,
    /// Choice of plugins.
    pub plugins: PluginSelection,
    /// Session of the run.
    pub session: SessionChoice,
    /// Way in which the policy decides on tool calls.
    pub mode: PolicyMode,
    /// Mode of approval at the start.
    pub approval: ApprovalMode,
}
