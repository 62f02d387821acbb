//! Keeps the session state of plugins: keys and values that last as long as the session.
//!
//! Owns the limits and the blobs for large values. A change takes two steps:
//! [`PluginSessionStates::create_state_entry_for_change`] checks it and returns the entry to write,
//! and [`PluginSessionStates::apply_state_change`] applies it to the in-memory state once the entry
//! is in the file. The module never writes to the session file itself.
//!
//! The content of values is opaque to the host. Start from [`PluginSessionStates`].

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Error;
use super::blobs::compute_hash_name;
use super::entry::Body;
use super::storage::Blobs;

/// Maximum length of a key in a plugin's session state, in bytes.
pub const MAX_STATE_KEY_BYTES: usize = 256;

/// Maximum length of a value in a plugin's session state, in bytes.
pub const MAX_STATE_VALUE_BYTES: usize = 16 << 20;

/// Maximum size of all keys and values of a plugin in a session, in bytes.
pub const MAX_STATE_BYTES_PER_PLUGIN: usize = 64 << 20;

/// Maximum number of bytes that a plugin may write to a session while it is open. Old values stay
/// in the file, so without this limit a plugin that sets a key in a loop would fill the disk.
pub const MAX_STATE_BYTES_WRITTEN_PER_PLUGIN: usize = 512 << 20;

/// Length in bytes up to which values are stored in the session file. Longer values go to blobs,
/// because they would make the file slow to read.
pub const MAX_INLINE_STATE_VALUE_BYTES: usize = 8 << 10;

#[derive(Clone, Debug, PartialEq, Eq)]
enum PluginStateValue {
    Inline(String),
    Blob { name: String, len: usize },
}

impl PluginStateValue {
    fn len(&self) -> usize {
        match self {
            Self::Inline(text) => text.len(),
            Self::Blob { len, .. } => *len,
        }
    }
}

/// Session state of all plugins.
#[derive(Debug)]
pub(super) struct PluginSessionStates {
    blobs: Arc<dyn Blobs>,
    plugins: BTreeMap<String, BTreeMap<String, PluginStateValue>>,
    written: BTreeMap<String, usize>,
}

impl PluginSessionStates {
    /// Creates an empty state, whose large values go to `blobs`.
    pub(super) fn new(blobs: Arc<dyn Blobs>) -> Self {
        Self {
            blobs,
            plugins: BTreeMap::new(),
            written: BTreeMap::new(),
        }
    }

    /// Applies a change whose entry is in the file. If the change replaced or removed a large value
    /// and no other value has the same blob, returns the name of the blob.
    pub(super) fn apply_state_change(&mut self, body: &Body) -> Option<String> {
        let Body::State {
            plugin,
            key,
            value,
            blob,
            len,
            ..
        } = body
        else {
            return None;
        };
        let new = match (value, blob) {
            (Some(text), _) => Some(PluginStateValue::Inline(text.clone())),
            (None, Some(name)) => Some(PluginStateValue::Blob {
                name: name.clone(),
                len: self.blob_length(name, *len),
            }),
            (None, None) => None,
        };
        let keys = self.plugins.entry(plugin.clone()).or_default();
        let old = match new {
            Some(new) => keys.insert(key.clone(), new),
            None => keys.remove(key),
        };
        let Some(PluginStateValue::Blob { name, .. }) = old else {
            return None;
        };
        let is_used = |value: &PluginStateValue| matches!(value, PluginStateValue::Blob { name: n, .. } if *n == name);
        let mut all = self.plugins.values().flat_map(BTreeMap::values);
        (!all.any(is_used)).then_some(name)
    }

    /// Returns the length of a large value in bytes. Entries of older versions do not contain the
    /// length; then it is read from the blob. The length is limited to [`MAX_STATE_VALUE_BYTES`],
    /// because the file may have been tampered with and lengths are added up.
    fn blob_length(&self, name: &str, len: Option<u64>) -> usize {
        let len = len.or_else(|| self.blobs.length(name)).unwrap_or_default();
        usize::try_from(len).map_or(MAX_STATE_VALUE_BYTES, |len| len.min(MAX_STATE_VALUE_BYTES))
    }

