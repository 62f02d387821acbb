//! Rust plugins: one call of cargo per cargo workspace. The output does not depend on the
//! workspace's location.
//!
//! Plugins in the same workspace are compiled by one call, which also compiles their dependencies
//! only once.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use super::build::{BuildOptions, BuildReport, Progress, place_component};
use super::compilation::Machine;
use super::folder::{PluginFolder, PluginLanguage};
use super::target::TARGET;
use super::{BuildError, cargo_config, toolchain};
use rind_lib::lock::lock;
use rind_lib::tool::process::{Ending, OnLine, Stream};

/// Returns the directory of the cargo workspace that contains the crate.
pub(super) async fn workspace_of(
    plugin: &PluginFolder,
    cancel: &CancellationToken,
) -> Result<PathBuf, BuildError> {
    let args = ["locate-project", "--workspace", "--message-format", "plain"];
    let asked = toolchain::ask_program("cargo", &args, &plugin.dir, cancel).await;
    let manifest = asked.map_err(|error| match error {
        BuildError::Toolchain { command, text } => BuildError::Toolchain {
            command,
            text: with_whole_paths(&text, &plugin.dir),
        },
        error => error,
    })?;
    let manifest = PathBuf::from(manifest);
    Ok(manifest.parent().unwrap_or(&plugin.dir).to_owned())
}

/// Makes the paths in cargo's messages absolute. Cargo prints them relative to its working
/// directory, which the reader does not know.
fn with_whole_paths(text: &str, dir: &Path) -> String {
    const PLACE: &str = "--> ";
    let lines = text.split_inclusive('\n').map(|line| {
        let Some((before, place)) = line.split_once(PLACE) else {
            return line.to_owned();
        };
        let (mut whole, mut rest) = (dir.to_owned(), place);
        while let Some(above) = rest.strip_prefix("../") {
            whole.pop();
            rest = above;
        }
        match Path::new(place).is_absolute() {
            true => line.to_owned(),
            false => format!("{before}{PLACE}{}/{rest}", whole.display()),
        }
    });
    lines.collect()
}

pub(super) async fn build_workspace(
    workspace: &Path,
    members: &[PluginFolder],
    options: &BuildOptions,
    progress: &Progress,
    cancel: &CancellationToken,
    report: &mut BuildReport,
) -> Result<(), BuildError> {
    let names: Vec<String> = members.iter().map(|plugin| plugin.name.clone()).collect();
    progress(&format!("building {}", names.join(", ")));
    let arguments = cargo_arguments(workspace, members, cancel).await?;
    let artifacts = Arc::new(CargoArtifacts::default());
    let started = Instant::now();
    let finished = toolchain::run_program(
        "cargo",
        &arguments,
        workspace,
        options.deadline,
        Some(listen_to_cargo(
            artifacts.clone(),
            progress.clone(),
            started,
        )),
        cancel,
    )
    .await?;
    match finished.ending {
        Ending::Cancelled => return Err(BuildError::Cancelled),
        Ending::Deadline => {
            report.failed.push(BuildError::Deadline {
                plugins: names,
                seconds: options.deadline.as_secs(),
            });
            return Ok(());
        }
        Ending::Exited(_) | Ending::Signaled(_) | Ending::Exceeded(_) => {}
    }
    let has_failed = finished.ending != Ending::Exited(0);
    let mut not_built = Vec::new();
    for plugin in members {
        match artifacts.artifact_of(plugin) {
            Some((component, seconds)) => {
                match place_component(plugin, &component, options, seconds) {
                    Ok(built) => report.built.push(built),
                    Err(error) => report.failed.push(error),
                }
            }
            None if has_failed => not_built.push(plugin.name.clone()),
            None => report.failed.push(BuildError::NoComponent {
                plugin: plugin.name.clone(),
                package: package_name(plugin).to_owned(),
            }),
        }
    }
    if !not_built.is_empty() {
        report.failed.push(BuildError::Compile {
            plugins: not_built,
            text: finished.stderr.text(),
            was_streamed: true,
        });
    }
    Ok(())
}

