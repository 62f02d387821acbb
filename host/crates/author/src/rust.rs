//! Builds Rust plugins with one call of cargo per cargo workspace. The output does not depend on
//! the workspace's location.
//!
//! Plugins in the same workspace are compiled by one call, so their common dependencies are
//! compiled only once.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use super::build::{BuildOptions, BuildReport, ProgressCallback, store_built_component};
use super::compilation::{CargoBuildEnvironment, PLUGIN_CARGO_PROFILE};
use super::folder::{PluginFolder, PluginLanguage};
use super::shared::LockedSharedTargetFolder;
use super::sources::find_patched_dependency_folders;
use super::target::WASM_TARGET_TRIPLE;
use super::{BuildError, cargo_config, toolchain};
use rind_lib::lock::lock_ignoring_poison;
use rind_lib::tool::process::{
    FinishedProcess, OutputLineCallback, ProcessEndReason, ProcessOutputStream,
};

/// Returns the directory of the cargo workspace that contains the crate.
pub(super) async fn find_cargo_workspace(
    plugin: &PluginFolder,
    cancel: &CancellationToken,
) -> Result<PathBuf, BuildError> {
    let args = ["locate-project", "--workspace", "--message-format", "plain"];
    let asked = toolchain::capture_program_output("cargo", &args, &plugin.dir, cancel).await;
    let manifest = asked.map_err(|error| match error {
        BuildError::Toolchain { command, text } => BuildError::Toolchain {
            command,
            text: make_paths_absolute(&text, &plugin.dir),
        },
        error => error,
    })?;
    let manifest = PathBuf::from(manifest);
    Ok(manifest.parent().unwrap_or(&plugin.dir).to_owned())
}

/// Makes the paths in cargo's messages absolute. Cargo prints them relative to its working
/// directory, which is not the user's working directory.
fn make_paths_absolute(text: &str, dir: &Path) -> String {
    const SOURCE_LOCATION_ARROW: &str = "--> ";
    let lines = text.split_inclusive('\n').map(|line| {
        let Some((before, place)) = line.split_once(SOURCE_LOCATION_ARROW) else {
            return line.to_owned();
        };
        let (mut whole, mut rest) = (dir.to_owned(), place);
        while let Some(above) = rest.strip_prefix("../") {
            whole.pop();
            rest = above;
        }
        match Path::new(place).is_absolute() {
            true => line.to_owned(),
            false => format!("{before}{SOURCE_LOCATION_ARROW}{}/{rest}", whole.display()),
        }
    });
    lines.collect()
}

