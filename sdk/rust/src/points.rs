//! Calls extension points that plugins define under `[points.NAME]` for other plugins to implement.

pub use crate::bindings::rind::plugin::points::{Answer, Objection, Verdict};
use crate::types::Error;
use serde::{Serialize, de::DeserializeOwned};

#[cfg(target_family = "wasm")]
use crate::bindings::rind::plugin::points as host;
#[cfg(not(target_family = "wasm"))]
use crate::testing::points as host;

/// Calls every plugin that implements a point. `point` is `NAME` for a point of this plugin, and
/// `owner.NAME` for a point of another plugin. `payload` is JSON text.
///
/// # Errors
/// When the point is not declared, its owner does not let this plugin call it, or the payload does
/// not fit its schema.
pub fn call(point: &str, payload: &str) -> Result<Answer, Error> {
    host::call(point, payload)
}

/// Calls every plugin that implements a point, with payload and answer as Rust types.
///
/// # Errors
/// As [`call`], and when the answer does not fit the type, or an implementer refused the payload or
/// requested an approval of the user.
pub fn call_json<P: Serialize + ?Sized, A: DeserializeOwned>(
    point: &str,
    payload: &P,
) -> Result<A, Error> {
    let answer = call(point, &serde_json::to_string(payload)?)?;
    let objections = match answer.verdict {
        Verdict::Pass => return Ok(serde_json::from_str(&answer.value)?),
        Verdict::Ask(objections) => objections,
        Verdict::Block(objection) => vec![objection],
    };
    let reasons = objections
        .iter()
        .map(|said| format!("{}: {}", said.plugin, said.reason));
    Err(Error::Denied(reasons.collect::<Vec<_>>().join("; ")))
}
