//! `plugins.lock.toml` and `skills.lock.toml`: plugins and skills that were installed, with sources and digests, and the keys
//! that names are pinned to.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context, ensure};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::source::Source;
use crate::disk::replace_private_synced;

/// Version of the format.
const FORMAT: u32 = 1;

/// Kind of thing that is installed: one file, beside the folder of all of them, lists those of one kind.
pub(crate) trait Entry: Clone + Serialize + DeserializeOwned {
    /// Name of the file.
    const FILE_NAME: &'static str;
    /// Table of the file that has them by name.
    const TABLE: &'static str;
    /// First line of the file.
    const HEAD: &'static str;
}

/// Contents of a lock file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LockFile<T> {
    /// Keys of minisign that names are pinned to; these outlive what was installed.
    pub(crate) keys: BTreeMap<String, String>,
    /// Installed ones by name.
    pub(crate) entries: BTreeMap<String, T>,
}

/// A lock file as it is written.
#[derive(Serialize, Deserialize)]
struct Written<T> {
    format: u32,
    #[serde(default)]
    keys: BTreeMap<String, String>,
    #[serde(flatten)]
    tables: BTreeMap<String, BTreeMap<String, T>>,
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

impl Entry for Locked {
    const FILE_NAME: &'static str = "plugins.lock.toml";
    const TABLE: &'static str = "plugins";
    const HEAD: &'static str = "# Written by `rind plugin install`, `update` and `remove`.";
}

impl<T> Default for LockFile<T> {
    fn default() -> Self {
        Self {
            keys: BTreeMap::new(),
            entries: BTreeMap::new(),
        }
    }
}

impl<T: Entry> LockFile<T> {
    /// Reads the file; nothing is installed where there is none.
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let (shown, table) = (path.display(), T::TABLE);
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(error).with_context(|| format!("cannot read {shown}")),
        };
        let about = || {
            format!(
                "{shown} is not a lock file; move it away, remove the {table} that it names, and install them again"
            )
        };
        let mut file: Written<T> = toml::from_str(&text).with_context(about)?;
        ensure!(
            file.format == FORMAT,
            "{shown} has format {}, and this version of Rind knows {FORMAT}",
            file.format
        );
        let entries = file.tables.remove(table).unwrap_or_default();
        if let Some(other) = file.tables.keys().next() {
            let fault = anyhow::anyhow!("there is an unknown table `{}`", other.escape_debug());
            return Err(fault.context(about()));
        }
        Ok(Self {
            keys: file.keys,
            entries,
        })
    }

    /// Writes the file in one step.
    pub(crate) fn write(&self, path: &Path) -> anyhow::Result<()> {
        let file = Written {
            format: FORMAT,
            keys: self.keys.clone(),
            tables: BTreeMap::from([(T::TABLE.to_owned(), self.entries.clone())]),
        };
        let text = format!("{}\n\n{}", T::HEAD, toml::to_string(&file)?);
        replace_private_synced(path, text.as_bytes())
            .with_context(|| format!("cannot write {}", path.display()))
    }
}
