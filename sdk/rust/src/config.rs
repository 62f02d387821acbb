//! Reads the operator's settings for this plugin, which the host has checked against the manifest's
//! `[config]` and completed with its defaults.

use crate::types::Error;
use serde::de::DeserializeOwned;
use std::any::Any;
use std::cell::RefCell;
use std::rc::Rc;

#[cfg(target_family = "wasm")]
use crate::bindings::rind::plugin::config as host;
#[cfg(not(target_family = "wasm"))]
use crate::testing::config as host;

/// Settings that were read last, as JSON text and as a parsed value.
type Read = Option<(String, Rc<dyn Any>)>;

thread_local! {
    /// Cache of the parsed settings, since hooks read them at every call and they never change.
    static LAST: RefCell<Read> = const { RefCell::new(None) };
}

/// Returns all settings of the plugin as a value of a type that the author marks with `#[data]`.
///
/// # Errors
/// The settings do not fit the type: the type and `[config]` in `plugin.toml` differ.
pub fn all<T: DeserializeOwned + Clone + 'static>() -> Result<T, Error> {
    shared::<T>().map(Rc::unwrap_or_clone)
}

/// Returns all settings like [`all`], but shared instead of cloned.
///
/// # Errors
/// As [`all`].
pub fn shared<T: DeserializeOwned + 'static>() -> Result<Rc<T>, Error> {
    LAST.with_borrow_mut(|last| {
        if let Some((read, value)) = last
            && is_cache_current(read)
            && let Ok(value) = value.clone().downcast::<T>()
        {
            return Ok(value);
        }
        let text = host::all();
        let value: T = serde_json::from_str(&text)
            .map_err(|error| Error::Failed(format!("config: {error}")))?;
        let value = Rc::new(value);
        *last = Some((text, value.clone()));
        Ok(value)
    })
}

/// Whether the cached settings are current. Always true in a component, because the host starts new
/// instances when the settings change. A native test may change them at any time.
fn is_cache_current(read: &str) -> bool {
    cfg!(target_family = "wasm") || host::all() == read
}

/// Returns one setting, if it is set or has a default.
///
/// # Errors
/// When it does not fit the type.
pub fn get<T: DeserializeOwned>(key: &str) -> Result<Option<T>, Error> {
    let Some(text) = host::get(key) else {
        return Ok(None);
    };
    let value = serde_json::from_str(&text).map_err(|error| {
        Error::Failed(format!("the setting {key:?} has the wrong type: {error}"))
    })?;
    Ok(Some(value))
}
