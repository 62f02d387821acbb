//! Calling other tools. Needs the side effect `external` and the names in `[external] tools`.

pub use crate::bindings::rind::plugin::tools_host::call;
use crate::types::Error;
use serde::Serialize;

/// Calls a tool with any arguments that can be written as a JSON object.
///
/// # Errors
/// When the call was refused or failed, or the arguments cannot be written as JSON.
pub fn call_json<T: Serialize + ?Sized>(name: &str, arguments: &T) -> Result<String, Error> {
    call(name, &serde_json::to_string(arguments)?)
}
