//! Sources of plugins: a directory, a packed plugin, an archive, or an artifact in a registry.
//!
//! [`fetch_plugin`] reads a source once and completely into memory; the kind of a file is
//! recognized by its first bytes, not by its name.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use rustix::fs::OFlags;
use semver::Version;
use serde::{Deserialize, Serialize};

use super::contents::{MAX_BYTES, PluginContents, open_file, read_open};
use super::registry::{
    ArtifactReference, FindCredentials, MAX_SIGNATURE_BYTES, PluginRegistry, SCHEME, tag_version,
};
use super::{archive, pack};

/// Origin of a plugin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum PluginSource {
    /// Directory or file on this machine, as an absolute path.
    Path(PathBuf),
    /// Artifact in a registry.
    Registry(ArtifactReference),
}

impl PluginSource {
    /// Parses a source as typed by the user.
    pub fn new(typed: &Path) -> anyhow::Result<Self> {
        if let Some(text) = typed.to_str().filter(|text| text.starts_with(SCHEME)) {
            return Ok(Self::Registry(text.parse()?));
        }
        let path = std::path::absolute(typed);
        let path = path.with_context(|| format!("cannot find {}", typed.display()))?;
        Ok(Self::Path(path))
    }

    /// Whether a version from the other source is a version of the same plugin.
    pub fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Registry(one), Self::Registry(other)) => one.is_same_repository(other),
            _ => self == other,
        }
    }

    /// Returns a text that is equal for exactly those sources that [are the same](Self::is_same).
    ///
    /// For example:
    ///
    /// ```text
    /// /srv/plugins/hello                      ->  path /srv/plugins/hello
    /// oci://registry.example/hello:0.1.0      ->  registry oci://registry.example/hello
    /// ```
    pub fn identity(&self) -> String {
        match self {
            Self::Path(path) => format!("path {}", path.display()),
            Self::Registry(reference) => format!("registry {}", reference.repository()),
        }
    }
}

impl fmt::Display for PluginSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => path.display().fmt(f),
            Self::Registry(reference) => reference.fmt(f),
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

/// Plugin that was read from its source.
#[derive(Debug)]
pub struct FetchedPlugin {
    pub contents: PluginContents,
    pub source: PluginSource,
    /// Bytes of the source; `None` for a directory.
    pub bytes: Option<Vec<u8>>,
    /// Digest of the artifact's manifest in the registry.
    pub manifest: Option<String>,
    /// Signature that came with the bytes.
    signature: Option<String>,
}

impl FetchedPlugin {
    /// Reads the signature of the bytes. Returns it with its location.
    pub fn signature(&self) -> anyhow::Result<(Option<String>, String)> {
        match &self.source {
            PluginSource::Registry(_) => Ok((
                self.signature.clone(),
                format!("{} (its annotation)", self.source),
            )),
            PluginSource::Path(path) => signature_beside(path),
        }
    }
}

/// Reads the signature of a file from `FILE.minisig`. Returns it with its location.
pub(super) fn signature_beside(path: &Path) -> anyhow::Result<(Option<String>, String)> {
    let mut at = OsString::from(path.as_os_str());
    at.push(".minisig");
    let path = PathBuf::from(at);
    let at = path.display().to_string();
    let Ok(file) = open_file(&path, OFlags::empty()) else {
        return Ok((None, at));
    };
    let text = read_open(file, &path, MAX_SIGNATURE_BYTES)?;
    let text = String::from_utf8(text);
    let text = text.with_context(|| format!("{at} is not a signature"))?;
    Ok((Some(text), at))
}

/// Reads the plugin in a source. `installed` is the current version, for an update.
pub async fn fetch_plugin(
    source: &PluginSource,
    installed: Option<&Version>,
    credentials: &FindCredentials,
) -> anyhow::Result<FetchedPlugin> {
    match source {
        PluginSource::Path(path) => read_packed(path),
        PluginSource::Registry(reference) => {
            pull_reference(reference, installed, credentials).await
        }
    }
}

/// Downloads the plugin of a reference. Without a tag, or to update a version, takes the newest
/// version; a digest always selects the same artifact.
async fn pull_reference(
    reference: &ArtifactReference,
    installed: Option<&Version>,
    credentials: &FindCredentials,
) -> anyhow::Result<FetchedPlugin> {
    let mut registry = PluginRegistry::new(reference, credentials.clone())?;
    // A tag that is not a version, for example `stable`, is used even if it was moved.
    let is_version = |tag: &String| installed.is_some() && tag_version(tag).is_some();
    let is_open = reference.digest.is_none() && reference.tag.as_ref().is_none_or(is_version);
    let newest = if is_open {
        registry.newest_tag(installed).await?
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
    let pulled = registry.pull_plugin(&reference, MAX_BYTES).await;
    let pulled = pulled.with_context(about)?;
    let contents = pack::unpack_plugin(&pulled.bytes, Path::new(&reference.to_string()))?;
    let own = &contents.manifest.version;
    if let Some(version) = reference.tag.as_deref().and_then(tag_version)
        && version != *own
    {
        bail!(
            "{reference} has version {own} of {}, not that of its tag",
            contents.manifest.name
        );
    }
    Ok(FetchedPlugin {
        contents,
        source: PluginSource::Registry(reference),
        bytes: Some(pulled.bytes),
        manifest: Some(pulled.manifest),
        signature: pulled.signature,
    })
}

/// Reads the plugin in a directory or file on this machine. The first bytes of a file decide its
/// kind.
pub fn read_packed(path: &Path) -> anyhow::Result<FetchedPlugin> {
    let shown = path.display();
    let of = |contents, bytes| {
        Ok(FetchedPlugin {
            contents,
            source: PluginSource::new(path)?,
            bytes,
            manifest: None,
            signature: None,
        })
    };
    let found = path.metadata().with_context(|| {
        let text = path.to_string_lossy();
        // `std::path::absolute` turns `https://` into `https:/`; the last name with a `:` is a
        // reference without its scheme, as other tools write it.
        let hint = if text.contains(":/") {
            "; a source is a folder or file on this machine, or oci://HOST/REPOSITORY:TAG: download it first"
        } else if text.rsplit('/').next().is_some_and(|last| last.contains(':')) {
            "; a reference to a registry begins with oci://"
        } else {
            ""
        };
        format!("cannot read {shown}{hint}")
    })?;
    if found.is_dir() {
        return of(PluginContents::of_folder(path)?, None);
    }
    if !found.is_file() {
        bail!("{shown} is neither a file nor a folder");
    }
    let file = open_file(path, OFlags::empty()).with_context(|| format!("cannot read {shown}"))?;
    let bytes = read_open(file, path, MAX_BYTES)?;
    let contents = if bytes.starts_with(pack::MAGIC) {
        pack::unpack_plugin(&bytes, path)?
    } else if bytes.starts_with(archive::MAGIC) {
        archive::read_archive(&bytes, path)?
    } else {
        bail!(
            "{shown} is not a plugin: a source is a folder with plugin.toml, a .wasm that `rind plugin pack` made, or a .tar.gz of \
             such a folder"
        );
    };
    of(contents, Some(bytes))
}
