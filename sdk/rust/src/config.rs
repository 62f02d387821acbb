//! The operator's settings for this plugin, checked against the manifest's `[config]` with its defaults filled in.

use crate::types::Error;
use serde::de::DeserializeOwned;

#[cfg(target_family = "wasm")]
use crate::bindings::rind::plugin::config as host;
#[cfg(not(target_family = "wasm"))]
use crate::testing::config as host;

/// All settings as a type of the plugin's own. Mark it `#[data]`.
///
/// # Errors
/// When the settings do not fit the type: it and `[config]` differ.
pub fn all<T: DeserializeOwned>() -> Result<T, Error> {
    serde_json::from_str(&host::all()).map_err(|error| Error::Failed(format!("config: {error}")))
}

/// One setting, if it is set or has a default.
///
/// # Errors
/// When it does not fit the type.
pub fn get<T: DeserializeOwned>(key: &str) -> Result<Option<T>, Error> {
    let Some(text) = host::get(key) else {
        return Ok(None);
    };
    let value = serde_json::from_str(&text)
        .map_err(|error| Error::Failed(format!("config {key:?}: {error}")))?;
    Ok(Some(value))
}
