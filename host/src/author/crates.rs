//! A plugin's crate folder: the few things of `plugin.toml` and `Cargo.toml` that building needs.

use std::io;
use std::path::{Component, Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::BuildError;

const MAX_MANIFEST_BYTES: u64 = 1024 * 1024;

#[derive(Clone, Debug)]
pub(super) struct PluginCrate {
    /// The folder, without links.
    pub(super) dir: PathBuf,
    pub(super) name: String,
    pub(super) component: PathBuf,
    pub(super) package: String,
}

/// The rest of the file is the plugin loader's to check.
#[derive(Deserialize)]
struct PluginKeys {
    name: String,
    component: Option<String>,
}

#[derive(Deserialize)]
struct CargoKeys {
    package: Option<PackageKeys>,
}

#[derive(Deserialize)]
struct PackageKeys {
    name: String,
}

impl PluginCrate {
    pub(super) fn read(dir: &Path) -> Result<Self, BuildError> {
        let folder_name = dir.file_name().unwrap_or(dir.as_os_str());
        let known_as = folder_name.to_string_lossy().into_owned();
        let dir = dir
            .canonicalize()
            .map_err(|source| file_error(&known_as, dir, source))?;
        let plugin_path = dir.join("plugin.toml");
        let plugin: PluginKeys = read(&plugin_path, &known_as)?;
        let wrong = |path: &Path, problem| wrong(&known_as, path, problem);
        if !is_plugin_name(&plugin.name) {
            let problem = format!("name {:?} is not made of a-z, 0-9 and -", plugin.name);
            return Err(wrong(&plugin_path, problem));
        }
        let component = plugin.component.ok_or_else(|| {
            let problem = "there is no `component` key, so there is nothing to build";
            wrong(&plugin_path, problem.to_owned())
        })?;
        let component = PathBuf::from(component);
        if component.file_name().is_none() || !is_below(&component) {
            let problem = format!("component {component:?} is not a path within the folder");
            return Err(wrong(&plugin_path, problem));
        }
        let cargo_path = dir.join("Cargo.toml");
        let cargo: CargoKeys = read(&cargo_path, &known_as)?;
        let package = cargo
            .package
            .ok_or_else(|| wrong(&cargo_path, "there is no [package]".to_owned()))?;
        Ok(Self {
            dir,
            name: plugin.name,
            component,
            package: package.name,
        })
    }

    pub(super) fn cargo_manifest(&self) -> PathBuf {
        self.dir.join("Cargo.toml")
    }
}

fn read<T: DeserializeOwned>(path: &Path, plugin: &str) -> Result<T, BuildError> {
    let text = match std::fs::metadata(path) {
        Ok(found) if found.len() > MAX_MANIFEST_BYTES => Err(io::Error::other(
            "the file is larger than a manifest can be",
        )),
        found => found.and_then(|_| std::fs::read_to_string(path)),
    };
    let text = text.map_err(|source| file_error(plugin, path, source))?;
    toml::from_str(&text).map_err(|error| wrong(plugin, path, error.to_string()))
}

pub(super) fn file_error(plugin: &str, path: &Path, source: io::Error) -> BuildError {
    BuildError::File {
        plugin: plugin.to_owned(),
        path: path.to_owned(),
        source,
    }
}

fn wrong(plugin: &str, path: &Path, problem: String) -> BuildError {
    BuildError::Manifest {
        plugin: plugin.to_owned(),
        path: path.to_owned(),
        problem,
    }
}

/// The name becomes a folder's name.
fn is_plugin_name(name: &str) -> bool {
    let is_fine = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=64).contains(&name.len()) && name.bytes().all(is_fine)
}

fn is_below(path: &Path) -> bool {
    path.components()
        .all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
}
