//! Errors of plugin builds.
//!
//! Messages name the plugin (or plugins) concerned and, where there is one, the remedy. A
//! compiler's output is included, because only it explains the error.

use std::path::PathBuf;

use super::target;
use rind_lib::tool::process::ProcessRunError;

/// Error that prevented plugins from being built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// A file of the plugin could not be read or written.
    #[error("plugin `{plugin}`: {path}: {source}")]
    File {
        /// Name of the plugin, or of its directory if the manifest was not read yet.
        plugin: String,
        /// Path of the file that could not be read or written.
        path: PathBuf,
        /// Error of the operating system.
        #[source]
        source: std::io::Error,
    },
    /// `plugin.toml` or `Cargo.toml` lacks a required value, or has an invalid one.
    #[error("plugin `{plugin}`: {path}: {problem}")]
    Manifest {
        /// Name of the plugin, or of its directory if the name is not known yet.
        plugin: String,
        /// Path of the faulty file.
        path: PathBuf,
        /// Description of the fault in the file.
        problem: String,
    },
    /// Two of the plugins that are to be built have the same name.
    #[error("there are two plugins named `{plugin}`: {first} and {second}")]
    SameName {
        /// Name that both plugins have.
        plugin: String,
        /// Directory of one of the two plugins.
        first: PathBuf,
        /// Directory of the other plugin.
        second: PathBuf,
    },
    /// Cargo, which builds Rust plugins, cannot be run.
    #[error("plugins in Rust need cargo, which cannot be run; install Rust from https://rustup.rs")]
    NoCargo(#[source] ProcessRunError),
    /// The wasm32-wasip2 target is missing, and rustup is not installed.
    #[error("{}", target::wasm_target_missing_message(sysroot))]
    NoRustup {
        /// Root directory of the Rust toolchain that lacks the target.
        sysroot: PathBuf,
    },
    /// The wasm32-wasip2 target is missing, and rustup failed to add it.
    #[error("{text}")]
    NotAdded {
        /// Failed command, its output and the remedy, for the user.
        text: String,
    },
    /// A tool that builds plugins in this language is missing.
    #[error("plugin `{plugin}`: {tool} is missing; install it with `{command}`, in {dir}")]
    NoTool {
        /// Name of the plugin that needs the tool.
        plugin: String,
        /// Name of the missing tool.
        tool: String,
        /// Command that installs the missing tool.
        command: String,
        /// Directory of the plugin, in which to run the command.
        dir: PathBuf,
    },
    /// A program of the Rust toolchain failed.
    #[error("{command} failed:\n{text}")]
    Toolchain {
        /// Failed command with its arguments.
        command: String,
        /// Output of the failed command.
        text: String,
    },
    /// A program of the Rust toolchain could not be run.
    #[error(transparent)]
    Spawn(#[from] ProcessRunError),
    /// Cargo, a compiler or another tool of the plugin's language failed.
    #[error("plugin {}: the build failed:\n{text}", quote_plugin_names(.plugins))]
    Compile {
        /// Names of the plugins that were not built.
        plugins: Vec<String>,
        /// Output of the tool that failed.
        text: String,
        /// Whether the output in `text` was already passed line by line to
        /// [`ProgressCallback`](super::build::ProgressCallback).
        was_streamed: bool,
    },
    /// Cargo succeeded but built no WebAssembly component.
    #[error(
        "plugin `{plugin}`: cargo built no component of package `{package}`. Its Cargo.toml needs `[lib]` with \
         `crate-type = [\"cdylib\"]`"
    )]
    NoComponent {
        /// Name of the plugin without a component.
        plugin: String,
        /// Name of the plugin's package in `Cargo.toml`.
        package: String,
    },
    /// The plugin's source module exports no interface that Rind calls.
    #[error("plugin `{plugin}`: {path} has no hook and no tool. {todo}")]
    NoExports {
        /// Name of the plugin without hooks and tools.
        plugin: String,
        /// Path of the plugin's source module.
        path: PathBuf,
        /// Sentence that tells the user how to correct the module.
        todo: String,
    },
    /// The build took longer than its time limit.
    #[error("plugin {}: the build was stopped after {seconds} s", quote_plugin_names(.plugins))]
    Deadline {
        /// Names of the plugins whose build was stopped.
        plugins: Vec<String>,
        /// Time limit that the build exceeded, in seconds.
        seconds: u64,
    },
    /// The caller cancelled the build.
    #[error("the build was cancelled")]
    Cancelled,
    /// The output path of the plugin contains something that is not a plugin.
    #[error(
        "plugin `{plugin}`: {path} exists and is not a plugin folder, so it is not overwritten; remove it"
    )]
    InTheWay {
        /// Name of the plugin whose output path is occupied.
        plugin: String,
        /// Output path that contains something that is not a plugin.
        path: PathBuf,
    },
}

fn quote_plugin_names(plugins: &[String]) -> String {
    let quoted: Vec<String> = plugins.iter().map(|plugin| format!("`{plugin}`")).collect();
    quoted.join(", ")
}
