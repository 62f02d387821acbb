//! Reads plugins from their sources: a directory, a packed plugin, an archive, an artifact in a
//! registry, or a package of npm, PyPI or crates.
//!
//! [`fetch_plugin`] reads a source once and completely into memory. The kind of a file is
//! recognized by its first bytes, not by its name.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use rustix::fs::OFlags;
use semver::Version;
use serde::{Deserialize, Serialize};

use super::contents::{
    FileContentsByPath, MAX_PACKAGE_SOURCE_BYTES, PluginContents, open_file_with_flags,
    read_open_file_with_limit,
};
use super::ecosystem::{
    self, FetchedPackage, LockedPackage, PackageClientEnvironment, PackageReference,
};
use super::registry::{
    ArtifactReference, MAX_SIGNATURE_BYTES, OCI_REFERENCE_SCHEME, PluginRegistryClient,
    RegistryCredentialsLookup, parse_version_tag,
};
use super::{archive, carried, pack, zip};
use rind_lib::plugin::manifest::FILE_NAME;

/// Source from which a plugin is installed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum PluginSource {
    /// Directory or file on this machine, as an absolute path.
    Path(PathBuf),
    /// Artifact in an OCI registry.
    Registry(ArtifactReference),
    /// Package from npm, PyPI or a registry of Rust crates.
    Package(PackageReference),
}

impl PluginSource {
    /// Parses a plugin source as the user typed it: a path or a reference.
    pub fn new(typed: &Path) -> anyhow::Result<Self> {
        if let Some(text) = typed
            .to_str()
            .filter(|text| text.starts_with(OCI_REFERENCE_SCHEME))
        {
            return Ok(Self::Registry(text.parse()?));
        }
        if let Some(parsed) = typed.to_str().and_then(PackageReference::parse_reference) {
            return Ok(Self::Package(parsed?));
        }
        let path = std::path::absolute(typed);
        let path = path.with_context(|| format!("cannot find {}", typed.display()))?;
        Ok(Self::Path(path))
    }

    /// Whether `self` and `other` name the same plugin, possibly in different versions.
    pub fn is_same_plugin(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Registry(one), Self::Registry(other)) => one.is_same_repository(other),
            (Self::Package(one), Self::Package(other)) => one.is_same_package(other),
            _ => self == other,
        }
    }

    /// Returns a text that two sources share if and only if they [are the
    /// same](Self::is_same_plugin).
    pub fn plugin_identity(&self) -> String {
        match self {
            Self::Path(path) => format!("path {}", path.display()),
            Self::Registry(reference) => {
                format!("registry {}", reference.text_without_tag_or_digest())
            }
            Self::Package(reference) => {
                format!("package {}", reference.reference_without_version())
            }
        }
    }
}

impl fmt::Display for PluginSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => path.display().fmt(f),
            Self::Registry(reference) => reference.fmt(f),
            Self::Package(reference) => reference.fmt(f),
        }
    }
}

impl TryFrom<String> for PluginSource {
    type Error = anyhow::Error;

    fn try_from(text: String) -> anyhow::Result<Self> {
        Self::new(Path::new(&text))
    }
}

impl From<PluginSource> for String {
    fn from(source: PluginSource) -> Self {
        source.to_string()
    }
}

/// Operator's credentials and settings for fetching plugins and skills from their sources.
#[derive(Clone)]
pub struct SourceFetchSettings {
    /// Function that looks up credentials for OCI registries.
    pub credentials: RegistryCredentialsLookup,
    /// Environment in which the settings of npm, pip and cargo are found.
    pub clients: PackageClientEnvironment,
}

/// Plugin that was read from its source.
#[derive(Debug)]
pub struct FetchedPlugin {
    pub contents: PluginContents,
    pub source: PluginSource,
    /// Signed bytes: the source, or the packed plugin in a package; `None` for a directory.
    pub bytes: Option<Vec<u8>>,
    /// Digest of the artifact's manifest, for a plugin from an OCI registry.
    pub manifest: Option<String>,
    /// Record of the package, for a plugin from npm, PyPI or crates.
    pub package: Option<LockedPackage>,
    /// Warning that the package version was yanked or is deprecated; `None` without one.
    pub notice: Option<String>,
    /// Signature that the registry or the package contained, if any, and its location. `None` for a
    /// source on this machine that is not a package, whose signature is in a separate file next to
    /// it.
    signature: Option<(Option<String>, String)>,
}

