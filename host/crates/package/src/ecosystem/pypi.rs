//! Finds Python packages in an index, which lists the files of all versions, as JSON (PEP 691) or
//! as an HTML page (PEP 503), each with its SHA-256. The plugin is in a wheel for all platforms.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, bail, ensure};
use semver::Version;
use serde::Deserialize;
use serde_json::Value;

use super::simple_html::parse_package_file_links;
use super::{
    ATTESTATION_CLAIM_PREFIX, MAX_VERSION_LIST_BYTES, PackageFileDigest, PackageReference,
    RegistryPackageFile, escape_registry_text, is_newest_version_selected, normalize_pypi_name,
    pep440, select_newest_version,
};
use crate::registry::{PackageDownloadClient, RegistryDownloadRequest, Url};

/// Media types of the index in the order of preference, the same as pip requests.
const SIMPLE_INDEX_ACCEPT_HEADER: &str = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html; q=0.1, text/html; q=0.01";

/// File name extension of wheels.
const WHEEL_FILE_EXTENSION: &str = ".whl";

#[derive(Deserialize)]
struct PypiDocument {
    meta: PypiIndexMetadata,
    name: String,
    files: Vec<PypiFile>,
}

#[derive(Deserialize)]
struct PypiIndexMetadata {
    #[serde(rename = "api-version")]
    api: String,
}

#[derive(Deserialize)]
struct PypiFile {
    filename: String,
    url: String,
    #[serde(default)]
    hashes: BTreeMap<String, String>,
    /// `true` or the reason if the file was yanked; otherwise `false` or absent.
    #[serde(default)]
    yanked: Value,
    /// URL of the file's attestations (PEP 740), if the index names one.
    #[serde(default)]
    provenance: Option<String>,
}

impl PypiFile {
    /// Returns the predicate `was yanked`, followed by the reason if the index gives one; `None` if
    /// the file was not yanked.
    fn yank_reason(&self) -> Option<String> {
        match &self.yanked {
            Value::Null | Value::Bool(false) => None,
            Value::String(why) if !why.is_empty() => {
                Some(format!("was yanked: {}", escape_registry_text(why)))
            }
            _ => Some("was yanked".to_owned()),
        }
    }
}

/// Finds the wheel of the package version that `reference` selects.
pub(super) async fn find_wheel_file(
    download: &PackageDownloadClient,
    reference: &PackageReference,
    installed: Option<&Version>,
) -> anyhow::Result<RegistryPackageFile> {
    let page = download.base_url().join(&format!("{}/", reference.name));
    let page = page.context("no valid URL can be built from the name of the package")?;
    let noun = format!("package {}", reference.name);
    let bytes = download.fetch_following_redirects(RegistryDownloadRequest {
        url: &page,
        accept: Some(SIMPLE_INDEX_ACCEPT_HEADER),
        limit: MAX_VERSION_LIST_BYTES,
        noun: &noun,
    });
    let document = parse_index_document(&bytes.await?, reference)?;
    let n_files = document.files.len();
    let mut wheels: Vec<(String, Version, PypiFile)> = Vec::new();
    let mut seen = BTreeSet::new();
    for file in document.files {
        let found = parse_wheel_version(&file.filename, reference);
        let version = found.and_then(|text| Some((pep440::pep440_to_semver(&text)?, text)));
        let Some((version, text)) = version else {
            continue;
        };
        ensure!(
            seen.insert(version.clone()),
            "the index lists two wheels for all platforms of version {} of {noun}",
            escape_registry_text(&text)
        );
        wheels.push((text, version, file));
    }
    ensure!(
        !wheels.is_empty(),
        "{noun} contains no plugin: of its {n_files} files, none is a wheel for all platforms (`py3-none-any`), as \
         `rind plugin pack --pypi` makes it"
    );
    let at = select_wheel(&wheels, reference, installed)?;
    let (text, _, file) = wheels.swap_remove(at);
    wheel_to_registry_package_file(text, file, &page)
}

fn parse_index_document(
    bytes: &[u8],
    reference: &PackageReference,
) -> anyhow::Result<PypiDocument> {
    if bytes.trim_ascii_start().starts_with(b"<") {
        return Ok(parse_html_index_page(
            &String::from_utf8_lossy(bytes),
            reference,
        ));
    }
    let document: PypiDocument = serde_json::from_slice(bytes).with_context(|| {
        format!(
            "the list of files of {} does not have the format of a package index",
            reference.name
        )
    })?;
    ensure!(
        document.meta.api.starts_with("1."),
        "the index has the format version {}, but only version 1 is supported",
        escape_registry_text(&document.meta.api)
    );
    ensure!(
        normalize_pypi_name(&document.name) == reference.name,
        "the index answered with the package `{}` instead of {}",
        escape_registry_text(&document.name),
        reference.name
    );
    Ok(document)
}

