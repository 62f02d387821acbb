//! Digest of the source files that a component was built from. The digest is stored in a section of
//! the component, and shows whether the source files in the plugin's folder have changed since the
//! build.
//!
//! The digest covers only files in the plugin's folder. The module must not know how a plugin is
//! built.
//! Start from [`describe_stale_build`].

use std::fs;
use std::io;
use std::path::Path;

use super::stamp;

/// Name of the custom section, which contains `blake3:` and 64 hex digits.
pub const SOURCE_DIGEST_SECTION_NAME: &str = "rind:sources";

/// Package manifests of the supported languages; a folder without one of them has no sources.
const PACKAGE_MANIFEST_FILE_NAMES: [&str; 3] = ["Cargo.toml", "package.json", "pyproject.toml"];

/// Extensions of source files and of other files that a build reads.
const SOURCE_FILE_EXTENSIONS: [&str; 14] = [
    "rs", "js", "mjs", "cjs", "jsx", "ts", "mts", "cts", "tsx", "json", "py", "pyi", "wit", "toml",
];

/// Directories that are not searched for sources: those that build tools write, and the directory
/// of test cases.
const NON_SOURCE_FOLDER_NAMES: [&str; 4] = ["target", "node_modules", "__pycache__", "tests"];

/// Files that are not hashed as sources: those that tools write, and the plugin's manifest, which
/// the component stores in a separate section.
const NON_SOURCE_FILE_NAMES: [&str; 3] = ["plugin.toml", "plugin.schema.json", "package-lock.json"];

/// Maximum number of source files. A plugin with more files gets no digest, so whether its
/// component is up to date is unknown.
const MAX_SOURCE_FILES: usize = 5_000;

/// Maximum total size of a component's embedded source files, in bytes.
const MAX_TOTAL_SOURCE_BYTES: u64 = 64 << 20;

/// Maximum depth of nested directories that are searched for sources.
const MAX_SOURCE_FOLDER_DEPTH: usize = 16;

/// Returns the digest of the sources in a plugin's folder; `None` if there are no sources or too
/// many, or if one cannot be read. Symlinks are not followed.
#[must_use]
pub fn digest_plugin_sources(folder: &Path) -> Option<String> {
    if !PACKAGE_MANIFEST_FILE_NAMES
        .iter()
        .any(|name| folder.join(name).is_file())
    {
        return None;
    }
    let mut found = Vec::new();
    collect_source_paths(folder, folder, MAX_SOURCE_FOLDER_DEPTH, &mut found).ok()?;
    found.sort();
    let mut hasher = blake3::Hasher::new();
    let mut n_bytes = 0;
    for path in found {
        let full = folder.join(&path);
        n_bytes += full.metadata().ok()?.len();
        if n_bytes > MAX_TOTAL_SOURCE_BYTES {
            return None;
        }
        let content = fs::read(full).ok()?;
        // Hash the lengths too, so that two different sets of files never hash the same bytes.
        for part in [path.as_bytes(), &content] {
            hasher.update(&part.len().to_le_bytes());
            hasher.update(part);
        }
    }
    Some(format!("blake3:{}", hasher.finalize().to_hex()))
}

/// Appends the paths of the source files below `folder`, relative to `root`, to `found`.
fn collect_source_paths(
    root: &Path,
    folder: &Path,
    depth: usize,
    found: &mut Vec<String>,
) -> io::Result<()> {
    let too_many = || io::Error::other("there are too many sources");
    if depth == 0 {
        return Err(too_many());
    }
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let (path, kind) = (entry.path(), entry.file_type()?);
        let name = entry.file_name();
        let Some(name) = name.to_str().filter(|name| !name.starts_with('.')) else {
            continue;
        };
        if kind.is_dir() && !NON_SOURCE_FOLDER_NAMES.contains(&name) {
            collect_source_paths(root, &path, depth - 1, found)?;
            continue;
        }
        let extension = path.extension().and_then(|end| end.to_str());
        let is_source = extension.is_some_and(|end| SOURCE_FILE_EXTENSIONS.contains(&end));
        if !kind.is_file() || !is_source || NON_SOURCE_FILE_NAMES.contains(&name) {
            continue;
        }
        let own = path.strip_prefix(root).ok().and_then(Path::to_str);
        found.extend(own.map(str::to_owned));
        if found.len() > MAX_SOURCE_FILES {
            return Err(too_many());
        }
    }
    Ok(())
}

/// Returns a message if a component was built from other sources than those in the plugin's folder;
/// `None` if it was built from these sources, or if that is unknown.
#[must_use]
pub fn describe_stale_build(folder: &Path, component: &[u8]) -> Option<String> {
    let built = stamp::find_custom_section(component, SOURCE_DIGEST_SECTION_NAME)?;
    let now = digest_plugin_sources(folder)?;
    (built != now.as_bytes()).then(|| {
        format!(
            "its sources have changed since it was built: build it again with `rind plugin build {}`",
            folder.display()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_source_makes_a_component_stale_and_other_files_do_not() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path();
        let put = |path: &str, text: &str| {
            let path = folder.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put("src/lib.rs", "one");
        assert_eq!(
            digest_plugin_sources(folder),
            None,
            "no manifest of a language"
        );
        put("Cargo.toml", "[package]");
        let mut component = b"\0asm\x0d\0\x01\0".to_vec();
        assert_eq!(describe_stale_build(folder, &component), None, "no section");
        let digest = digest_plugin_sources(folder).unwrap();
        stamp::append_source_digest_section(&mut component, &digest).unwrap();
        assert_eq!(describe_stale_build(folder, &component), None);
        for (path, text) in [
            ("plugin.toml", "name = 1"),
            ("tests/cases.toml", "[[case]]"),
            ("target/debug/a.rs", "x"),
            (".git/config.toml", "x"),
            ("README.md", "x"),
            ("x.wasm", "x"),
        ] {
            put(path, text);
            assert_eq!(describe_stale_build(folder, &component), None, "{path}");
        }
        std::os::unix::fs::symlink("/dev/zero", folder.join("src/zero.rs")).unwrap();
        assert_eq!(describe_stale_build(folder, &component), None, "a link");
        put("src/lib.rs", "two");
        let why = describe_stale_build(folder, &component).unwrap();
        assert!(why.contains("rind plugin build"), "{why}");
        put("src/lib.rs", "one");
        put("src/more.rs", "");
        assert!(describe_stale_build(folder, &component).is_some());
    }
}
