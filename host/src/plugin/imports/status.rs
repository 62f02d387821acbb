//! `rind:plugin/status`: a line of status of the plugin's own.

use super::super::bindings::rind::plugin::status;
use super::super::host::HostState;
use super::super::sanitize::Sanitizer;
use crate::lock::lock;

/// Longest line, in characters.
pub(super) const MAX_CHARS: usize = 80;

/// Changes of one plugin in one session; after that the line stays as it is.
pub(in super::super) const MAX_CHANGES: u32 = 1_000;

#[derive(Debug, Default)]
pub(in super::super) struct StatusLine {
    text: String,
    n_changes: u32,
}

impl StatusLine {
    /// Counts changes from the beginning again.
    pub(in super::super) fn renew(&mut self) {
        self.n_changes = 0;
    }
}

impl status::Host for HostState {
    async fn set(&mut self, text: String) -> wasmtime::Result<()> {
        // A character has four bytes at most, and an escaped one more; whoever shows it has 80 to show.
        let text = Sanitizer::of(self, "status").line("line", &text, MAX_CHARS * 4);
        let text: String = text.chars().take(MAX_CHARS).collect();
        let backing = &self.backing;
        let mut line = lock(&backing.status);
        if line.text == text || line.n_changes >= MAX_CHANGES {
            return Ok(());
        }
        line.n_changes += 1;
        line.text.clone_from(&text);
        drop(line);
        backing.handle.status(&backing.plugin, text);
        Ok(())
    }
}
