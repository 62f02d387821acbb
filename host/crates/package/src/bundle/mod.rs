//! Creates ordinary packages with a packed plugin in them: for npm, PyPI and crates.
//!
//! The same plugin makes the same bytes: order, times and modes are fixed. A package has the packed
//! plugin, its README and its signature, and only the description that its registry requires; it
//! runs nothing and depends on nothing.
//!
//! Start from [`make_bundle`].

mod crate_file;
mod npm;
mod tarball;
mod wheel;

use anyhow::{Context, ensure};

use super::contents::PluginContents;
use super::ecosystem::PackageKind;

/// Maximum length of a license expression; usual ones have 20 bytes.
const MAX_LICENSE_BYTES: usize = 200;

/// Keyword that registries list such packages under.
const KEYWORD: &str = "rind-plugin";

/// File of the README, in plugins and in packages.
const README: &str = "README.md";

/// Files of a package by path, in the order of the archive.
type BundleFiles = Vec<(String, Vec<u8>)>;

/// Options for making a package.
#[derive(Clone, Debug)]
pub struct BundleOptions {
    /// Kind of package.
    pub kind: PackageKind,
    /// Name of the package; the name of the plugin by default.
    pub name: Option<String>,
    /// License of the plugin, as an SPDX expression.
    pub license: Option<String>,
}

/// Packed plugin to make a package of.
pub struct BundleSource<'a> {
    pub contents: &'a PluginContents,
    /// Bytes of `rind plugin pack`.
    pub packed: Vec<u8>,
    /// Text of the `.minisig` file.
    pub signature: Option<String>,
}

/// Package as a file.
#[derive(Debug)]
pub struct PackageBundle {
    /// Name that the clients of the registry expect.
    pub file_name: String,
    pub bytes: Vec<u8>,
}

/// Description of a package, as each format writes it in its own way.
struct BundleParts<'a> {
    /// Name as its owner wrote it.
    name: &'a str,
    version: &'a semver::Version,
    /// Description in one line.
    description: String,
    license: Option<&'a str>,
    readme: Option<&'a [u8]>,
    /// Name of the packed plugin's file.
    plugin_file: String,
    /// Packed plugin and its signature.
    plugin_files: BundleFiles,
}

/// Creates a package with a packed plugin.
pub fn make_bundle(
    source: BundleSource<'_>,
    options: &BundleOptions,
) -> anyhow::Result<PackageBundle> {
    let manifest = &source.contents.manifest;
    let name = options.name.as_deref().unwrap_or(&manifest.name);
    options.kind.check_name(name).with_context(|| {
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
    let readme = source.contents.files().get(&vec![README.to_owned()]);
    let description = manifest.description.split_whitespace();
    let parts = BundleParts {
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
        PackageKind::Npm => npm::make_tarball(parts),
        PackageKind::Pypi => wheel::make_wheel(parts),
        PackageKind::Crates => crate_file::make_crate(parts),
    }
}

/// Refuses texts that are not an SPDX expression, such as `MIT OR Apache-2.0`.
fn check_license(license: &str) -> anyhow::Result<()> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || " .+-()".contains(c);
    ensure!(
        !license.trim().is_empty()
            && license.len() <= MAX_LICENSE_BYTES
            && license.chars().all(is_plain),
        "`{}` is not the SPDX expression of a license, such as `MIT OR Apache-2.0`",
        rind_lib::text::clean_line(license, MAX_LICENSE_BYTES)
    );
    Ok(())
}

#[cfg(test)]
mod tests;
