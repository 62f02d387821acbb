//! Reports the file changes of one call, by a file tool or a plugin, to the checkpoints.

use std::sync::Arc;

use super::keeper::{CallOrigin, Checkpoints};
use crate::point::handle::FileChangeRecorder;

/// Recorder for the file changes of one call.
#[derive(Clone, Debug)]
pub struct CallFileRecorder {
    /// Checkpoints of the session.
    pub checkpoints: Arc<Checkpoints>,
    /// Turn, id and tool of the call.
    pub origin: CallOrigin,
}

impl FileChangeRecorder for CallFileRecorder {
    fn begin_change(&self, path: &str, content: Option<&[u8]>) -> Option<u64> {
        self.checkpoints
            .begin_file_write(&self.origin, path, content)
    }

    fn end_change(&self, record: u64, is_done: bool) {
        self.checkpoints.end_file_write(record, is_done);
    }
}
