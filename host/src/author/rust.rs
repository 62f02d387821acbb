//! Rust plugins: one cargo call for each cargo workspace, with the same bytes wherever it lies.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use super::build::{BuildOptions, BuildReport, Progress, place};
use super::folder::{Language, PluginFolder};
use super::{BuildError, toolchain};
use crate::tool::process::{Ending, OnLine, Stream};

/// The cargo profile that plugins are built with. Given on the command line, so that any crate gets it without writing it.
const PROFILE: [&str; 6] = [
    "inherits=\"release\"",
    "opt-level=3",
    "lto=true",
    "codegen-units=1",
    "strip=true",
    "panic=\"abort\"",
];

/// Returns the folder of the cargo workspace that contains the crate.
pub(super) async fn workspace_of(
    plugin: &PluginFolder,
    cancel: &CancellationToken,
) -> Result<PathBuf, BuildError> {
    let args = ["locate-project", "--workspace", "--message-format", "plain"];
    let manifest = PathBuf::from(toolchain::ask("cargo", &args, &plugin.dir, cancel).await?);
    Ok(manifest.parent().unwrap_or(&plugin.dir).to_owned())
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
    let remap = remap(workspace, cancel).await?;
    let artifacts = Arc::new(Artifacts::default());
    let started = Instant::now();
    let finished = toolchain::run(
        "cargo",
        &cargo_arguments(members, &remap),
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
                package: package(plugin).to_owned(),
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

/// Returns the setting that keeps the folders of this machine out of components: the same source is to give the same digest in
/// any folder. As a setting and not as `RUSTFLAGS`, which would take the place of a workspace's own flags.
async fn remap(workspace: &Path, cancel: &CancellationToken) -> Result<String, BuildError> {
    let version = toolchain::ask("rustc", &["-vV"], workspace, cancel).await?;
    let commit = version
        .lines()
        .find_map(|line| line.strip_prefix("commit-hash: "))
        .unwrap_or("unknown");
    let sysroot = toolchain::ask("rustc", &["--print", "sysroot"], workspace, cancel).await?;
    let library = Path::new(&sysroot).join("lib/rustlib/src/rust");
    let mut folders = vec![
        (workspace.to_owned(), "/plugin".to_owned()),
        // The standard library's own name for it, also where its source is installed.
        (library, format!("/rustc/{commit}")),
    ];
    let named = [toolchain::target_dir(), toolchain::cargo_home()];
    folders.extend(
        named
            .into_iter()
            .zip(["/target", "/cargo"])
            .filter_map(|(folder, name)| Some((folder?, name.to_owned()))),
    );
    let flags = folders
        .iter()
        .map(|(folder, name)| format!("--remap-path-prefix={}={name}", folder.display()));
    let flags = flags.map(toml::Value::String).collect();
    Ok(format!("build.rustflags={}", toml::Value::Array(flags)))
}

fn cargo_arguments(members: &[PluginFolder], remap: &str) -> Vec<OsString> {
    let mut args: Vec<OsString> = [
        "build",
        "--target",
        toolchain::TARGET,
        "--profile",
        "plugin",
        "--keep-going",
        "--message-format=json-render-diagnostics",
    ]
    .map(OsString::from)
    .to_vec();
    for setting in PROFILE {
        args.push("--config".into());
        args.push(format!("profile.plugin.{setting}").into());
    }
    args.push("--config".into());
    args.push(remap.into());
    for plugin in members {
        args.push("-p".into());
        args.push(package(plugin).into());
    }
    args
}

fn package(plugin: &PluginFolder) -> &str {
    match &plugin.language {
        Language::Rust { package } => package,
        Language::JavaScript { .. } | Language::Python { .. } => &plugin.name,
    }
}

fn listener(artifacts: Arc<Artifacts>, progress: Progress, started: Instant) -> OnLine {
    Arc::new(move |stream, line| match stream {
        Stream::Stdout => artifacts.note(line, started.elapsed()),
        Stream::Stderr => progress(line),
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
        let component = message.filenames.into_iter().find(|path| {
            path.extension()
                .is_some_and(|extension| extension == "wasm")
        });
        if let Some(component) = component
            && message.reason == "compiler-artifact"
            && is_library
        {
            self.0
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .insert(message.manifest_path, (component, elapsed.as_secs_f64()));
        }
    }

    fn of(&self, plugin: &PluginFolder) -> Option<(PathBuf, f64)> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&plugin.cargo_manifest())
            .cloned()
    }
}
