//! Reads a plugin's directory: the values that a build needs from `plugin.toml` and from the
//! manifest of the language.
//!
//! Everything else in these files is checked by the plugin loader and by the language's tools.

use std::io;
use std::path::{Component, Path, PathBuf};

use serde::Deserialize;

use super::BuildError;
use rind_lib::plugin::contract::sources::digest_plugin_sources;

/// Maximum size of a manifest such as `Cargo.toml`, in bytes.
const MAX_MANIFEST_BYTES: u64 = 1024 * 1024;

/// Name of the module that a Python plugin starts from if `pyproject.toml` names none.
const DEFAULT_PYTHON_MODULE: &str = "plugin";

#[derive(Clone, Debug)]
pub(super) struct PluginFolder {
    /// Path of the plugin's directory, with symlinks resolved.
    pub(super) dir: PathBuf,
    pub(super) name: String,
    pub(super) component: PathBuf,
    /// Language of the plugin, with the values from the language's manifest.
    pub(super) language: PluginLanguage,
    /// Whether `plugin.toml` has the key `sockets` under `[compat]`, whose only valid value is
    /// `"inert"`.
    pub(super) has_inert_sockets: bool,
    /// Whether `pyproject.toml` configures the type checker mypy.
    pub(super) has_mypy: bool,
    /// Digest of the sources, computed before the build, so that it does not cover changes made
    /// during the build. `None` if the sources are too large or cannot be read.
    pub(super) sources: Option<String>,
}

/// Language of a plugin, recognized by the manifest file in the plugin's directory.
#[derive(Clone, Debug)]
pub(super) enum PluginLanguage {
    /// Rust plugin, recognized by `Cargo.toml`.
    Rust { package: String },
    /// JavaScript or TypeScript plugin, recognized by `package.json`.
    JavaScript {
        /// Path of the module that exports the hooks and tools.
        entry: PathBuf,
    },
    /// Python plugin, recognized by `pyproject.toml`.
    Python {
        /// Name of the module with the classes of the hooks and tools.
        module: String,
        /// Further directories that are searched for Python modules, as absolute paths.
        path: Vec<PathBuf>,
    },
}

/// Keys of `plugin.toml` that a build needs; the plugin loader checks the rest.
#[derive(Deserialize)]
struct PluginTomlFields {
    name: String,
    component: Option<String>,
    #[serde(default)]
    compat: PluginCompatFields,
}

#[derive(Default, Deserialize)]
struct PluginCompatFields {
    sockets: Option<String>,
}

#[derive(Deserialize)]
struct CargoTomlFields {
    package: Option<CargoPackageFields>,
}

#[derive(Deserialize)]
struct CargoPackageFields {
    name: String,
}

#[derive(Deserialize)]
struct NpmPackageFields {
    main: Option<String>,
}

#[derive(Default, Deserialize)]
struct PyprojectFields {
    #[serde(default)]
    tool: PyprojectToolFields,
}

#[derive(Default, Deserialize)]
struct PyprojectToolFields {
    #[serde(default)]
    rind: RindPackageFields,
    mypy: Option<toml::Table>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RindPackageFields {
    module: Option<String>,
    #[serde(default)]
    path: Vec<PathBuf>,
}

/// Reads the manifests in a plugin's directory; error messages name the plugin.
struct PluginManifestReader {
    dir: PathBuf,
    known_as: String,
}

impl PluginFolder {
    pub(super) fn read_folder(dir: &Path) -> Result<Self, BuildError> {
        let reader = PluginManifestReader {
            dir: dir
                .canonicalize()
                .map_err(|source| plugin_folder_error(dir, source))?,
            known_as: plugin_folder_name(dir),
        };
        let text = reader.read_text("plugin.toml")?;
        let plugin: PluginTomlFields = reader.parse_toml("plugin.toml", &text)?;
        if !is_plugin_name(&plugin.name) {
            let problem = format!("name {:?} is not made of a-z, 0-9 and -", plugin.name);
            return Err(reader.manifest_error("plugin.toml", problem));
        }
        let component = plugin.component.ok_or_else(|| {
            let problem = "there is no `component` key, so there is nothing to build";
            reader.manifest_error("plugin.toml", problem.to_owned())
        })?;
        let component = PathBuf::from(component);
        if component.file_name().is_none() || !is_path_inside_folder(&component) {
            let problem = format!("component {component:?} is not a path within the folder");
            return Err(reader.manifest_error("plugin.toml", problem));
        }
        let (language, has_mypy) = reader.detect_language()?;
        Ok(Self {
            sources: digest_plugin_sources(&reader.dir),
            dir: reader.dir,
            name: plugin.name,
            component,
            language,
            has_inert_sockets: plugin.compat.sockets.is_some(),
            has_mypy,
        })
    }

