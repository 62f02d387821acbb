//! The session state of plugins: keys and values that last as long as the session.
//!
//! Owns the limits and the blobs for large values. A change takes two steps: [`States::prepare`]
//! checks it and returns the entry to write, and [`States::apply`] takes it into memory once the
//! entry is in the file. The module never writes to the session file itself.
//!
//! The content of values is opaque to the host. Start from [`States`].

use std::collections::BTreeMap;
use std::path::Path;

use super::Error;
use super::blobs::HashedFiles;
use super::entry::Body;

/// Maximum length of a key, in bytes.
pub const MAX_KEY_BYTES: usize = 256;

/// Maximum length of a value, in bytes.
pub const MAX_VALUE_BYTES: usize = 16 << 20;

/// Maximum size of all keys and values of a plugin in a session, in bytes.
pub const MAX_PLUGIN_BYTES: usize = 64 << 20;

/// Maximum number of bytes that a plugin may write to a session while it is open. Old values stay
/// in the file, so without this limit a plugin that sets a key in a loop would fill the disk.
pub const MAX_WRITTEN_BYTES: usize = 512 << 20;

/// Length in bytes up to which values are stored in the session file. Longer values go to blobs,
/// because they would make the file slow to read.
pub const INLINE_BYTES: usize = 8 << 10;

/// Name of the folder for large values, in the session's folder.
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

/// Session state of all plugins.
#[derive(Debug)]
pub(super) struct States {
    blobs: HashedFiles,
    plugins: BTreeMap<String, BTreeMap<String, Value>>,
    written: BTreeMap<String, usize>,
}

impl States {
    /// Creates an empty state. `folder` is the folder of the session.
    pub(super) fn new(folder: &Path) -> Self {
        Self {
            blobs: files(folder),
            plugins: BTreeMap::new(),
            written: BTreeMap::new(),
        }
    }

    /// Applies a change that is in the file. Returns the name of a blob that is no longer
    /// referenced, if the change released one.
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

    /// Returns the keys that start with `prefix`, sorted.
    pub(super) fn keys(&self, plugin: &str, prefix: &str) -> Vec<String> {
        self.plugins
            .get(plugin)
            .into_iter()
            .flat_map(BTreeMap::keys)
            .filter(|key| key.starts_with(prefix))
            .cloned()
            .collect()
    }

    /// Checks a change against the limits and returns the entry for it; `None` if it changes
    /// nothing. When this returns, a large value is on the disk as a blob.
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

    /// Adds to the number of bytes that a plugin has written to the session, and checks the limit.
    pub(super) fn count(&mut self, plugin: &str, bytes: usize) -> Result<(), Error> {
        let written = self.written.entry(plugin.to_owned()).or_default();
        *written = written.saturating_add(bytes);
        limit(plugin, *written, MAX_WRITTEN_BYTES, || {
            format!("{written} bytes written to the session")
        })
    }

    /// Removes an unreferenced blob. A failure is ignored, because it only wastes space.
    pub(super) fn remove_blob(&self, name: &str) {
        self.blobs.remove(name);
    }
}

/// Returns an error if `bytes` exceeds `most`. `what` describes the rejected content.
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

/// Returns the blob files for large values of the session in `folder`.
fn files(folder: &Path) -> HashedFiles {
    HashedFiles::new(folder.join(BLOBS))
}

/// Copies the large values of a session. A fork needs its own copies, because a session removes
/// blobs that it no longer references.
pub(super) fn copy_blobs(from: &Path, to: &Path) -> Result<(), Error> {
    files(from).copy_to(&files(to))
}
