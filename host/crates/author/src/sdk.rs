//! Unpacks the embedded SDK once per version, and creates symlinks from plugins to it.
//!
//! A plugin does not contain the SDK. Its Cargo.toml or pyproject.toml names a path below
//! `.rind-sdk`, a directory of symlinks that git ignores and that is valid on one machine only.
//! Such a path works offline and in editors. It also avoids downloads from a registry, where
//! somebody else may have published a crate with the SDK's name. JavaScript finds the SDK in
//! `node_modules`, like any package.
//!
//! Start from [`create_missing_sdk_symlinks`].

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};

use super::build::ProgressCallback;
use super::embedded;
use rind_lib::beneath::real_path;

/// Directory of symlinks to the SDK, next to the manifest of a plugin or in its cargo workspace.
pub(super) const SDK_SYMLINKS_FOLDER_NAME: &str = ".rind-sdk";

/// Name of the SDK's package, in `Cargo.toml`, `package.json` and `node_modules`.
const SDK_PACKAGE_NAME: &str = "rind-sdk";

/// Directories of the SDK for each language. A directory is complete if it contains the file.
const SDK_FOLDERS_BY_LANGUAGE: [(&str, &str); 3] = [
    ("rust", "Cargo.toml"),
    ("js", "package.json"),
    ("python", "rind_sdk/__init__.py"),
];

/// Maximum size in bytes of a manifest that is searched for a reference to the SDK.
const MAX_SEARCHED_MANIFEST_BYTES: u64 = 1 << 20;

/// Returns the directory for this version of the SDK below `root`, whether or not it exists.
fn versioned_sdk_folder(root: &Path) -> PathBuf {
    let mut hasher = blake3::Hasher::new();
    for (path, bytes) in embedded::embedded_sdk_files() {
        for part in [path.as_bytes(), &bytes] {
            hasher.update(&part.len().to_le_bytes());
            hasher.update(part);
        }
    }
    let digest = hasher.finalize().to_hex();
    root.join(format!("{}-{}", env!("CARGO_PKG_VERSION"), &digest[..12]))
}

/// Unpacks the SDK below `root`, unless it already exists. Returns the directory of the SDK.
pub(super) fn unpack_sdk(root: &Path) -> io::Result<PathBuf> {
    let place = versioned_sdk_folder(root);
    if place.is_dir() {
        return place.canonicalize();
    }
    fs::create_dir_all(root)?;
    let fresh = tempfile::Builder::new()
        .prefix(".unpacking.")
        .permissions(fs::Permissions::from_mode(0o755))
        .tempdir_in(root)?;
    for (path, bytes) in embedded::embedded_sdk_files() {
        let path = fresh.path().join(path);
        fs::create_dir_all(path.parent().unwrap_or(root))?;
        fs::write(&path, bytes)?;
        // Make the file read-only, because every plugin of this machine is built with it.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o444))?;
    }
    symlink("../wit", fresh.path().join("rust/macros/wit"))?;
    match fs::rename(fresh.path(), &place) {
        // The temporary directory was renamed, so `fresh` must not remove anything.
        Ok(()) => drop(fresh.keep()),
        // Use the existing folder: another process unpacked the SDK first.
        Err(_) if place.is_dir() => {}
        Err(error) => return Err(error),
    }
    // Return the canonical path, because plugins that share a target directory must refer to the
    // SDK by the same path.
    place.canonicalize()
}

/// Ensures that a plugin's reference to the SDK resolves. If the directory to which it points does
/// not exist, as in a fresh clone, creates symlinks there to this version's SDK below `root`.
/// Plugins without a reference are not changed.
pub(super) fn create_missing_sdk_symlinks(
    dir: &Path,
    root: &Path,
    progress: &ProgressCallback,
) -> io::Result<()> {
    let reference = find_plugin_sdk_path(dir);
    let Some(reference) = reference.filter(|reference| !reference.is_resolvable()) else {
        return Ok(());
    };
    let sdk = unpack_sdk(root).map_err(|error| {
        let place = root.display();
        io::Error::new(
            error.kind(),
            format!("cannot unpack the SDK into {place}: {error}; set RIND_HOME to a folder that can be written"),
        )
    })?;
    match &reference {
        PluginSdkPath::Links { folder, .. } => create_sdk_links(folder, &sdk)?,
        PluginSdkPath::Package(path) => {
            fs::create_dir_all(path.parent().unwrap_or(dir))?;
            create_symlink_atomically(path, &sdk.join("js"))?;
        }
    }
    progress(&format!(
        "{} points to the SDK in {}",
        reference.path().display(),
        sdk.display()
    ));
    Ok(())
}

/// Returns the path at which the next build of the plugin in `dir` will create symlinks to the SDK,
/// with symlinks in the path resolved; `None` if the build will create none.
#[must_use]
pub fn missing_sdk_symlink_path(dir: &Path) -> Option<PathBuf> {
    let reference = find_plugin_sdk_path(dir).filter(|reference| !reference.is_resolvable())?;
    Some(real_path(reference.path()))
}