    pub(super) fn get(&self, plugin: &str, key: &str) -> Result<Option<String>, Error> {
        match self.plugins.get(plugin).and_then(|keys| keys.get(key)) {
            None => Ok(None),
            Some(PluginStateValue::Inline(text)) => Ok(Some(text.clone())),
            Some(PluginStateValue::Blob { name, .. }) => {
                let text = String::from_utf8(self.blobs.get(name)?);
                Ok(Some(text.map_err(|_| self.blobs.damaged_blob_error(name))?))
            }
        }
    }

    /// Returns the keys of a plugin's session state that start with `prefix`, sorted.
    pub(super) fn list_keys(&self, plugin: &str, prefix: &str) -> Vec<String> {
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
    pub(super) fn create_state_entry_for_change(
        &mut self,
        plugin: &str,
        key: &str,
        value: Option<&str>,
    ) -> Result<Option<Body>, Error> {
        let old = self.plugins.get(plugin).and_then(|keys| keys.get(key));
        let n_value = value.map_or(0, |text| text.len() as u64);
        let entry = |value, blob: Option<String>, removed| Body::State {
            plugin: plugin.to_owned(),
            key: key.to_owned(),
            value,
            len: blob.is_some().then_some(n_value),
            blob,
            removed,
        };
        let Some(text) = value else {
            return Ok(old.is_some().then(|| entry(None, None, true)));
        };
        let (n_key, n_text) = (key.len(), text.len());
        check_byte_limit(plugin, n_key, MAX_STATE_KEY_BYTES, || {
            format!("a key of {n_key} bytes")
        })?;
        check_byte_limit(plugin, n_text, MAX_STATE_VALUE_BYTES, || {
            format!("a value of {n_text} bytes")
        })?;
        let all = self.plugins.get(plugin).into_iter().flatten();
        let total: usize = all.map(|(key, value)| key.len() + value.len()).sum();
        let total = total - old.map_or(0, |old| n_key + old.len()) + n_key + n_text;
        check_byte_limit(plugin, total, MAX_STATE_BYTES_PER_PLUGIN, || {
            format!("{total} bytes of state")
        })?;
        let name =
            (text.len() > MAX_INLINE_STATE_VALUE_BYTES).then(|| compute_hash_name(text.as_bytes()));
        let is_same = match (old, &name) {
            (Some(PluginStateValue::Inline(old)), None) => old == text,
            (Some(PluginStateValue::Blob { name: old, .. }), Some(name)) => old == name,
            _ => false,
        };
        if is_same {
            return Ok(None);
        }
        self.count_written_bytes(plugin, key.len() + text.len())?;
        let Some(name) = name else {
            return Ok(Some(entry(Some(text.to_owned()), None, false)));
        };
        self.blobs.put(&name, text.as_bytes())?;
        Ok(Some(entry(None, Some(name), false)))
    }

    /// Adds `bytes` to the number of bytes that a plugin has written to the session. Fails if the
    /// limit is exceeded.
    pub(super) fn count_written_bytes(&mut self, plugin: &str, bytes: usize) -> Result<(), Error> {
        let written = self.written.entry(plugin.to_owned()).or_default();
        *written = written.saturating_add(bytes);
        check_byte_limit(plugin, *written, MAX_STATE_BYTES_WRITTEN_PER_PLUGIN, || {
            format!("{written} bytes written to the session")
        })
    }

    /// Removes an unreferenced blob. A failure is ignored, because it only wastes space.
    pub(super) fn remove_blob(&self, name: &str) {
        self.blobs.release(name);
    }
}

/// Returns an error if `bytes` exceeds the limit `most`. `what` describes the rejected content in
/// the error.
fn check_byte_limit(
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