    pub(super) fn cargo_manifest(&self) -> PathBuf {
        self.dir.join("Cargo.toml")
    }
}

impl PluginManifestReader {
    /// Determines the language, and whether the manifest is a `pyproject.toml` that configures
    /// mypy.
    fn detect_language(&self) -> Result<(PluginLanguage, bool), BuildError> {
        let files = ["Cargo.toml", "package.json", "pyproject.toml"];
        let mut found = files.iter().filter(|name| self.dir.join(name).is_file());
        let Some(file) = found.next() else {
            let problem = "there is no Cargo.toml, package.json or pyproject.toml, so its language is not known";
            return Err(self.manifest_error("", problem.to_owned()));
        };
        if let Some(other) = found.next() {
            let problem = format!("there are both {file} and {other}; a plugin has one language");
            return Err(self.manifest_error("", problem));
        }
        let text = self.read_text(file)?;
        match *file {
            "Cargo.toml" => {
                let keys: CargoTomlFields = self.parse_toml(file, &text)?;
                let package = keys
                    .package
                    .ok_or_else(|| self.manifest_error(file, "there is no [package]".to_owned()))?;
                let package = package.name;
                Ok((PluginLanguage::Rust { package }, false))
            }
            "package.json" => {
                let keys: NpmPackageFields = serde_json::from_str(&text)
                    .map_err(|error| self.manifest_error(file, error.to_string()))?;
                let entry = keys.main.ok_or_else(|| {
                    let problem = "there is no `main`; it names the module of the plugin, such as \"src/plugin.js\"";
                    self.manifest_error(file, problem.to_owned())
                })?;
                let entry = PathBuf::from(entry);
                if !is_path_inside_folder(&entry) || !self.dir.join(&entry).is_file() {
                    let problem = format!("`main` {entry:?} is not a file within the folder");
                    return Err(self.manifest_error(file, problem));
                }
                Ok((PluginLanguage::JavaScript { entry }, false))
            }
            _ => {
                let keys: PyprojectFields = self.parse_toml(file, &text)?;
                let RindPackageFields {
                    module,
                    path: paths,
                } = keys.tool.rind;
                let has_mypy = keys.tool.mypy.is_some();
                let module = module.unwrap_or_else(|| DEFAULT_PYTHON_MODULE.to_owned());
                let path = format!("{module}.py");
                let is_name = module
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
                if !is_name || !self.dir.join(&path).is_file() {
                    let problem = format!(
                        "there is no {path}; `module` in [tool.rind] names the module of the plugin, \"{DEFAULT_PYTHON_MODULE}\" when absent"
                    );
                    return Err(self.manifest_error(file, problem));
                }
                let folders = paths.into_iter().map(|path| {
                    let folder = self.dir.join(&path);
                    if folder.is_dir() {
                        return Ok(folder);
                    }
                    let problem =
                        format!("`path` in [tool.rind] names {path:?}, which is not a folder");
                    Err(self.manifest_error(file, problem))
                });
                let path = folders.collect::<Result<_, _>>()?;
                Ok((PluginLanguage::Python { module, path }, has_mypy))
            }
        }
    }

    fn read_text(&self, file: &str) -> Result<String, BuildError> {
        let path = self.dir.join(file);
        read_file(&path).map_err(|source| plugin_file_error(&self.known_as, &path, source))
    }

    fn parse_toml<T: for<'de> Deserialize<'de>>(
        &self,
        file: &str,
        text: &str,
    ) -> Result<T, BuildError> {
        toml::from_str(text).map_err(|error| self.manifest_error(file, error.to_string()))
    }

    /// Returns an error about `file` in the directory; an empty `file` means the directory itself.
    fn manifest_error(&self, file: &str, problem: String) -> BuildError {
        let path = match file {
            "" => self.dir.clone(),
            file => self.dir.join(file),
        };
        BuildError::Manifest {
            plugin: self.known_as.clone(),
            path,
            problem,
        }
    }
}

fn read_file(path: &Path) -> io::Result<String> {
    if std::fs::metadata(path)?.len() > MAX_MANIFEST_BYTES {
        return Err(io::Error::other(
            "the file is larger than the maximum size of a manifest",
        ));
    }
    std::fs::read_to_string(path)
}

/// Returns the name to use for a plugin before its manifest is read: the base name of its
/// directory.
fn plugin_folder_name(dir: &Path) -> String {
    let name = dir.file_name().unwrap_or(dir.as_os_str());
    name.to_string_lossy().into_owned()
}

/// Creates an error about a plugin's directory before its manifest is read.
pub(super) fn plugin_folder_error(dir: &Path, source: io::Error) -> BuildError {
    plugin_file_error(&plugin_folder_name(dir), dir, source)
}

pub(super) fn plugin_file_error(plugin: &str, path: &Path, source: io::Error) -> BuildError {
    BuildError::File {
        plugin: plugin.to_owned(),
        path: path.to_owned(),
        source,
    }
}

/// Whether a text is a valid plugin name, which must also be usable as the name of a directory.
pub(super) fn is_plugin_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

fn is_path_inside_folder(path: &Path) -> bool {
    path.components()
        .all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
}
