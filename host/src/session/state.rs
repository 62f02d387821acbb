//! The session state of plugins: keys and values that last as long as the session.
//!
//! Owns the limits and the blobs that hold large values. What a change looks like in the file is the session's; this
//! module only says what to write and remembers what was written. Start from [`States`].

use std::collections::BTreeMap;
use std::path::Path;

use super::Error;
use super::blobs::HashedFiles;
use super::entry::Body;

/// Longest key, in bytes.
pub const MAX_KEY_BYTES: usize = 256;

/// Longest value, in bytes.
pub const MAX_VALUE_BYTES: usize = 16 << 20;

/// All of a plugin's values in a session, in bytes.
pub const MAX_PLUGIN_BYTES: usize = 64 << 20;

/// All that a plugin may write into a session, in bytes, while it is open: old values stay in the file, so a plugin that
/// sets a key in a loop would fill the disk.
pub const MAX_WRITTEN_BYTES: usize = 512 << 20;

/// Length in bytes up to which values are in the session file itself; longer ones would make it slow to read.
pub const INLINE_BYTES: usize = 8 << 10;

/// Name of the folder, within that of the session, that holds large values.
const BLOBS: &str = "blobs";

#[derive(Clone, Debug, PartialEq, Eq)]
enum Value {
    Inline(String),
    Blob { name: String, len: usize },
}

impl Value {
    fn len(&self) -> usize {
        match self {
            Self::Inline(text) => text.len(),
            Self::Blob { len, .. } => *len,
        }
    }
}

/// The state of every plugin.
#[derive(Debug)]
pub(super) struct States {
    blobs: HashedFiles,
    plugins: BTreeMap<String, BTreeMap<String, Value>>,
    written: BTreeMap<String, usize>,
}

impl States {
    /// Creates an empty state; `folder` is the session's.
    pub(super) fn new(folder: &Path) -> Self {
        Self {
            blobs: files(folder),
            plugins: BTreeMap::new(),
            written: BTreeMap::new(),
        }
    }

    /// Applies a change that is in the file. Returns the name of a blob that nothing refers to any more.
    pub(super) fn apply(&mut self, body: &Body) -> Option<String> {
        let Body::State {
            plugin,
            key,
            value,
            blob,
            ..
        } = body
        else {
            return None;
        };
        let new = match (value, blob) {
            (Some(text), _) => Some(Value::Inline(text.clone())),
            (None, Some(name)) => Some(Value::Blob {
                name: name.clone(),
                len: self.blobs.len(name) as usize,
            }),
            (None, None) => None,
        };
        let keys = self.plugins.entry(plugin.clone()).or_default();
        let old = match new {
            Some(new) => keys.insert(key.clone(), new),
            None => keys.remove(key),
        };
        let Some(Value::Blob { name, .. }) = old else {
            return None;
        };
        let is_used = |value: &Value| matches!(value, Value::Blob { name: n, .. } if *n == name);
        let mut all = self.plugins.values().flat_map(BTreeMap::values);
        (!all.any(is_used)).then_some(name)
    }

    pub(super) fn get(&self, plugin: &str, key: &str) -> Result<Option<String>, Error> {
        match self.plugins.get(plugin).and_then(|keys| keys.get(key)) {
            None => Ok(None),
            Some(Value::Inline(text)) => Ok(Some(text.clone())),
            Some(Value::Blob { name, .. }) => {
                let text = String::from_utf8(self.blobs.read(name)?);
                Ok(Some(text.map_err(|_| self.blobs.damaged(name))?))
            }
        }
    }

    /// The keys that start with `prefix`, sorted.
    pub(super) fn keys(&self, plugin: &str, prefix: &str) -> Vec<String> {
        self.plugins
            .get(plugin)
            .into_iter()
            .flat_map(BTreeMap::keys)
            .filter(|key| key.starts_with(prefix))
            .cloned()
            .collect()
    }

    /// Checks a change against the limits and makes the entry for it; `None` when it changes nothing. A large value is on
    /// the disk as a blob when this returns.
    pub(super) fn prepare(
        &mut self,
        plugin: &str,
        key: &str,
        value: Option<&str>,
    ) -> Result<Option<Body>, Error> {
        let old = self.plugins.get(plugin).and_then(|keys| keys.get(key));
        let entry = |value, blob, removed| Body::State {
            plugin: plugin.to_owned(),
            key: key.to_owned(),
            value,
            blob,
            removed,
        };
        let Some(text) = value else {
            return Ok(old.is_some().then(|| entry(None, None, true)));
        };
        let (n_key, n_text) = (key.len(), text.len());
        limit(plugin, n_key, MAX_KEY_BYTES, || {
            format!("a key of {n_key} bytes")
        })?;
        limit(plugin, n_text, MAX_VALUE_BYTES, || {
            format!("a value of {n_text} bytes")
        })?;
        let all = self.plugins.get(plugin).into_iter().flatten();
        let total: usize = all.map(|(key, value)| key.len() + value.len()).sum();
        let total = total - old.map_or(0, |old| n_key + old.len()) + n_key + n_text;
        limit(plugin, total, MAX_PLUGIN_BYTES, || {
            format!("{total} bytes of state")
        })?;
        let name = (text.len() > INLINE_BYTES).then(|| HashedFiles::name(text.as_bytes()));
        let is_same = match (old, &name) {
            (Some(Value::Inline(old)), None) => old == text,
            (Some(Value::Blob { name: old, .. }), Some(name)) => old == name,
            _ => false,
        };
        if is_same {
            return Ok(None);
        }
        self.count(plugin, key.len() + text.len())?;
        let Some(name) = name else {
            return Ok(Some(entry(Some(text.to_owned()), None, false)));
        };
        self.blobs.write(&name, text.as_bytes())?;
        Ok(Some(entry(None, Some(name), false)))
    }

    /// Counts what a plugin writes into the session.
    pub(super) fn count(&mut self, plugin: &str, bytes: usize) -> Result<(), Error> {
        let written = self.written.entry(plugin.to_owned()).or_default();
        *written = written.saturating_add(bytes);
        limit(plugin, *written, MAX_WRITTEN_BYTES, || {
            format!("{written} bytes written to the session")
        })
    }

    /// Removes a blob that nothing refers to. Failing to is no loss but that of space.
    pub(super) fn remove_blob(&self, name: &str) {
        self.blobs.remove(name);
    }
}

/// Refuses what has more bytes than `most`.
fn limit(
    plugin: &str,
    bytes: usize,
    most: usize,
    what: impl FnOnce() -> String,
) -> Result<(), Error> {
    if bytes <= most {
        return Ok(());
    }
    Err(Error::Limit {
        plugin: plugin.to_owned(),
        what: format!("{}, at most {most}", what()),
    })
}

/// The large values of the session in `folder`.
fn files(folder: &Path) -> HashedFiles {
    HashedFiles::new(folder.join(BLOBS))
}

/// Copies the large values of a session: blobs are removed when nothing in their session refers to them, so a fork has its own.
pub(super) fn copy_blobs(from: &Path, to: &Path) -> Result<(), Error> {
    files(from).copy_to(&files(to))
}