/// Checks that a plugin's reference to the SDK resolves. Called if the SDK is not unpacked to a
/// shared directory on this machine, so that no symlink to it can be created.
pub(super) fn check_plugin_sdk_path_resolves(dir: &Path) -> io::Result<()> {
    match find_plugin_sdk_path(dir) {
        // A missing npm package is no error: the bundler may find it elsewhere.
        Some(reference @ PluginSdkPath::Links { .. }) if !reference.is_resolvable() => {
            let path = reference.path().display();
            let text = format!(
                "{path} does not point to an SDK; run `rind plugin build` once, which makes it"
            );
            Err(io::Error::new(io::ErrorKind::NotFound, text))
        }
        _ => Ok(()),
    }
}

/// Creates a directory of symlinks to the parts of an SDK.
fn create_sdk_links(folder: &Path, sdk: &Path) -> io::Result<()> {
    if folder.is_symlink() {
        let text = format!("{} is a link; remove it", folder.display());
        return Err(io::Error::other(text));
    }
    fs::create_dir_all(folder)?;
    // The links are valid on this machine only, so keep them out of git.
    fs::write(folder.join(".gitignore"), "*\n")?;
    for (part, _) in SDK_FOLDERS_BY_LANGUAGE {
        create_symlink_atomically(&folder.join(part), &sdk.join(part))?;
    }
    Ok(())
}

/// Creates a symlink atomically. Replaces an existing symlink; anything else at `path` is an error.
fn create_symlink_atomically(path: &Path, target: &Path) -> io::Result<()> {
    if path.symlink_metadata().is_ok() && !path.is_symlink() {
        let text = format!("{} exists and is not a symlink; remove it", path.display());
        return Err(io::Error::other(text));
    }
    let parent = path.parent().unwrap_or(Path::new("."));
    let made = tempfile::Builder::new()
        .prefix(".link.")
        .make_in(parent, |fresh| symlink(target, fresh))?;
    made.into_temp_path()
        .persist(path)
        .map_err(|error| error.error)
}

/// Path by which the files of a plugin refer to the SDK.
#[derive(Debug, PartialEq)]
enum PluginSdkPath {
    /// Directory of symlinks, and the name of the symlink in it that the plugin uses.
    Links { folder: PathBuf, part: &'static str },
    /// Directory of the SDK's npm package in the plugin's `node_modules`.
    Package(PathBuf),
}

impl PluginSdkPath {
    fn path(&self) -> &Path {
        match self {
            Self::Links { folder, .. } => folder,
            Self::Package(path) => path,
        }
    }

