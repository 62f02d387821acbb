//! Reads the files of a Rust crate.
//!
//! Values that the manifest inherits from its workspace are resolved. All inputs are hashed for the
//! stamp of the skill.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

use super::{
    CARGO_MANIFEST_FILE_NAME, MAX_SOURCE_FOLDER_DEPTH, PackageSourceFolder, PackageSourceReadError,
    README_FILE_NAME, package_source_error,
};
use crate::BundleSourceHasher;
use crate::rust::{CrateFiles, CratePackage};
use crate::wit::WitFiles;

/// Maximum number of parent directories searched for the workspace's manifest.
const MAX_SEARCHED_PARENT_FOLDERS: usize = 8;

pub struct CratePackageSource {
    pub package: CratePackage,
    /// Sources of the library; `None` for a package without a library.
    pub files: Option<CrateFiles>,
    pub hash: BundleSourceHasher,
}

/// Reads a crate: manifest, README, sources and the names of its examples. Nothing is built.
///
/// # Errors
/// The manifest does not belong to a package, a file cannot be read or is outside the package, or
/// the package is too large.
pub fn read_crate(path: &Path) -> Result<CratePackageSource, PackageSourceReadError> {
    let mut folder = PackageSourceFolder::open_folder(path)?;
    let text = folder.read_text(CARGO_MANIFEST_FILE_NAME)?;
    let manifest: Table = toml::from_str(&text).map_err(|error| {
        package_source_error(CARGO_MANIFEST_FILE_NAME, error.to_string().trim_end())
    })?;
    let Some(package) = manifest.get("package").and_then(Value::as_table) else {
        let why = match manifest.contains_key("workspace") {
            true => "it is a workspace and no package: name the folder of one of its members",
            false => "it has no `[package]`",
        };
        return Err(package_source_error(CARGO_MANIFEST_FILE_NAME, why));
    };
    let (shared, workspace) = find_workspace(path, &manifest);
    let field = |key: &str| {
        let own = package.get(key)?;
        let is_shared = own.get("workspace").and_then(Value::as_bool) == Some(true);
        let value = if is_shared {
            shared.get(key)
        } else {
            Some(own)
        };
        value.and_then(Value::as_str).map(str::to_owned)
    };
    let name = field("name")
        .ok_or_else(|| package_source_error(CARGO_MANIFEST_FILE_NAME, "the package has no name"))?;
    check_crate_name(&name)?;
    let lib = manifest.get("lib").and_then(Value::as_table);
    let of_lib = |key: &str| {
        lib.and_then(|lib| lib.get(key))
            .and_then(Value::as_str)
            .map(str::to_owned)
    };
    let library_name = of_lib("name").unwrap_or_else(|| name.clone());
    check_crate_name(&library_name)?;
    let library = match of_lib("path") {
        Some(path) => {
            let own = normalize_path(&path).filter(|own| folder.is_file(own));
            let why = format!("`[lib]` has the path {path:?}, which is not a file of the package");
            Some(own.ok_or_else(|| package_source_error(CARGO_MANIFEST_FILE_NAME, why))?)
        }
        None => Some("src/lib.rs".to_owned()).filter(|path| folder.is_file(path)),
    };
    let mut hash = BundleSourceHasher::new("crate");
    hash.add_source(CARGO_MANIFEST_FILE_NAME, text.as_bytes());
    for key in [
        "version",
        "description",
        "license",
        "rust-version",
        "repository",
        "documentation",
    ] {
        hash.add_source(key, field(key).unwrap_or_default().as_bytes());
    }
    let is_library = library.is_some();
    let files = match library {
        Some(root) => Some(read_crate_source_files(
            &mut folder,
            root,
            library_name,
            (path, &workspace),
        )?),
        None => None,
    };
    if let Some(files) = &files {
        for (path, text) in &files.texts {
            hash.add_source(path, text.as_bytes());
        }
        for (path, text) in files.wit.iter().flat_map(WitFiles::all_files) {
            hash.add_source(path, text.as_bytes());
        }
    }
    let readme = match package.get("readme") {
        Some(Value::String(path)) => folder.read_text_if_present(path),
        Some(Value::Boolean(false)) => None,
        _ => folder.read_text_if_present(README_FILE_NAME),
    };
    hash.add_source("readme", readme.as_deref().unwrap_or_default().as_bytes());
    let examples = read_example_summaries(&mut folder);
    for (name, about) in &examples {
        hash.add_source(name, about.as_bytes());
    }
    let package = CratePackage {
        name,
        version: field("version"),
        description: field("description"),
        license: field("license"),
        rust_version: field("rust-version"),
        repository: field("repository"),
        documentation: field("documentation"),
        is_library,
        features: crate_features(&manifest),
        examples,
        readme,
    };
    Ok(CratePackageSource {
        package,
        files,
        hash,
    })
}

/// Checks that Cargo accepts a crate's name. The skill's headings contain the name.
fn check_crate_name(name: &str) -> Result<(), PackageSourceReadError> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    match (1..=64).contains(&name.len()) && name.chars().all(is_plain) {
        true => Ok(()),
        false => Err(package_source_error(
            CARGO_MANIFEST_FILE_NAME,
            format!(
                "{name:?} cannot be the name of a crate: use at most 64 ASCII letters, digits, `-` and `_`"
            ),
        )),
    }
}

