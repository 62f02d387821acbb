//! Errors of loading plugins. Every message names the file or the plugin, and the remedy.

use std::io;
use std::path::PathBuf;

/// Reason why a plugin was not loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file of the plugin could not be read or written.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// Operation that failed, for example "read".
        action: &'static str,
        /// Path of the file or directory that could not be accessed.
        path: PathBuf,
        /// Error that the operating system reported.
        source: io::Error,
    },
    /// A directory that is meant to be a plugin has no manifest.
    #[error("{} has no plugin.toml: {todo}", folder.display())]
    NoManifest {
        /// Path of the directory without a manifest.
        folder: PathBuf,
        /// Advice for the user, which depends on the files in the folder.
        todo: String,
    },
    /// `plugin.toml` is not TOML, has unknown keys, or a value of the wrong type. `message` shows
    /// line and column.
    #[error("{} is not a plugin manifest: {message}", path.display())]
    Manifest {
        /// Path of the invalid manifest.
        path: PathBuf,
        /// Problem in the manifest, with line and column.
        message: String,
    },
    /// The component file that the manifest names does not exist.
    #[error("{}: the component is missing; build it with `rind plugin build {}`", component.display(), folder.display())]
    NotBuilt {
        /// Path at which the component was expected.
        component: PathBuf,
        /// Path of the plugin's folder, for the advice to build the plugin.
        folder: PathBuf,
    },
    /// The component file exceeds the maximum size.
    #[error("{} is larger than the maximum of {limit} bytes", path.display())]
    TooLarge {
        /// Path of the component file.
        path: PathBuf,
        /// Maximum size of a component, in bytes.
        limit: u64,
    },
    /// The bytes are not a component that this host can run.
    #[error("{} is not a valid component: {message}", path.display())]
    Compile {
        /// Path of the invalid component file.
        path: PathBuf,
        /// Error message of the WebAssembly engine.
        message: String,
    },
    /// The file was built for another host: it is a core module, or a component that needs
    /// WebAssembly proposals that this host disables.
    #[error("{} {message}", path.display())]
    Foreign {
        /// Path of the file that was built for another host.
        path: PathBuf,
        /// Text with the target that the file was built for, the target that this host runs, and
        /// the target to build for.
        message: String,
    },
    /// Compiling the component took longer than the time limit.
    #[error("{}: compiling was stopped after {seconds} s; try again when the machine is less busy", path.display())]
    CompileTime {
        /// Path of the component file.
        path: PathBuf,
        /// Time limit for compiling, in seconds.
        seconds: u64,
    },
    /// The component was built against a version of the contract that this host does not support.
    #[error(
        "{what}, which needs {wanted} of the plugin contract; this host supports {supported}: {todo}"
    )]
    Contract {
        /// Origin of the version, as a clause: `the component imports ...` or `it was built with ...`.
        what: String,
        /// Version of the plugin contract that the component needs.
        wanted: String,
        /// Versions of the plugin contract that this host supports, oldest first.
        supported: String,
        /// Advice on what to do, such as updating Rind or rebuilding the component.
        todo: String,
    },
    /// The component was built with types that differ from the contract of the version that it
    /// names.
    #[error(
        "it was built with another copy of the contract: for `{interface}`, {difference}; it was built with {built_with}, and this \
         host has contract {own}: build it again with an SDK of this version of Rind"
    )]
    Skew {
        /// Full name of the interface: a point or an import.
        interface: String,
        /// Description of the record, variant or function that differs, and of the difference.
        difference: String,
        /// SDK and version of the contract that the component was built with.
        built_with: String,
        /// Version of the plugin contract that this host implements.
        own: &'static str,
    },
    /// The component imports an interface that it has no permission for.
    #[error("the component imports `{import}`, {why}")]
    Import {
        /// Name of the imported interface.
        import: String,
        /// Reason why the import is refused, and the remedy.
        why: String,
    },
    /// The component exports an interface that it has no permission for, or one that contradicts
    /// the manifest.
    #[error("the component exports `{export}`, {why}")]
    Export {
        /// Name of the exported interface.
        export: String,
        /// Reason why the export is refused, and the remedy.
        why: String,
    },
    /// The manifest configures an export that the component does not have.
    #[error("{} declares `{declared}`, but the component does not export `{export}`; implement `{export}`, or remove `{declared}` from the manifest", path.display())]
    MissingExport {
        /// Path of the manifest that configures the export.
        path: PathBuf,
        /// Section of the manifest that needs the export, for example `[hooks.pre-tool]`.
        declared: String,
        /// Interface that the component does not export.
        export: String,
    },
    /// The engine refused to link or to start the component.
    #[error("the plugin could not be started: {message}")]
    Start {
        /// Error message of the WebAssembly engine or of the component.
        message: String,
    },
    /// A tool that the component lists cannot be offered.
    #[error("the plugin's tool `{tool}` is refused: {why}")]
    Tool {
        /// Name of the refused tool.
        tool: String,
        /// Reason why the tool is refused.
        why: String,
    },
    /// A command that the component lists cannot be offered.
    #[error("the plugin's command `/{command}` is refused: {why}")]
    Command {
        /// Name of the refused command, without the slash.
        command: String,
        /// Reason why the command is refused.
        why: String,
    },
    /// The operator's settings do not fit the manifest's `[config]`.
    #[error(
        "the settings of the plugin do not fit `[config]` of its manifest: {message}; see {place}"
    )]
    Config {
        /// Setting that does not fit the schema, and the reason.
        message: String,
        /// Location of the settings: `FILE:LINE`, a flag, or the name of the section.
        place: String,
    },
    /// The policy denies a permission that the plugin cannot run without.
    #[error("{cause}; `rind plugin inspect {name} --grants` shows the permissions that it requests and has", name = .plugin.manifest.name)]
    Denied {
        /// Error about the import or export that needs the permission, with the policy line that
        /// denies it.
        #[source]
        cause: Box<Self>,
        /// Refused plugin, as far as it was loaded.
        plugin: Box<super::load::PluginWithPermissionDecision>,
    },
    /// A dependency is missing, too old, or part of a cycle.
    #[error("{message}")]
    Dependency {
        /// Problem with the dependency, and its remedy.
        message: String,
    },
    /// The files of an installed plugin differ from those that were installed.
    #[error(
        "plugin `{plugin}` in {} is not loaded: {why}; `rind plugin update {plugin}` restores it, `rind plugin remove {plugin}` \
         removes it",
        folder.display()
    )]
    Changed {
        /// Name of the plugin whose files were changed.
        plugin: String,
        /// Folder in which the plugin is installed.
        folder: PathBuf,
        /// Difference between the files and those that were installed.
        why: String,
    },
    /// The plugin has the name of a protected plugin that comes with Rind.
    #[error(
        "the name `{plugin}` is reserved for the plugin that comes with Rind; give it another name in plugin.toml"
    )]
    Reserved {
        /// Name that is reserved for a protected plugin.
        plugin: String,
    },
    /// A policy requires the plugin for every session, and the plugin does not run.
    #[error("plugin {plugin}, which {place} requires, cannot run: {why}")]
    Required {
        /// Name of the required plugin.
        plugin: String,
        /// Location of the requirement, for example a policy file and line.
        place: String,
        /// Reason why the plugin does not run, and the remedy.
        why: String,
    },
    /// Plugins that the operator relies on do not run.
    #[error("{missing}")]
    Relied {
        /// One line for each plugin: why it does not run, why the operator relies on it, and how to
        /// continue without it.
        missing: String,
    },
    /// The plugin implements an extension point that no plugin defines.
    #[error("the plugin implements `{point}`, but {why}")]
    UnknownPoint {
        /// Full name of the missing extension point.
        point: String,
        /// Reason, for example that the owner of the point is not loaded or declares no such point.
        why: String,
    },
}

impl Error {
    /// Returns a function that wraps an I/O error with the operation and the path.
    pub fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io {
            action,
            path,
            source,
        }
    }
    /// Whether only the operator can correct the error, because it is about settings or about
    /// another plugin (for example the one that defines a point). Such errors are not reported to
    /// the plugin's author. `plugin` is the name of the plugin that was not loaded.
    #[must_use]
    pub fn needs_operator_action(&self, plugin: &str) -> bool {
        match self {
            Self::Dependency { .. } | Self::Config { .. } => true,
            Self::UnknownPoint { point, .. } => {
                let owner = point.split_once('.').map(|(owner, _)| owner);
                owner.is_some_and(|owner| owner != plugin)
            }
            _ => false,
        }
    }
}