impl FetchedPlugin {
    fn new(contents: PluginContents, source: PluginSource) -> Self {
        Self {
            contents,
            source,
            bytes: None,
            manifest: None,
            package: None,
            notice: None,
            signature: None,
        }
    }

    /// Finds and unpacks the plugin in the files of a package.
    fn from_package(
        files: FileContentsByPath,
        source: PluginSource,
        origin: &Path,
    ) -> anyhow::Result<Self> {
        let carried = carried::find_plugin_in_package(files, origin)?;
        let contents = pack::unpack_plugin(&carried.bytes, &origin.join(&carried.path))?;
        let path = format!("{}.minisig", carried.path);
        let at = format!("`{}` in {}", path.escape_debug(), origin.display());
        Ok(Self {
            bytes: Some(carried.bytes),
            signature: Some((carried.signature, at)),
            ..Self::new(contents, source)
        })
    }

    /// Returns advice on how to sign the source, for a message.
    pub fn signing_advice(&self) -> String {
        match &self.source {
            PluginSource::Registry(_) => {
                "sign the packed file before it is published with `rind plugin publish`".to_owned()
            }
            PluginSource::Path(path) if self.signature.is_none() => signing_advice(path),
            PluginSource::Path(_) | PluginSource::Package(_) => {
                "sign the packed file before `rind plugin pack` makes a package of it".to_owned()
            }
        }
    }

    /// Reads the signature of `bytes`. Returns the signature, if there is one, and its location.
    pub fn read_signature(&self) -> anyhow::Result<(Option<String>, String)> {
        match (&self.signature, &self.source) {
            (Some(found), _) => Ok(found.clone()),
            (None, PluginSource::Path(path)) => read_signature_file(path),
            (None, source) => Ok((None, source.to_string())),
        }
    }
}

/// Returns advice on how to sign a file, for a message.
pub(super) fn signing_advice(path: &Path) -> String {
    format!("sign it with `minisign -S -m {}`", path.display())
}

/// Reads the signature of a file from `FILE.minisig`. Returns the signature, if there is one, and
/// its location.
pub(super) fn read_signature_file(path: &Path) -> anyhow::Result<(Option<String>, String)> {
    let mut at = OsString::from(path.as_os_str());
    at.push(".minisig");
    let path = PathBuf::from(at);
    let at = path.display().to_string();
    let Ok(file) = open_file_with_flags(&path, OFlags::empty()) else {
        return Ok((None, at));
    };
    let text = read_open_file_with_limit(file, &path, MAX_SIGNATURE_BYTES)?;
    let text = String::from_utf8(text);
    let text = text.with_context(|| format!("{at} is not a signature"))?;
    Ok((Some(text), at))
}

/// Reads the plugin in a source. `installed` is the installed version if the plugin is to be
/// updated.
pub async fn fetch_plugin(
    source: &PluginSource,
    installed: Option<&Version>,
    access: &SourceFetchSettings,
) -> anyhow::Result<FetchedPlugin> {
    match source {
        PluginSource::Path(path) => read_local_plugin(path),
        PluginSource::Registry(reference) => {
            fetch_oci_registry_plugin(reference, installed, &access.credentials).await
        }
        PluginSource::Package(reference) => {
            let fetched = fetch_package_plugin(reference, installed, &access.clients).await;
            fetched.with_context(|| format!("cannot install {reference}"))
        }
    }
}

/// Downloads the plugin in a package of npm, PyPI or crates. The package and the plugin must have
/// the same version, because updates are found by the version of the package.
async fn fetch_package_plugin(
    reference: &PackageReference,
    installed: Option<&Version>,
    clients: &PackageClientEnvironment,
) -> anyhow::Result<FetchedPlugin> {
    let fetched = ecosystem::fetch_package(reference, installed, clients).await?;
    let FetchedPackage {
        reference,
        version,
        bytes,
        locked,
        notice,
    } = fetched;
    let origin = PathBuf::from(&locked.file);
    let files = carried::unpack_package_files(&bytes, &origin)?;
    let source = PluginSource::Package(reference);
    let plugin = FetchedPlugin::from_package(files, source, &origin)?;
    let own = &plugin.contents.manifest.version;
    if version.as_ref() != Some(own) {
        bail!(
            "the package contains version {own} of {}, but the package and the plugin must have the same version",
            plugin.contents.manifest.name
        );
    }
    Ok(FetchedPlugin {
        package: Some(locked),
        notice,
        ..plugin
    })
}

