//! Reads and writes `plugins.lock.toml` and `skills.lock.toml`. They list the installed plugins and
//! skills with their sources and digests, and the public key that each name is pinned to.
//!
//! While a package is replaced, the file lists both the new and the previous entry, so that the
//! entry for the files on disk is known after a crash at any point.
//!
//! For example:
//!
//! ```toml
//! format = 1
//!
//! [keys]
//! hello = "…"
//!
//! [plugins.hello]
//! version = "0.1.0"
//! source = "oci://registry.example/hello:0.1.0"
//! digest = "blake3:…"
//! key = "…"
//! ```

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, ensure};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::ecosystem::LockedPackage;
use super::source::PluginSource;
use rind_lib::disk::{read_if_present, replace_private_file_synced};

const LOCK_FILE_FORMAT_VERSION: u32 = 1;

/// Entry in the lock file of plugins or of skills. Each of the two kinds has a lock file next to
/// the directory that contains the packages.
pub trait LockEntry: Clone + Serialize + DeserializeOwned {
    const FILE_NAME: &'static str;
    /// Name of the TOML table in the lock file that contains the entries.
    const TABLE: &'static str;
    /// First line of the lock file, which is a comment.
    const HEADER_COMMENT: &'static str;

    fn digest(&self) -> &str;

    /// Returns the public key with which the package's signature was checked, if there was one.
    fn key(&self) -> Option<&str>;
}

#[derive(Clone, Debug, PartialEq)]
pub struct LockFile<T> {
    /// Minisign public key of each package name. A key stays pinned to the name after the package
    /// is removed.
    pub keys: BTreeMap<String, String>,
    /// Entries of the installed packages, by name of the package.
    pub entries: BTreeMap<String, T>,
    /// Previous entries of packages that are being replaced. Until the replacement is complete, the
    /// files on disk may belong to either entry.
    before: BTreeMap<String, T>,
}

/// Maximum size of a lock file in bytes. An entry has some hundred bytes.
const MAX_LOCK_FILE_BYTES: u64 = 16 << 20;

/// Name of the TOML table in the lock file with the previous entries of replaced packages.
const PREVIOUS_ENTRIES_TABLE_NAME: &str = "before";

#[derive(Serialize, Deserialize)]
struct LockFileContent<T> {
    format: u32,
    #[serde(default)]
    keys: BTreeMap<String, String>,
    #[serde(flatten)]
    tables: BTreeMap<String, BTreeMap<String, T>>,
}

/// Format version of a lock file, which is checked before the rest is parsed.
#[derive(Deserialize)]
struct LockFormat {
    format: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockedPlugin {
    pub version: semver::Version,
    /// Source of the plugin: an absolute path, or a reference to a registry or a package.
    pub source: PluginSource,
    /// Digest of the OCI artifact's manifest; `None` if the plugin is not from an OCI registry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifest: Option<String>,
    pub digest: String,
    /// Key that the signature was checked with; `None` if no key was configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Record of the package, for a plugin from npm, PyPI or crates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub package: Option<LockedPackage>,
}

impl LockEntry for LockedPlugin {
    const FILE_NAME: &'static str = "plugins.lock.toml";
    const TABLE: &'static str = "plugins";
    const HEADER_COMMENT: &'static str =
        "# Written by `rind plugin install`, `update` and `remove`.";

    fn digest(&self) -> &str {
        &self.digest
    }

    fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }
}

impl<T> Default for LockFile<T> {
    fn default() -> Self {
        Self {
            keys: BTreeMap::new(),
            entries: BTreeMap::new(),
            before: BTreeMap::new(),
        }
    }
}

impl<T: LockEntry> LockFile<T> {
    /// Reads the file at `path`; a missing file means that nothing is installed.
    pub fn read_file(path: &Path) -> anyhow::Result<Self> {
        let (shown, table) = (path.display(), T::TABLE);
        let text = read_if_present(path, MAX_LOCK_FILE_BYTES);
        let Some(text) = text.with_context(|| format!("cannot read {shown}"))? else {
            return Ok(Self::default());
        };
        let about = || {
            format!(
                "{shown} is not a valid lock file; move this file away, remove the {table} named in it, and install these {table} again"
            )
        };
        let LockFormat { format } = toml::from_str(&text).with_context(about)?;
        ensure!(
            format <= LOCK_FILE_FORMAT_VERSION,
            "{shown} was written by a newer rind: it has format {format}, and this rind supports {LOCK_FILE_FORMAT_VERSION}; update rind"
        );
        ensure!(
            format == LOCK_FILE_FORMAT_VERSION,
            "{shown} has the unknown format {format}"
        );
        let mut file: LockFileContent<T> = toml::from_str(&text).with_context(about)?;
        let before = file
            .tables
            .remove(PREVIOUS_ENTRIES_TABLE_NAME)
            .unwrap_or_default();
        let entries = file.tables.remove(table).unwrap_or_default();
        if let Some(other) = file.tables.keys().next() {
            let fault = anyhow::anyhow!(
                "the lock file has an unknown table `{}`",
                other.escape_debug()
            );
            return Err(fault.context(about()));
        }
        Ok(Self {
            keys: file.keys,
            entries,
            before,
        })
    }

