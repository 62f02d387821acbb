//! Reads the sources of packages: the files that count, within bounds. What leads out of the folder is not read.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::Path;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use toml::{Table, Value};

use super::SourceHash;
use super::rust::{CrateFiles, CratePackage};
use super::wit::WitFiles;
use crate::beneath::open_regular;

/// Largest file, in bytes.
const MAX_FILE_BYTES: u64 = 2 << 20;

/// Most bytes of all files of a package.
const MAX_BYTES: usize = 16 << 20;

/// Most files of a package.
const MAX_FILES: usize = 4_000;

/// Deepest folder of sources.
const MAX_DEPTH: usize = 16;

/// Most folders above a crate in which its workspace is looked for.
const MAX_ABOVE: usize = 8;

/// Manifest of a crate.
pub(crate) const CARGO: &str = "Cargo.toml";

/// File that people read first.
const README: &str = "README.md";

/// A source that cannot be read, and why.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {why}")]
pub(crate) struct SourceError {
    path: String,
    why: String,
}

fn refuse(path: impl Into<String>, why: impl Into<String>) -> SourceError {
    SourceError {
        path: path.into(),
        why: why.into(),
    }
}

/// Files of one folder, read within bounds.
struct Folder {
    dir: Dir,
    n_files: usize,
    n_bytes: usize,
}

impl Folder {
    fn open(path: &Path) -> Result<Self, SourceError> {
        let dir = Dir::open_ambient_dir(path, ambient_authority());
        let dir = dir.map_err(|error| refuse(path.display().to_string(), error.to_string()))?;
        Ok(Self {
            dir,
            n_files: 0,
            n_bytes: 0,
        })
    }

    /// Reads a text. A path that leads out of the folder, also by a link, is refused.
    fn text(&mut self, path: &str) -> Result<String, SourceError> {
        let bytes = self.bytes(path)?;
        String::from_utf8(bytes).map_err(|_| refuse(path, "it is not UTF-8"))
    }

    fn bytes(&mut self, path: &str) -> Result<Vec<u8>, SourceError> {
        self.n_files += 1;
        if self.n_files > MAX_FILES {
            return Err(refuse(
                path,
                format!("the package has more than {MAX_FILES} files"),
            ));
        }
        let found = open_regular(&self.dir, Path::new(path)).map_err(|error| {
            let why = match error.kind() {
                io::ErrorKind::PermissionDenied => {
                    "it cannot be read, or leads out of the package".to_owned()
                }
                _ => error.to_string(),
            };
            refuse(path, why)
        })?;
        let (file, _) = found.ok_or_else(|| refuse(path, "it is not a regular file"))?;
        let mut bytes = Vec::new();
        let read = file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes);
        read.map_err(|error| refuse(path, error.to_string()))?;
        if bytes.len() as u64 > MAX_FILE_BYTES {
            return Err(refuse(
                path,
                format!("it has more than {} MiB", MAX_FILE_BYTES >> 20),
            ));
        }
        self.n_bytes += bytes.len();
        if self.n_bytes > MAX_BYTES {
            return Err(refuse(
                path,
                format!("the package has more than {} MiB", MAX_BYTES >> 20),
            ));
        }
        Ok(bytes)
    }

    /// A text that may be missing, or may lead elsewhere.
    fn text_if_there(&mut self, path: &str) -> Option<String> {
        self.dir.symlink_metadata(path).ok()?;
        self.text(path).ok()
    }

    fn is_file(&self, path: &str) -> bool {
        self.dir.metadata(path).is_ok_and(|found| found.is_file())
    }

    /// Names in a folder in order, with whether each is a folder. Links to folders are not followed.
    fn names(&self, path: &str) -> Result<Vec<(String, bool)>, SourceError> {
        let shown = if path.is_empty() { "." } else { path };
        let failed = |error: io::Error| refuse(shown, error.to_string());
        let mut names = Vec::new();
        for entry in self.dir.read_dir(shown).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let is_folder = entry.file_type().map_err(failed)?.is_dir();
            if let Ok(name) = entry.file_name().into_string() {
                names.push((name, is_folder));
            }
            if names.len() > MAX_FILES {
                return Err(refuse(
                    shown,
                    format!("the folder has more than {MAX_FILES} entries"),
                ));
            }
        }
        names.sort();
        Ok(names)
    }

    /// Reads all Rust files below a folder.
    fn rust_files(
        &mut self,
        folder: &str,
        depth: usize,
        texts: &mut BTreeMap<String, String>,
    ) -> Result<(), SourceError> {
        if depth > MAX_DEPTH {
            return Err(refuse(
                folder,
                format!("folders lie more than {MAX_DEPTH} deep"),
            ));
        }
        for (name, is_folder) in self.names(folder)? {
            let path = if folder.is_empty() {
                name.clone()
            } else {
                format!("{folder}/{name}")
            };
            let is_skipped = name.starts_with('.') || (folder.is_empty() && name == "target");
            if is_folder && !is_skipped {
                self.rust_files(&path, depth + 1, texts)?;
            } else if !is_folder && name.ends_with(".rs") {
                let text = self.text(&path)?;
                texts.insert(path, text);
            }
        }
        Ok(())
    }

    fn wit_files(&mut self, folder: &str) -> Result<Vec<(String, String)>, SourceError> {
        let mut files = Vec::new();
        for (name, is_folder) in self.names(folder)? {
            if !is_folder && name.ends_with(".wit") {
                let path = if folder.is_empty() {
                    name
                } else {
                    format!("{folder}/{name}")
                };
                let text = self.text(&path)?;
                files.push((path, text));
            }
        }
        Ok(files)
    }
}

