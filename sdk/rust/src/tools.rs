//! Calls other tools. Needs the side effect `external` and the tools' names in `[external] tools`.

use crate::payload::text_of;
use crate::types::{Error, Part};
use serde::Serialize;

#[cfg(target_family = "wasm")]
use crate::bindings::rind::plugin::tools_host as host;
#[cfg(not(target_family = "wasm"))]
use crate::testing::tools_host as host;

/// Calls a tool and returns its answer. `arguments` is a JSON object as text. Blobs in the answer
/// can be read with [`blobs`](crate::blobs) until the running hook or tool returns.
///
/// # Errors
/// When the call was refused, or the tool failed.
pub fn call_parts(name: &str, arguments: &str) -> Result<Vec<Part>, Error> {
    host::call(name, arguments)
}

/// Calls a tool and returns its answer as one text.
///
/// # Errors
/// When the call was refused, or the tool failed.
pub fn call(name: &str, arguments: &str) -> Result<String, Error> {
    Ok(text_of(&call_parts(name, arguments)?))
}

/// Calls a tool with any arguments that can be written as a JSON object.
///
/// # Errors
/// When the call was refused or failed, or the arguments cannot be written as JSON.
pub fn call_json<T: Serialize + ?Sized>(name: &str, arguments: &T) -> Result<String, Error> {
    call(name, &serde_json::to_string(arguments)?)
}
