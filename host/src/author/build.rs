//! `rind plugin build`: compiles plugin crates to components and puts each where its manifest says.
//!
//! One cargo call for each cargo workspace. What a built component may do is not this module's business. Start from
//! [`build`].

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use super::crates::PluginCrate;
use super::{BuildError, assemble, toolchain};
use crate::tool::process::{Ending, OnLine, Stream};

/// Told what is going on, line by line. Lines of cargo are passed on as they are and may hold control characters.
pub type Progress = Arc<dyn Fn(&str) + Send + Sync>;

/// The cargo profile that plugins are built with. Given on the command line, so that any crate gets it without writing it.
const PROFILE: [&str; 6] = [
    "inherits=\"release\"",
    "opt-level=3",
    "lto=true",
    "codegen-units=1",
    "strip=true",
    "panic=\"abort\"",
];

/// Options of a build.
#[derive(Clone, Debug)]
pub struct BuildOptions {
    /// Folders, each with `Cargo.toml` and `plugin.toml`.
    pub dirs: Vec<PathBuf>,
    /// Folder in which to assemble `NAME/` with all files of a plugin; `None` writes only the component, into its own folder.
    pub out: Option<PathBuf>,
    /// Deadline of one cargo call. First builds download and compile dependencies.
    pub deadline: Duration,
}

/// One plugin that was built.
#[derive(Clone, Debug, PartialEq)]
pub struct BuiltPlugin {
    /// Name of the plugin.
    pub name: String,
    /// Path of the component.
    pub path: PathBuf,
    /// Size of the component.
    pub bytes: u64,
    /// Seconds from the start of its cargo call until its component was there.
    pub seconds: f64,
}

/// Outcome of a build.
#[derive(Debug, Default)]
pub struct BuildReport {
    /// Plugins that were built, in the order they were asked for.
    pub built: Vec<BuiltPlugin>,
    /// Errors of those that failed; each names its plugins.
    pub failed: Vec<BuildError>,
}

/// Builds plugins. One that fails does not keep the others from being built.
///
/// # Errors
/// Nothing can be built: no toolchain, no target, cancelled.
pub async fn build(
    options: &BuildOptions,
    progress: &Progress,
    cancel: &CancellationToken,
) -> Result<BuildReport, BuildError> {
    let mut report = BuildReport::default();
    let mut plugins: Vec<PluginCrate> = Vec::new();
    for dir in &options.dirs {
        match PluginCrate::read(dir) {
            Ok(plugin) => match plugins.iter().find(|known| known.name == plugin.name) {
                Some(known) if known.dir == plugin.dir => {}
                Some(known) => report.failed.push(BuildError::SameName {
                    plugin: plugin.name,
                    first: known.dir.clone(),
                    second: plugin.dir,
                }),
                None => plugins.push(plugin),
            },
            Err(error) => report.failed.push(error),
        }
    }
    let mut workspaces: BTreeMap<PathBuf, Vec<PluginCrate>> = BTreeMap::new();
    for plugin in &plugins {
        match workspace_of(plugin, cancel).await {
            Ok(workspace) => workspaces
                .entry(workspace)
                .or_default()
                .push(plugin.clone()),
            Err(BuildError::Toolchain { text, .. }) => report.failed.push(BuildError::Compile {
                plugins: vec![plugin.name.clone()],
                text,
            }),
            Err(error) => return Err(error),
        }
    }
    for (workspace, members) in workspaces {
        toolchain::ensure_target(&workspace, progress, cancel).await?;
        build_workspace(&workspace, &members, options, progress, cancel, &mut report).await?;
    }
    let asked = |built: &BuiltPlugin| plugins.iter().position(|plugin| plugin.name == built.name);
    report.built.sort_by_key(asked);
    Ok(report)
}

async fn workspace_of(
    plugin: &PluginCrate,
    cancel: &CancellationToken,
) -> Result<PathBuf, BuildError> {
    let args = ["locate-project", "--workspace", "--message-format", "plain"];
    let manifest = PathBuf::from(toolchain::ask("cargo", &args, &plugin.dir, cancel).await?);
    Ok(manifest.parent().unwrap_or(&plugin.dir).to_owned())
}

