//! Writes one access record for each request.

use std::sync::Arc;

use super::Egress;
use super::error::Error;
use crate::point::handle::AgentHandle;
use crate::point::trace::{AccessOutcome, AccessRecord, Origin, Reached};
use crate::secret::Scanner;
use crate::text::clean;

/// Longest reason in a record, in bytes.
const MAX_REASON_BYTES: usize = 500;

/// A record that is being made. One that is dropped open tells that the request was given up: the plugin was stopped, or gave
/// it up itself.
pub(super) struct Record {
    handle: Arc<dyn AgentHandle>,
    plugin: Arc<str>,
    origin: Origin,
    /// Target of the request; `None` once the record is made.
    target: Option<String>,
}

impl Record {
    /// Starts a record of a request whose target is not known yet.
    pub(super) fn open(egress: &Egress, origin: Origin, method: &str) -> Self {
        Self {
            handle: egress.handle.clone(),
            plugin: egress.shared.plugin.clone(),
            origin,
            // A URL that cannot be read may hold anything.
            target: Some(format!("{} (not a URL)", clean(method, 16))),
        }
    }

    /// Says what the request reaches for.
    pub(super) fn name(&mut self, target: String) {
        self.target = Some(target);
    }

    /// Ends the record; another can follow with [`Record::name`].
    pub(super) fn close(&mut self, error: Option<&Error>) {
        match error {
            None => self.record(AccessOutcome::Done, None),
            Some(error) => {
                let reason = clean(&error.text, MAX_REASON_BYTES);
                self.record(error.outcome(), Some(reason));
            }
        }
    }

    pub(super) fn forget(&mut self) {
        self.target = None;
    }

    fn record(&mut self, outcome: AccessOutcome, reason: Option<String>) {
        let Some(target) = self.target.take() else {
            return;
        };
        self.handle.access(AccessRecord {
            plugin: self.plugin.clone(),
            reached: Reached::Network,
            // A path may hold a token: that the request was refused for it must not write it down.
            target: masked(target),
            outcome,
            reason: reason.map(masked),
            origin: self.origin.clone(),
        });
    }
}

fn masked(text: String) -> String {
    match Scanner::shared().mask(&text) {
        Some(masked) => masked.text,
        None => text,
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        let reason = "the call of the plugin ended before the request did";
        self.record(AccessOutcome::Failed, Some(reason.to_owned()));
    }
}
