//! Finds the packed plugin in the files of an npm, PyPI or crates package.
//!
//! The package of a plugin contains exactly one `.wasm` file that `rind plugin pack` made, at any
//! path, and possibly the plugin's signature beside it. All other files, such as scripts and
//! sources, are ignored.

use std::path::Path;

use anyhow::{Context, bail, ensure};

use super::contents::FileContentsByPath;
use super::registry::MAX_SIGNATURE_BYTES;
use super::{archive, pack, zip};

/// File name extension of packed plugins, and the one that is appended for a plugin's signature.
const WASM_FILE_EXTENSION: &str = ".wasm";
const SIGNATURE_FILE_EXTENSION: &str = ".minisig";

/// Maximum number of a package's files that an error message lists.
const MAX_FILES_LISTED_IN_ERROR: usize = 3;

/// Packed plugin that was found in a package.
#[derive(Debug)]
pub(crate) struct PluginFoundInPackage {
    /// Path of the packed plugin within the package.
    pub(crate) path: String,
    pub(crate) bytes: Vec<u8>,
    pub(crate) signature: Option<String>,
}

/// Reads a package file: a compressed tar archive (npm, cargo) or a zip archive (wheels). `origin`
/// is only used in messages.
pub(crate) fn unpack_package_files(
    bytes: &[u8],
    origin: &Path,
) -> anyhow::Result<FileContentsByPath> {
    if bytes.starts_with(zip::LOCAL_FILE_HEADER_MAGIC) {
        let files = zip::read_zip_files(bytes);
        return files.with_context(|| format!("cannot read {}", origin.display()));
    }
    ensure!(
        bytes.starts_with(archive::GZIP_MAGIC_BYTES),
        "{} is not a package: neither a compressed tar archive nor a zip archive",
        origin.display()
    );
    archive::read_archive_files(bytes, origin)
}

/// Finds the packed plugin in the files of a package.
pub(crate) fn find_plugin_in_package(
    mut files: FileContentsByPath,
    origin: &Path,
) -> anyhow::Result<PluginFoundInPackage> {
    let shown = origin.display();
    let is_wasm = |names: &&Vec<String>| {
        names
            .last()
            .is_some_and(|name| name.ends_with(WASM_FILE_EXTENSION))
    };
    let modules: Vec<Vec<String>> = files.keys().filter(is_wasm).cloned().collect();
    let is_packed = |names: &&Vec<String>| {
        let bytes = files.get(*names);
        bytes.is_some_and(|bytes| pack::has_packed_manifest(bytes))
    };
    let packed: Vec<&Vec<String>> = modules.iter().filter(is_packed).collect();
    let names = match packed.as_slice() {
        [one] => (*one).clone(),
        [] => bail!(
            "{shown} contains no plugin: it must contain exactly one `.wasm` file that `rind plugin pack` made, and {}",
            describe_wasm_files_in_package(&modules, files.len())
        ),
        several => bail!(
            "{shown} contains {} packed plugins, {}; it must contain exactly one",
            several.len(),
            format_path_list(several.iter().copied())
        ),
    };
    let path = names.join("/");
    let signature = read_signature_beside_plugin(&files, &names).with_context(|| {
        format!(
            "cannot read the signature of `{}` in {shown}",
            path.escape_debug()
        )
    })?;
    let bytes = files.remove(&names).unwrap_or_default();
    Ok(PluginFoundInPackage {
        path,
        bytes,
        signature,
    })
}

/// Describes, for an error message, the `.wasm` files of a package that has no packed plugin.
fn describe_wasm_files_in_package(modules: &[Vec<String>], n_files: usize) -> String {
    match modules {
        [] => format!("none of its {n_files} files is a `.wasm`"),
        all => format!(
            "its `.wasm` files have no manifest: {}",
            format_path_list(all.iter())
        ),
    }
}

fn format_path_list<'a>(all: impl ExactSizeIterator<Item = &'a Vec<String>>) -> String {
    let n_more = all.len().saturating_sub(MAX_FILES_LISTED_IN_ERROR);
    let shown = all.take(MAX_FILES_LISTED_IN_ERROR).map(|names| {
        let path = names.join("/");
        format!("`{}`", path.escape_debug())
    });
    let shown = shown.collect::<Vec<_>>().join(", ");
    match n_more {
        0 => shown,
        _ => format!("{shown} and {n_more} more"),
    }
}

/// Returns the signature in the `.minisig` file beside a packed plugin; `None` if there is no such
/// file.
fn read_signature_beside_plugin(
    files: &FileContentsByPath,
    plugin: &[String],
) -> anyhow::Result<Option<String>> {
    let mut names = plugin.to_vec();
    if let Some(name) = names.last_mut() {
        name.push_str(SIGNATURE_FILE_EXTENSION);
    }
    let Some(bytes) = files.get(&names) else {
        return Ok(None);
    };
    ensure!(
        bytes.len() as u64 <= MAX_SIGNATURE_BYTES,
        "the signature has {} bytes, at most {MAX_SIGNATURE_BYTES} are read",
        bytes.len()
    );
    let text = String::from_utf8(bytes.clone());
    text.map(Some).context("the signature is not UTF-8")
}
