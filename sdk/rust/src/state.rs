//! Stores values that last as long as the session. They survive a trap and `--resume`.
//!
//! The host may drop an instance at any moment: data that must outlast a call goes here, never into
//! a `static`.

use crate::types::Error;
use serde::{Serialize, de::DeserializeOwned};
use std::cell::RefCell;

#[cfg(target_family = "wasm")]
use crate::bindings::rind::plugin::state as host;
#[cfg(not(target_family = "wasm"))]
use crate::testing::state as host;

/// Returns the value of a key, if it is set.
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

/// Removes a key; does nothing if it is not set.
///
/// # Errors
/// The host could not store the change.
pub fn remove(key: &str) -> Result<(), Error> {
    host::remove(key)
}

/// Returns the keys that start with `prefix`, sorted.
#[must_use]
pub fn keys(prefix: &str) -> Vec<String> {
    host::keys(prefix)
}

/// Returns the value of a key that was set with [`set_json`], if it is set.
///
/// # Errors
/// When the value does not fit the type.
pub fn get_json<T: DeserializeOwned>(key: &str) -> Result<Option<T>, Error> {
    get(key).map(|text| parse(key, &text)).transpose()
}

fn parse<T: DeserializeOwned>(key: &str, text: &str) -> Result<T, Error> {
    serde_json::from_str(text).map_err(|error| {
        Error::Failed(format!(
            "the value of {key:?} in the session state has the wrong type: {error}"
        ))
    })
}

/// Sets a key to any value that can be written as JSON.
///
/// # Errors
/// As [`set`], and when the value cannot be written as JSON.
pub fn set_json<T: Serialize + ?Sized>(key: &str, value: &T) -> Result<(), Error> {
    set(key, &serde_json::to_string(value)?)
}

/// A cached value, for a hook that reads and writes it at every call. The value is not parsed again
/// while the host has the value that this instance read or wrote last. Put it into a
/// `thread_local!`.
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
///     cached.change("calls", |calls| *calls += 1)
/// })?;
/// assert_eq!(rind_sdk::state::get("calls").as_deref(), Some("1"));
/// # Ok::<(), rind_sdk::types::Error>(())
/// ```
#[derive(Debug)]
pub struct Cached<T> {
    /// Value that was read or written last, as JSON text and as a parsed value.
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

    /// Returns the value of a key as [`get_json`] does. As long as the value is cached, its fields
    /// that serde skips keep their contents too.
    ///
    /// # Errors
    /// When the value does not fit the type.
    pub fn get(&self, key: &str) -> Result<Option<T>, Error> {
        self.read(key)?;
        let last = self.last.borrow();
        Ok(last.as_ref().map(|(_, value)| value.clone()))
    }

    /// Sets the value of a key as [`set_json`] does.
    ///
    /// # Errors
    /// As [`set`], and when the value cannot be written as JSON.
    pub fn set(&self, key: &str, value: T) -> Result<(), Error> {
        let text = serde_json::to_string(&value)?;
        set(key, &text)?;
        self.last.replace(Some((text, value)));
        Ok(())
    }

    /// Passes the value of a key, or the default if the key is not set, to a function, without
    /// cloning the value.
    ///
    /// # Errors
    /// When the value does not fit the type.
    pub fn view<R>(&self, key: &str, view: impl FnOnce(&T) -> R) -> Result<R, Error>
    where
        T: Default,
    {
        self.read(key)?;
        // Empty the cache during the call, because the function `view` may use the cache too.
        match self.last.take() {
            Some((text, value)) => {
                let seen = view(&value);
                self.last.replace(Some((text, value)));
                Ok(seen)
            }
            None => Ok(view(&T::default())),
        }
    }

    /// Changes the value of a key, or the default if the key is not set, and stores it.
    ///
    /// # Errors
    /// As [`Cached::get`] and [`Cached::set`]; the key then keeps its old value.
    pub fn change<R>(&self, key: &str, change: impl FnOnce(&mut T) -> R) -> Result<R, Error>
    where
        T: Default,
    {
        self.read(key)?;
        // Empty the cache, so that the value is read from the host again after an error.
        let (read, mut value) = self.last.take().unzip();
        let mut value: T = value.take().unwrap_or_default();
        let changed = change(&mut value);
        let text = serde_json::to_string(&value)?;
        if read.as_deref() != Some(&text) {
            set(key, &text)?;
        }
        self.last.replace(Some((text, value)));
        Ok(changed)
    }

    /// Reads the host's value into the cache, unless the cache already has this value.
    fn read(&self, key: &str) -> Result<(), Error> {
        let Some(text) = get(key) else {
            self.last.take();
            return Ok(());
        };
        let is_same = matches!(&*self.last.borrow(), Some((read, _)) if *read == text);
        if !is_same {
            let value = parse(key, &text)?;
            self.last.replace(Some((text, value)));
        }
        Ok(())
    }
}

#[cfg(all(test, not(target_family = "wasm")))]
mod tests {
    use super::*;

    #[test]
    fn a_cached_value_is_used_only_while_the_host_has_the_same_value() {
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

    #[test]
    fn a_cached_value_is_changed_in_place_and_set() {
        crate::testing::reset();
        let cached = Cached::<Vec<u32>>::new();
        assert_eq!(cached.view("a", Vec::len).unwrap(), 0);
        cached.change("a", |all| all.push(1)).unwrap();
        assert_eq!(get("a").as_deref(), Some("[1]"));
        set("a", "[1,2]").unwrap();
        let last = cached.change("a", |all| all.pop()).unwrap();
        assert_eq!((last, get("a").as_deref()), (Some(2), Some("[1]")));
        assert_eq!(cached.view("a", Clone::clone).unwrap(), [1]);
        let nested = cached.view("a", |all| cached.change("b", |own| own.clone_from(all)));
        nested.unwrap().unwrap();
        assert_eq!(get("b").as_deref(), Some("[1]"));
    }

    #[test]
    fn a_change_that_the_host_refuses_leaves_the_value_before() {
        crate::testing::reset();
        let cached = Cached::<String>::new();
        cached.change("a", |text| text.push('x')).unwrap();
        let long = "y".repeat(17 << 20);
        cached.change("a", |text| text.push_str(&long)).unwrap_err();
        assert_eq!(cached.get("a").unwrap().as_deref(), Some("x"));
    }
}
