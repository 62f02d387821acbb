//! Asks the user at the terminal: yes or no, one of several options, or a line of text. Never ask
//! for a secret.
//!
//! If no user can be asked, the functions return the argument `default`: pass the answer that is
//! right without supervision.

use crate::types::Error;

#[cfg(target_family = "wasm")]
use crate::bindings::rind::plugin::ask as host;
#[cfg(not(target_family = "wasm"))]
use crate::testing::ask as host;

/// Asks for a yes or a no.
///
/// # Errors
/// When the turn was interrupted, or the plugin asked too often.
pub fn confirm(text: &str, default: bool) -> Result<bool, Error> {
    host::confirm(text, default)
}

/// Asks the user to choose one of 2 to 9 options, and returns its index from 0.
///
/// # Errors
/// As [`confirm`], and when there are too few or too many options.
pub fn choose(text: &str, options: &[String], default: u32) -> Result<u32, Error> {
    host::choose(text, options, default)
}

/// Asks for a line of text.
///
/// # Errors
/// As [`confirm`], and when the typed text looks like a secret.
pub fn text(text: &str, default: &str) -> Result<String, Error> {
    host::text(text, default)
}
