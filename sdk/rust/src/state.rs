//! Values that last as long as the session. They survive a trap and `--resume`.
//!
//! An instance may be thrown away at any moment: what must outlast a call goes here, never into a `static`.

use crate::types::Error;
use serde::{Serialize, de::DeserializeOwned};

#[cfg(target_family = "wasm")]
use crate::bindings::rind::plugin::state as host;
#[cfg(not(target_family = "wasm"))]
use crate::testing::state as host;

/// The value of a key, if it is set.
#[must_use]
pub fn get(key: &str) -> Option<String> {
    host::get(key)
}

/// Sets a key. Keys have at most 256 bytes, values at most 16 MiB, all of a plugin's values in a session 64 MiB.
///
/// # Errors
/// When one of these limits is passed.
pub fn set(key: &str, value: &str) -> Result<(), Error> {
    host::set(key, value)
}

/// Removes a key; nothing happens when it is not set.
///
/// # Errors
/// When the host could not write it down.
pub fn remove(key: &str) -> Result<(), Error> {
    host::remove(key)
}

/// The keys that start with `prefix`, sorted.
#[must_use]
pub fn keys(prefix: &str) -> Vec<String> {
    host::keys(prefix)
}

/// The value of a key that was set with [`set_json`], if it is set.
///
/// # Errors
/// When the value does not fit the type.
pub fn get_json<T: DeserializeOwned>(key: &str) -> Result<Option<T>, Error> {
    let Some(text) = get(key) else {
        return Ok(None);
    };
    let value = serde_json::from_str(&text)
        .map_err(|error| Error::Failed(format!("state {key:?}: {error}")))?;
    Ok(Some(value))
}

/// Sets a key to any value that can be written as JSON.
///
/// # Errors
/// As [`set`], and when the value cannot be written as JSON.
pub fn set_json<T: Serialize + ?Sized>(key: &str, value: &T) -> Result<(), Error> {
    set(key, &serde_json::to_string(value)?)
}