/// Returns cargo's arguments for compiling these plugins.
async fn cargo_arguments(
    workspace: &Path,
    members: &[PluginFolder],
    cancel: &CancellationToken,
) -> Result<Vec<OsString>, BuildError> {
    let version = toolchain::ask_program("rustc", &["-vV"], workspace, cancel).await?;
    let sysroot =
        toolchain::ask_program("rustc", &["--print", "sysroot"], workspace, cancel).await?;
    let print = ["--print", "cfg", "--target", TARGET];
    let cfg = toolchain::ask_program("rustc", &print, workspace, cancel).await?;
    let cargo_home = toolchain::cargo_home();
    let machine = Machine {
        workspace,
        version: &version,
        sysroot: Path::new(&sysroot),
        target_dir: target_dir_of(workspace, cancel).await,
        has_target_flags: cargo_config::has_target_flags(workspace, cargo_home.as_deref(), &cfg),
        cargo_home,
    };
    let mut args = machine.arguments();
    args.push("--keep-going".into());
    args.push("--message-format=json-render-diagnostics".into());
    for plugin in members {
        args.push("-p".into());
        args.push(package_name(plugin).into());
    }
    Ok(args)
}

/// Part of `cargo metadata` that is read.
#[derive(Deserialize)]
struct CargoMetadata {
    target_directory: PathBuf,
    /// Directory of intermediate files, where cargo has a setting for it.
    build_directory: Option<PathBuf>,
}

/// Returns the directory of generated sources, unless it is cargo's default within the workspace.
/// Settings of cargo may place it anywhere, so cargo is asked.
async fn target_dir_of(workspace: &Path, cancel: &CancellationToken) -> Option<PathBuf> {
    let named = toolchain::target_dir();
    let args = ["metadata", "--no-deps", "--format-version", "1"];
    let asked = toolchain::ask_program("cargo", &args, workspace, cancel).await;
    // An error of cargo is reported by the build itself.
    let Some(metadata) = asked.ok().and_then(|text| serde_json::from_str(&text).ok()) else {
        return named;
    };
    let CargoMetadata {
        target_directory,
        build_directory,
    } = metadata;
    let found = build_directory.unwrap_or(target_directory);
    (named.is_some() || !found.starts_with(workspace)).then_some(found)
}

fn package_name(plugin: &PluginFolder) -> &str {
    match &plugin.language {
        PluginLanguage::Rust { package } => package,
        PluginLanguage::JavaScript { .. } | PluginLanguage::Python { .. } => &plugin.name,
    }
}

fn listen_to_cargo(artifacts: Arc<CargoArtifacts>, progress: Progress, started: Instant) -> OnLine {
    Arc::new(move |stream, line| match stream {
        Stream::Stdout => artifacts.note_artifact(line, started.elapsed()),
        Stream::Stderr => progress(line),
    })
}

/// Components that cargo reported, by the path of their `Cargo.toml`, each with the seconds until
/// it was built.
#[derive(Default)]
struct CargoArtifacts(Mutex<BTreeMap<PathBuf, (PathBuf, f64)>>);

/// Message of cargo, reduced to the fields that are used.
#[derive(Deserialize)]
struct CargoMessage {
    reason: String,
    #[serde(default)]
    manifest_path: PathBuf,
    #[serde(default)]
    target: CargoTarget,
    #[serde(default)]
    filenames: Vec<PathBuf>,
}

#[derive(Default, Deserialize)]
struct CargoTarget {
    kind: Vec<String>,
}

impl CargoArtifacts {
    fn note_artifact(&self, line: &str, elapsed: Duration) {
        // A line that is not a message is output of a build script or a macro.
        let Ok(message) = serde_json::from_str::<CargoMessage>(line) else {
            return;
        };
        let is_library = message.target.kind.iter().any(|kind| kind == "cdylib");
        let component = message.filenames.into_iter().find(|path| {
            path.extension()
                .is_some_and(|extension| extension == "wasm")
        });
        if let Some(component) = component
            && message.reason == "compiler-artifact"
            && is_library
        {
            lock(&self.0).insert(message.manifest_path, (component, elapsed.as_secs_f64()));
        }
    }

    fn artifact_of(&self, plugin: &PluginFolder) -> Option<(PathBuf, f64)> {
        lock(&self.0).get(&plugin.cargo_manifest()).cloned()
    }
}
