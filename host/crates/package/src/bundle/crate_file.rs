//! Packs a plugin as a `.crate` file: a Cargo manifest, and a library that contains the packed
//! plugin as a byte constant.

use anyhow::Context;
use toml::{Table, Value};

use super::tarball::write_tarball;
use super::{BundledPackageFile, PLUGIN_PACKAGE_KEYWORD, PackageBuildInput, README_FILE_NAME};

/// Path of the only Rust source file in the created crate.
const LIBRARY_SOURCE_PATH: &str = "src/lib.rs";

/// Rust edition of the created crate.
const LIBRARY_RUST_EDITION: &str = "2021";

pub(super) fn make_crate_package(
    parts: PackageBuildInput<'_>,
) -> anyhow::Result<BundledPackageFile> {
    let text = |value: &str| Value::String(value.to_owned());
    let mut package = Table::new();
    package.insert("name".to_owned(), text(parts.name));
    package.insert("version".to_owned(), text(&parts.version.to_string()));
    package.insert("edition".to_owned(), text(LIBRARY_RUST_EDITION));
    package.insert("description".to_owned(), text(&parts.description));
    package.insert(
        "keywords".to_owned(),
        Value::Array(vec![text(PLUGIN_PACKAGE_KEYWORD)]),
    );
    if let Some(license) = parts.license {
        package.insert("license".to_owned(), text(license));
    }
    if parts.readme.is_some() {
        package.insert("readme".to_owned(), text(README_FILE_NAME));
    }
    let mut library = Table::new();
    library.insert("path".to_owned(), text(LIBRARY_SOURCE_PATH));
    let mut manifest = Table::new();
    manifest.insert("package".to_owned(), Value::Table(package));
    manifest.insert("lib".to_owned(), Value::Table(library));
    let manifest = toml::to_string(&manifest).context("write Cargo.toml")?;
    let library = format!(
        "//! A plugin of the agent host Rind; install it with `rind plugin install`.\n\
         #![no_std]\n\n\
         /// The packed plugin.\n\
         pub const PLUGIN: &[u8] = include_bytes!(\"../{}\");\n",
        parts.plugin_file
    );
    let mut files = vec![("Cargo.toml".to_owned(), manifest.into_bytes())];
    let readme = parts
        .readme
        .map(|text| (README_FILE_NAME.to_owned(), text.to_vec()));
    files.extend(readme);
    files.extend(parts.plugin_files);
    files.push((LIBRARY_SOURCE_PATH.to_owned(), library.into_bytes()));
    let stem = format!("{}-{}", parts.name, parts.version);
    Ok(BundledPackageFile {
        file_name: format!("{stem}.crate"),
        bytes: write_tarball(&stem, &files)?,
    })
}
