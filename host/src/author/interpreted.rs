//! Plugins whose component carries an interpreter: JavaScript and Python.
//!
//! Their compilers take a world and a module. The world has what the module exports and what it imports, nothing else: exports
//! are hooks, and imports are what a plugin asks for.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::build::{BuildOptions, BuiltPlugin, Progress, place};
use super::folder::{Language, PluginFolder, file_error};
use super::{BuildError, javascript, python, toolchain};
use crate::plugin::contract::{self, stamp};
use crate::tool::process::{Ending, Finished, Stream};

pub(super) struct Work<'a> {
    pub(super) plugin: &'a PluginFolder,
    /// Folder for what is between source and component.
    pub(super) folder: &'a Path,
    pub(super) progress: &'a Progress,
    deadline: Duration,
    cancel: &'a CancellationToken,
}

pub(super) struct Tool {
    /// The program, or its path.
    pub(super) program: PathBuf,
    pub(super) name: &'static str,
    /// Command that installs it in the folder of the plugin.
    pub(super) install: &'static str,
}

/// Builds a plugin of a language that is not compiled to a component by itself.
pub(super) async fn build(
    plugin: &PluginFolder,
    options: &BuildOptions,
    progress: &Progress,
    cancel: &CancellationToken,
) -> Result<BuiltPlugin, BuildError> {
    let started = Instant::now();
    let folder = tempfile::tempdir()
        .map_err(|source| file_error(&plugin.name, Path::new("the temporary folder"), source))?;
    let work = Work {
        plugin,
        folder: folder.path(),
        progress,
        deadline: options.deadline,
        cancel,
    };
    let (component, language) = match &plugin.language {
        Language::JavaScript { entry } => {
            (javascript::component(&work, entry).await?, "javascript")
        }
        Language::Python { module, path } => {
            (python::component(&work, module, path).await?, "python")
        }
        // Cargo makes components by itself.
        Language::Rust { .. } => (PathBuf::new(), "rust"),
    };
    stamp(&component, language).map_err(|source| file_error(&plugin.name, &component, source))?;
    place(plugin, &component, options, started.elapsed().as_secs_f64())
}

impl Work<'_> {
    /// Runs a tool to its end, in the folder of the plugin.
    pub(super) async fn run(
        &self,
        tool: &Tool,
        args: impl IntoIterator<Item = OsString>,
    ) -> Result<Finished, BuildError> {
        let progress = self.progress.clone();
        let args: Vec<OsString> = args.into_iter().collect();
        let running = toolchain::run(
            &tool.program,
            &args,
            &self.plugin.dir,
            self.deadline,
            Some(Arc::new(move |stream, line| {
                if stream == Stream::Stderr {
                    progress(line);
                }
            })),
            self.cancel,
        );
        let finished = running.await.map_err(|error| {
            if error.source.kind() == std::io::ErrorKind::NotFound {
                self.missing(tool)
            } else {
                BuildError::Spawn(error)
            }
        })?;
        match finished.ending {
            Ending::Exited(0) => Ok(finished),
            Ending::Cancelled => Err(BuildError::Cancelled),
            Ending::Deadline => Err(BuildError::Deadline {
                plugins: vec![self.plugin.name.clone()],
                seconds: self.deadline.as_secs(),
            }),
            _ => Err(BuildError::Compile {
                plugins: vec![self.plugin.name.clone()],
                // Only lines of standard error were handed on, and some tools write their errors to the other stream.
                was_streamed: finished.stdout.text().trim().is_empty(),
                text: format!("{}{}", finished.stdout.text(), finished.stderr.text()),
            }),
        }
    }

    fn missing(&self, tool: &Tool) -> BuildError {
        BuildError::NoTool {
            plugin: self.plugin.name.clone(),
            tool: tool.name.to_owned(),
            command: tool.install.to_owned(),
            dir: self.plugin.dir.clone(),
        }
    }

    pub(super) fn file(&self, path: &Path, source: std::io::Error) -> BuildError {
        file_error(&self.plugin.name, path, source)
    }
}

/// Adds the section that tells the host, before it compiles the component, what that was built with.
fn stamp(component: &Path, language: &str) -> std::io::Result<()> {
    let stamp = stamp::Stamp {
        contract: contract::CURRENT.to_owned(),
        language: language.to_owned(),
        sdk: format!("rind-sdk {}", env!("CARGO_PKG_VERSION")),
    };
    let mut bytes = std::fs::read(component)?;
    stamp.append_to(&mut bytes)?;
    std::fs::write(component, bytes)
}
