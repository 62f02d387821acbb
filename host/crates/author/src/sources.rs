//! Finds the directories from which a build takes code: anyone who can write to them decides which
//! code a build runs.
//!
//! Dependencies are read from `cargo metadata`, which runs no code of the crates. This module does
//! not check who can write to the directories. Start from [`find_plugin_source_folders`].

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use super::build::ProgressCallback;
use super::folder::{PluginFolder, PluginLanguage, plugin_file_error, plugin_folder_error};
use super::sdk::create_missing_sdk_symlinks;
use super::{BuildError, toolchain};
use rind_lib::lock::lock_ignoring_poison;
use rind_lib::tool::process::{OutputLineCallback, ProcessEndReason, ProcessOutputStream};

/// Maximum number of crates whose path dependencies are followed.
const MAX_FOLLOWED_CRATES: usize = 256;

/// Output of `cargo metadata`, reduced to the fields that are used.
#[derive(Deserialize)]
struct CargoMetadata {
    packages: Vec<CargoPackage>,
    target_directory: PathBuf,
    workspace_root: PathBuf,
}

#[derive(Deserialize)]
struct CargoPackage {
    manifest_path: PathBuf,
    dependencies: Vec<CargoDependency>,
}

#[derive(Deserialize)]
struct CargoDependency {
    path: Option<PathBuf>,
}

/// Returns the directories with code that a build of the plugin compiles or runs, with symlinks
/// resolved, starting with the plugin's own. For Rust, these are its cargo workspace, cargo's
/// target directory, and path dependencies.
///
/// If the plugin's reference to the SDK does not resolve, as in a fresh clone, symlinks to an SDK
/// below `sdks` are created first, as in a build, because cargo reads no crate whose dependencies
/// are missing.
///
/// # Errors
/// The directory is not a plugin, the SDK cannot be unpacked, or cargo cannot read its files.
pub async fn find_plugin_source_folders(
    dir: &Path,
    sdks: &Path,
    cancel: &CancellationToken,
) -> Result<Vec<PathBuf>, BuildError> {
    let silent: ProgressCallback = Arc::new(|_| {});
    create_missing_sdk_symlinks(dir, sdks, &silent)
        .map_err(|source| plugin_folder_error(dir, source))?;
    let plugin = PluginFolder::read_folder(dir)?;
    let mut found = vec![plugin.dir.clone()];
    match &plugin.language {
        PluginLanguage::Rust { .. } => {
            collect_cargo_source_folders(&plugin, &mut found, cancel).await?
        }
        PluginLanguage::Python { path, .. } => {
            for folder in path {
                add_source_folder(&mut found, folder);
            }
        }
        PluginLanguage::JavaScript { .. } => {
            add_npm_package_folder(&mut found, &plugin.dir.join("node_modules"))
        }
    }
    Ok(found)
}

/// Adds the canonical path of a directory, unless `found` already contains it. Returns whether the
/// path was added.
fn add_source_folder(found: &mut Vec<PathBuf>, folder: &Path) -> bool {
    let real = folder.canonicalize();
    let folder = real.unwrap_or_else(|_| folder.to_owned());
    let is_new = !found.contains(&folder);
    if is_new {
        found.push(folder);
    }
    is_new
}

fn is_same_folder(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().ok();
    real(one).is_some_and(|one| Some(one) == real(other))
}

/// Adds a directory of npm packages. Packages in it that are symlinks are added by the targets of
/// the symlinks.
fn add_npm_package_folder(found: &mut Vec<PathBuf>, folder: &Path) {
    add_source_folder(found, folder);
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_symlink() {
            add_source_folder(found, &path);
        } else if entry.file_name().to_string_lossy().starts_with('@') {
            add_npm_package_folder(found, &path);
        }
    }
}

