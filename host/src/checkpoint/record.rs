//! Records of calls that changed files, in an append-only file of JSON lines.
//!
//! A record has two lines: the first is written before anything changes, and the second ends the
//! record. A record without a second line belongs to a call or rewind that is running or was
//! interrupted. The module must not know how changes are found or restored. Start from
//! [`ChangeRecord`] and [`FileChangeLog`].

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::state::{ContentNotStoredReason, FileState};
use crate::session::{open_guarded, set_private_permissions};

/// Name of the file in the checkpoint folder that records changes of files.
pub(super) const FILE_CHANGES_FILE_NAME: &str = "changes.jsonl";

/// Change of one path by a tool call or a rewind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileChange {
    /// Path relative to the workspace, without symlinks in its folders.
    pub path: String,
    /// State of the path before the change.
    pub before: FileState,
    /// State of the path after the change.
    pub after: FileState,
}

/// Method by which a change of files was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChangeSource {
    /// A file tool reported that it wrote the file.
    Write,
    /// The host compared snapshots of the workspace from before and after the call.
    Snapshot,
    /// The user restored earlier states of files with a rewind.
    Rewind,
}

/// Way in which a record ended, which tells whether the changes were made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChangeRecordOutcome {
    /// The recorded changes were made.
    Done,
    /// No change was made, so the record has no effect.
    Void,
    /// The call was interrupted, and its changes were found later, so another program may have made
    /// some of them.
    Interrupted,
}

/// Number of files whose contents a snapshot did not store for the same reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOutFiles {
    /// Reason why the snapshot does not contain the contents of these files.
    pub why: ContentNotStoredReason,
    /// Number of files that were left out for this reason.
    pub count: usize,
}

/// Record of a call that changed files, or may have changed some.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChangeRecord {
    /// Number of the record within its session, from 1.
    pub id: u64,
    /// Turn of the main agent in which the call ran.
    pub turn: u32,
    /// Time at which the call started, in milliseconds since 1970.
    pub time: i64,
    /// Id of the tool call; `None` for a rewind.
    pub call: Option<String>,
    /// Name of the called tool.
    pub tool: String,
    /// Method by which the host found the changes of the call.
    pub source: ChangeSource,
    /// Changes that the call made, sorted by path.
    pub changes: Vec<FileChange>,
    /// End of the call; `None` while it runs, or if the process was killed before it recorded the
    /// end.
    pub end: Option<ChangeRecordOutcome>,
    /// Files whose content the snapshot did not store, by reason.
    pub left_out: Vec<LeftOutFiles>,
    /// Reason why there is no snapshot of the workspace; the changes of the call are then unknown.
    pub unknown: Option<String>,
}

impl ChangeRecord {
    /// Whether the record has an end, so that its changes are final and not only planned.
    #[must_use]
    pub fn has_outcome(&self) -> bool {
        self.end.is_some()
    }
}

/// Line of the file that stores the records of a session.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "kebab-case")]
enum ChangeLogLine {
    Begin {
        id: u64,
        turn: u32,
        time: i64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call: Option<String>,
        tool: String,
        source: ChangeSource,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        changes: Vec<FileChange>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        left_out: Vec<LeftOutFiles>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        unknown: Option<String>,
    },
    End {
        id: u64,
        end: ChangeRecordOutcome,
        /// Changes that were made; absent if they are the planned ones.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        changes: Option<Vec<FileChange>>,
    },
}

/// Data of the line that is written when a call starts.
#[derive(Clone, Debug)]
pub(super) struct ChangeRecordStartData {
    pub(super) turn: u32,
    pub(super) call: Option<String>,
    pub(super) tool: String,
    pub(super) source: ChangeSource,
    pub(super) changes: Vec<FileChange>,
    pub(super) left_out: Vec<LeftOutFiles>,
    pub(super) unknown: Option<String>,
}

/// The open file of change records, and the records in it.
#[derive(Debug)]
pub(super) struct FileChangeLog {
    file: File,
    len: u64,
    pub(super) records: Vec<ChangeRecord>,
}

impl FileChangeLog {
    /// Opens the file in `folder` that contains the records of changes. Only one process may have
    /// it open for writing.
    pub(super) fn open(folder: &Path) -> io::Result<Self> {
        let path = folder.join(FILE_CHANGES_FILE_NAME);
        let mut options = OpenOptions::new();
        set_private_permissions(options.read(true).write(true).create(true).truncate(false));
        let (mut file, _) = open_guarded(&path, &mut options)?;
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        // Drop an incomplete last line, left by a process that was killed while it wrote.
        let len = text.iter().rposition(|byte| *byte == b'\n');
        let len = len.map_or(0, |at| at + 1);
        text.truncate(len);
        let len = len as u64;
        file.set_len(len)?;
        file.seek(SeekFrom::Start(len))?;
        let records = parse_records(&text);
        Ok(Self { file, len, records })
    }

