//! `rind:plugin/status`: one status line per plugin.

use super::super::bindings::rind::plugin::status;
use super::super::host::HostState;
use super::super::sanitize::GuestTextSanitizer;
use crate::lock::lock_ignoring_poison;

/// Maximum length of a plugin's status line, in characters.
pub(super) const MAX_STATUS_LINE_CHARS: usize = 80;

/// Maximum number of times that a plugin may change its status line before the count is reset;
/// further changes are ignored.
pub(in super::super) const MAX_STATUS_LINE_CHANGES: u32 = 1_000;

#[derive(Debug, Default)]
pub(in super::super) struct PluginStatusLine {
    text: String,
    n_changes: u32,
}

impl PluginStatusLine {
    /// Resets the count of status changes, which [`MAX_STATUS_LINE_CHANGES`] limits.
    pub(in super::super) fn reset_change_count(&mut self) {
        self.n_changes = 0;
    }
}

impl status::Host for HostState {
    async fn set(&mut self, text: String) -> wasmtime::Result<()> {
        // A character has at most four bytes. Escaping may add characters, so truncate the escaped
        // text to the maximum again.
        let text = GuestTextSanitizer::for_current_guest_call(self, "status").sanitize_line(
            "line",
            &text,
            MAX_STATUS_LINE_CHARS * 4,
        );
        let text: String = text.chars().take(MAX_STATUS_LINE_CHARS).collect();
        let backing = &self.backing;
        let mut line = lock_ignoring_poison(&backing.status);
        if line.text == text || line.n_changes >= MAX_STATUS_LINE_CHANGES {
            return Ok(());
        }
        line.n_changes += 1;
        line.text.clone_from(&text);
        drop(line);
        backing.handle.status(&backing.plugin, text);
        Ok(())
    }
}
