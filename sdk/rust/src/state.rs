//! Values that last as long as the session. They survive a trap and `--resume`.
//!
//! An instance may be thrown away at any moment: data that must outlast a call goes here, never
//! into a `static`.

use crate::types::Error;
use serde::{Serialize, de::DeserializeOwned};
use std::cell::RefCell;

#[cfg(target_family = "wasm")]
use crate::bindings::rind::plugin::state as host;
#[cfg(not(target_family = "wasm"))]
use crate::testing::state as host;

/// The value of a key, if it is set.
#[must_use]
pub fn get(key: &str) -> Option<String> {
    host::get(key)
}

/// Sets a key. Keys have at most 256 bytes, values at most 16 MiB, all of a plugin's values in a
/// session 64 MiB.
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
    get(key).map(|text| parse(key, &text)).transpose()
}

fn parse<T: DeserializeOwned>(key: &str, text: &str) -> Result<T, Error> {
    serde_json::from_str(text).map_err(|error| Error::Failed(format!("state {key:?}: {error}")))
}

/// Sets a key to any value that can be written as JSON.
///
/// # Errors
/// As [`set`], and when the value cannot be written as JSON.
pub fn set_json<T: Serialize + ?Sized>(key: &str, value: &T) -> Result<(), Error> {
    set(key, &serde_json::to_string(value)?)
}

/// A value that a hook reads and writes at every call: it is not parsed again as long as the host
/// has the value that this instance read or wrote last. Put one into a `thread_local!`.
///
/// ```
/// use rind_sdk::state::Cached;
///
/// thread_local! {
///     static CALLS: Cached<u64> = const { Cached::new() };
/// }
///
/// # rind_sdk::testing::reset();
/// CALLS.with(|cached| {
///     let calls = cached.get("calls")?.unwrap_or_default();
///     cached.set("calls", calls + 1)
/// })?;
/// assert_eq!(rind_sdk::state::get("calls").as_deref(), Some("1"));
/// # Ok::<(), rind_sdk::types::Error>(())
/// ```
#[derive(Debug)]
pub struct Cached<T> {
    /// Last value, as JSON and parsed.
    last: RefCell<Option<(String, T)>>,
}

impl<T: Serialize + DeserializeOwned + Clone> Cached<T> {
    /// Creates an empty cache.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "a static needs a constant")]
    pub const fn new() -> Self {
        let last = RefCell::new(None);
        Self { last }
    }

    /// Reads like [`get_json`]. Fields that serde skips are as they were when the value was set.
    ///
    /// # Errors
    /// When the value does not fit the type.
    pub fn get(&self, key: &str) -> Result<Option<T>, Error> {
        let Some(text) = get(key) else {
            return Ok(None);
        };
        let mut last = self.last.borrow_mut();
        if let Some((read, value)) = &*last
            && *read == text
        {
            return Ok(Some(value.clone()));
        }
        let value: T = parse(key, &text)?;
        *last = Some((text, value.clone()));
        Ok(Some(value))
    }

    /// Writes like [`set_json`].
    ///
    /// # Errors
    /// As [`set`], and when the value cannot be written as JSON.
    pub fn set(&self, key: &str, value: T) -> Result<(), Error> {
        let text = serde_json::to_string(&value)?;
        set(key, &text)?;
        self.last.replace(Some((text, value)));
        Ok(())
    }
}

#[cfg(all(test, not(target_family = "wasm")))]
mod tests {
    use super::*;

    #[test]
    fn a_cached_value_is_only_believed_when_the_host_says_the_same() {
        crate::testing::reset();
        let cached = Cached::<u32>::new();
        assert_eq!(cached.get("a").unwrap(), None);
        cached.set("a", 1).unwrap();
        assert_eq!(cached.get("a").unwrap(), Some(1));
        set("a", "2").unwrap();
        assert_eq!(cached.get("a").unwrap(), Some(2));
        set("a", "no number").unwrap();
        cached.get("a").unwrap_err();
        remove("a").unwrap();
        assert_eq!(cached.get("a").unwrap(), None);
    }
}