/// Normalizes a path inside the package's directory; `None` if it leads outside.
fn normalize_path(path: &str) -> Option<String> {
    let names: Vec<&str> = path
        .split('/')
        .filter(|name| !name.is_empty() && *name != ".")
        .collect();
    let is_within = !path.starts_with('/') && !names.contains(&"..");
    is_within.then(|| names.join("/"))
}

/// Reads all Rust files that may be modules of a library, and the WIT files if a module uses
/// `generate!`.
fn read_crate_source_files(
    folder: &mut PackageSourceFolder,
    root: String,
    name: String,
    (path, workspace): (&Path, &Path),
) -> Result<CrateFiles, PackageSourceReadError> {
    let above = root.rsplit_once('/').map_or("", |(above, _)| above);
    let mut texts = BTreeMap::new();
    folder.collect_rust_files(above, 0, &mut texts)?;
    let is_wanted = texts.values().any(|text| text.contains("generate!"));
    // WIT files are optional: without them, generated modules are described less precisely.
    let wit = is_wanted
        .then(|| read_wit_folder(path, workspace))
        .flatten();
    Ok(CrateFiles {
        name,
        root,
        texts,
        wit,
    })
}

/// Reads the directory `wit` of a crate. It may be a symlink to a directory in the same workspace.
fn read_wit_folder(path: &Path, workspace: &Path) -> Option<WitFiles> {
    let own = path.join("wit").canonicalize().ok()?;
    let mut folder = Some(own)
        .filter(|own| own.is_dir() && own.starts_with(workspace))
        .and_then(|own| PackageSourceFolder::open_folder(&own).ok())?;
    let files = folder.read_wit_files_with_dependencies("").ok()?;
    (!files.main.is_empty()).then_some(files)
}

/// Returns the `[workspace.package]` values that a package may inherit, and the directory of the
/// workspace. Both are from the nearest manifest, the package's own or above, that defines a
/// workspace. Without one, returns no values and the package's own directory.
fn find_workspace(path: &Path, manifest: &Table) -> (Table, PathBuf) {
    let shared = |manifest: &Table| {
        let workspace = manifest.get("workspace")?.as_table()?;
        Some(
            workspace
                .get("package")
                .and_then(Value::as_table)
                .cloned()
                .unwrap_or_default(),
        )
    };
    let Ok(path) = path.canonicalize() else {
        return (Table::new(), path.to_owned());
    };
    if let Some(own) = shared(manifest) {
        return (own, path);
    }
    path.ancestors()
        .skip(1)
        .take(MAX_SEARCHED_PARENT_FOLDERS)
        .find_map(|above| {
            let text = PackageSourceFolder::open_folder(above)
                .ok()?
                .read_text_if_present(CARGO_MANIFEST_FILE_NAME)?;
            let found = shared(&toml::from_str(&text).ok()?)?;
            Some((found, above.to_owned()))
        })
        .unwrap_or_else(|| (Table::new(), path.clone()))
}

fn crate_features(manifest: &Table) -> Vec<(String, Vec<String>)> {
    let features = manifest.get("features").and_then(Value::as_table);
    let features = features.into_iter().flatten().map(|(name, enables)| {
        let enables = enables.as_array().into_iter().flatten();
        (
            name.clone(),
            enables
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect(),
        )
    });
    let mut features: Vec<(String, Vec<String>)> = features.collect();
    features.sort();
    features
}

/// Returns the names of the examples, each with the first line of its docs.
fn read_example_summaries(folder: &mut PackageSourceFolder) -> Vec<(String, String)> {
    let mut examples = Vec::new();
    for (name, is_folder) in folder.list_entries("examples").unwrap_or_default() {
        let path = match is_folder {
            true => format!("examples/{name}/main.rs"),
            false if name.ends_with(".rs") => format!("examples/{name}"),
            false => continue,
        };
        if let Some(text) = folder.read_text_if_present(&path) {
            let line = text
                .lines()
                .take(40)
                .find_map(|line| line.strip_prefix("//!"));
            let shown = path.trim_start_matches("examples/").to_owned();
            examples.push((shown, line.unwrap_or_default().trim().to_owned()));
        }
    }
    examples
}

impl PackageSourceFolder {
    fn collect_rust_files(
        &mut self,
        folder: &str,
        depth: usize,
        texts: &mut BTreeMap<String, String>,
    ) -> Result<(), PackageSourceReadError> {
        if depth > MAX_SOURCE_FOLDER_DEPTH {
            return Err(package_source_error(
                folder,
                format!(
                    "source folders are nested more than {MAX_SOURCE_FOLDER_DEPTH} levels deep"
                ),
            ));
        }
        for (name, is_folder) in self.list_entries(folder)? {
            let path = if folder.is_empty() {
                name.clone()
            } else {
                format!("{folder}/{name}")
            };
            let is_skipped = name.starts_with('.') || (folder.is_empty() && name == "target");
            if is_folder && !is_skipped {
                self.collect_rust_files(&path, depth + 1, texts)?;
            } else if !is_folder && name.ends_with(".rs") {
                let text = self.read_text(&path)?;
                texts.insert(path, text);
            }
        }
        Ok(())
    }
}