async fn build_workspace(
    workspace: &Path,
    members: &[PluginCrate],
    options: &BuildOptions,
    progress: &Progress,
    cancel: &CancellationToken,
    report: &mut BuildReport,
) -> Result<(), BuildError> {
    let names: Vec<String> = members.iter().map(|plugin| plugin.name.clone()).collect();
    progress(&format!("building {}", names.join(", ")));
    let artifacts = Arc::new(Artifacts::default());
    let started = Instant::now();
    let finished = toolchain::run(
        "cargo",
        &cargo_arguments(members),
        workspace,
        options.deadline,
        Some(listener(artifacts.clone(), progress.clone(), started)),
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
        match artifacts.of(plugin) {
            Some((component, seconds)) => match place(plugin, &component, options, seconds) {
                Ok(built) => report.built.push(built),
                Err(error) => report.failed.push(error),
            },
            None if has_failed => not_built.push(plugin.name.clone()),
            None => report.failed.push(BuildError::NoComponent {
                plugin: plugin.name.clone(),
                package: plugin.package.clone(),
            }),
        }
    }
    if !not_built.is_empty() {
        report.failed.push(BuildError::Compile {
            plugins: not_built,
            text: finished.stderr.text(),
        });
    }
    Ok(())
}

fn cargo_arguments(members: &[PluginCrate]) -> Vec<String> {
    let options = "--profile plugin --keep-going --message-format=json-render-diagnostics";
    let mut args = vec![
        "build".to_owned(),
        format!("--target={}", toolchain::TARGET),
    ];
    args.extend(options.split(' ').map(str::to_owned));
    args.extend(PROFILE.map(|setting| format!("--config=profile.plugin.{setting}")));
    args.extend(
        members
            .iter()
            .map(|plugin| format!("--package={}", plugin.package)),
    );
    args
}

fn listener(artifacts: Arc<Artifacts>, progress: Progress, started: Instant) -> OnLine {
    Arc::new(move |stream, line| match stream {
        Stream::Stdout => artifacts.note(line, started.elapsed()),
        Stream::Stderr => progress(line),
    })
}

fn place(
    plugin: &PluginCrate,
    component: &Path,
    options: &BuildOptions,
    seconds: f64,
) -> Result<BuiltPlugin, BuildError> {
    let path = match &options.out {
        Some(out) => assemble::in_out(plugin, component, out)?,
        None => assemble::in_place(plugin, component)?,
    };
    let bytes = path.metadata().map_or(0, |metadata| metadata.len());
    Ok(BuiltPlugin {
        name: plugin.name.clone(),
        path,
        bytes,
        seconds,
    })
}

/// The components that cargo said it made, by the `Cargo.toml` they are from, with the seconds it took.
#[derive(Default)]
struct Artifacts(Mutex<BTreeMap<PathBuf, (PathBuf, f64)>>);

/// A message of cargo: the fields that are used.
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

impl Artifacts {
    fn note(&self, line: &str, elapsed: Duration) {
        // What is not a message is what a build script or a macro printed.
        let Ok(message) = serde_json::from_str::<CargoMessage>(line) else {
            return;
        };
        let is_library = message.target.kind.iter().any(|kind| kind == "cdylib");
        let is_component = |path: &PathBuf| path.extension().is_some_and(|it| it == "wasm");
        if let Some(component) = message.filenames.into_iter().find(is_component)
            && message.reason == "compiler-artifact"
            && is_library
        {
            let made = (component, elapsed.as_secs_f64());
            self.all().insert(message.manifest_path, made);
        }
    }

    fn of(&self, plugin: &PluginCrate) -> Option<(PathBuf, f64)> {
        self.all().get(&plugin.cargo_manifest()).cloned()
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<PathBuf, (PathBuf, f64)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
