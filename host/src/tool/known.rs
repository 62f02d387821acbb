//! Tracks the files that an agent knows: the version that its model read or wrote, and the lines
//! that were shown to the model.
//!
//! The model may overwrite a whole file only if it was shown all of it and the file has not changed
//! since. Otherwise the work of a person, a command or another agent would be lost silently. Each
//! agent has its own memory: a subagent must read files itself. The memory is not stored in the
//! session: after a resume every file counts as unread, because the files were not watched
//! meanwhile. This module must not know how files are read or written. Start from
//! [`FilesSeenByModel`].

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use crate::lock::lock_ignoring_poison;

/// Maximum number of known files of an agent. Beyond it, all are forgotten, and files must be read
/// again.
const MAX_KNOWN_FILES_PER_AGENT: usize = 10_000;

/// Maximum number of line ranges shown, and of edits, per file. Beyond it, the file must be read
/// again.
const MAX_SHOWN_RANGES_PER_FILE: usize = 256;

/// Version of a file's content, by which a change of the file is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileContentVersion {
    /// BLAKE3 hash of the file's content.
    Content(blake3::Hash),
    /// Attributes of a file that is too large to hash at every check.
    Stamp {
        inode: u64,
        bytes: u64,
        modified_ns: i128,
        changed_ns: i128,
    },
}

impl FileContentVersion {
    pub(super) fn from_content(content: &[u8]) -> Self {
        Self::Content(blake3::hash(content))
    }
}

/// Lines of a file that a tool call has read for the model.
#[derive(Clone, Debug)]
pub(super) struct FileLinesReadByCall {
    pub(super) version: FileContentVersion,
    /// First and last line that the call read, from 1; `None` if it read no complete line.
    pub(super) lines: Option<(u64, u64)>,
    /// Number of lines of the file, if the call read to its end.
    pub(super) n_lines: Option<u64>,
}

/// A call that has read or changed a file and whose result the model has not received yet.
enum PendingFileToolCall {
    Read {
        reading: FileLinesReadByCall,
        text: ReturnedTextFingerprint,
    },
    Wrote {
        version: FileContentVersion,
        n_lines: u64,
    },
    Edited {
        version: FileContentVersion,
    },
}

/// Length in bytes and hash of the text that a tool returned. Limits or hooks may remove parts of
/// the text before the model gets it.
struct ReturnedTextFingerprint {
    bytes: usize,
    hash: blake3::Hash,
}

impl ReturnedTextFingerprint {
    fn is_contained_in(&self, text: &str) -> bool {
        let begin = text.as_bytes().get(..self.bytes);
        begin.is_some_and(|begin| blake3::hash(begin) == self.hash)
    }
}

/// Turn and step of a call. The model wrote all calls of a step before it saw any of their results.
pub(super) type TurnAndStep = (u32, u32);

struct ShownLineRange {
    first: u64,
    last: u64,
    call: Arc<str>,
    /// Step of the call that read the lines; `None` if the model wrote them itself.
    read_in: Option<TurnAndStep>,
}

struct FileSeenByModel {
    version: FileContentVersion,
    shown: Vec<ShownLineRange>,
    n_lines: Option<u64>,
    /// Ids of the calls that edited the file since its lines were shown to the model.
    edits: Vec<Arc<str>>,
}

/// Reason why a tool may not write to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileWriteRefusal {
    /// The file exists, and this agent has not read it.
    Unread,
    /// The file changed since this agent read or wrote it.
    Changed,
    /// Some lines of the file are not in the conversation.
    Partly,
    /// The file was read in the same step as the write.
    SameStep,
}

#[derive(Default)]
struct FilesSeenByModelState {
    /// Known files, by path relative to the workspace with symlinks resolved.
    files: HashMap<String, FileSeenByModel>,
    /// Calls whose results the model has not received yet, by call id, each with the path of the
    /// file that the call used and with what it did with the file.
    pending: HashMap<Arc<str>, (String, PendingFileToolCall)>,
}

/// Files that one agent has read or written, with the lines that its model was shown.
#[derive(Default)]
pub struct FilesSeenByModel(Mutex<FilesSeenByModelState>);

impl std::fmt::Debug for FilesSeenByModel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FilesSeenByModel").finish_non_exhaustive()
    }
}

impl FilesSeenByModel {
    /// Records that a call read lines and returned `text`. The record takes effect when the call is
    /// [ended](Self::record_call_end).
    pub(super) fn record_file_read(
        &self,
        call: &Arc<str>,
        path: String,
        reading: FileLinesReadByCall,
        text: &str,
    ) {
        let text = ReturnedTextFingerprint {
            bytes: text.len(),
            hash: blake3::hash(text.as_bytes()),
        };
        self.record_pending_call(call, path, PendingFileToolCall::Read { reading, text });
    }

