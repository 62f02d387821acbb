//! Finds packages in an npm registry. The registry's document about a package lists its versions,
//! each with the URL and SHA-512 of the package file.

use std::collections::BTreeMap;

use anyhow::{Context, ensure};
use semver::Version;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::{
    ATTESTATION_CLAIM_PREFIX, MAX_VERSION_LIST_BYTES, PackageFileDigest, PackageReference,
    RegistryPackageFile, SIGNATURE_PROVENANCE_CLAIM_PREFIX, defaults, escape_registry_text,
    is_newest_version_selected, select_newest_version,
};
use crate::registry::{PackageDownloadClient, RegistryDownloadRequest, Url, parse_url};

/// Media types of the document: preferably its abbreviated form, which is sufficient, or else the
/// full form.
const PACKAGE_DOCUMENT_ACCEPT_HEADER: &str =
    "application/vnd.npm.install-v1+json; q=1.0, application/json; q=0.8";

/// Tag that points to the version that is installed by default.
const LATEST_DIST_TAG: &str = "latest";

/// Registry's document about a package. A version is parsed only when it is selected, so that a
/// malformed version does not make the others unusable.
#[derive(Deserialize)]
struct NpmDocument {
    name: String,
    #[serde(default, rename = "dist-tags")]
    tags: BTreeMap<String, String>,
    #[serde(default)]
    versions: BTreeMap<String, Box<RawValue>>,
}

#[derive(Deserialize)]
struct NpmVersion {
    name: String,
    version: String,
    /// Reason why the version should not be used; `false` or absent if there is none.
    #[serde(default)]
    deprecated: Option<Value>,
    dist: NpmDist,
}

#[derive(Deserialize)]
struct NpmDist {
    tarball: String,
    #[serde(default)]
    integrity: Option<String>,
    #[serde(default)]
    attestations: Option<NpmAttestations>,
    #[serde(default)]
    signatures: Vec<NpmSignature>,
}

#[derive(Deserialize)]
struct NpmAttestations {
    #[serde(default)]
    provenance: Option<NpmProvenance>,
}

#[derive(Deserialize)]
struct NpmProvenance {
    #[serde(rename = "predicateType")]
    predicate: String,
}

#[derive(Deserialize)]
struct NpmSignature {
    #[serde(rename = "keyid")]
    key: String,
}

/// Finds the package file of the version that `reference` selects.
pub(super) async fn find_npm_package_file(
    download: &PackageDownloadClient,
    reference: &PackageReference,
    installed: Option<&Version>,
) -> anyhow::Result<RegistryPackageFile> {
    // The slash after a scope is escaped, so that scope and name are one path segment.
    let path = reference.name.replace('/', "%2f");
    let url = download
        .base_url()
        .join(&path)
        .context("no valid URL can be built from the name of the package")?;
    let noun = format!("package {}", reference.name);
    let bytes = download.fetch_following_redirects(RegistryDownloadRequest {
        url: &url,
        accept: Some(PACKAGE_DOCUMENT_ACCEPT_HEADER),
        limit: MAX_VERSION_LIST_BYTES,
        noun: &noun,
    });
    let document: NpmDocument = serde_json::from_slice(&bytes.await?)
        .with_context(|| format!("the list of versions of {noun} does not have npm's format"))?;
    ensure!(
        document.name == reference.name,
        "the registry answered with the package `{}` instead of {}",
        escape_registry_text(&document.name),
        reference.name
    );
    let version = select_version(&document, reference, installed)?;
    let text = document
        .versions
        .get(&version)
        .with_context(|| format!("{noun} has no version {}", escape_registry_text(&version)))?;
    let listed: NpmVersion = serde_json::from_str(text.get()).with_context(|| {
        format!(
            "the entry of version {} of {noun} does not have npm's format",
            escape_registry_text(&version)
        )
    })?;
    ensure!(
        listed.name == reference.name && listed.version == version,
        "the registry lists {}@{} as version {} of {}",
        escape_registry_text(&listed.name),
        escape_registry_text(&listed.version),
        escape_registry_text(&version),
        reference.name
    );
    npm_version_to_registry_package_file(listed, download.base_url())
}