pub(super) async fn build_workspace(
    workspace: &Path,
    members: &[PluginFolder],
    options: &BuildOptions,
    progress: &ProgressCallback,
    cancel: &CancellationToken,
    report: &mut BuildReport,
) -> Result<(), BuildError> {
    let names: Vec<String> = members.iter().map(|plugin| plugin.name.clone()).collect();
    progress(&format!("building {}", names.join(", ")));
    let started = Instant::now();
    let call = CargoBuildCommand::prepare(workspace, members, options, progress, cancel).await?;
    let mut artifacts = Arc::new(BuiltCargoComponents::default());
    let mut finished = call
        .run(&artifacts, options, progress, started, cancel)
        .await?;
    if finished.ending == ProcessEndReason::Exited(0)
        && call.has_reused_outdated_artifacts(&artifacts)
    {
        call.remove_package_artifacts(cancel).await?;
        artifacts = Arc::default();
        finished = call
            .run(&artifacts, options, progress, started, cancel)
            .await?;
    }
    match finished.ending {
        ProcessEndReason::Cancelled => return Err(BuildError::Cancelled),
        ProcessEndReason::Deadline => {
            report.failed.push(BuildError::Deadline {
                plugins: names,
                seconds: options.deadline.as_secs(),
            });
            return Ok(());
        }
        ProcessEndReason::Exited(_)
        | ProcessEndReason::Signaled(_)
        | ProcessEndReason::Exceeded(_) => {}
    }
    let has_failed = finished.ending != ProcessEndReason::Exited(0);
    let mut not_built = Vec::new();
    for plugin in members {
        match artifacts.find_artifact(plugin) {
            Some(artifact) => {
                call.record_compiled_sources();
                match store_built_component(plugin, &artifact.path, options, artifact.seconds) {
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

/// Call of cargo that compiles the plugins of one workspace.
struct CargoBuildCommand<'a> {
    workspace: &'a Path,
    arguments: Vec<OsString>,
    /// Shared target directory in which cargo compiles, if any. A call with a shared directory
    /// compiles exactly one plugin.
    shared: Option<LockedSharedTargetFolder>,
    plugin: Option<&'a PluginFolder>,
}

impl<'a> CargoBuildCommand<'a> {
    async fn prepare(
        workspace: &'a Path,
        members: &'a [PluginFolder],
        options: &BuildOptions,
        progress: &ProgressCallback,
        cancel: &CancellationToken,
    ) -> Result<Self, BuildError> {
        let version =
            toolchain::capture_program_output("rustc", &["-vV"], workspace, cancel).await?;
        let sysroot =
            toolchain::capture_program_output("rustc", &["--print", "sysroot"], workspace, cancel)
                .await?;
        let print = ["--print", "cfg", "--target", WASM_TARGET_TRIPLE];
        let cfg = toolchain::capture_program_output("rustc", &print, workspace, cancel).await?;
        let cargo_home = toolchain::cargo_home();
        let metadata = read_metadata(workspace, cancel).await;
        let sdk = metadata.as_ref().and_then(|metadata| {
            metadata.sdk_folder_for_shared_target_dir(workspace, members, options)
        });
        let shared = match (&options.shared, &sdk) {
            (Some(folders), Some(sdk)) => {
                let sdk = sdk.to_string_lossy();
                let key = [version.as_str(), sysroot.as_str(), &*sdk];
                LockedSharedTargetFolder::open(&folders.builds, &key, progress, cancel).await
            }
            _ => None,
        };
        let target_dir = match (&shared, metadata) {
            (Some(shared), _) => Some(shared.folder.clone()),
            (None, Some(metadata)) => metadata.external_target_dir(workspace),
            // `cargo metadata` failed. Its error is not reported here, because the build fails with
            // the same error.
            (None, None) => toolchain::cargo_target_dir_from_env(),
        };
        let machine = CargoBuildEnvironment {
            workspace,
            version: &version,
            sysroot: Path::new(&sysroot),
            target_dir,
            has_target_flags: cargo_config::has_target_specific_flags(
                workspace,
                cargo_home.as_deref(),
                &cfg,
            ),
            cargo_home,
        };
        let mut call = Self {
            workspace,
            arguments: Vec::new(),
            plugin: members.first(),
            shared,
        };
        call.arguments = match (&call.shared, members) {
            (Some(shared), [plugin]) => {
                let mut args = machine.cargo_rustc_arguments(package_name(plugin));
                args.insert(1, "--target-dir".into());
                args.insert(2, shared.folder.clone().into());
                args
            }
            _ => {
                let mut args = machine.cargo_build_arguments();
                args.push("--keep-going".into());
                args.push("--message-format=json-render-diagnostics".into());
                for plugin in members {
                    args.push("-p".into());
                    args.push(package_name(plugin).into());
                }
                args
            }
        };
        Ok(call)
    }

    async fn run(
        &self,
        artifacts: &Arc<BuiltCargoComponents>,
        options: &BuildOptions,
        progress: &ProgressCallback,
        started: Instant,
        cancel: &CancellationToken,
    ) -> Result<FinishedProcess, BuildError> {
        let on_line = cargo_output_handler(artifacts.clone(), progress.clone(), started);
        let running = toolchain::run_toolchain_program(
            "cargo",
            &self.arguments,
            self.workspace,
            options.deadline,
            Some(on_line),
            cancel,
        );
        Ok(running.await?)
    }

    /// Returns the shared target directory, the package's name, and a text that identifies the
    /// plugin's sources: path and inode of their directory, and their digest.
    fn shared_build_identity(&self) -> Option<(&LockedSharedTargetFolder, &'a str, String)> {
        let (shared, plugin) = (self.shared.as_ref()?, self.plugin?);
        let inode = plugin.dir.metadata().map_or(0, |folder| folder.ino());
        let digest = plugin.sources.as_deref().unwrap_or_default();
        let sources = format!("{} {inode} {digest}", plugin.dir.display());
        Some((shared, package_name(plugin), sources))
    }

    /// Whether cargo reused artifacts that were compiled from other sources. This can happen
    /// because cargo compares only modification times.
    fn has_reused_outdated_artifacts(&self, artifacts: &BuiltCargoComponents) -> bool {
        self.shared_build_identity()
            .is_some_and(|(shared, package, sources)| {
                artifacts.has_fresh_artifact()
                    && !shared.is_package_compiled_from_sources(package, &sources)
            })
    }

    /// Removes the package's artifacts from the shared target directory.
    async fn remove_package_artifacts(&self, cancel: &CancellationToken) -> Result<(), BuildError> {
        let Some((shared, package, _)) = self.shared_build_identity() else {
            return Ok(());
        };
        let folder = shared.folder.to_string_lossy();
        let args = ["clean", "-p", package, "--target-dir", &*folder];
        let args = [
            &args[..],
            &[
                "--target",
                WASM_TARGET_TRIPLE,
                "--profile",
                PLUGIN_CARGO_PROFILE,
            ],
        ]
        .concat();
        let settings = [
            "--config".to_owned(),
            format!("profile.{PLUGIN_CARGO_PROFILE}.inherits=\"release\""),
        ];
        let args = [&args[..], &settings.each_ref().map(String::as_str)].concat();
        let cleaned =
            toolchain::capture_program_output("cargo", &args, self.workspace, cancel).await;
        cleaned.map(drop)
    }

    fn record_compiled_sources(&self) {
        if let Some((shared, package, sources)) = self.shared_build_identity() {
            shared.record_compiled_sources(package, &sources);
        }
    }
}

/// Output of `cargo metadata`, reduced to the fields that are used.
#[derive(Deserialize)]
struct CargoMetadata {
    target_directory: PathBuf,
    /// Directory of intermediate build files; `None` if cargo reports none.
    build_directory: Option<PathBuf>,
    packages: Vec<CargoPackage>,
}

#[derive(Deserialize)]
struct CargoPackage {
    manifest_path: PathBuf,
    dependencies: Vec<CargoDependency>,
}

#[derive(Deserialize)]
struct CargoDependency {
    /// Folder of the dependency, if it is on this machine.
    path: Option<PathBuf>,
}

/// Runs `cargo metadata` for a workspace; `None` if it fails.
async fn read_metadata(workspace: &Path, cancel: &CancellationToken) -> Option<CargoMetadata> {
    let args = ["metadata", "--no-deps", "--format-version", "1"];
    let asked = toolchain::capture_program_output("cargo", &args, workspace, cancel).await;
    serde_json::from_str(&asked.ok()?).ok()
}

impl CargoMetadata {
    /// Returns the directory of build artifacts and generated sources; `None` if it is cargo's
    /// default within the workspace. Cargo's settings can choose any other directory.
    fn external_target_dir(self, workspace: &Path) -> Option<PathBuf> {
        let found = self.build_directory.unwrap_or(self.target_directory);
        let is_named = toolchain::cargo_target_dir_from_env().is_some();
        (is_named || !found.starts_with(workspace)).then_some(found)
    }

    /// Returns the folder of the plugin's SDK if the plugin can be compiled in a shared target
    /// directory; `None` otherwise. The plugin must have its own workspace. The only crate in the
    /// workspace's folder that it depends on must be an SDK that Rind unpacked. No setting of cargo
    /// may choose a target directory.
    fn sdk_folder_for_shared_target_dir(
        &self,
        workspace: &Path,
        members: &[PluginFolder],
        options: &BuildOptions,
    ) -> Option<PathBuf> {
        let sdks = options.shared.as_ref()?.sdks.canonicalize().ok()?;
        let [plugin] = members else {
            return None;
        };
        let default = workspace.join("target");
        let is_default = |folder: &PathBuf| *folder == default;
        if plugin.dir != workspace
            || toolchain::cargo_target_dir_from_env().is_some()
            || !is_default(&self.target_directory)
            || !self.build_directory.iter().all(is_default)
        {
            return None;
        }
        // A folder that `[patch]` names could have the same path within another plugin.
        let patched = find_patched_dependency_folders(plugin, workspace).ok()?;
        if !patched.is_empty() {
            return None;
        }
        let mut sdk = None;
        for package in &self.packages {
            // The SDK is among the packages only if the plugin's `Cargo.toml` has `[workspace]`.
            let is_plugin = package.manifest_path == plugin.cargo_manifest();
            let own = (!is_plugin).then_some(&package.manifest_path);
            let dependencies = package.dependencies.iter();
            let folders = dependencies.filter_map(|dependency| dependency.path.as_ref());
            // Outside of the workspace, the whole path is a part of the name of artifacts.
            let inside = folders.filter(|folder| folder.starts_with(workspace));
            for path in own.into_iter().chain(inside) {
                let real = path.canonicalize().ok()?;
                let below = real.strip_prefix(&sdks).ok()?;
                sdk = Some(sdks.join(below.components().next()?));
            }
        }
        sdk
    }
}

fn package_name(plugin: &PluginFolder) -> &str {
    match &plugin.language {
        PluginLanguage::Rust { package } => package,
        PluginLanguage::JavaScript { .. } | PluginLanguage::Python { .. } => &plugin.name,
    }
}

fn cargo_output_handler(
    artifacts: Arc<BuiltCargoComponents>,
    progress: ProgressCallback,
    started: Instant,
) -> OutputLineCallback {
    Arc::new(move |stream, line| match stream {
        ProcessOutputStream::Stdout => artifacts.record_artifact(line, started.elapsed()),
        ProcessOutputStream::Stderr => progress(line),
    })
}

/// Components that cargo reported as built, by the paths of their `Cargo.toml`.
#[derive(Default)]
struct BuiltCargoComponents(Mutex<BTreeMap<PathBuf, CargoArtifact>>);

#[derive(Clone)]
struct CargoArtifact {
    path: PathBuf,
    /// Seconds from the start of cargo until the component was built.
    seconds: f64,
    /// Whether cargo considered the component up to date and did not compile it.
    is_fresh: bool,
}

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
    #[serde(default)]
    fresh: bool,
}

#[derive(Default, Deserialize)]
struct CargoTarget {
    kind: Vec<String>,
}

impl BuiltCargoComponents {
    fn record_artifact(&self, line: &str, elapsed: Duration) {
        // A line that is not a message was printed by a build script or a macro.
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
            let artifact = CargoArtifact {
                path: component,
                seconds: elapsed.as_secs_f64(),
                is_fresh: message.fresh,
            };
            lock_ignoring_poison(&self.0).insert(message.manifest_path, artifact);
        }
    }

    fn find_artifact(&self, plugin: &PluginFolder) -> Option<CargoArtifact> {
        lock_ignoring_poison(&self.0)
            .get(&plugin.cargo_manifest())
            .cloned()
    }

    fn has_fresh_artifact(&self) -> bool {
        lock_ignoring_poison(&self.0)
            .values()
            .any(|artifact| artifact.is_fresh)
    }
}