/// A WIT package as it was read.
pub(crate) struct WitSource {
    pub(crate) files: WitFiles,
    pub(crate) readme: Option<String>,
    pub(crate) hash: SourceHash,
}

/// Whether a folder is a WIT package: it has texts in WIT.
pub(crate) fn has_wit(folder: &Path) -> bool {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .take(MAX_FILES)
        .any(|entry| entry.path().extension().is_some_and(|end| end == "wit"))
}

/// Reads a WIT package: the texts of a folder and of its `deps`, or one file alone.
///
/// # Errors
/// A file cannot be read, leads elsewhere, or there is too much.
pub(crate) fn wit(path: &Path) -> Result<WitSource, SourceError> {
    let mut files = WitFiles::default();
    let mut readme = None;
    if path.is_file() {
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let mut folder = Folder::open(
            path.parent()
                .filter(|above| !above.as_os_str().is_empty())
                .unwrap_or(Path::new(".")),
        )?;
        files.main.push((name.clone(), folder.text(&name)?));
    } else {
        let mut folder = Folder::open(path)?;
        files.main = folder.wit_files("")?;
        readme = folder.text_if_there(README);
        if folder
            .dir
            .metadata("deps")
            .is_ok_and(|found| found.is_dir())
        {
            for (name, is_folder) in folder.names("deps")? {
                let own = format!("deps/{name}");
                let texts = match is_folder {
                    true => folder.wit_files(&own)?,
                    false if name.ends_with(".wit") => vec![(own.clone(), folder.text(&own)?)],
                    false => Vec::new(),
                };
                files
                    .dependencies
                    .extend(Some(texts).filter(|texts| !texts.is_empty()));
            }
        }
    }
    let mut hash = SourceHash::new("wit");
    let all = files.main.iter().chain(files.dependencies.iter().flatten());
    all.for_each(|(path, text)| hash.add(path, text.as_bytes()));
    hash.add(README, readme.as_deref().unwrap_or_default().as_bytes());
    Ok(WitSource {
        files,
        readme,
        hash,
    })
}

/// A crate as it was read.
pub(crate) struct CrateSource {
    pub(crate) package: CratePackage,
    /// Sources; of a package without any, none.
    pub(crate) files: Option<CrateFiles>,
    pub(crate) hash: SourceHash,
}