    /// Records that a call wrote a whole file.
    pub(super) fn record_file_written(
        &self,
        call: &Arc<str>,
        path: String,
        version: FileContentVersion,
        n_lines: u64,
    ) {
        self.record_pending_call(call, path, PendingFileToolCall::Wrote { version, n_lines });
    }

    /// Records that a call changed a part of a file.
    pub(super) fn record_partial_edit(
        &self,
        call: &Arc<str>,
        path: String,
        version: FileContentVersion,
    ) {
        self.record_pending_call(call, path, PendingFileToolCall::Edited { version });
    }

    fn record_pending_call(&self, call: &Arc<str>, path: String, pending: PendingFileToolCall) {
        let mut inner = lock_ignoring_poison(&self.0);
        if inner.pending.len() >= MAX_KNOWN_FILES_PER_AGENT {
            inner.pending.clear();
        }
        inner.pending.insert(call.clone(), (path, pending));
    }

    /// Adds the lines that a call has read, or the file that it has written, to the known files
    /// when the call has ended. Ignores a call that was not recorded. `result` is the text that the
    /// model gets. `is_changed` means that hooks changed the call's arguments.
    pub fn record_call_end(&self, call: &str, step: (u32, u32), result: &str, is_changed: bool) {
        let mut inner = lock_ignoring_poison(&self.0);
        let Some((call, (path, pending))) = inner.pending.remove_entry(call) else {
            return;
        };
        if inner.files.len() >= MAX_KNOWN_FILES_PER_AGENT {
            inner.files.clear();
        }
        let known = inner.files.remove(&path);
        let known = match pending {
            PendingFileToolCall::Read { reading, text } => {
                let is_shown = text.is_contained_in(result);
                update_seen_file_lines(known, reading, is_shown, call, step)
            }
            PendingFileToolCall::Wrote { version, n_lines } => {
                let whole = ShownLineRange {
                    first: 1,
                    last: n_lines,
                    call,
                    read_in: None,
                };
                FileSeenByModel {
                    version,
                    shown: if is_changed { Vec::new() } else { vec![whole] },
                    n_lines: Some(n_lines),
                    edits: Vec::new(),
                }
            }
            PendingFileToolCall::Edited { version } => {
                let mut known = known.unwrap_or(FileSeenByModel {
                    version,
                    shown: Vec::new(),
                    n_lines: None,
                    edits: Vec::new(),
                });
                known.version = version;
                known.edits.push(call);
                // An edit shifts later line numbers, so a file that was not shown completely must
                // be read again.
                if is_changed
                    || known.edits.len() > MAX_SHOWN_RANGES_PER_FILE
                    || !known.has_shown_all_lines(|_| true)
                {
                    known.shown.clear();
                }
                known
            }
        };
        inner.files.insert(path, known);
    }

    /// Forgets lines that are no longer in the conversation, because compaction, archiving or
    /// `/undo` removed the result of the call. `is_there` returns whether the conversation contains
    /// the result of the call with this id.
    pub fn forget_lines_outside_conversation(&self, is_there: impl Fn(&str) -> bool) {
        for known in lock_ignoring_poison(&self.0).files.values_mut() {
            if known.edits.iter().any(|call| !is_there(call)) {
                known.shown.clear();
            }
            known.shown.retain(|range| is_there(&range.call));
        }
    }

    /// Checks that a call of this step may overwrite a whole file. `now` is the file's present
    /// version.
    pub(super) fn check_overwrite(
        &self,
        path: &str,
        now: FileContentVersion,
        step: TurnAndStep,
    ) -> Result<(), FileWriteRefusal> {
        let inner = lock_ignoring_poison(&self.0);
        let known = inner.files.get(path).ok_or(FileWriteRefusal::Unread)?;
        if known.version != now {
            return Err(FileWriteRefusal::Changed);
        }
        if !known.has_shown_all_lines(|_| true) {
            return Err(FileWriteRefusal::Partly);
        }
        match known.has_shown_all_lines(|range| range.read_in != Some(step)) {
            true => Ok(()),
            false => Err(FileWriteRefusal::SameStep),
        }
    }

    /// Checks that a call may replace a part of a file. The file need not have been read: the call
    /// itself contains all of the replaced text, so no unknown text is lost.
    pub(super) fn check_edit(
        &self,
        path: &str,
        now: FileContentVersion,
    ) -> Result<(), FileWriteRefusal> {
        let inner = lock_ignoring_poison(&self.0);
        match inner.files.get(path) {
            Some(known) if known.version != now => Err(FileWriteRefusal::Changed),
            _ => Ok(()),
        }
    }
}

