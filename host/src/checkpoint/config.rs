//! The section `[agent.checkpoint]` of the settings.

use serde::Deserialize;

use crate::config::number;

/// Settings for checkpoints: whether file contents are saved before calls change them, so that
/// `/undo` and `/rewind` can restore them, and limits for the snapshot of the workspace before a
/// command.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CheckpointConfig {
    /// Whether the host saves the contents of files before a call changes them.
    pub enabled: bool,
    /// Maximum number of files and folders in a snapshot. In a larger workspace, changes by
    /// commands cannot be undone; those by file tools can.
    #[serde(deserialize_with = "number::within::<1, 200_000, _, _>")]
    pub max_files: usize,
    /// Maximum size of a file that a snapshot stores, in bytes.
    #[serde(deserialize_with = "number::within::<1, 0x4000_0000, _, _>")]
    pub max_file_bytes: u64,
    /// Maximum total size of the files that a snapshot stores, in bytes.
    #[serde(deserialize_with = "number::within::<1, 0x10_0000_0000, _, _>")]
    pub max_total_bytes: u64,
    /// Maximum total size of the file contents that a session stores for checkpoints, in bytes.
    #[serde(deserialize_with = "number::within::<1, 0x10_0000_0000, _, _>")]
    pub max_session_bytes: u64,
    /// Maximum time for a snapshot, in seconds. A workspace that takes longer is treated as too
    /// large.
    #[serde(deserialize_with = "number::within::<1, 600, _, _>")]
    pub max_seconds: u64,
}

impl Default for CheckpointConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            max_files: 20_000,
            max_file_bytes: 1 << 20,
            max_total_bytes: 64 << 20,
            max_session_bytes: 256 << 20,
            max_seconds: 5,
        }
    }
}
