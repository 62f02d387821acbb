//! Records a plugin's failed and refused accesses to files, up to a limit, then one record that says so.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::host::Backing;
use crate::point::trace::{AccessOutcome, AccessRecord, Origin, Reached};
use crate::text::clean;

/// Records about files of one plugin in one session. A guest that looks for a file in many places leaves one for each.
pub(super) const MAX_RECORDS: u32 = 200;

/// Longest target and longest reason, in bytes.
const MAX_TEXT_BYTES: usize = 256;

/// Leaves records for one plugin in one call.
#[derive(Clone)]
pub(super) struct AccessLog {
    pub(super) backing: Arc<Backing>,
    pub(super) origin: Origin,
}

impl AccessLog {
    /// One attempt to reach `target`, a verb and a path, did not work.
    pub(super) fn files(&self, target: &str, outcome: AccessOutcome, reason: &str) {
        let left = &self.backing.file_records_left;
        let left = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
        let (target, reason) = match left {
            Ok(1) => (
                "further files".to_owned(),
                format!(
                    "more than {MAX_RECORDS} attempts failed in this session; further ones are not recorded"
                ),
            ),
            Ok(_) => (clean(target, MAX_TEXT_BYTES), clean(reason, MAX_TEXT_BYTES)),
            Err(_) => return,
        };
        self.backing.handle.access(AccessRecord {
            plugin: self.backing.plugin.clone(),
            reached: Reached::Files,
            target,
            outcome,
            reason: Some(reason),
            origin: self.origin.clone(),
        });
    }
}
