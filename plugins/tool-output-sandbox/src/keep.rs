//! Stores tool results in the session's state under short handles. The oldest are removed when the
//! state is full.

use rind_sdk::prelude::{Error, state};

const OUTPUT_STATE_KEY_PREFIX: &str = "out/";

/// Maximum size of one value in the state, in bytes.
const MAX_STORED_OUTPUT_BYTES: usize = 16 << 20;

/// Stores a text and returns its handle. The oldest texts are removed if there is no room.
pub(crate) fn store_text(text: &str) -> Result<String, Error> {
    if text.len() > MAX_STORED_OUTPUT_BYTES {
        // Refuse a larger text at once: removing other texts would not make room for it.
        return Err(Error::Limit(format!(
            "one output may have at most {MAX_STORED_OUTPUT_BYTES} bytes"
        )));
    }
    let next: u64 = state::get_json("next")?.unwrap_or(1);
    state::set_json("next", &(next + 1))?;
    let mut kept = state::keys(OUTPUT_STATE_KEY_PREFIX).into_iter();
    loop {
        // Keys are sorted by number, so the first is the oldest.
        match (state::set(&output_key(next), text), kept.next()) {
            (Ok(()), _) => return Ok(format!("out-{next}")),
            (Err(Error::Limit(_)), Some(oldest)) => state::remove(&oldest)?,
            (Err(error), _) => return Err(error),
        }
    }
}

/// Returns the stored tool output with this handle, such as `out-3`.
pub(crate) fn get_output(handle: &str) -> Result<String, Error> {
    let number = handle
        .strip_prefix("out-")
        .and_then(|number| number.parse().ok());
    if let Some(text) = number.and_then(|number| state::get(&output_key(number))) {
        return Ok(text);
    }
    let known = list_stored_output_handles();
    let known = if known.is_empty() {
        "none".to_owned()
    } else {
        known.join(", ")
    };
    Err(Error::NotFound(format!(
        "there is no stored output {handle:?}; the stored outputs are: {known}"
    )))
}

/// Returns the handles of all stored texts, the oldest first.
pub(crate) fn list_stored_output_handles() -> Vec<String> {
    let handle = |key: &String| {
        format!(
            "out-{}",
            key[OUTPUT_STATE_KEY_PREFIX.len()..].trim_start_matches('0')
        )
    };
    state::keys(OUTPUT_STATE_KEY_PREFIX)
        .iter()
        .map(handle)
        .collect()
}

fn output_key(number: u64) -> String {
    format!("{OUTPUT_STATE_KEY_PREFIX}{number:010}")
}
