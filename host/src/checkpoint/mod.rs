//! Checkpoints: save the state of workspace files before calls change them, and restore it.
//!
//! Owns the folder `checkpoints` in the folder of a session: the contents of files, a record for
//! each call that changed files, and the last snapshot of the workspace. File tools report each
//! write; for other calls the states of the workspace before and after the call are compared. The
//! module must not know the conversation, nor how a user is asked.
//!
//! Invariants: contents and the beginning of a record are on disk before a change begins. A path
//! that changed after the last call is restored only on explicit request. Nothing outside the
//! workspace is read or written, and no symlink is followed.
//!
//! Start from [`SessionCheckpoints`]; to read a session that may not be open, use
//! [`CheckpointReader`].

mod config;
mod contents;
mod keeper;
mod look;
mod plan;
mod record;
mod restore;
mod rewind;
mod snapshot;
mod state;
mod store;
mod write;

pub use config::CheckpointConfig;
pub use keeper::{
    CHECKPOINTS_FOLDER_NAME, FileChangeOrigin, SessionCheckpointSpec, SessionCheckpoints,
    SnapshotTrackedToolCall,
};
pub use look::CheckpointReader;
pub use plan::UncertainRestoreReason;
pub use record::{ChangeRecord, ChangeRecordOutcome, ChangeSource, FileChange, LeftOutFiles};
pub use rewind::{FileRewindPlan, FileRewindResult, PlannedRewindChange, UnrestorableFileChange};
pub use state::{ContentNotStoredReason, FileStamp, FileState};
pub use write::CallFileChangeRecorder;

use std::io;
use std::path::PathBuf;

/// Error while reading checkpoints or restoring files.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The files of the checkpoints, or a file of the workspace, cannot be read or written.
    #[error("the checkpoints in {} cannot be used", path.display())]
    Io {
        /// Path of the folder that contains the checkpoints.
        path: PathBuf,
        /// Error that the operating system reported.
        #[source]
        source: io::Error,
    },
    /// The checkpoints cannot be opened, or a call of the session is running.
    #[error(
        "files cannot be restored: the checkpoints in {} cannot be opened, or a call is running",
        _0.display()
    )]
    Unavailable(PathBuf),
}
