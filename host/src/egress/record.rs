//! Writes one access record for each network request of a plugin.

use std::sync::Arc;

use super::PluginSessionEgress;
use super::error::Error;
use crate::point::handle::AgentHandle;
use crate::point::trace::{AccessOutcome, AccessRecord, Origin, Reached};
use crate::secret::SecretScanner;
use crate::text::escape_and_truncate_line;

/// Maximum length of a reason in a record, in bytes.
const MAX_RECORD_REASON_BYTES: usize = 500;

/// An access record that is not written yet. If it is dropped in this state, it is written as a
/// failure, because the plugin was stopped or gave up the request.
pub(super) struct UnwrittenAccessRecord {
    handle: Arc<dyn AgentHandle>,
    plugin: Arc<str>,
    origin: Origin,
    /// Target of the request; `None` once the record is written.
    target: Option<String>,
}

impl UnwrittenAccessRecord {
    /// Starts the record of a request whose target is not known yet.
    pub(super) fn start_record(egress: &PluginSessionEgress, origin: Origin, method: &str) -> Self {
        Self {
            handle: egress.handle.clone(),
            plugin: egress.shared.plugin.clone(),
            origin,
            // A URL that cannot be parsed may contain anything, so it is not recorded.
            target: Some(format!(
                "{} (not a URL)",
                escape_and_truncate_line(method, 16)
            )),
        }
    }

    /// Sets the target that the access record of the request shows.
    pub(super) fn set_target(&mut self, target: String) {
        self.target = Some(target);
    }

    /// Returns the target of the request whose access record is still open; `None` once the record
    /// was written.
    pub(super) fn target(&self) -> Option<String> {
        self.target.clone()
    }

    /// Writes the access record. [`UnwrittenAccessRecord::set_target`] then starts another one.
    pub(super) fn write_record(&mut self, error: Option<&Error>) {
        match error {
            None => self.emit_access_record(AccessOutcome::Done, None),
            Some(error) => {
                let reason = escape_and_truncate_line(&error.text, MAX_RECORD_REASON_BYTES);
                self.emit_access_record(error.to_access_outcome(), Some(reason));
            }
        }
    }

    /// Writes the record of a completed access, with a remark.
    pub(super) fn write_completed_with_remark(&mut self, remark: String) {
        self.emit_access_record(AccessOutcome::Done, Some(remark));
    }

    pub(super) fn discard_record(&mut self) {
        self.target = None;
    }

    fn emit_access_record(&mut self, outcome: AccessOutcome, reason: Option<String>) {
        let Some(target) = self.target.take() else {
            return;
        };
        self.handle.record_access(AccessRecord {
            plugin: self.plugin.clone(),
            reached: Reached::Network,
            // A path may contain a token. If the request is refused because of that token, the
            // record must not contain it.
            target: SecretScanner::shared().to_masked_text(&target).into_owned(),
            outcome,
            reason: reason.map(|text| SecretScanner::shared().to_masked_text(&text).into_owned()),
            origin: self.origin.clone(),
        });
    }
}

impl Drop for UnwrittenAccessRecord {
    fn drop(&mut self) {
        let reason = "the call of the plugin ended before the request did";
        self.emit_access_record(AccessOutcome::Failed, Some(reason.to_owned()));
    }
}
