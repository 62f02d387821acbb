//! The section `[agent.checkpoint]` of the settings.

use serde::Deserialize;

use crate::config::number;

/// Settings for checkpoints: whether file contents are kept before calls change them, so that
/// `/undo` and `/rewind` can restore them, and how much of a workspace is kept before a command.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CheckpointConfig {
    /// Whether the host keeps the contents of files before a call changes them.
    pub enabled: bool,
    /// Maximum number of files and folders of a snapshot. In a larger workspace, changes by
    /// commands are not kept; those by file tools are.
    #[serde(deserialize_with = "number::within::<1, 200_000, _, _>")]
    pub max_files: usize,
    /// Largest file that a snapshot keeps, in bytes.
    #[serde(deserialize_with = "number::within::<1, 0x4000_0000, _, _>")]
    pub max_file_bytes: u64,
    /// Maximum size of all files that a snapshot keeps, in bytes.
    #[serde(deserialize_with = "number::within::<1, 0x10_0000_0000, _, _>")]
    pub max_total_bytes: u64,
    /// Maximum number of bytes that a session keeps for its checkpoints.
    #[serde(deserialize_with = "number::within::<1, 0x10_0000_0000, _, _>")]
    pub max_session_bytes: u64,
    /// Longest time for a snapshot, in seconds. A workspace that takes longer is treated as too
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