/// Parses the HTML page of a package. The page contains neither the package name nor the format
/// version, so the name of `reference` and version 1.0 are filled in.
fn parse_html_index_page(page: &str, reference: &PackageReference) -> PypiDocument {
    let files = parse_package_file_links(page)
        .into_iter()
        .map(|link| PypiFile {
            filename: link.text,
            url: link.url,
            hashes: link
                .sha256
                .map(|hash| ("sha256".to_owned(), hash))
                .into_iter()
                .collect(),
            // A present attribute without a reason also means that the file was yanked.
            yanked: link.yanked.map_or(Value::Null, |why| match why.is_empty() {
                true => Value::Bool(true),
                false => Value::String(why),
            }),
            provenance: link.provenance,
        });
    PypiDocument {
        meta: PypiIndexMetadata {
            api: "1.0".to_owned(),
        },
        name: reference.name.clone(),
        files: files.collect(),
    }
}

/// Returns the version in the file name of a wheel for all platforms; `None` for all other files.
///
/// For example:
///
/// ```text
/// hello-0.1.0-py3-none-any.whl         ->  0.1.0
/// hello-0.1.0-1-py2.py3-none-any.whl   ->  none: it has a build number
/// hello-0.1.0-cp311-cp311-linux.whl    ->  none
/// hello-0.1.0.tar.gz                   ->  none
/// ```
fn parse_wheel_version(file: &str, reference: &PackageReference) -> Option<String> {
    let stem = file.strip_suffix(WHEEL_FILE_EXTENSION)?;
    let parts: Vec<&str> = stem.split('-').collect();
    let [name, version, python, "none", "any"] = parts.as_slice() else {
        return None;
    };
    let is_it =
        normalize_pypi_name(name) == reference.name && python.split('.').any(|tag| tag == "py3");
    is_it.then(|| (*version).to_owned())
}

/// Returns the position in `wheels` of the wheel to install.
fn select_wheel(
    wheels: &[(String, Version, PypiFile)],
    reference: &PackageReference,
    installed: Option<&Version>,
) -> anyhow::Result<usize> {
    let named = reference
        .version
        .as_deref()
        .and_then(pep440::pep440_to_semver);
    let current = wheels
        .iter()
        .position(|(_, version, _)| Some(version) == named.as_ref());
    if is_newest_version_selected(reference, installed) {
        let usable = wheels.iter().enumerate();
        let usable = usable.filter(|(_, (.., file))| file.yank_reason().is_none());
        let usable = usable.map(|(at, (_, version, _))| (version.clone(), at));
        if let Some(at) = select_newest_version(usable, installed) {
            return Ok(at);
        }
    }
    let name = &reference.name;
    match (&reference.version, current) {
        (_, Some(at)) => Ok(at),
        (Some(version), None) => {
            bail!("version {version} of the package {name} has no wheel for all platforms")
        }
        (None, None) => bail!(
            "every version of {name} is a pre-release or was yanked; name one, as {reference}==VERSION"
        ),
    }
}

fn wheel_to_registry_package_file(
    version: String,
    file: PypiFile,
    page: &Url,
) -> anyhow::Result<RegistryPackageFile> {
    let shown = escape_registry_text(&file.filename);
    let hash = file.hashes.get("sha256");
    let hash = hash.with_context(|| format!("the index has no SHA-256 of {shown}"))?;
    let integrity = PackageFileDigest::parse_sha256(hash)
        .with_context(|| format!("the digest of {shown} is invalid"))?;
    let url = page
        .join(&file.url)
        .with_context(|| format!("the address of {shown} is not a URL"))?;
    let withdrawn = file.yank_reason();
    let claim = file.provenance.filter(|url| !url.is_empty());
    let claim =
        claim.map(|url| format!("{ATTESTATION_CLAIM_PREFIX}{}", escape_registry_text(&url)));
    Ok(RegistryPackageFile {
        version,
        url,
        name: file.filename,
        integrity,
        provenance: claim.into_iter().collect(),
        withdrawn,
    })
}
