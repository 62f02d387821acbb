//! Finds crates in a sparse index, which has a file for each crate with a line of JSON for each
//! version, including the SHA-256 of the `.crate` file.

use std::collections::BTreeSet;

use anyhow::{Context, bail, ensure};
use semver::Version;
use serde::Deserialize;

use super::{
    MAX_VERSION_LIST_BYTES, PackageFileDigest, PackageReference, RegistryPackageFile,
    escape_registry_text, is_newest_version_selected, select_newest_version,
};
use crate::registry::{PackageDownloadClient, RegistryDownloadRequest, Url, parse_url};

/// Maximum size in bytes of the index's `config.json`, which contains two addresses.
const MAX_INDEX_CONFIG_JSON_BYTES: u64 = 64 << 10;

#[derive(Deserialize)]
struct IndexConfig {
    /// URL template of the crate files, with or without markers such as `{crate}`.
    dl: String,
}

/// Version of a crate, as a line of the index describes it. Other fields, such as the dependencies,
/// are ignored.
#[derive(Deserialize)]
struct CrateIndexEntry {
    name: String,
    vers: String,
    cksum: String,
    #[serde(default)]
    yanked: bool,
}

/// Finds the crate file of the version that `reference` selects.
pub(super) async fn find_crate_file(
    download: &PackageDownloadClient,
    reference: &PackageReference,
    installed: Option<&Version>,
) -> anyhow::Result<RegistryPackageFile> {
    let config = fetch_index_file(
        download,
        "config.json",
        "the configuration of the index",
        MAX_INDEX_CONFIG_JSON_BYTES,
    );
    let config: IndexConfig = serde_json::from_slice(&config.await?)
        .context("config.json of the index is not the configuration of a sparse index")?;
    let noun = format!("crate {}", reference.name);
    let path = sparse_index_path(&reference.name);
    let lines = fetch_index_file(download, &path, &noun, MAX_VERSION_LIST_BYTES).await?;
    let mut versions: Vec<(Version, CrateIndexEntry)> = Vec::new();
    let mut seen = BTreeSet::new();
    // Skip lines that cannot be parsed, as cargo does.
    for line in lines.split(|byte| *byte == b'\n') {
        let listed = serde_json::from_slice::<CrateIndexEntry>(line).ok();
        let listed = listed.and_then(|listed| Some((Version::parse(&listed.vers).ok()?, listed)));
        let Some((version, listed)) = listed else {
            continue;
        };
        ensure!(
            listed.name.to_ascii_lowercase() == reference.name,
            "the index lists the crate `{}` as {}",
            escape_registry_text(&listed.name),
            reference.name
        );
        ensure!(
            seen.insert(version.clone()),
            "the index lists version {version} of {noun} twice"
        );
        versions.push((version, listed));
    }
    ensure!(!versions.is_empty(), "the index lists no version of {noun}");
    let at = select_version(&versions, reference, installed)?;
    let (_, listed) = versions.swap_remove(at);
    crate_version_to_package_file(listed, &config)
}

async fn fetch_index_file(
    download: &PackageDownloadClient,
    path: &str,
    noun: &str,
    limit: u64,
) -> anyhow::Result<Vec<u8>> {
    let url = download
        .base_url()
        .join(path)
        .context("no valid URL can be built from the name of the crate")?;
    let ask = RegistryDownloadRequest {
        url: &url,
        accept: None,
        limit,
        noun,
    };
    download.fetch_following_redirects(ask).await
}

/// Returns the path of a crate's file in the index.
///
/// For example:
///
/// ```text
/// a       ->  1/a
/// ab      ->  2/ab
/// abc     ->  3/a/abc
/// hello   ->  he/ll/hello
/// ```
fn sparse_index_path(name: &str) -> String {
    let part = |range: std::ops::Range<usize>| name.get(range).unwrap_or_default();
    match name.len() {
        1 => format!("1/{name}"),
        2 => format!("2/{name}"),
        3 => format!("3/{}/{name}", part(0..1)),
        _ => format!("{}/{}/{name}", part(0..2), part(2..4)),
    }
}

