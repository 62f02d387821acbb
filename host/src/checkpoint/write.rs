//! Reports the file changes of one call, by a file tool or a plugin, to the checkpoints.

use std::sync::Arc;

use super::keeper::{FileChangeOrigin, SessionCheckpoints};
use crate::point::handle::FileChangeRecorder;

/// Recorder to which a file tool reports each write of one tool call.
#[derive(Clone, Debug)]
pub struct CallFileChangeRecorder {
    /// Checkpoints of the session, in which the changes are recorded.
    pub checkpoints: Arc<SessionCheckpoints>,
    /// Turn, id and tool of the call that makes the changes.
    pub origin: FileChangeOrigin,
}

impl FileChangeRecorder for CallFileChangeRecorder {
    fn begin_change(&self, path: &str, content: Option<&[u8]>) -> Option<u64> {
        self.checkpoints
            .begin_file_write(&self.origin, path, content)
    }

    fn end_change(&self, record: u64, is_done: bool) {
        self.checkpoints.end_file_write(record, is_done);
    }
}