async fn collect_cargo_source_folders(
    plugin: &PluginFolder,
    found: &mut Vec<PathBuf>,
    cancel: &CancellationToken,
) -> Result<(), BuildError> {
    let mut crates = vec![plugin.dir.clone()];
    let mut n_seen = 0;
    while let Some(folder) = crates.pop() {
        n_seen += 1;
        if n_seen > MAX_FOLLOWED_CRATES {
            let problem = format!("it depends on more than {MAX_FOLLOWED_CRATES} crates by path");
            return Err(cargo_metadata_error(plugin, problem));
        }
        let metadata = read_cargo_metadata(plugin, &folder, cancel).await?;
        add_source_folder(found, &metadata.workspace_root);
        add_source_folder(found, &metadata.target_directory);
        let mut named = find_patched_dependency_folders(plugin, &metadata.workspace_root)?;
        let manifest = folder.join("Cargo.toml");
        let is_it = |package: &&CargoPackage| is_same_folder(&package.manifest_path, &manifest);
        let own = metadata.packages.iter().filter(is_it);
        let depended = own.flat_map(|package| &package.dependencies);
        named.extend(depended.filter_map(|crate_| crate_.path.clone()));
        crates.extend(
            named
                .into_iter()
                .filter(|folder| add_source_folder(found, folder)),
        );
    }
    Ok(())
}

/// Runs `cargo metadata` for the workspace of a crate. Runs it in the plugin's directory, so that
/// the plugin's toolchain is used.
async fn read_cargo_metadata(
    plugin: &PluginFolder,
    folder: &Path,
    cancel: &CancellationToken,
) -> Result<CargoMetadata, BuildError> {
    let manifest = folder.join("Cargo.toml");
    let manifest = manifest.to_string_lossy();
    let args = [
        "metadata",
        "--no-deps",
        "--format-version=1",
        "--manifest-path",
        &*manifest,
    ];
    // The output is one long line, which is passed to the callback in pieces.
    let text: Arc<Mutex<String>> = Arc::default();
    let on_line: OutputLineCallback = {
        let text = text.clone();
        Arc::new(move |stream, line| {
            if stream == ProcessOutputStream::Stdout {
                lock_ignoring_poison(&text).push_str(line);
            }
        })
    };
    let finished =
        toolchain::stream_program_output_lines("cargo", &args, &plugin.dir, on_line, cancel)
            .await?;
    match finished.ending {
        ProcessEndReason::Exited(0) => {}
        ProcessEndReason::Cancelled => return Err(BuildError::Cancelled),
        _ => return Err(cargo_metadata_error(plugin, finished.stderr.text())),
    }
    serde_json::from_str(&lock_ignoring_poison(&text))
        .map_err(|error| cargo_metadata_error(plugin, format!("cargo metadata: {error}")))
}

/// Returns the directories to which the workspace's `[patch]` sections redirect dependencies.
pub(super) fn find_patched_dependency_folders(
    plugin: &PluginFolder,
    workspace: &Path,
) -> Result<Vec<PathBuf>, BuildError> {
    let path = workspace.join("Cargo.toml");
    let text = std::fs::read_to_string(&path);
    let text = text.map_err(|source| plugin_file_error(&plugin.name, &path, source))?;
    let table: toml::Table =
        toml::from_str(&text).map_err(|error| cargo_metadata_error(plugin, error.to_string()))?;
    let patch = table.get("patch").and_then(toml::Value::as_table);
    let sources = patch.into_iter().flat_map(toml::Table::values);
    let crates = sources
        .filter_map(toml::Value::as_table)
        .flat_map(toml::Table::values);
    let folders = crates.filter_map(|patched| Some(workspace.join(patched.get("path")?.as_str()?)));
    Ok(folders.collect())
}

fn cargo_metadata_error(plugin: &PluginFolder, problem: String) -> BuildError {
    BuildError::Manifest {
        plugin: plugin.name.clone(),
        path: plugin.cargo_manifest(),
        problem,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[tokio::test]
    async fn the_sources_of_a_plugin_that_was_cloned_have_the_sdk_that_it_refers_to() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let sdks = root.join("sdks");
        let manifest =
            "name = \"p\"\nversion = \"0.1.0\"\ndescription = \"d\"\ncomponent = \"p.wasm\"\n";
        for (file, text, source) in [
            (
                "pyproject.toml",
                "[tool.rind]\nmodule = \"plugin\"\npath = [\".rind-sdk/python\"]\n",
                "plugin.py",
            ),
            (
                "package.json",
                "{\"main\": \"src/plugin.js\"}",
                "src/plugin.js",
            ),
        ] {
            let dir = root.join(source);
            for (path, text) in [("plugin.toml", manifest), (file, text), (source, "")] {
                let path = dir.join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            let found = find_plugin_source_folders(&dir, &sdks, &CancellationToken::new()).await;
            let found = found.unwrap();
            assert_eq!(found[0], dir);
            let has_sdk = found.iter().any(|folder| folder.starts_with(&sdks));
            assert!(has_sdk, "{file}: {found:?}");
        }
    }
}
