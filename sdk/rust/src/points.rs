//! Extension points that this plugin defines in `[points.NAME]`, for other plugins to implement.

pub use crate::bindings::rind::plugin::points::Answer;
use crate::types::Error;
use serde::{Serialize, de::DeserializeOwned};

#[cfg(target_family = "wasm")]
use crate::bindings::rind::plugin::points as host;
#[cfg(not(target_family = "wasm"))]
use crate::testing::points as host;

/// Calls every implementer of one of this plugin's own points. `payload` is JSON text.
///
/// # Errors
/// When the point is not declared, or the payload does not fit its schema.
pub fn call(name: &str, payload: &str) -> Result<Answer, Error> {
    host::call(name, payload)
}

/// Calls every implementer of one of this plugin's own points.
///
/// # Errors
/// When the payload does not fit the point's schema, the answer does not fit the type, or an implementer refused.
pub fn call_json<P: Serialize + ?Sized, A: DeserializeOwned>(
    name: &str,
    payload: &P,
) -> Result<A, Error> {
    let answer = call(name, &serde_json::to_string(payload)?)?;
    match answer.blocked {
        Some(reason) => Err(Error::Denied(reason)),
        None => Ok(serde_json::from_str(&answer.value)?),
    }
}
