//! The conversation so far. Needs the side effect `session`.

pub use crate::bindings::rind::plugin::session::{append, messages};
use crate::types::Error;
use serde::Serialize;

/// Keeps an entry of the plugin's own in the session file. The model never sees it.
///
/// # Errors
/// When the host refused it, or the value cannot be written as JSON.
pub fn append_json<T: Serialize + ?Sized>(name: &str, value: &T) -> Result<(), Error> {
    append(name, &serde_json::to_string(value)?)
}
