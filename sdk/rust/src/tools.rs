//! Calling other tools. Needs the side effect `external` and the names in `[external] tools`.

use crate::types::Error;
use serde::Serialize;

#[cfg(target_family = "wasm")]
use crate::bindings::rind::plugin::tools_host as host;
#[cfg(not(target_family = "wasm"))]
use crate::testing::tools_host as host;

/// Calls a tool and returns what it answered. `arguments` is a JSON object as text.
///
/// # Errors
/// When the call was refused, or the tool failed.
pub fn call(name: &str, arguments: &str) -> Result<String, Error> {
    host::call(name, arguments)
}

/// Calls a tool with any arguments that can be written as a JSON object.
///
/// # Errors
/// When the call was refused or failed, or the arguments cannot be written as JSON.
pub fn call_json<T: Serialize + ?Sized>(name: &str, arguments: &T) -> Result<String, Error> {
    call(name, &serde_json::to_string(arguments)?)
}
