//! Builds Python packages: a wheel for all platforms that contains no Python code. Installing the
//! wheel puts the packed plugin into `share/rind-packages` of the Python environment.

use std::fmt::Write;

use anyhow::Context;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

use super::{BundledPackageFile, PLUGIN_PACKAGE_KEYWORD, PackageArchiveFiles, PackageBuildInput};
use crate::ecosystem::{normalize_pypi_name, semver_to_pep440};
use crate::zip::write_zip;

/// Compatibility tag of a wheel for all platforms.
const WHEEL_COMPATIBILITY_TAG: &str = "py3-none-any";

/// Folder that the plugin is installed into, relative to the Python environment. The folder is not
/// `share/rind/plugins`, because a plugin there would count as part of the installation of Rind,
/// and nobody would be asked about its permissions.
const WHEEL_PLUGIN_INSTALL_FOLDER: &str = "share/rind-packages";

pub(super) fn make_wheel(parts: PackageBuildInput<'_>) -> anyhow::Result<BundledPackageFile> {
    let version = semver_to_pep440(parts.version).with_context(|| {
        format!(
            "a Python package cannot have the version {}: after the three numbers, only -alpha.N, -beta.N, -rc.N and -dev.N are \
             possible",
            parts.version
        )
    })?;
    // Wheel file names use `_` where normalized package names use `-`.
    let stem = format!(
        "{}-{version}",
        normalize_pypi_name(parts.name).replace('-', "_")
    );
    let info = format!("{stem}.dist-info");
    let metadata = build_wheel_metadata(&parts, &version)?;
    let wheel = format!(
        "Wheel-Version: 1.0\nGenerator: rind\nRoot-Is-Purelib: true\nTag: {WHEEL_COMPATIBILITY_TAG}\n"
    );
    let mut files: PackageArchiveFiles = parts
        .plugin_files
        .into_iter()
        .map(|(path, bytes)| {
            (
                format!("{stem}.data/data/{WHEEL_PLUGIN_INSTALL_FOLDER}/{path}"),
                bytes,
            )
        })
        .collect();
    files.push((format!("{info}/METADATA"), metadata));
    files.push((format!("{info}/WHEEL"), wheel.into_bytes()));
    let record = format!("{info}/RECORD");
    let text = build_wheel_record(&files, &record);
    files.push((record, text.into_bytes()));
    Ok(BundledPackageFile {
        file_name: format!("{stem}-{WHEEL_COMPATIBILITY_TAG}.whl"),
        bytes: write_zip(&files)?,
    })
}

/// Returns the `METADATA` file: the headers and, as the body, the README, in the format of an
/// e-mail. No header value contains a line break: names are checked, and the description is one
/// line.
fn build_wheel_metadata(parts: &PackageBuildInput<'_>, version: &str) -> anyhow::Result<Vec<u8>> {
    let mut text = format!(
        "Metadata-Version: 2.1\nName: {}\nVersion: {version}\nSummary: {}\nKeywords: {PLUGIN_PACKAGE_KEYWORD}\n",
        parts.name, parts.description
    );
    if let Some(license) = parts.license {
        writeln!(text, "License: {license}")?;
    }
    if parts.readme.is_some() {
        text.push_str("Description-Content-Type: text/markdown\n");
    }
    let mut bytes = text.into_bytes();
    if let Some(readme) = parts.readme {
        bytes.push(b'\n');
        bytes.extend_from_slice(readme);
    }
    Ok(bytes)
}

/// Returns the `RECORD` file, which lists all files with digest and size. The line of `RECORD`
/// itself has neither.
fn build_wheel_record(files: &PackageArchiveFiles, record: &str) -> String {
    let mut text = String::new();
    for (path, bytes) in files {
        let digest = URL_SAFE_NO_PAD.encode(Sha256::digest(bytes));
        // Writing to a string does not fail.
        let _ = writeln!(text, "{path},sha256={digest},{}", bytes.len());
    }
    text + record + ",,\n"
}
