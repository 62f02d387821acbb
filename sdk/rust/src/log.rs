//! Writes lines to the host's log, which the operator reads. Lines of [`debug`] are for the author
//! of the plugin.

use crate::types::Level;
use std::fmt::Display;

/// Writes one line. Pass `format_args!("…")` or anything that can be displayed.
pub fn write(level: Level, text: impl Display) {
    let text = text.to_string();
    #[cfg(target_family = "wasm")]
    crate::bindings::rind::plugin::log::write(level, &text);
    #[cfg(not(target_family = "wasm"))]
    crate::testing::push_log(level, text);
}

/// Writes a line for the author of the plugin.
pub fn debug(text: impl Display) {
    write(Level::Debug, text);
}

/// Writes a line that an operator may want to read.
pub fn info(text: impl Display) {
    write(Level::Info, text);
}

/// Writes a line about something that looks wrong.
pub fn warn(text: impl Display) {
    write(Level::Warn, text);
}

/// Writes a line about a failure.
pub fn error(text: impl Display) {
    write(Level::Error, text);
}
