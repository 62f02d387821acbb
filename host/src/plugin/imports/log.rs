//! `rind:plugin/log`: log lines, with limits on length and number, and with control characters
//! escaped.

use std::sync::atomic::Ordering;

use super::super::bindings::rind::plugin::{log, types};
use super::super::host::HostState;
use super::super::sanitize::GuestTextSanitizer;
use crate::point::outcome::Level;

/// Maximum length of a line that a plugin logs, in bytes.
pub(super) const MAX_LOG_LINE_BYTES: usize = 4096;

/// Maximum number of lines per plugin and session; after that, one warning is logged and further
/// lines are dropped.
pub(in super::super) const MAX_LOG_LINES_PER_SESSION: u32 = 1000;

impl log::Host for HostState {
    async fn write(&mut self, level: types::Level, text: String) -> wasmtime::Result<()> {
        let backing = &self.backing;
        let left =
            backing
                .log_lines_left
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                    left.checked_sub(1)
                });
        match left {
            Ok(1) => backing.handle.write_log_line(
                &backing.plugin,
                Level::Warn,
                &format!(
                    "more than {MAX_LOG_LINES_PER_SESSION} log lines in one session; further lines are dropped"
                ),
            ),
            Ok(_) => backing.handle.write_log_line(
                &backing.plugin,
                level,
                &GuestTextSanitizer::for_current_guest_call(self, "log").sanitize_line(
                    "line",
                    &text,
                    MAX_LOG_LINE_BYTES,
                ),
            ),
            Err(_) => {}
        }
        Ok(())
    }
}