    /// Returns the entry of `name`, current or previous, whose files have this digest.
    pub fn find_entry_with_digest(&self, name: &str, digest: &str) -> Option<&T> {
        let entries = [self.entries.get(name), self.before.get(name)];
        let mut entries = entries.into_iter().flatten();
        entries.find(|entry| entry.digest() == digest)
    }

    /// Completes an interrupted replacement: keeps the previous entry if the files on disk have the
    /// digest of that entry. `digest` computes the digest of the installed files of a name.
    pub fn complete_interrupted_replacements(&mut self, digest: impl Fn(&str) -> Option<String>) {
        for (name, before) in std::mem::take(&mut self.before) {
            let is_before = digest(&name).is_some_and(|digest| digest == before.digest());
            if is_before && let Some(entry) = self.entries.get_mut(&name) {
                *entry = before;
            }
        }
    }

    /// Records an entry, then calls `put` to move the package's files into their final location,
    /// and restores the previous state if `put` fails. While `put` runs, the file lists both
    /// entries, so that the entry for the files on disk is found after a crash. The name `pinned`
    /// is pinned to the key of `new`.
    pub fn replace_entry<R>(
        &mut self,
        path: &Path,
        (name, pinned): (&str, &str),
        new: T,
        put: impl FnOnce() -> anyhow::Result<R>,
    ) -> anyhow::Result<R> {
        let mut changed = self.clone();
        let key = new.key().map(|key| (pinned.to_owned(), key.to_owned()));
        changed.keys.extend(key);
        let earlier = changed.entries.insert(name.to_owned(), new);
        changed
            .before
            .extend(earlier.map(|earlier| (name.to_owned(), earlier)));
        changed.write_file(path)?;
        let done = match put() {
            Ok(done) => done,
            Err(error) => {
                return Err(match self.write_file(path) {
                    Ok(()) => error,
                    Err(why) => error.context(format!(
                        "the new entry of {name} could not be removed from the lock file ({why:#})"
                    )),
                });
            }
        };
        changed.before.clear();
        *self = changed;
        // A failure of this write is harmless: both entries stay in the file, and the next command
        // removes the previous one.
        let _ = self.write_file(path);
        Ok(done)
    }

    /// Writes the lock file atomically: readers see either the old or the new content.
    pub fn write_file(&self, path: &Path) -> anyhow::Result<()> {
        let file = LockFileContent {
            format: LOCK_FILE_FORMAT_VERSION,
            keys: self.keys.clone(),
            tables: [
                (T::TABLE, &self.entries),
                (PREVIOUS_ENTRIES_TABLE_NAME, &self.before),
            ]
            .into_iter()
            .filter(|(table, entries)| *table == T::TABLE || !entries.is_empty())
            .map(|(table, entries)| (table.to_owned(), entries.clone()))
            .collect(),
        };
        let text = format!("{}\n\n{}", T::HEADER_COMMENT, toml::to_string(&file)?);
        replace_private_file_synced(path, text.as_bytes())
            .with_context(|| format!("cannot write {}", path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn locked(digest: &str) -> LockedPlugin {
        LockedPlugin {
            version: semver::Version::new(1, 0, 0),
            source: PluginSource::new(Path::new("/x")).unwrap(),
            manifest: None,
            digest: digest.to_owned(),
            key: Some(digest.to_owned()),
            package: None,
        }
    }

    #[test]
    fn while_one_is_replaced_the_file_knows_both_and_each_with_its_own_key() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plugins.lock.toml");
        let mut lock = LockFile::<LockedPlugin>::default();
        let put = || Ok(());
        lock.replace_entry(&path, ("a", "a"), locked("one"), put)
            .unwrap();
        let put = || {
            let stopped = LockFile::<LockedPlugin>::read_file(&path)?;
            for digest in ["one", "two"] {
                let held = stopped.find_entry_with_digest("a", digest);
                assert_eq!(held.and_then(LockEntry::key), Some(digest));
                let mut settled = stopped.clone();
                settled.complete_interrupted_replacements(|_| Some(digest.to_owned()));
                assert_eq!(settled.entries["a"].digest, digest);
            }
            assert_eq!(stopped.find_entry_with_digest("a", "three"), None);
            Ok(())
        };
        lock.replace_entry(&path, ("a", "a"), locked("two"), put)
            .unwrap();
        assert_eq!(LockFile::read_file(&path).unwrap(), lock);
        assert_eq!(lock.find_entry_with_digest("a", "one"), None);
        assert_eq!(lock.keys["a"], "two");

        let fails = || -> anyhow::Result<()> { anyhow::bail!("it cannot be put") };
        let failed = lock.replace_entry(&path, ("b", "b"), locked("three"), fails);
        assert_eq!(failed.unwrap_err().to_string(), "it cannot be put");
        assert_eq!(LockFile::read_file(&path).unwrap(), lock);
    }
}