/// Downloads the plugin that a reference to an OCI registry names. The newest version is selected
/// if the reference has no tag, or for an update if its tag is a version. A digest always selects
/// the same artifact.
async fn fetch_oci_registry_plugin(
    reference: &ArtifactReference,
    installed: Option<&Version>,
    credentials: &RegistryCredentialsLookup,
) -> anyhow::Result<FetchedPlugin> {
    let mut registry = PluginRegistryClient::new(reference, credentials.clone())?;
    // Keep a tag that is not a version, for example `stable`, although the registry may have moved
    // it to another artifact since.
    let is_version = |tag: &String| installed.is_some() && parse_version_tag(tag).is_some();
    let is_open = reference.digest.is_none() && reference.tag.as_ref().is_none_or(is_version);
    let newest = if is_open {
        registry.fetch_newest_tag(installed).await?
    } else {
        None
    };
    let reference = match newest {
        Some(tag) => reference.with_tag(tag),
        None if reference.tag.is_none() && reference.digest.is_none() => {
            reference.with_tag("latest".to_owned())
        }
        None => reference.clone(),
    };
    let about = || format!("cannot install {reference}");
    let pulled = registry
        .pull_plugin(&reference, MAX_PACKAGE_SOURCE_BYTES)
        .await;
    let pulled = pulled.with_context(about)?;
    let contents = pack::unpack_plugin(&pulled.bytes, Path::new(&reference.to_string()))?;
    let own = &contents.manifest.version;
    if let Some(version) = reference.tag.as_deref().and_then(parse_version_tag)
        && version != *own
    {
        bail!(
            "{reference} contains version {own} of {}, but its tag names another version",
            contents.manifest.name
        );
    }
    let at = format!("{reference} (annotation of its manifest)");
    Ok(FetchedPlugin {
        bytes: Some(pulled.bytes),
        manifest: Some(pulled.manifest),
        signature: Some((pulled.signature, at)),
        ..FetchedPlugin::new(contents, PluginSource::Registry(reference))
    })
}

/// Reads a plugin from a directory or file on this machine. The first bytes of a file determine its
/// kind.
pub fn read_local_plugin(path: &Path) -> anyhow::Result<FetchedPlugin> {
    let shown = path.display();
    let found = path.metadata().with_context(|| {
        let text = path.to_string_lossy();
        // `std::path::absolute` turns `https://` into `https:/`. A `:` in the last component
        // suggests a registry reference without its scheme, as other tools write it.
        let hint = if text.contains(":/") {
            "; a source is a folder or file on this machine, oci://HOST/REPOSITORY:TAG, or a package as npm:NAME: download it first"
        } else if text.rsplit('/').next().is_some_and(|last| last.contains(':')) {
            "; a reference to a registry begins with oci://, npm:, pypi: or crates:"
        } else {
            ""
        };
        format!("cannot read {shown}{hint}")
    })?;
    let source = PluginSource::new(path)?;
    if found.is_dir() {
        return Ok(FetchedPlugin::new(
            PluginContents::read_folder(path)?,
            source,
        ));
    }
    if !found.is_file() {
        bail!("{shown} is neither a file nor a folder");
    }
    let file = open_file_with_flags(path, OFlags::empty())
        .with_context(|| format!("cannot read {shown}"))?;
    let bytes = read_open_file_with_limit(file, path, MAX_PACKAGE_SOURCE_BYTES)?;
    let contents = if bytes.starts_with(pack::WASM_MAGIC_BYTES) {
        pack::unpack_plugin(&bytes, path)?
    } else if bytes.starts_with(archive::GZIP_MAGIC_BYTES)
        || bytes.starts_with(zip::LOCAL_FILE_HEADER_MAGIC)
    {
        let files = carried::unpack_package_files(&bytes, path)?;
        // The archive of a plugin's directory contains the manifest as a file. If there is none,
        // the archive is a package, whose packed plugin contains the manifest.
        if bytes.starts_with(zip::LOCAL_FILE_HEADER_MAGIC) {
            return FetchedPlugin::from_package(files, source, path);
        }
        if !archive::has_plugin_manifest(&files) {
            let plugin = FetchedPlugin::from_package(files, source, path);
            return plugin.with_context(|| format!("{shown} has no {FILE_NAME}"));
        }
        archive::pick_plugin_from_archive(files, path)?
    } else {
        bail!(
            "{shown} is not a plugin: a source is a folder with plugin.toml, a .wasm that `rind plugin pack` made, a .tar.gz of \
             such a folder, or a package with such a .wasm (.tgz, .whl, .crate)"
        );
    };
    Ok(FetchedPlugin {
        bytes: Some(bytes),
        ..FetchedPlugin::new(contents, source)
    })
}