/// Reads a crate: its manifest, README, sources and the names of its examples. Nothing is built.
///
/// # Errors
/// The manifest is none of a package, a file cannot be read or leads elsewhere, or there is too much.
pub(crate) fn rust(path: &Path) -> Result<CrateSource, SourceError> {
    let mut folder = Folder::open(path)?;
    let text = folder.text(CARGO)?;
    let manifest: Table =
        toml::from_str(&text).map_err(|error| refuse(CARGO, error.to_string().trim_end()))?;
    let Some(package) = manifest.get("package").and_then(Value::as_table) else {
        let why = match manifest.contains_key("workspace") {
            true => "it is a workspace and no package: name the folder of one of its members",
            false => "it has no `[package]`",
        };
        return Err(refuse(CARGO, why));
    };
    let shared = workspace(path, &manifest);
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
    let name = field("name").ok_or_else(|| refuse(CARGO, "the package has no name"))?;
    let lib = manifest.get("lib").and_then(Value::as_table);
    let of_lib = |key: &str| {
        lib.and_then(|lib| lib.get(key))
            .and_then(Value::as_str)
            .map(str::to_owned)
    };
    let library = of_lib("path").unwrap_or_else(|| "src/lib.rs".to_owned());
    let is_library = folder.is_file(&library);
    let mut hash = SourceHash::new("crate");
    hash.add(CARGO, text.as_bytes());
    for key in [
        "version",
        "description",
        "license",
        "rust-version",
        "repository",
        "documentation",
    ] {
        hash.add(key, field(key).unwrap_or_default().as_bytes());
    }
    let files = match is_library {
        true => Some(sources(
            &mut folder,
            &library,
            of_lib("name").unwrap_or_else(|| name.clone()),
        )?),
        false => None,
    };
    for (path, text) in files.iter().flat_map(|files| &files.texts) {
        hash.add(path, text.as_bytes());
    }
    let readme = match package.get("readme") {
        Some(Value::String(path)) => folder.text_if_there(path),
        Some(Value::Boolean(false)) => None,
        _ => folder.text_if_there(README),
    };
    hash.add("readme", readme.as_deref().unwrap_or_default().as_bytes());
    let examples = examples(&mut folder);
    for (name, about) in &examples {
        hash.add(name, about.as_bytes());
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
        features: features(&manifest),
        examples,
        readme,
    };
    Ok(CrateSource {
        package,
        files,
        hash,
    })
}

/// Reads the files that the modules of a library may be in.
fn sources(folder: &mut Folder, root: &str, name: String) -> Result<CrateFiles, SourceError> {
    let above = root.rsplit_once('/').map_or("", |(above, _)| above);
    let mut texts = BTreeMap::new();
    folder.rust_files(above, 0, &mut texts)?;
    let root = root.trim_start_matches("./").to_owned();
    Ok(CrateFiles { name, root, texts })
}

/// The values that packages of the workspace share, from the first manifest above with a workspace.
fn workspace(path: &Path, manifest: &Table) -> Table {
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
    if let Some(own) = shared(manifest) {
        return own;
    }
    let Ok(path) = path.canonicalize() else {
        return Table::new();
    };
    path.ancestors()
        .skip(1)
        .take(MAX_ABOVE)
        .find_map(|above| {
            let text = Folder::open(above).ok()?.text_if_there(CARGO)?;
            shared(&toml::from_str(&text).ok()?)
        })
        .unwrap_or_default()
}

fn features(manifest: &Table) -> Vec<(String, Vec<String>)> {
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

/// Names of the examples, with the first line of the docs of each.
fn examples(folder: &mut Folder) -> Vec<(String, String)> {
    let mut examples = Vec::new();
    for (name, is_folder) in folder.names("examples").unwrap_or_default() {
        let path = match is_folder {
            true => format!("examples/{name}/main.rs"),
            false if name.ends_with(".rs") => format!("examples/{name}"),
            false => continue,
        };
        if let Some(text) = folder.text_if_there(&path) {
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