fn update_seen_file_lines(
    before: Option<FileSeenByModel>,
    reading: FileLinesReadByCall,
    is_shown: bool,
    call: Arc<str>,
    step: TurnAndStep,
) -> FileSeenByModel {
    let is_whole = reading
        .lines
        .is_some_and(|(first, last)| first == 1 && Some(last) == reading.n_lines);
    let same = before.filter(|known| known.version == reading.version);
    let mut known = match same {
        // If the model already knows the complete file, a read of a part of it changes nothing.
        Some(known) if known.has_shown_all_lines(|_| true) && !is_whole => return known,
        Some(known) if known.edits.is_empty() => known,
        _ => FileSeenByModel {
            version: reading.version,
            shown: Vec::new(),
            n_lines: None,
            edits: Vec::new(),
        },
    };
    known.n_lines = reading.n_lines.or(known.n_lines);
    if known.shown.len() >= MAX_SHOWN_RANGES_PER_FILE {
        known.shown.clear();
    }
    if let Some((first, last)) = reading.lines.filter(|_| is_shown) {
        known.shown.push(ShownLineRange {
            first,
            last,
            call,
            read_in: Some(step),
        });
    }
    known
}

impl FileSeenByModel {
    /// Whether the shown line ranges together cover all lines of the file. Ignores the ranges for
    /// which `counts` returns false.
    fn has_shown_all_lines(&self, counts: impl Fn(&ShownLineRange) -> bool) -> bool {
        let Some(n_lines) = self.n_lines else {
            return false;
        };
        let mut ranges: Vec<&ShownLineRange> =
            self.shown.iter().filter(|range| counts(range)).collect();
        ranges.sort_by_key(|range| range.first);
        let mut next = 1;
        for range in ranges {
            if range.first > next {
                return false;
            }
            next = next.max(range.last + 1);
        }
        next > n_lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "text";

    fn version(content: &str) -> FileContentVersion {
        FileContentVersion::from_content(content.as_bytes())
    }

    fn read(
        known: &FilesSeenByModel,
        call: &str,
        lines: (u64, u64),
        n_lines: Option<u64>,
        step: TurnAndStep,
    ) {
        let reading = FileLinesReadByCall {
            version: version("v1"),
            lines: Some(lines),
            n_lines,
        };
        known.record_file_read(&call.into(), "f".to_owned(), reading, TEXT);
        known.record_call_end(call, step, TEXT, false);
    }

    #[test]
    fn a_file_is_known_once_all_its_lines_were_shown() {
        let known = FilesSeenByModel::default();
        let check = |step| known.check_overwrite("f", version("v1"), step);
        assert_eq!(check((1, 1)), Err(FileWriteRefusal::Unread));
        read(&known, "a", (1, 5), None, (1, 1));
        assert_eq!(check((1, 2)), Err(FileWriteRefusal::Partly));
        read(&known, "b", (7, 9), Some(9), (1, 2));
        assert_eq!(check((1, 3)), Err(FileWriteRefusal::Partly));
        read(&known, "c", (6, 6), None, (1, 3));
        assert_eq!(check((1, 3)), Err(FileWriteRefusal::SameStep));
        assert_eq!(check((2, 1)), Ok(()));
        let other = known.check_overwrite("f", version("v2"), (2, 1));
        assert_eq!(other, Err(FileWriteRefusal::Changed));
        assert_eq!(
            known.check_edit("f", version("v2")),
            Err(FileWriteRefusal::Changed)
        );
        assert_eq!(known.check_edit("unread", version("v2")), Ok(()));
    }

    #[test]
    fn text_that_the_model_does_not_have_does_not_count() {
        let known = FilesSeenByModel::default();
        let check = |content| known.check_overwrite("f", version(content), (9, 9));
        read(&known, "a", (1, 5), Some(5), (1, 1));
        known.forget_lines_outside_conversation(|call| call != "a");
        assert_eq!(check("v1"), Err(FileWriteRefusal::Partly));

        let reading = FileLinesReadByCall {
            version: version("v1"),
            lines: Some((1, 5)),
            n_lines: Some(5),
        };
        known.record_file_read(&"b".into(), "f".to_owned(), reading, "key=123");
        known.record_call_end("b", (1, 2), "key=[masked]", false);
        assert_eq!(check("v1"), Err(FileWriteRefusal::Partly));

        known.record_file_written(&"c".into(), "f".to_owned(), version("v2"), 1);
        known.record_call_end("c", (1, 3), "", false);
        assert_eq!(check("v2"), Ok(()));
        known.record_partial_edit(&"d".into(), "f".to_owned(), version("v3"));
        known.record_call_end("d", (1, 4), "", false);
        assert_eq!(check("v3"), Ok(()));
        known.forget_lines_outside_conversation(|call| call != "d");
        assert_eq!(check("v3"), Err(FileWriteRefusal::Partly));

        known.record_file_written(&"e".into(), "f".to_owned(), version("v4"), 1);
        known.record_call_end("e", (1, 5), "", true);
        assert_eq!(check("v4"), Err(FileWriteRefusal::Partly));
    }
}
