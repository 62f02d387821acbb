//! Reads the conversation so far. Needs the side effect `session`.

use crate::types::{Error, Message};
use serde::Serialize;

#[cfg(target_family = "wasm")]
use crate::bindings::rind::plugin::session as host;
#[cfg(not(target_family = "wasm"))]
use crate::testing::session as host;

/// Returns the last messages of the conversation, oldest first; at most 1,000.
#[must_use]
pub fn messages(last: u32) -> Vec<Message> {
    host::messages(last)
}

/// Returns the messages after the one with this id, oldest first; all if no message has this id. At
/// most the last 1,000 are returned.
#[must_use]
pub fn messages_after(id: &str) -> Vec<Message> {
    host::messages_after(id)
}

/// Appends an entry of the plugin to the session file. The model never sees it. `value` is JSON
/// text.
///
/// # Errors
/// The host refused the entry: the value is not JSON or too long, or the name contains a secret.
pub fn append(name: &str, value: &str) -> Result<(), Error> {
    host::append(name, value)
}

/// Appends an entry of the plugin to the session file. The model never sees it.
///
/// # Errors
/// The host refused the entry, or the value cannot be written as JSON.
pub fn append_json<T: Serialize + ?Sized>(name: &str, value: &T) -> Result<(), Error> {
    append(name, &serde_json::to_string(value)?)
}
