//! Fetches plugins from npm, PyPI and crates registries. Such a plugin is an ordinary package with
//! one packed plugin in it.
//!
//! The registry lists the versions of a package and serves the file of each version. The downloaded
//! file must have the digest that the registry publishes. Only the packed plugin in it is
//! installed: no script of the package is run, and no dependency is installed or built.
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

use super::contents::MAX_PACKAGE_SOURCE_BYTES;
use super::registry::{PackageDownloadClient, RegistryDownloadRequest, Url, sha256_digest};
pub use client::{EnvVariableLookupFn, PackageClientEnvironment};
use integrity::PackageFileDigest;
pub(crate) use pep440::semver_to_pep440;
pub use reference::PackageKind;
pub(crate) use reference::{PackageReference, normalize_pypi_name};
use rind_lib::text::escape_and_truncate_line;

/// Maximum size in bytes of the list of a package's versions. For packages with thousands of
/// versions, the list has some 20 MiB.
const MAX_VERSION_LIST_BYTES: u64 = 32 << 20;

/// Maximum length in bytes of a text from a registry, in messages and in the lock file.
const MAX_REGISTRY_TEXT_BYTES: usize = 300;

/// Maximum number of provenance claims that the lock file records for a package.
const MAX_PROVENANCE_CLAIMS_IN_LOCK_FILE: usize = 8;

/// Record in the lock file of the package that a plugin was installed from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockedPackage {
    /// Address of the registry from which the package file was downloaded.
    pub registry: String,
    /// Name of the package file, for example `hello-0.1.0.tgz`.
    pub file: String,
    /// SHA-256 of the package file, computed from the downloaded bytes.
    pub digest: String,
    /// Digest of the package file, as the registry publishes it.
    pub integrity: String,
    /// Registry's claims about where the package was built and who signed it. The claims are not
    /// verified.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub provenance: Vec<String>,
}

impl LockedPackage {
    /// Whether the registry claims to have a build attestation for the package.
    #[must_use]
    pub fn has_attestation(&self) -> bool {
        let mut claims = self.provenance.iter();
        claims.any(|claim| claim.starts_with(ATTESTATION_CLAIM_PREFIX))
    }
}

/// Prefix of a provenance claim that attests how the package was built.
const ATTESTATION_CLAIM_PREFIX: &str = "attestation ";

/// Prefix of a provenance claim that names the key with which the package was signed.
const SIGNATURE_PROVENANCE_CLAIM_PREFIX: &str = "signature of key ";

/// Package file of one version, as the registry lists it.
#[derive(Debug)]
struct RegistryPackageFile {
    /// Version of the package in the notation of the registry.
    version: String,
    url: Url,
    /// Name of the package file, or a name made from package and version if the registry lists
    /// none.
    name: String,
    integrity: PackageFileDigest,
    provenance: Vec<String>,
    /// Text that continues a message about the version, such as `was yanked: REASON`, if the
    /// publisher has withdrawn the version.
    withdrawn: Option<String>,
}

/// Package file from a registry, checked against the published digest.
#[derive(Debug)]
pub(crate) struct FetchedPackage {
    /// Reference to the downloaded version. If the user's reference names a tag, this is the
    /// reference with the tag.
    pub(crate) reference: PackageReference,
    /// Version of the package; `None` if a plugin cannot have a version of this form.
    pub(crate) version: Option<Version>,
    pub(crate) bytes: Vec<u8>,
    pub(crate) locked: LockedPackage,
    /// Warning that this version of the package was yanked or is deprecated; `None` without one.
    pub(crate) notice: Option<String>,
}

/// Downloads the version of a package that the reference names, or else the newest. For an update,
/// `installed` is the current version.
pub(crate) async fn fetch_package(
    reference: &PackageReference,
    installed: Option<&Version>,
    environment: &PackageClientEnvironment,
) -> anyhow::Result<FetchedPackage> {
    let registry = client::find_registry(environment, reference)?;
    let about = || {
        format!(
            "the registry that is set in {} sent no usable answer",
            escape_registry_text(&registry.setting)
        )
    };
    let download = PackageDownloadClient::new(&registry)?;
    let listed = match reference.kind {
        PackageKind::Npm => npm::find_npm_package_file(&download, reference, installed).await,
        PackageKind::Pypi => pypi::find_wheel_file(&download, reference, installed).await,
        PackageKind::Crates => crates::find_crate_file(&download, reference, installed).await,
    };
    let listed = listed.with_context(about)?;
    let file = escape_registry_text(&listed.name);
    let bytes = download.fetch_following_redirects(RegistryDownloadRequest {
        url: &listed.url,
        accept: None,
        limit: MAX_PACKAGE_SOURCE_BYTES,
        noun: &file,
    });
    let bytes = bytes.await.with_context(about)?;
    listed.integrity.verify_bytes(&bytes).with_context(about)?;
    // Keep the tag of a reference, so that later updates follow the tag.
    let named = match reference.is_npm_tag() {
        true => reference.clone(),
        false => reference.with_version(listed.version.clone()),
    };
    let notice = listed.withdrawn.map(|why| {
        let version = reference.with_version(listed.version.clone());
        format!("{version} {why}")
    });
    let mut provenance = listed.provenance;
    provenance.truncate(MAX_PROVENANCE_CLAIMS_IN_LOCK_FILE);
    Ok(FetchedPackage {
        version: reference.parse_version(&listed.version),
        locked: LockedPackage {
            registry: download.base_url().to_string(),
            file,
            digest: sha256_digest(&bytes),
            integrity: listed.integrity.to_string(),
            provenance,
        },
        reference: named,
        bytes,
        notice,
    })
}

/// Whether the newest version is selected. This is so if the reference has no version, and for an
/// update (`installed` is set) unless the reference names a tag.
fn is_newest_version_selected(reference: &PackageReference, installed: Option<&Version>) -> bool {
    reference.version.is_none() || (installed.is_some() && !reference.is_npm_tag())
}

/// Selects the newest version. If `installed` is set, only newer versions are considered, and
/// pre-releases only if the installed version is one.
fn select_newest_version<T>(
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

/// Truncates and escapes a text from a registry.
fn escape_registry_text(text: &str) -> String {
    escape_and_truncate_line(text, MAX_REGISTRY_TEXT_BYTES)
}
