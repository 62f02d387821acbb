//! A line of status of the plugin's own, shown beside its name.

/// Sets the line, at most 80 characters; an empty text takes it away.
pub fn set(text: &str) {
    #[cfg(target_family = "wasm")]
    crate::bindings::rind::plugin::status::set(text);
    #[cfg(not(target_family = "wasm"))]
    crate::testing::set_status(text);
}
