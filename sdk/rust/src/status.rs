//! Sets the plugin's status line, which is shown beside its name.

/// Sets the status line, at most 80 characters; an empty text removes it.
pub fn set(text: &str) {
    #[cfg(target_family = "wasm")]
    crate::bindings::rind::plugin::status::set(text);
    #[cfg(not(target_family = "wasm"))]
    crate::testing::set_status(text);
}
