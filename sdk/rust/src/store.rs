//! Stores values that last as long as the plugin is installed, across sessions.
//!
//! If two sessions write the same key, the last write wins.

use crate::types::Error;
use serde::{Serialize, de::DeserializeOwned};

#[cfg(target_family = "wasm")]
use crate::bindings::rind::plugin::store as host;
#[cfg(not(target_family = "wasm"))]
use crate::testing::store as host;

/// Returns the value of a key, if it is set.
///
/// # Errors
/// The host could not read the value.
pub fn get(key: &str) -> Result<Option<String>, Error> {
    host::get(key)
}

/// Sets a key. Keys have at most 256 bytes, values at most 16 MiB, all of a plugin's values
/// together 64 MiB.
///
/// # Errors
/// A limit is exceeded, or the host could not store the value.
pub fn set(key: &str, value: &str) -> Result<(), Error> {
    host::set(key, value)
}

/// Removes a key; does nothing if it is not set.
///
/// # Errors
/// The host could not store the change.
pub fn remove(key: &str) -> Result<(), Error> {
    host::remove(key)
}

/// Returns the keys that start with `prefix`, sorted.
///
/// # Errors
/// The host could not read the keys.
pub fn keys(prefix: &str) -> Result<Vec<String>, Error> {
    host::keys(prefix)
}

/// Returns the value of a key that was set with [`set_json`], if it is set.
///
/// # Errors
/// The host could not read the value, or the value does not fit the type.
pub fn get_json<T: DeserializeOwned>(key: &str) -> Result<Option<T>, Error> {
    let Some(text) = get(key)? else {
        return Ok(None);
    };
    let value = serde_json::from_str(&text).map_err(|error| {
        Error::Failed(format!(
            "the value of {key:?} in the store has the wrong type: {error}"
        ))
    })?;
    Ok(Some(value))
}

/// Sets a key to any value that can be written as JSON.
///
/// # Errors
/// As [`set`], and when the value cannot be written as JSON.
pub fn set_json<T: Serialize + ?Sized>(key: &str, value: &T) -> Result<(), Error> {
    set(key, &serde_json::to_string(value)?)
}
