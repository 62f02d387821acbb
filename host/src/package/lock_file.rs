//! `plugins.lock.toml`: the plugins that were installed, with versions, sources and digests, and the keys that names are pinned
//! to.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};

use super::source::Source;
use crate::disk::replace_private_synced;

/// Name of the file, beside the folder of plugins.
pub(crate) const FILE_NAME: &str = "plugins.lock.toml";

/// Version of the format.
const FORMAT: u32 = 1;

/// First lines of the file.
const HEAD: &str = "# Written by `rind plugin install`, `update` and `remove`.\n\n";

/// Contents of the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LockFile {
    format: u32,
    /// Keys of minisign that names are pinned to; these outlive the plugins.
    #[serde(default)]
    pub(crate) keys: BTreeMap<String, String>,
    /// Installed plugins by name.
    #[serde(default)]
    pub(crate) plugins: BTreeMap<String, Locked>,
}

/// An installed plugin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Locked {
    /// Version of the plugin.
    pub(crate) version: semver::Version,
    /// Source of it: an absolute path, or a reference to a registry.
    pub(crate) source: Source,
    /// Digest of the manifest in the registry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) manifest: Option<String>,
    /// Digest of all its files.
    pub(crate) digest: String,
    /// Key that their signature was checked with; `None` when no key was configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<String>,
}

impl Default for LockFile {
    fn default() -> Self {
        Self {
            format: FORMAT,
            keys: BTreeMap::new(),
            plugins: BTreeMap::new(),
        }
    }
}

impl LockFile {
    /// Reads the file; nothing is installed where there is none.
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let shown = path.display();
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(error).with_context(|| format!("cannot read {shown}")),
        };
        let file: Self = toml::from_str(&text).with_context(|| {
            format!("{shown} is not a lock file; move it away, remove the plugins that it names, and install them again")
        })?;
        ensure!(
            file.format == FORMAT,
            "{shown} has format {}, and this version of Rind knows {FORMAT}",
            file.format
        );
        Ok(file)
    }

    /// Writes the file in one step.
    pub(crate) fn write(&self, path: &Path) -> anyhow::Result<()> {
        let text = format!("{HEAD}{}", toml::to_string(self)?);
        replace_private_synced(path, text.as_bytes())
            .with_context(|| format!("cannot write {}", path.display()))
    }
}
