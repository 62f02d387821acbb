//! Settings of a run, as a program determined them from its arguments and environment.
//!
//! The settings are plain data: this module reads and checks nothing. The command line fills them
//! from flags, and a server from its requests.

use std::path::PathBuf;
use std::sync::Arc;

use super::component::WasmComponentAndPolicyPaths;
use super::environment::OperatorEnvironment;
use super::plugin_set::ExternalPluginSet;
use rind_lib::grant::decide::GrantFlagValue;
use rind_lib::paths::RindPaths;
use rind_lib::tool::policy::{ApprovalMode, ToolPolicyOptions};

/// Selection of a model for a run; empty fields leave the selection to the settings files.
#[derive(Clone, Debug, Default)]
pub struct ModelSelection {
    /// Name of the model provider for this run; `None` for the one in the settings.
    pub provider: Option<String>,
    /// Name of the model, or provider and model as `PROVIDER/NAME`.
    pub model: Option<String>,
    /// Path of the script from which the scripted provider reads its answers.
    pub script: Option<PathBuf>,
    /// Settings of the run that override those of files, each as `KEY=VALUE`.
    pub set: Vec<String>,
}

/// Selection of plugins for a run, and the permissions that the run grants to them.
#[derive(Clone, Debug, Default)]
pub struct PluginSelection {
    /// Folders of plugins that are loaded in addition to the usual ones. Each is the folder of one
    /// plugin, or contains several.
    pub local: Vec<PathBuf>,
    /// Third-party WebAssembly components, whose functions become tools.
    pub components: Vec<WasmComponentAndPolicyPaths>,
    /// Whether the run loads only the plugins in `local`, the components in `components`, and the
    /// plugins that only the administrator can switch off.
    pub is_local_only: bool,
    /// Names of plugins that the user excludes from this run.
    pub without: Vec<String>,
    /// Names of plugins that are not loaded even if they are installed, because they do not work
    /// with the program that starts the run.
    pub unsuited: Vec<String>,
    /// Whether the run trusts the project without asking the user.
    pub trust_project: bool,
    /// Permissions that the command line grants to plugins for this run.
    pub grants: Vec<GrantFlagValue>,
    /// Plugins that are loaded instead of those of the user and of the project. The plugins of the
    /// installation are loaded as well.
    pub set: Option<Arc<ExternalPluginSet>>,
}

/// Choice of the session that a run creates or continues.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SessionChoice {
    /// Creates a new session with a generated id.
    #[default]
    New,
    /// Creates a new session with this id.
    Named(String),
    /// Session to continue: its id, the beginning of its id, or `last`.
    Resume(String),
}

impl SessionChoice {
    /// Returns `Resume(wanted)`, or `New` if `wanted` is `None`.
    #[must_use]
    pub fn resume_or_new(wanted: Option<&str>) -> Self {
        wanted.map_or(Self::New, |wanted| Self::Resume(wanted.to_owned()))
    }
}

/// Settings of one run of the program, from its command line.
#[derive(Clone, Debug)]
pub struct ProgramRunSettings {
    /// Environment variables with which the program was started.
    pub environment: Arc<OperatorEnvironment>,
    /// Folders of Rind, and the workspace of the run.
    pub paths: RindPaths,
    /// Provider and model that the run uses.
    pub model: ModelSelection,
    /// Plugins that the run loads and the permissions that they get.
    pub plugins: PluginSelection,
    /// Session that the run creates or continues.
    pub session: SessionChoice,
    /// Flags of the run that change how the policy decides on tool calls.
    pub mode: ToolPolicyOptions,
    /// Approval mode at the start of the run, which decides whether tool calls need approval.
    pub approval: ApprovalMode,
}