/// Returns the position in `versions` of the version to install.
fn select_version(
    versions: &[(Version, CrateIndexEntry)],
    reference: &PackageReference,
    installed: Option<&Version>,
) -> anyhow::Result<usize> {
    let named = reference.version.as_deref();
    let named = named.and_then(|text| Version::parse(text).ok());
    if is_newest_version_selected(reference, installed) {
        let usable = versions.iter().enumerate();
        let usable = usable.filter(|(_, (_, listed))| !listed.yanked);
        let usable = usable.map(|(at, (version, _))| (version.clone(), at));
        if let Some(at) = select_newest_version(usable, installed) {
            return Ok(at);
        }
    }
    let current = versions
        .iter()
        .position(|(version, _)| Some(version) == named.as_ref());
    let name = &reference.name;
    match (&reference.version, current) {
        (_, Some(at)) => Ok(at),
        (Some(version), None) => bail!("crate {name} has no version {version}"),
        (None, None) => bail!(
            "every version of crate {name} is a pre-release or was yanked; name one, as {reference}@VERSION"
        ),
    }
}

fn crate_version_to_package_file(
    listed: CrateIndexEntry,
    config: &IndexConfig,
) -> anyhow::Result<RegistryPackageFile> {
    let CrateIndexEntry {
        name,
        vers: version,
        cksum,
        yanked,
    } = listed;
    let file = format!("{name}-{version}.crate");
    let integrity = PackageFileDigest::parse_sha256(&cksum)
        .with_context(|| format!("`cksum` of {file} is invalid"))?;
    Ok(RegistryPackageFile {
        url: crate_file_url(config, &name, &version, &cksum)?,
        name: file,
        version,
        integrity,
        // A crates index contains no attestations.
        provenance: Vec::new(),
        withdrawn: yanked.then(|| "was yanked".to_owned()),
    })
}

/// Builds the URL of a crate file as cargo does: replaces the markers in `dl`, or appends name and
/// version if `dl` has no markers.
fn crate_file_url(
    config: &IndexConfig,
    name: &str,
    version: &str,
    cksum: &str,
) -> anyhow::Result<Url> {
    let small = name.to_ascii_lowercase();
    let above = |name: &str| {
        let path = sparse_index_path(name);
        path.rsplit_once('/')
            .map_or(String::new(), |(above, _)| above.to_owned())
    };
    let markers = [
        ("{crate}", name.to_owned()),
        ("{version}", version.to_owned()),
        ("{prefix}", above(name)),
        ("{lowerprefix}", above(&small)),
        ("{sha256-checksum}", cksum.to_owned()),
    ];
    let has_marker = markers.iter().any(|(marker, _)| config.dl.contains(marker));
    let text = match has_marker {
        true => markers
            .iter()
            .fold(config.dl.clone(), |text, (marker, value)| {
                text.replace(marker, value)
            }),
        false => format!(
            "{}/{name}/{version}/download",
            config.dl.trim_end_matches('/')
        ),
    };
    parse_url(&text).context("the download address in the index is not a URL")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_files_are_built_with_markers_and_without() {
        for (dl, expected) in [
            (
                "https://a.example/c",
                "https://a.example/c/Hello/0.1.0/download",
            ),
            (
                "https://a.example/{lowerprefix}/{crate}-{version}.crate",
                "https://a.example/he/ll/Hello-0.1.0.crate",
            ),
            (
                "https://a.example/{prefix}/{sha256-checksum}",
                "https://a.example/He/ll/00",
            ),
        ] {
            let config = IndexConfig { dl: dl.to_owned() };
            let url = crate_file_url(&config, "Hello", "0.1.0", "00").unwrap();
            assert_eq!(url.as_str(), expected);
        }
        for (name, path) in [("a", "1/a"), ("ab", "2/ab"), ("abc", "3/a/abc")] {
            assert_eq!(sparse_index_path(name), path);
        }
    }
}
