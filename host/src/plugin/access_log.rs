//! Records a plugin's failed and refused file accesses, up to a limit per session; the last record
//! says that further accesses are not recorded.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::host::SharedPluginState;
use crate::point::trace::{AccessOutcome, AccessRecord, Origin, Reached};
use crate::text::escape_and_truncate_line;

/// Maximum number of file access records per plugin and session. A guest that searches for one file
/// under many paths leaves a record for each path.
pub(super) const MAX_FILE_ACCESS_RECORDS: u32 = 200;

/// Maximum length in bytes of the target and of the reason of a record.
const MAX_ACCESS_RECORD_TEXT_BYTES: usize = 256;

/// Recorder of failed and refused file accesses of one plugin in one call.
#[derive(Clone)]
pub(super) struct FailedFileAccessRecorder {
    pub(super) backing: Arc<SharedPluginState>,
    pub(super) origin: Origin,
}

impl FailedFileAccessRecorder {
    /// Records one failed or refused file access. If the limit is reached, records instead that
    /// further accesses are not recorded. `target` is a verb and a path, for example `read
    /// notes.txt`.
    pub(super) fn record_failed_file_access(
        &self,
        target: &str,
        outcome: AccessOutcome,
        reason: &str,
    ) {
        let left = &self.backing.file_records_left;
        let left = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
        let (target, reason) = match left {
            Ok(1) => (
                "further files".to_owned(),
                format!(
                    "more than {MAX_FILE_ACCESS_RECORDS} file accesses failed in this session; further ones are not recorded"
                ),
            ),
            Ok(_) => (
                escape_and_truncate_line(target, MAX_ACCESS_RECORD_TEXT_BYTES),
                escape_and_truncate_line(reason, MAX_ACCESS_RECORD_TEXT_BYTES),
            ),
            Err(_) => return,
        };
        self.backing.handle.record_access(AccessRecord {
            plugin: self.backing.plugin.clone(),
            reached: Reached::Files,
            target,
            outcome,
            reason: Some(reason),
            origin: self.origin.clone(),
        });
    }
}