    /// Appends the beginning of a record of changes and syncs it to disk. Returns the id of the
    /// record.
    pub(super) fn begin_record(&mut self, new: ChangeRecordStartData) -> io::Result<u64> {
        let last = self.records.iter().map(|record| record.id).max();
        let id = last.unwrap_or(0) + 1;
        self.append_line(&ChangeLogLine::Begin {
            id,
            turn: new.turn,
            time: crate::clock::now_ms(),
            call: new.call,
            tool: new.tool,
            source: new.source,
            changes: new.changes,
            left_out: new.left_out,
            unknown: new.unknown,
        })?;
        self.file.sync_data()?;
        Ok(id)
    }

    /// Writes the end of the record with the number `id`. `changes`, if present, replaces the
    /// changes that were planned when the record began.
    pub(super) fn end_record(
        &mut self,
        id: u64,
        end: ChangeRecordOutcome,
        changes: Option<Vec<FileChange>>,
    ) -> io::Result<()> {
        self.append_line(&ChangeLogLine::End { id, end, changes })
    }

    fn append_line(&mut self, line: &ChangeLogLine) -> io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        if let Err(error) = self.file.write_all(&text) {
            let _ = self.file.set_len(self.len);
            let _ = self.file.seek(SeekFrom::Start(self.len));
            return Err(error);
        }
        self.len += text.len() as u64;
        // Parse the line that was written, so that the records in memory always equal those in the
        // file.
        apply_change_log_lines(&mut self.records, &text);
        Ok(())
    }
}

/// Reads the records in `folder`, while another process may append to the file; empty if there is
/// no file.
pub(super) fn read_records(folder: &Path) -> io::Result<Vec<ChangeRecord>> {
    let path = folder.join(FILE_CHANGES_FILE_NAME);
    match open_guarded(&path, OpenOptions::new().read(true)) {
        Ok((mut file, _)) => {
            let mut text = Vec::new();
            file.read_to_end(&mut text)?;
            Ok(parse_records(&text))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

fn parse_records(text: &[u8]) -> Vec<ChangeRecord> {
    let mut records = Vec::new();
    apply_change_log_lines(&mut records, text);
    records
}

/// Applies lines of the record file to `records`: each begins or ends a record. A line that cannot
/// be parsed is skipped, because a later version of the program may have written it.
fn apply_change_log_lines(records: &mut Vec<ChangeRecord>, text: &[u8]) {
    let lines = text.split(|byte| *byte == b'\n');
    for line in lines.filter_map(|line| serde_json::from_slice(line).ok()) {
        match line {
            ChangeLogLine::Begin {
                id,
                turn,
                time,
                call,
                tool,
                source,
                changes,
                left_out,
                unknown,
            } => records.push(ChangeRecord {
                id,
                turn,
                time,
                call,
                tool,
                source,
                changes,
                end: None,
                left_out,
                unknown,
            }),
            ChangeLogLine::End { id, end, changes } => {
                let found = records.iter_mut().rev().find(|record| record.id == id);
                if let Some(record) = found {
                    record.end = Some(end);
                    if let Some(changes) = changes {
                        record.changes = changes;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_back_without_a_torn_line() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = FileChangeLog::open(folder.path()).unwrap();
        let new = |turn| ChangeRecordStartData {
            turn,
            call: Some("c".to_owned()),
            tool: "bash".to_owned(),
            source: ChangeSource::Snapshot,
            changes: Vec::new(),
            left_out: Vec::new(),
            unknown: None,
        };
        let change = FileChange {
            path: "a".to_owned(),
            before: FileState::Absent,
            after: FileState::Folder { mode: 0o755 },
        };
        let first = log.begin_record(new(1)).unwrap();
        let end = Some(vec![change.clone()]);
        log.end_record(first, ChangeRecordOutcome::Done, end)
            .unwrap();
        assert_eq!(log.begin_record(new(2)).unwrap(), 2);
        let records = log.records.clone();
        drop(log);
        let path = folder.path().join(FILE_CHANGES_FILE_NAME);
        let mut file = OpenOptions::new().append(true).open(path).unwrap();
        file.write_all(b"\x00 not json\n{\"line\":\"end\",\"id\":2,")
            .unwrap();
        let log = FileChangeLog::open(folder.path()).unwrap();
        assert_eq!(log.records, records);
        assert_eq!(log.records[0].changes, [change]);
        assert!(log.records[0].has_outcome() && !log.records[1].has_outcome());
    }
}
