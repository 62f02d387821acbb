//! Builds plugins whose component contains an interpreter: JavaScript and Python.
//!
//! The compilers of both languages need a WIT world and a module. The world is generated and
//! contains only the module's exports and imports: exports are hooks, and imports are requested
//! permissions.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::build::{BuildOptions, BuiltPlugin, ProgressCallback, store_built_component};
use super::folder::{PluginFolder, PluginLanguage, plugin_file_error};
use super::{BuildError, javascript, python, toolchain};
use rind_lib::plugin::contract::{self, stamp};
use rind_lib::tool::process::{FinishedProcess, ProcessEndReason, ProcessOutputStream};

pub(super) struct PluginBuildContext<'a> {
    pub(super) plugin: &'a PluginFolder,
    /// Temporary directory for intermediate files of the build.
    pub(super) folder: &'a Path,
    pub(super) progress: &'a ProgressCallback,
    deadline: Duration,
    cancel: &'a CancellationToken,
}

pub(super) struct ToolchainProgramSpec {
    /// Name or path of the program.
    pub(super) program: PathBuf,
    pub(super) name: &'static str,
    /// Command that the user runs in the plugin's directory to install the tool.
    pub(super) install: &'static str,
}

/// Builds a JavaScript or Python plugin into a WebAssembly component.
pub(super) async fn build_interpreted_plugin(
    plugin: &PluginFolder,
    options: &BuildOptions,
    progress: &ProgressCallback,
    cancel: &CancellationToken,
) -> Result<BuiltPlugin, BuildError> {
    let started = Instant::now();
    let folder = tempfile::tempdir().map_err(|source| {
        plugin_file_error(&plugin.name, Path::new("the temporary folder"), source)
    })?;
    let work = PluginBuildContext {
        plugin,
        folder: folder.path(),
        progress,
        deadline: options.deadline,
        cancel,
    };
    let (component, language) = match &plugin.language {
        PluginLanguage::JavaScript { entry } => (
            javascript::build_component(&work, entry).await?,
            "javascript",
        ),
        PluginLanguage::Python { module, path } => (
            python::build_component(&work, module, path).await?,
            "python",
        ),
        // Unreachable: Rust plugins are built by the module `rust`.
        PluginLanguage::Rust { .. } => (PathBuf::new(), "rust"),
    };
    append_version_stamp_section(&component, language)
        .map_err(|source| plugin_file_error(&plugin.name, &component, source))?;
    store_built_component(plugin, &component, options, started.elapsed().as_secs_f64())
}

impl PluginBuildContext<'_> {
    /// Runs a build tool in the plugin's directory, and waits until it ends.
    pub(super) async fn run_tool(
        &self,
        tool: &ToolchainProgramSpec,
        args: impl IntoIterator<Item = OsString>,
    ) -> Result<FinishedProcess, BuildError> {
        let progress = self.progress.clone();
        let args: Vec<OsString> = args.into_iter().collect();
        let running = toolchain::run_toolchain_program(
            &tool.program,
            &args,
            &self.plugin.dir,
            self.deadline,
            Some(Arc::new(move |stream, line| {
                if stream == ProcessOutputStream::Stderr {
                    progress(line);
                }
            })),
            self.cancel,
        );
        let finished = running.await.map_err(|error| {
            if error.source.kind() == std::io::ErrorKind::NotFound {
                self.missing_tool_error(tool)
            } else {
                BuildError::Spawn(error)
            }
        })?;
        match finished.ending {
            ProcessEndReason::Exited(0) => Ok(finished),
            ProcessEndReason::Cancelled => Err(BuildError::Cancelled),
            ProcessEndReason::Deadline => Err(BuildError::Deadline {
                plugins: vec![self.plugin.name.clone()],
                seconds: self.deadline.as_secs(),
            }),
            _ => Err(BuildError::Compile {
                plugins: vec![self.plugin.name.clone()],
                // Only lines of standard error were passed to `progress`, and some tools write
                // errors to standard output.
                was_streamed: finished.stdout.text().trim().is_empty(),
                text: format!("{}{}", finished.stdout.text(), finished.stderr.text()),
            }),
        }
    }

    fn missing_tool_error(&self, tool: &ToolchainProgramSpec) -> BuildError {
        BuildError::NoTool {
            plugin: self.plugin.name.clone(),
            tool: tool.name.to_owned(),
            command: tool.install.to_owned(),
            dir: self.plugin.dir.clone(),
        }
    }

    pub(super) fn file_error(&self, path: &Path, source: std::io::Error) -> BuildError {
        plugin_file_error(&self.plugin.name, path, source)
    }
}

/// Appends a section to the component with the contract version, the language and the SDK version
/// that it was built with. The host reads the section before it compiles the component.
fn append_version_stamp_section(component: &Path, language: &str) -> std::io::Result<()> {
    let stamp = stamp::ComponentBuildInfo {
        contract: contract::CURRENT_CONTRACT_VERSION.to_owned(),
        language: language.to_owned(),
        sdk: format!("rind-sdk {}", env!("CARGO_PKG_VERSION")),
    };
    let mut bytes = std::fs::read(component)?;
    stamp.append_to_component(&mut bytes)?;
    std::fs::write(component, bytes)
}
