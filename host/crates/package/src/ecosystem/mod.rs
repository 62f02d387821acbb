//! Plugins in packages of npm, PyPI and crates: an ordinary package with one packed plugin in it.
//!
//! A registry is asked for the versions of a package, and for the file of one. The file must have
//! the digest that the registry publishes. Nothing of a package is run or installed except the
//! packed plugin: no scripts, no dependencies, no build.
//!
//! Start from [`fetch_package`].

mod client;
mod crates;
mod defaults;
mod integrity;
mod npm;
mod pep440;
mod pypi;
mod reference;
mod simple_html;

use anyhow::Context;
use semver::Version;
use serde::{Deserialize, Serialize};

use super::contents::MAX_BYTES;
use super::registry::{DownloadAsk, PackageDownload, Url, sha256_hex};
pub use client::{ClientEnvironment, FindVariable};
use integrity::PackageIntegrity;
pub(crate) use pep440::from_semver;
pub use reference::PackageKind;
pub(crate) use reference::{PackageReference, normal_pypi_name};
use rind_lib::text::clean_line;

/// Maximum size of the list of a package's versions. Packages with thousands of versions have some
/// 20 MiB.
const MAX_DOCUMENT_BYTES: u64 = 32 << 20;

/// Maximum length of a registry's text in messages and in the lock file.
const MAX_TEXT_BYTES: usize = 300;

/// Maximum number of provenance claims that are recorded.
const MAX_CLAIMS: usize = 8;

/// Record of a package in the lock file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockedPackage {
    /// Address of the registry.
    pub registry: String,
    /// Name of the package's file.
    pub file: String,
    /// Digest of the package's file.
    pub digest: String,
    /// Digest as the registry publishes it.
    pub integrity: String,
    /// Claims of the registry on where the package was built and who signed it. They are not
    /// verified.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub provenance: Vec<String>,
}

impl LockedPackage {
    /// Whether the registry claims to know where the package was built.
    #[must_use]
    pub fn has_attestation(&self) -> bool {
        let mut claims = self.provenance.iter();
        claims.any(|claim| claim.starts_with(ATTESTATION))
    }
}

/// Prefix of claims on where a package was built.
const ATTESTATION: &str = "attestation ";

/// Prefix of claims on the key that signed a package.
const SIGNATURE: &str = "signature of key ";

/// File of one version, as the registry lists it.
#[derive(Debug)]
struct ListedFile {
    /// Version in the notation of the registry.
    version: String,
    url: Url,
    /// Name of the file, or of the version for registries without names of files.
    name: String,
    integrity: PackageIntegrity,
    provenance: Vec<String>,
    /// Statement that the version should not be used, with the reason.
    withdrawn: Option<String>,
}

/// Package from a registry, with checked digest.
#[derive(Debug)]
pub(crate) struct FetchedPackage {
    /// Reference to the version, or to the tag that was named.
    pub(crate) reference: PackageReference,
    /// Version of the package; `None` for one that no plugin can have.
    pub(crate) version: Option<Version>,
    pub(crate) bytes: Vec<u8>,
    pub(crate) locked: LockedPackage,
    /// Warning about a version that was yanked or deprecated.
    pub(crate) notice: Option<String>,
}

/// Downloads a version of a package: the one that the reference names, or the newest. `installed`
/// is the current version, for an update.
pub(crate) async fn fetch_package(
    reference: &PackageReference,
    installed: Option<&Version>,
    environment: &ClientEnvironment,
) -> anyhow::Result<FetchedPackage> {
    let registry = client::find_registry(environment, reference)?;
    let about = || {
        format!(
            "the registry set by {} sent no usable answer",
            show_text(&registry.setting)
        )
    };
    let download = PackageDownload::new(&registry)?;
    let listed = match reference.kind {
        PackageKind::Npm => npm::find_file(&download, reference, installed).await,
        PackageKind::Pypi => pypi::find_file(&download, reference, installed).await,
        PackageKind::Crates => crates::find_file(&download, reference, installed).await,
    };
    let listed = listed.with_context(about)?;
    let file = show_text(&listed.name);
    let bytes = download.fetch(DownloadAsk {
        url: &listed.url,
        accept: None,
        limit: MAX_BYTES,
        noun: &file,
    });
    let bytes = bytes.await.with_context(about)?;
    listed.integrity.check_bytes(&bytes).with_context(about)?;
    // A tag stays in the reference, so that updates follow it.
    let named = match reference.is_tag() {
        true => reference.clone(),
        false => reference.with_version(listed.version.clone()),
    };
    let notice = listed.withdrawn.map(|why| {
        let version = reference.with_version(listed.version.clone());
        format!("{version} {why}")
    });
    let mut provenance = listed.provenance;
    provenance.truncate(MAX_CLAIMS);
    Ok(FetchedPackage {
        version: reference.parse_version(&listed.version),
        locked: LockedPackage {
            registry: download.base().to_string(),
            file,
            digest: sha256_hex(&bytes),
            integrity: listed.integrity.to_string(),
            provenance,
        },
        reference: named,
        bytes,
        notice,
    })
}

/// Whether a reference with this version is updated to newer versions.
fn is_open(reference: &PackageReference, installed: Option<&Version>) -> bool {
    reference.version.is_none() || (installed.is_some() && !reference.is_tag())
}

/// Selects the newest of versions that are newer than `installed`, if given. Pre-releases count
/// only if the installed version is one.
fn newest_version<T>(
    versions: impl Iterator<Item = (Version, T)>,
    installed: Option<&Version>,
) -> Option<T> {
    let takes_pre = installed.is_some_and(|version| !version.pre.is_empty());
    let counts = |(version, _): &(Version, T)| {
        (takes_pre || version.pre.is_empty()) && installed.is_none_or(|own| version > own)
    };
    let newest = versions
        .filter(counts)
        .max_by(|(one, _), (other, _)| one.cmp(other));
    newest.map(|(_, version)| version)
}

/// Shortens and escapes a registry's text.
fn show_text(text: &str) -> String {
    clean_line(text, MAX_TEXT_BYTES)
}
