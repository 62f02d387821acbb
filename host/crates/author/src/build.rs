//! `rind plugin build`: builds the components of plugins in Rust, JavaScript or Python and stores
//! each at the path in its manifest.
//!
//! Each language is built with its usual tools. This module does not check the permissions of a
//! built component. Start from [`build_plugins`].

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::folder::{PluginFolder, PluginLanguage, plugin_file_error, plugin_folder_error};
use super::{BuildError, assemble, interpreted, rust, sdk, toolchain};
use rind_lib::plugin::contract::stamp;
use rind_lib::plugin::manifest::FILE_NAME;

/// Callback for progress, called with one line at a time. Output lines of compilers and other tools
/// are forwarded unchanged and may contain control characters.
pub type ProgressCallback = Arc<dyn Fn(&str) + Send + Sync>;

/// Options for building plugins.
#[derive(Clone, Debug)]
pub struct BuildOptions {
    /// Directories, each with `plugin.toml` and the manifest of its language: `Cargo.toml`,
    /// `package.json` or `pyproject.toml`.
    pub dirs: Vec<PathBuf>,
    /// Directory in which to assemble `NAME/` with all files of a plugin; `None` writes only the
    /// component, into the plugin's own directory.
    pub out: Option<PathBuf>,
    /// Timeout of one call of cargo or of another tool. The first build takes longest, because it
    /// downloads and compiles dependencies.
    pub deadline: Duration,
    /// Directories that all plugin builds on this machine share; `None` if the build must use none.
    pub shared: Option<SharedPluginBuildFolders>,
}

/// Directories that all plugin builds on this machine share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedPluginBuildFolders {
    /// Root of the unpacked SDKs. If a plugin's reference to the SDK does not resolve, the build
    /// creates symlinks to an SDK in this directory.
    pub sdks: PathBuf,
    /// Directory of the compiled dependencies of Rust plugins.
    pub builds: PathBuf,
}

/// Plugin that was built successfully.
#[derive(Clone, Debug, PartialEq)]
pub struct BuiltPlugin {
    /// Name of the plugin that was built.
    pub name: String,
    /// Path of the built WebAssembly component.
    pub path: PathBuf,
    /// Size of the WebAssembly component, in bytes.
    pub bytes: u64,
    /// Seconds from the start of the compiler until the component was written.
    pub seconds: f64,
}

/// Outcome of building one or more plugins.
#[derive(Debug, Default)]
pub struct BuildReport {
    /// Plugins that were built, in the order of [`BuildOptions::dirs`].
    pub built: Vec<BuiltPlugin>,
    /// Errors of the plugins whose build failed; each error names its plugins.
    pub failed: Vec<BuildError>,
}

/// Builds plugins. A failure of one plugin does not stop the others.
///
/// # Errors
/// No plugin can be built, because the toolchain or its target is missing, or the build was
/// cancelled.
pub async fn build_plugins(
    options: &BuildOptions,
    progress: &ProgressCallback,
    cancel: &CancellationToken,
) -> Result<BuildReport, BuildError> {
    let mut report = BuildReport::default();
    let mut plugins: Vec<PluginFolder> = Vec::new();
    for dir in &options.dirs {
        if let Err(error) = ensure_sdk_reference_resolves(dir, options, progress) {
            report.failed.push(error);
            continue;
        }
        match PluginFolder::read_folder(dir) {
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
    let mut workspaces: BTreeMap<PathBuf, Vec<PluginFolder>> = BTreeMap::new();
    for plugin in plugins.iter().filter(|plugin| is_rust_plugin(plugin)) {
        match rust::find_cargo_workspace(plugin, cancel).await {
            Ok(workspace) => workspaces
                .entry(workspace)
                .or_default()
                .push(plugin.clone()),
            Err(BuildError::Toolchain { text, .. }) => report.failed.push(BuildError::Compile {
                plugins: vec![plugin.name.clone()],
                text,
                was_streamed: false,
            }),
            Err(error) => return Err(error),
        }
    }
    for (workspace, members) in workspaces {
        toolchain::ensure_wasm_target(&workspace, progress, cancel).await?;
        rust::build_workspace(&workspace, &members, options, progress, cancel, &mut report).await?;
    }
    for plugin in plugins.iter().filter(|plugin| !is_rust_plugin(plugin)) {
        progress(&format!("building {}", plugin.name));
        match interpreted::build_interpreted_plugin(plugin, options, progress, cancel).await {
            Ok(built) => report.built.push(built),
            Err(BuildError::Cancelled) => return Err(BuildError::Cancelled),
            Err(error) => report.failed.push(error),
        }
    }
    let asked = |built: &BuiltPlugin| plugins.iter().position(|plugin| plugin.name == built.name);
    report.built.sort_by_key(asked);
    Ok(report)
}

/// Ensures that the plugin's reference to the SDK resolves, by creating missing symlinks. If no SDK
/// directory is shared, only checks that it resolves.
fn ensure_sdk_reference_resolves(
    dir: &Path,
    options: &BuildOptions,
    progress: &ProgressCallback,
) -> Result<(), BuildError> {
    let settled = match &options.shared {
        Some(shared) => sdk::create_missing_sdk_symlinks(dir, &shared.sdks, progress),
        None => sdk::check_plugin_sdk_path_resolves(dir),
    };
    settled.map_err(|source| plugin_folder_error(dir, source))
}

fn is_rust_plugin(plugin: &PluginFolder) -> bool {
    matches!(plugin.language, PluginLanguage::Rust { .. })
}

/// Stores a component, with the plugin's manifest embedded, at its final path.
pub(super) fn store_built_component(
    plugin: &PluginFolder,
    component: &Path,
    options: &BuildOptions,
    seconds: f64,
) -> Result<BuiltPlugin, BuildError> {
    let component = read_component_with_manifest(plugin, component)?;
    let path = match &options.out {
        Some(out) => assemble::assemble_plugin_in_output_folder(plugin, &component, out)?,
        None => assemble::write_component_to_plugin_folder(plugin, &component)?,
    };
    let bytes = path.metadata().map_or(0, |metadata| metadata.len());
    Ok(BuiltPlugin {
        name: plugin.name.clone(),
        path,
        bytes,
        seconds,
    })
}

/// Reads a component and returns its bytes, with the digest of the sources and the manifest
/// appended.
fn read_component_with_manifest(
    plugin: &PluginFolder,
    component: &Path,
) -> Result<Vec<u8>, BuildError> {
    let read = |path: &Path| {
        std::fs::read(path).map_err(|source| plugin_file_error(&plugin.name, path, source))
    };
    let mut bytes = read(component)?;
    let manifest = read(&plugin.dir.join(FILE_NAME))?;
    if let Some(digest) = &plugin.sources {
        stamp::append_source_digest_section(&mut bytes, digest)
            .map_err(|source| plugin_file_error(&plugin.name, component, source))?;
    }
    stamp::append_manifest_section(&mut bytes, &manifest)
        .map_err(|source| plugin_file_error(&plugin.name, component, source))?;
    Ok(bytes)
}
