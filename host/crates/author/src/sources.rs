//! Directories that a build takes code from: anyone who can write to them decides which code a
//! build runs.
//!
//! Cargo reports the dependencies; `cargo metadata` runs no code of the crates. This module must
//! not know who can write where. Start from [`sources`].

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use super::folder::{Language, PluginFolder, file_error};
use super::{BuildError, toolchain};
use rind_lib::lock::lock;
use rind_lib::tool::process::{Ending, OnLine, Stream};

/// Maximum number of crates whose dependencies are followed.
const MAX_CRATES: usize = 256;

/// Output of `cargo metadata`, reduced to the fields that are used.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    target_directory: PathBuf,
    workspace_root: PathBuf,
}

#[derive(Deserialize)]
struct Package {
    manifest_path: PathBuf,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    path: Option<PathBuf>,
}

/// Returns the directories with code that a build of the plugin compiles or runs, without symlinks,
/// starting with the plugin's own. For Rust, these are its cargo workspace, cargo's target
/// directory, and path dependencies.
///
/// # Errors
/// The directory is not a plugin, or cargo cannot read its files.
pub async fn sources(dir: &Path, cancel: &CancellationToken) -> Result<Vec<PathBuf>, BuildError> {
    let plugin = PluginFolder::read(dir)?;
    let mut found = vec![plugin.dir.clone()];
    match &plugin.language {
        Language::Rust { .. } => of_crate(&plugin, &mut found, cancel).await?,
        Language::Python { path, .. } => {
            for folder in path {
                add(&mut found, folder);
            }
        }
        Language::JavaScript { .. } => linked(&mut found, &plugin.dir.join("node_modules")),
    }
    Ok(found)
}

/// Adds a directory. Returns whether it is new.
fn add(found: &mut Vec<PathBuf>, folder: &Path) -> bool {
    let real = folder.canonicalize();
    let folder = real.unwrap_or_else(|_| folder.to_owned());
    let is_new = !found.contains(&folder);
    if is_new {
        found.push(folder);
    }
    is_new
}

fn same(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().ok();
    real(one).is_some_and(|one| Some(one) == real(other))
}

/// Adds npm packages that are symlinks to other directories.
fn linked(found: &mut Vec<PathBuf>, folder: &Path) {
    add(found, folder);
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_symlink() {
            add(found, &path);
        } else if entry.file_name().to_string_lossy().starts_with('@') {
            linked(found, &path);
        }
    }
}

async fn of_crate(
    plugin: &PluginFolder,
    found: &mut Vec<PathBuf>,
    cancel: &CancellationToken,
) -> Result<(), BuildError> {
    let mut crates = vec![plugin.dir.clone()];
    let mut n_seen = 0;
    while let Some(folder) = crates.pop() {
        n_seen += 1;
        if n_seen > MAX_CRATES {
            let problem = format!("it depends on more than {MAX_CRATES} crates by path");
            return Err(wrong(plugin, problem));
        }
        let metadata = metadata(plugin, &folder, cancel).await?;
        add(found, &metadata.workspace_root);
        add(found, &metadata.target_directory);
        let mut named = patches(plugin, &metadata.workspace_root)?;
        let manifest = folder.join("Cargo.toml");
        let is_it = |package: &&Package| same(&package.manifest_path, &manifest);
        let own = metadata.packages.iter().filter(is_it);
        let depended = own.flat_map(|package| &package.dependencies);
        named.extend(depended.filter_map(|crate_| crate_.path.clone()));
        crates.extend(named.into_iter().filter(|folder| add(found, folder)));
    }
    Ok(())
}

/// Queries cargo about the workspace of a crate. Runs in the plugin's directory, so that its
/// toolchain is used.
async fn metadata(
    plugin: &PluginFolder,
    folder: &Path,
    cancel: &CancellationToken,
) -> Result<Metadata, BuildError> {
    let manifest = folder.join("Cargo.toml");
    let manifest = manifest.to_string_lossy();
    let args = [
        "metadata",
        "--no-deps",
        "--format-version=1",
        "--manifest-path",
        &*manifest,
    ];
    // The output is one long line that arrives in pieces.
    let text: Arc<Mutex<String>> = Arc::default();
    let on_line: OnLine = {
        let text = text.clone();
        Arc::new(move |stream, line| {
            if stream == Stream::Stdout {
                lock(&text).push_str(line);
            }
        })
    };
    let finished = toolchain::ask_in_lines("cargo", &args, &plugin.dir, on_line, cancel).await?;
    match finished.ending {
        Ending::Exited(0) => {}
        Ending::Cancelled => return Err(BuildError::Cancelled),
        _ => return Err(wrong(plugin, finished.stderr.text())),
    }
    serde_json::from_str(&lock(&text))
        .map_err(|error| wrong(plugin, format!("cargo metadata: {error}")))
}

/// Returns the directories that the workspace's `[patch]` sections substitute for other crates.
fn patches(plugin: &PluginFolder, workspace: &Path) -> Result<Vec<PathBuf>, BuildError> {
    let path = workspace.join("Cargo.toml");
    let text = std::fs::read_to_string(&path);
    let text = text.map_err(|source| file_error(&plugin.name, &path, source))?;
    let table: toml::Table =
        toml::from_str(&text).map_err(|error| wrong(plugin, error.to_string()))?;
    let patch = table.get("patch").and_then(toml::Value::as_table);
    let sources = patch.into_iter().flat_map(toml::Table::values);
    let crates = sources
        .filter_map(toml::Value::as_table)
        .flat_map(toml::Table::values);
    let folders = crates.filter_map(|patched| Some(workspace.join(patched.get("path")?.as_str()?)));
    Ok(folders.collect())
}

fn wrong(plugin: &PluginFolder, problem: String) -> BuildError {
    BuildError::Manifest {
        plugin: plugin.name.clone(),
        path: plugin.cargo_manifest(),
        problem,
    }
}
