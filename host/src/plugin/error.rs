//! Why a plugin was not loaded, or not built right. Every text names the file or the plugin, and what to do.

use std::io;
use std::path::PathBuf;

/// Why a plugin was left out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be read or written.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried: `read`, `write`, …
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A folder that is meant for a plugin has no manifest.
    #[error("{} has no plugin.toml: {todo}", folder.display())]
    NoManifest {
        /// The folder.
        folder: PathBuf,
        /// Advice, by the content of the folder.
        todo: String,
    },
    /// `plugin.toml` is not TOML, has unknown keys, or a value of the wrong type. `message` shows line and column.
    #[error("{} is not a plugin manifest: {message}", path.display())]
    Manifest {
        /// The manifest.
        path: PathBuf,
        /// What is wrong, with line and column.
        message: String,
    },
    /// The manifest names no component, or there is none where it says.
    #[error("{}: the component is not there; build it with `rind plugin build {}`", component.display(), folder.display())]
    NotBuilt {
        /// Where it should be.
        component: PathBuf,
        /// The plugin's folder.
        folder: PathBuf,
    },
    /// The component is larger than may be loaded.
    #[error("{} has more than {limit} bytes, the most that are loaded", path.display())]
    TooLarge {
        /// The component.
        path: PathBuf,
        /// The limit.
        limit: u64,
    },
    /// The bytes are not a component that this host runs.
    #[error("{} is not a component that can be loaded: {message}", path.display())]
    Compile {
        /// The component.
        path: PathBuf,
        /// What the engine says.
        message: String,
    },
    /// Compiling took too long.
    #[error("{}: compiling took longer than {seconds} s and was given up", path.display())]
    CompileTime {
        /// The component.
        path: PathBuf,
        /// The limit.
        seconds: u64,
    },
    /// It was built against a version of the contract that this host does not support.
    #[error("{what}, which wants {wanted} of the contract; this host supports {supported}: {todo}")]
    Contract {
        /// Where the version stands: `it imports ...`, `it was built with ...`.
        what: String,
        /// The version.
        wanted: String,
        /// Supported versions, oldest first.
        supported: String,
        /// Advice.
        todo: String,
    },
    /// It imports what it may not have.
    #[error("it imports `{import}`, {why}")]
    Import {
        /// Name of the interface.
        import: String,
        /// Why it is refused and what would change that.
        why: String,
    },
    /// It exports what it may not have, or what the manifest does not agree with.
    #[error("it exports `{export}`, {why}")]
    Export {
        /// Name of the interface.
        export: String,
        /// Why it is refused and what would change that.
        why: String,
    },
    /// The manifest speaks of an export that the component does not have.
    #[error("{} declares `{declared}`, but the component does not export `{export}`", path.display())]
    MissingExport {
        /// The manifest.
        path: PathBuf,
        /// What it declares.
        declared: String,
        /// The interface that is missing.
        export: String,
    },
    /// The engine refused to link or to start it.
    #[error("it could not be started: {message}")]
    Start {
        /// What the engine or the guest says.
        message: String,
    },
    /// A tool that it lists cannot be offered.
    #[error("its tool `{tool}` is refused: {why}")]
    Tool {
        /// Name of the tool.
        tool: String,
        /// Why.
        why: String,
    },
    /// The operator's settings do not fit the manifest's `[config]`.
    #[error("its settings do not fit `[config]` of its manifest: {message}; see {place}")]
    Config {
        /// What does not fit.
        message: String,
        /// Where they are written: `FILE:LINE`, a flag, or the name of the section.
        place: String,
    },
    /// The policy denies what it cannot run without.
    #[error("{cause}; `rind plugin inspect {name} --grants` shows what it asks for and has", name = .plugin.manifest.name)]
    Denied {
        /// Which import or export needs it, and the line that denies it.
        #[source]
        cause: Box<Self>,
        /// The plugin, as far as it was loaded.
        plugin: Box<super::load::Loaded>,
    },
    /// A dependency is missing, too old, or part of a cycle.
    #[error("{message}")]
    Dependency {
        /// Which, and what to do.
        message: String,
    },
    /// Its name is that of a plugin that cannot be replaced.
    #[error(
        "the name `{plugin}` is kept for the plugin that comes with Rind, which nobody else can stand in for; give it another \
         name in plugin.toml"
    )]
    Reserved {
        /// The name.
        plugin: String,
    },
    /// A policy says that nothing runs without it, and it does not run.
    #[error("nothing runs without plugin {plugin}, which {place} requires: {why}")]
    Required {
        /// Its name.
        plugin: String,
        /// Where that is said.
        place: String,
        /// Why it does not run, and what to do.
        why: String,
    },
    /// Plugins that the operator relies on do not run.
    #[error("{missing}")]
    Relied {
        /// Each of them: why it does not run, who relies on it, and how to go on without it.
        missing: String,
    },
    /// It implements a point that nobody defines.
    #[error("it implements `{point}`, but {why}")]
    UnknownPoint {
        /// Name of the point.
        point: String,
        /// What is missing.
        why: String,
    },
}

impl Error {
    /// An I/O error with what was tried and where.
    pub fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io {
            action,
            path,
            source,
        }
    }
}