    fn is_resolvable(&self) -> bool {
        let (path, part) = match self {
            Self::Links { folder, part } => (folder.join(part), *part),
            Self::Package(path) => (path.clone(), "js"),
        };
        let file = SDK_FOLDERS_BY_LANGUAGE
            .iter()
            .find(|(name, _)| *name == part);
        file.is_some_and(|(_, file)| path.join(file).is_file())
    }
}

fn find_plugin_sdk_path(dir: &Path) -> Option<PluginSdkPath> {
    let read = |name: &str| {
        let path = dir.join(name);
        let is_small = fs::metadata(&path).ok()?.len() <= MAX_SEARCHED_MANIFEST_BYTES;
        is_small.then(|| fs::read_to_string(path).ok())?
    };
    let links = |path: &str, part| {
        let folder = path.strip_suffix(part)?.strip_suffix('/')?;
        let last = Path::new(folder).components().next_back()?;
        // Accept `..` only at the beginning: after a directory that does not exist yet, cargo and
        // the file system would resolve `..` differently.
        let mut inner = Path::new(folder)
            .components()
            .skip_while(|part| !matches!(part, Component::Normal(_)));
        let is_followed = inner.all(|part| part != Component::ParentDir)
            && last == Component::Normal(SDK_SYMLINKS_FOLDER_NAME.as_ref());
        is_followed.then(|| PluginSdkPath::Links {
            folder: dir.join(folder),
            part,
        })
    };
    let table = |name: &str| read(name)?.parse::<toml::Table>().ok();
    if let Some(manifest) = table("Cargo.toml") {
        let path = manifest
            .get("dependencies")?
            .get(SDK_PACKAGE_NAME)?
            .get("path")?;
        return links(path.as_str()?, "rust");
    }
    if let Some(manifest) = table("pyproject.toml") {
        let paths = manifest.get("tool")?.get("rind")?.get("path")?;
        let mut paths = paths.as_array()?.iter().filter_map(toml::Value::as_str);
        return paths.find_map(|path| links(path, "python"));
    }
    let manifest: serde_json::Value = serde_json::from_str(&read("package.json")?).ok()?;
    let is_given = ["dependencies", "devDependencies"].iter().any(|key| {
        manifest
            .get(key)
            .and_then(|of| of.get(SDK_PACKAGE_NAME))
            .is_some()
    });
    let package = |folder: &Path| folder.join("node_modules").join(SDK_PACKAGE_NAME);
    let is_above = || {
        let mut above = dir.ancestors().skip(1);
        above.any(|folder| package(folder).is_dir())
    };
    (!is_given && !is_above()).then(|| PluginSdkPath::Package(package(dir)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn put(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn a_reference_that_leads_nowhere_gets_the_sdk_and_one_that_leads_somewhere_keeps_its_own() {
        let root = tempfile::tempdir().unwrap();
        let (sdks, said) = (
            root.path().join("sdks"),
            Arc::new(|_: &str| {}) as ProgressCallback,
        );
        for (language, file, text, link) in [
            (
                "rust",
                "Cargo.toml",
                "[dependencies]\nrind-sdk = { path = \".rind-sdk/rust\" }",
                ".rind-sdk/rust",
            ),
            (
                "python",
                "pyproject.toml",
                "[tool.rind]\npath = [\"more\", \".rind-sdk/python\"]",
                ".rind-sdk/python",
            ),
            ("js", "package.json", "{}", "node_modules/rind-sdk"),
        ] {
            let dir = root.path().join(language);
            put(&dir.join(file), text);
            let has_links = link.starts_with(SDK_SYMLINKS_FOLDER_NAME);
            assert_eq!(check_plugin_sdk_path_resolves(&dir).is_err(), has_links);
            create_missing_sdk_symlinks(&dir, &sdks, &said).unwrap();
            check_plugin_sdk_path_resolves(&dir).unwrap();
            let link = dir.join(link);
            let target = fs::read_link(&link).unwrap();
            assert!(target.starts_with(&sdks) && link.join("README.md").is_file());
            // Keeps a link that leads to another existing copy of the SDK.
            let other = root.path().join("other");
            fs::remove_file(&link).unwrap();
            for (_, file) in SDK_FOLDERS_BY_LANGUAGE {
                put(&other.join(file), "");
            }
            symlink(&other, &link).unwrap();
            create_missing_sdk_symlinks(&dir, &sdks, &said).unwrap();
            assert_eq!(fs::read_link(&link).unwrap(), other);
            // Replaces a link whose target is missing.
            fs::remove_dir_all(&other).unwrap();
            create_missing_sdk_symlinks(&dir, &sdks, &said).unwrap();
            assert_eq!(fs::read_link(&link).unwrap(), target);
        }
        assert_eq!(fs::read_dir(&sdks).unwrap().count(), 1);
        let ignored = root.path().join("rust/.rind-sdk/.gitignore");
        assert_eq!(fs::read_to_string(ignored).unwrap(), "*\n");
    }

    #[test]
    fn plugins_without_a_reference_and_files_in_the_way_are_left_alone() {
        let root = tempfile::tempdir().unwrap();
        let (sdks, said) = (
            root.path().join("sdks"),
            Arc::new(|_: &str| {}) as ProgressCallback,
        );
        for (file, text) in [
            (
                "Cargo.toml",
                "[dependencies]\nrind-sdk = { path = \"rind-sdk\" }",
            ),
            (
                "Cargo.toml",
                "[dependencies]\nrind-sdk = { path = \"new/../../.rind-sdk/rust\" }",
            ),
            ("Cargo.toml", "[dependencies]\nrind-sdk = \"1\""),
            ("Cargo.toml", "not TOML"),
            ("pyproject.toml", "[tool.rind]\npath = [\"python\"]"),
            ("pyproject.toml", ""),
            (
                "package.json",
                "{\"dependencies\": {\"rind-sdk\": \"file:./rind-sdk\"}}",
            ),
            ("package.json", "not JSON"),
        ] {
            let dir = root.path().join("plugin");
            put(&dir.join(file), text);
            create_missing_sdk_symlinks(&dir, &sdks, &said).unwrap();
            assert_eq!(fs::read_dir(&dir).unwrap().count(), 1, "{file} {text}");
            fs::remove_dir_all(&dir).unwrap();
        }
        assert!(!sdks.exists());
        let dir = root.path().join("taken");
        put(
            &dir.join("Cargo.toml"),
            "[dependencies]\nrind-sdk = { path = \".rind-sdk/rust\" }",
        );
        put(&dir.join(".rind-sdk/rust/mine"), "mine");
        let error = create_missing_sdk_symlinks(&dir, &sdks, &said)
            .unwrap_err()
            .to_string();
        assert!(error.contains("exists and is not a symlink"), "{error}");
        assert!(dir.join(".rind-sdk/rust/mine").is_file());
        let dir = root.path().join("led");
        put(
            &dir.join("Cargo.toml"),
            "[dependencies]\nrind-sdk = { path = \".rind-sdk/rust\" }",
        );
        symlink(root.path().join("elsewhere"), dir.join(".rind-sdk")).unwrap();
        let error = create_missing_sdk_symlinks(&dir, &sdks, &said)
            .unwrap_err()
            .to_string();
        assert!(error.contains(".rind-sdk is a link"), "{error}");
        assert!(!root.path().join("elsewhere").exists());
    }
}
