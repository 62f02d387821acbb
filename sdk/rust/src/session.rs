//! The conversation so far. Needs the side effect `session`.

use crate::types::{Error, Message};
use serde::Serialize;

#[cfg(target_family = "wasm")]
use crate::bindings::rind::plugin::session as host;
#[cfg(not(target_family = "wasm"))]
use crate::testing::session as host;

/// The last messages of the conversation, oldest first; at most 1,000.
#[must_use]
pub fn messages(last: u32) -> Vec<Message> {
    host::messages(last)
}

/// The messages after the one of this id, oldest first, or all if there is none of this id; at most
/// the last 1,000.
#[must_use]
pub fn messages_after(id: &str) -> Vec<Message> {
    host::messages_after(id)
}

/// Keeps an entry of the plugin's own in the session file. The model never sees it. `value` is JSON
/// text.
///
/// # Errors
/// When the host refused it: the value is not JSON or too long, or the name holds a secret.
pub fn append(name: &str, value: &str) -> Result<(), Error> {
    host::append(name, value)
}

/// Keeps an entry of the plugin's own in the session file. The model never sees it.
///
/// # Errors
/// When the host refused it, or the value cannot be written as JSON.
pub fn append_json<T: Serialize + ?Sized>(name: &str, value: &T) -> Result<(), Error> {
    append(name, &serde_json::to_string(value)?)
}
