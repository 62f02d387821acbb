//! Reads the checkpoints of a session that may be open in another process.
//!
//! Start from [`CheckpointReader`].

use std::collections::BTreeSet;
use std::path::Path;

use super::Error;
use super::contents::FileContentStore;
use super::keeper::CHECKPOINTS_FOLDER_NAME;
use super::plan::build_path_histories;
use super::record::{ChangeRecord, ChangeSource, FileChange, read_records};
use super::state::FileState;

/// Read-only view of a session's checkpoints, for showing its file changes.
#[derive(Debug)]
pub struct CheckpointReader {
    records: Vec<ChangeRecord>,
    contents: Option<FileContentStore>,
}

impl CheckpointReader {
    /// Reads the checkpoints in the folder of a session. A session without checkpoints has no
    /// records.
    ///
    /// # Errors
    /// A checkpoint file exists but cannot be read.
    pub fn open(session: &Path) -> Result<Self, Error> {
        let folder = session.join(CHECKPOINTS_FOLDER_NAME);
        let failed = |source| Error::Io {
            path: folder.clone(),
            source,
        };
        Ok(Self {
            records: read_records(&folder).map_err(failed)?,
            contents: FileContentStore::open_read_only(&folder).map_err(failed)?,
        })
    }

    /// Returns the numbers of the turns in which tool calls changed files or may have changed them.
    #[must_use]
    pub fn turns_with_file_changes(&self) -> Vec<u32> {
        let of_calls = self.records.iter().filter(|own| is_tool_call_record(own));
        let turns: BTreeSet<u32> = of_calls
            .filter(|own| !own.changes.is_empty() || own.unknown.is_some())
            .map(|own| own.turn)
            .collect();
        turns.into_iter().collect()
    }

    /// Returns the records of the tool calls of a turn, oldest first. A call that changed no file
    /// may have a record, too.
    pub fn records_of_turn(&self, turn: u32) -> impl Iterator<Item = &ChangeRecord> {
        let of_calls = self.records.iter().filter(|own| is_tool_call_record(own));
        of_calls.filter(move |own| own.turn == turn)
    }

    /// Returns the changes of a turn: one for each path, from its first to its last state.
    #[must_use]
    pub fn turn_changes(&self, turn: u32) -> Vec<FileChange> {
        let is_wanted = |record: &ChangeRecord| is_tool_call_record(record) && record.turn == turn;
        let histories = build_path_histories(&self.records, is_wanted).into_iter();
        let change = histories.filter_map(|(path, history)| {
            let after = history.last_recorded_state()?.clone();
            (after != history.target).then(|| FileChange {
                path: path.to_owned(),
                before: history.target,
                after,
            })
        });
        change.collect()
    }

    /// Returns the content of a file; `None` if the content is corrupt or was not stored.
    #[must_use]
    pub fn file_content(&self, state: &FileState) -> Option<Vec<u8>> {
        self.contents.as_ref()?.get(state.content_digest()?)
    }
}

fn is_tool_call_record(record: &ChangeRecord) -> bool {
    record.source != ChangeSource::Rewind
}
