//! Passes the writes of one call of a file tool to the checkpoints.

use std::sync::Arc;

use super::keeper::{CallOrigin, Checkpoints};
use crate::tool::workspace::WriteRecorder;

/// Writes of one call.
#[derive(Clone, Debug)]
pub struct CallWrites {
    /// Checkpoints of the session.
    pub checkpoints: Arc<Checkpoints>,
    /// The call.
    pub origin: CallOrigin,
}

impl WriteRecorder for CallWrites {
    fn begin_write(&self, path: &str, content: &[u8]) -> Option<u64> {
        self.checkpoints.begin_write(&self.origin, path, content)
    }

    fn end_write(&self, record: u64, is_done: bool) {
        self.checkpoints.end_write(record, is_done);
    }
}