fn select_version(
    document: &NpmDocument,
    reference: &PackageReference,
    installed: Option<&Version>,
) -> anyhow::Result<String> {
    let tagged = |tag: &str| {
        let found = document.tags.get(tag).cloned();
        found.with_context(|| format!("package {} has no tag `{tag}`", reference.name))
    };
    let Some(named) = reference.version.as_deref() else {
        return tagged(LATEST_DIST_TAG);
    };
    if reference.is_npm_tag() {
        return tagged(named);
    }
    if !is_newest_version_selected(reference, installed) {
        return Ok(named.to_owned());
    }
    // An update selects the version that `latest` points to, as in npm. Other versions are
    // considered only if the installed version is a pre-release.
    let is_pre = installed.is_some_and(|version| !version.pre.is_empty());
    let latest = document.tags.get(LATEST_DIST_TAG);
    let candidates = document
        .versions
        .keys()
        .filter(|version| is_pre || Some(*version) == latest)
        .filter_map(|version| Some((Version::parse(version).ok()?, version.clone())));
    Ok(select_newest_version(candidates, installed).unwrap_or_else(|| named.to_owned()))
}

fn npm_version_to_registry_package_file(
    listed: NpmVersion,
    base: &Url,
) -> anyhow::Result<RegistryPackageFile> {
    let NpmVersion {
        name,
        version,
        deprecated,
        dist,
    } = listed;
    let shown = format!("{name}@{version}");
    let own = name.rsplit('/').next().unwrap_or(&name);
    let integrity = dist.integrity.unwrap_or_default();
    let integrity = PackageFileDigest::parse_npm_integrity(&integrity)
        .with_context(|| format!("`dist.integrity` of {shown} is invalid"))?;
    let url = parse_url(&dist.tarball)
        .with_context(|| format!("`dist.tarball` of {shown} is not a URL"))?;
    let attestation = dist.attestations.and_then(|all| all.provenance);
    let attestation = attestation.map(|one| {
        format!(
            "{ATTESTATION_CLAIM_PREFIX}{}",
            escape_registry_text(&one.predicate)
        )
    });
    let signatures = dist.signatures.into_iter();
    let signatures = signatures.map(|one| {
        format!(
            "{SIGNATURE_PROVENANCE_CLAIM_PREFIX}{}",
            escape_registry_text(&one.key)
        )
    });
    let withdrawn = match deprecated {
        None | Some(Value::Null | Value::Bool(false)) => None,
        Some(Value::String(why)) if why.is_empty() => None,
        Some(Value::String(why)) => Some(format!("is deprecated: {}", escape_registry_text(&why))),
        Some(_) => Some("is deprecated".to_owned()),
    };
    Ok(RegistryPackageFile {
        url: rewrite_url_for_mirror(url, base, defaults::DEFAULT_NPM_REGISTRY_URL),
        name: format!("{own}-{version}.tgz"),
        version,
        integrity,
        provenance: attestation.into_iter().chain(signatures).collect(),
        withdrawn,
    })
}

/// Replaces the default registry in the URL of a package file by the configured registry, as npm
/// does: a mirror serves documents that still contain the original URLs.
fn rewrite_url_for_mirror(mut url: Url, base: &Url, default: Option<&str>) -> Url {
    let default = default.and_then(|url| parse_url(url).ok());
    if default.is_some_and(|default| default.host_str() == url.host_str()) {
        // These setters fail only for URLs without a host.
        let _ = url.set_scheme(base.scheme());
        let _ = url.set_host(base.host_str());
        let _ = url.set_port(base.port());
        if !url.path().starts_with(base.path()) {
            let path = format!("{}{}", base.path().trim_end_matches('/'), url.path());
            url.set_path(&path);
        }
    }
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_default_registry_come_from_the_configured_one() {
        let base = parse_url("http://127.0.0.1:4873/npm/").unwrap();
        let default = Some("https://registry.example/");
        let url = |text| parse_url(text).unwrap();
        let served =
            rewrite_url_for_mirror(url("https://registry.example/a/-/a.tgz"), &base, default);
        assert_eq!(served.as_str(), "http://127.0.0.1:4873/npm/a/-/a.tgz");
        let other = url("https://a.example/a.tgz");
        for default in [default, None] {
            assert_eq!(rewrite_url_for_mirror(other.clone(), &base, default), other);
        }
    }
}
