//! Errors of plugin builds.

use std::path::PathBuf;

use super::target;
use crate::tool::process::SpawnError;

/// Error that kept one plugin, or all of them, from being built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// A file of the plugin could not be read or written.
    #[error("plugin `{plugin}`: {path}: {source}")]
    File {
        /// Name of the plugin, or of its folder while the name is not known.
        plugin: String,
        path: PathBuf,
        /// Error of the system.
        #[source]
        source: std::io::Error,
    },
    /// `plugin.toml` or `Cargo.toml` does not say what is needed.
    #[error("plugin `{plugin}`: {path}: {problem}")]
    Manifest {
        /// Name of the plugin, or of its folder while the name is not known.
        plugin: String,
        path: PathBuf,
        problem: String,
    },
    /// Two plugins to build have the same name.
    #[error("plugin `{plugin}` is there twice: {first} and {second}")]
    SameName {
        plugin: String,
        first: PathBuf,
        /// Folder of the other.
        second: PathBuf,
    },
    #[error("cannot run cargo: {0}. Install Rust from https://rustup.rs")]
    NoCargo(#[source] SpawnError),
    /// The wasm32-wasip2 target is missing and there is no rustup to add it.
    #[error("{}", target::missing(sysroot))]
    NoRustup {
        /// Folder of the toolchain.
        sysroot: PathBuf,
    },
    /// The wasm32-wasip2 target is missing and rustup did not add it.
    #[error("{text}")]
    NotAdded {
        /// The command, its output and the remedy.
        text: String,
    },
    /// A tool of the plugin's language is not there.
    #[error("plugin `{plugin}`: {tool} is missing; bring it with `{command}`, in {dir}")]
    NoTool {
        plugin: String,
        tool: String,
        /// Command that installs it.
        command: String,
        /// Folder to run the command in.
        dir: PathBuf,
    },
    /// A program of the toolchain failed.
    #[error("{command} failed:\n{text}")]
    Toolchain {
        command: String,
        /// Output of the command.
        text: String,
    },
    /// A program of the toolchain could not be run.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// The compiler refused, or cargo could not build.
    #[error("plugin {}: the build failed:\n{text}", quoted(.plugins))]
    Compile {
        /// Names of the plugins that were not built.
        plugins: Vec<String>,
        /// Output of cargo and the compiler.
        text: String,
        /// Whether each line of it was handed to [`Progress`](super::build::Progress) before.
        was_streamed: bool,
    },
    /// The crate was built but there is no component.
    #[error(
        "plugin `{plugin}`: cargo built no component of package `{package}`. Its Cargo.toml needs `[lib]` with \
         `crate-type = [\"cdylib\"]`"
    )]
    NoComponent { plugin: String, package: String },
    /// The module has nothing that Rind would call.
    #[error("plugin `{plugin}`: {path} has no hook and no tool. {todo}")]
    NoExports {
        plugin: String,
        /// Path of the module.
        path: PathBuf,
        /// Change that helps, as a sentence.
        todo: String,
    },
    /// The build ran into its deadline.
    #[error("plugin {}: the build was stopped after {seconds} s", quoted(.plugins))]
    Deadline {
        /// Names of the plugins that were being built.
        plugins: Vec<String>,
        seconds: u64,
    },
    #[error("the build was cancelled")]
    Cancelled,
    /// The path of the assembled plugin holds something that is not a plugin.
    #[error(
        "plugin `{plugin}`: {path} is in the way: it is not a plugin folder and is not overwritten"
    )]
    InTheWay { plugin: String, path: PathBuf },
}

fn quoted(plugins: &[String]) -> String {
    let quoted: Vec<String> = plugins.iter().map(|plugin| format!("`{plugin}`")).collect();
    quoted.join(", ")
}
