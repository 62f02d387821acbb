//! Creates packages for npm, PyPI and crates.io that contain a packed plugin.
//!
//! Packages are reproducible: the order, times and modes of their files are fixed. A package
//! contains the packed plugin, its README, its signature, and only the metadata that its registry
//! requires. Installing it runs no code and needs no other packages.
//!
//! Start from [`make_bundle`].

mod crate_file;
mod npm;
mod tarball;
mod wheel;

use anyhow::{Context, ensure};

use super::contents::PluginContents;
use super::ecosystem::PackageKind;

/// Maximum length of a license expression, in bytes; common ones have 20.
const MAX_LICENSE_EXPRESSION_BYTES: usize = 200;

/// Keyword under which registries list packages with plugins.
const PLUGIN_PACKAGE_KEYWORD: &str = "rind-plugin";

/// Name of the README file, in plugins and in packages.
const README_FILE_NAME: &str = "README.md";

/// Paths and contents of a package's files, in the order of the archive.
type PackageArchiveFiles = Vec<(String, Vec<u8>)>;

/// Options for creating an npm, Python or Rust package from a plugin.
#[derive(Clone, Debug)]
pub struct PackageBuildOptions {
    /// Kind of package to create: npm, Python or Rust.
    pub kind: PackageKind,
    /// Name of the package; `None` for the name of the plugin.
    pub name: Option<String>,
    /// License of the plugin, as an SPDX expression.
    pub license: Option<String>,
}

/// Packed plugin from which a package is created.
pub struct PluginToBundle<'a> {
    pub contents: &'a PluginContents,
    /// Bytes of the plugin in the format of `rind plugin pack`.
    pub packed: Vec<u8>,
    /// Text of the plugin's `.minisig` signature file; `None` for an unsigned plugin.
    pub signature: Option<String>,
}

/// Created package, which consists of a single file.
#[derive(Debug)]
pub struct BundledPackageFile {
    /// File name of the package that the clients of the registry expect.
    pub file_name: String,
    pub bytes: Vec<u8>,
}

/// Content from which the package file of each registry format is built.
struct PackageBuildInput<'a> {
    /// Name of the package, not normalized for the registry.
    name: &'a str,
    version: &'a semver::Version,
    /// Description of the plugin in one line.
    description: String,
    license: Option<&'a str>,
    readme: Option<&'a [u8]>,
    /// Name of the file in the package that contains the packed plugin.
    plugin_file: String,
    /// Files of the package with the packed plugin and its signature, by path.
    plugin_files: PackageArchiveFiles,
}

/// Creates a package of the requested kind that contains a packed plugin.
pub fn make_bundle(
    source: PluginToBundle<'_>,
    options: &PackageBuildOptions,
) -> anyhow::Result<BundledPackageFile> {
    let manifest = &source.contents.manifest;
    let name = options.name.as_deref().unwrap_or(&manifest.name);
    options
        .kind
        .check_and_normalize_name(name)
        .with_context(|| {
            let hint = match options.name {
                Some(_) => "",
                None => "; pass another name with --package-name",
            };
            format!(
                "the package cannot be named `{}`{hint}",
                name.escape_debug()
            )
        })?;
    let license = options.license.as_deref();
    if let Some(license) = license {
        check_license(license)?;
    }
    let plugin_file = format!("{}.wasm", manifest.name);
    let signature = source.signature.map(|text| {
        let path = format!("{plugin_file}.minisig");
        (path, text.into_bytes())
    });
    let readme = source
        .contents
        .files()
        .get(&vec![README_FILE_NAME.to_owned()]);
    let description = manifest.description.split_whitespace();
    let parts = PackageBuildInput {
        name,
        version: &manifest.version,
        description: description.collect::<Vec<_>>().join(" "),
        license,
        readme: readme.map(Vec::as_slice),
        plugin_files: std::iter::once((plugin_file.clone(), source.packed))
            .chain(signature)
            .collect(),
        plugin_file,
    };
    match options.kind {
        PackageKind::Npm => npm::make_npm_package(parts),
        PackageKind::Pypi => wheel::make_wheel(parts),
        PackageKind::Crates => crate_file::make_crate_package(parts),
    }
}

/// Checks that `license` consists of the characters of an SPDX expression, such as `MIT OR
/// Apache-2.0`.
fn check_license(license: &str) -> anyhow::Result<()> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || " .+-()".contains(c);
    ensure!(
        !license.trim().is_empty()
            && license.len() <= MAX_LICENSE_EXPRESSION_BYTES
            && license.chars().all(is_plain),
        "`{}` is not the SPDX expression of a license, such as `MIT OR Apache-2.0`",
        rind_lib::text::escape_and_truncate_line(license, MAX_LICENSE_EXPRESSION_BYTES)
    );
    Ok(())
}

#[cfg(test)]
mod tests;
