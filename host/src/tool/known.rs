//! Tracks the files that an agent knows: the version that its model read or wrote, and the lines
//! that were shown to the model.
//!
//! The model may overwrite a whole file only if it was shown all of it and the file has not changed
//! since. Otherwise the work of a person, a command or another agent would be lost silently. Each
//! agent has its own memory: a subagent must read files itself. The memory is not stored in the
//! session: after a resume every file counts as unread, because the files were not watched
//! meanwhile. This module must not know how files are read or written. Start from [`KnownFiles`].

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use crate::lock::lock;

/// Maximum number of known files of an agent. Beyond it, all are forgotten, and files must be read
/// again.
const MAX_FILES: usize = 10_000;

/// Maximum number of line ranges shown, and of edits, per file. Beyond it, the file must be read
/// again.
const MAX_SHOWN: usize = 256;

/// Version of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileVersion {
    /// Hash of the content.
    Content(blake3::Hash),
    /// Attributes of a file that is too large to hash at every check.
    Stamp {
        inode: u64,
        bytes: u64,
        modified_ns: i128,
        changed_ns: i128,
    },
}

impl FileVersion {
    pub(super) fn from_content(content: &[u8]) -> Self {
        Self::Content(blake3::hash(content))
    }
}

/// Lines of a file that a tool call has read for the model.
#[derive(Clone, Debug)]
pub(super) struct ReadFileLines {
    pub(super) version: FileVersion,
    /// First and last line that the call read, from 1; `None` if it read no complete line.
    pub(super) lines: Option<(u64, u64)>,
    /// Number of lines of the file, if the call read to its end.
    pub(super) n_lines: Option<u64>,
}

/// A call that has read or changed a file and whose result the model has not received yet.
enum PendingFileCall {
    Read {
        reading: ReadFileLines,
        text: ReturnedTextFingerprint,
    },
    Wrote {
        version: FileVersion,
        n_lines: u64,
    },
    Edited {
        version: FileVersion,
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
pub(super) type Step = (u32, u32);

struct LineRange {
    first: u64,
    last: u64,
    call: Arc<str>,
    /// Step of the call that read the lines; `None` if the model wrote them itself.
    read_in: Option<Step>,
}

struct KnownFile {
    version: FileVersion,
    shown: Vec<LineRange>,
    n_lines: Option<u64>,
    /// Ids of the calls that edited the file since its lines were shown to the model.
    edits: Vec<Arc<str>>,
}

/// Reason why a write is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteRefusal {
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
struct KnownFilesState {
    /// Known files, by path relative to the workspace with symlinks resolved.
    files: HashMap<String, KnownFile>,
    /// Calls whose results the model has not received yet, by call id, each with the path of the
    /// file that the call used and with what it did with the file.
    pending: HashMap<Arc<str>, (String, PendingFileCall)>,
}

/// Files that one agent has read or written, with the lines that its model was shown.
#[derive(Default)]
pub struct KnownFiles(Mutex<KnownFilesState>);

impl std::fmt::Debug for KnownFiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KnownFiles").finish_non_exhaustive()
    }
}

impl KnownFiles {
    /// Records that a call read lines and returned `text`. The record takes effect when the call is
    /// [ended](Self::end_call).
    pub(super) fn record_file_read(
        &self,
        call: &Arc<str>,
        path: String,
        reading: ReadFileLines,
        text: &str,
    ) {
        let text = ReturnedTextFingerprint {
            bytes: text.len(),
            hash: blake3::hash(text.as_bytes()),
        };
        self.record_pending_call(call, path, PendingFileCall::Read { reading, text });
    }

    /// Records that a call wrote a whole file.
    pub(super) fn record_file_written(
        &self,
        call: &Arc<str>,
        path: String,
        version: FileVersion,
        n_lines: u64,
    ) {
        self.record_pending_call(call, path, PendingFileCall::Wrote { version, n_lines });
    }

    /// Records that a call changed a part of a file.
    pub(super) fn record_partial_edit(&self, call: &Arc<str>, path: String, version: FileVersion) {
        self.record_pending_call(call, path, PendingFileCall::Edited { version });
    }

    fn record_pending_call(&self, call: &Arc<str>, path: String, pending: PendingFileCall) {
        let mut inner = lock(&self.0);
        if inner.pending.len() >= MAX_FILES {
            inner.pending.clear();
        }
        inner.pending.insert(call.clone(), (path, pending));
    }

    /// Adds the lines that a call has read, or the file that it has written, to the known files
    /// when the call has ended. Ignores a call that was not recorded. `result` is the text that the
    /// model gets. `is_changed` means that hooks changed the call's arguments.
    pub fn end_call(&self, call: &str, step: (u32, u32), result: &str, is_changed: bool) {
        let mut inner = lock(&self.0);
        let Some((call, (path, pending))) = inner.pending.remove_entry(call) else {
            return;
        };
        if inner.files.len() >= MAX_FILES {
            inner.files.clear();
        }
        let known = inner.files.remove(&path);
        let known = match pending {
            PendingFileCall::Read { reading, text } => {
                let is_shown = text.is_contained_in(result);
                add_read_lines(known, reading, is_shown, call, step)
            }
            PendingFileCall::Wrote { version, n_lines } => {
                let whole = LineRange {
                    first: 1,
                    last: n_lines,
                    call,
                    read_in: None,
                };
                KnownFile {
                    version,
                    shown: if is_changed { Vec::new() } else { vec![whole] },
                    n_lines: Some(n_lines),
                    edits: Vec::new(),
                }
            }
            PendingFileCall::Edited { version } => {
                let mut known = known.unwrap_or(KnownFile {
                    version,
                    shown: Vec::new(),
                    n_lines: None,
                    edits: Vec::new(),
                });
                known.version = version;
                known.edits.push(call);
                // An edit shifts later line numbers, so a file that was not shown completely must
                // be read again.
                if is_changed || known.edits.len() > MAX_SHOWN || !known.covers_file(|_| true) {
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
    pub fn forget_removed_lines(&self, is_there: impl Fn(&str) -> bool) {
        for known in lock(&self.0).files.values_mut() {
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
        now: FileVersion,
        step: Step,
    ) -> Result<(), WriteRefusal> {
        let inner = lock(&self.0);
        let known = inner.files.get(path).ok_or(WriteRefusal::Unread)?;
        if known.version != now {
            return Err(WriteRefusal::Changed);
        }
        if !known.covers_file(|_| true) {
            return Err(WriteRefusal::Partly);
        }
        match known.covers_file(|range| range.read_in != Some(step)) {
            true => Ok(()),
            false => Err(WriteRefusal::SameStep),
        }
    }

    /// Checks that a call may replace a part of a file. The file need not have been read: the call
    /// itself contains all of the replaced text, so no unknown text is lost.
    pub(super) fn check_edit(&self, path: &str, now: FileVersion) -> Result<(), WriteRefusal> {
        let inner = lock(&self.0);
        match inner.files.get(path) {
            Some(known) if known.version != now => Err(WriteRefusal::Changed),
            _ => Ok(()),
        }
    }
}

fn add_read_lines(
    before: Option<KnownFile>,
    reading: ReadFileLines,
    is_shown: bool,
    call: Arc<str>,
    step: Step,
) -> KnownFile {
    let is_whole = reading
        .lines
        .is_some_and(|(first, last)| first == 1 && Some(last) == reading.n_lines);
    let same = before.filter(|known| known.version == reading.version);
    let mut known = match same {
        // If the model already knows the complete file, a read of a part of it changes nothing.
        Some(known) if known.covers_file(|_| true) && !is_whole => return known,
        Some(known) if known.edits.is_empty() => known,
        _ => KnownFile {
            version: reading.version,
            shown: Vec::new(),
            n_lines: None,
            edits: Vec::new(),
        },
    };
    known.n_lines = reading.n_lines.or(known.n_lines);
    if known.shown.len() >= MAX_SHOWN {
        known.shown.clear();
    }
    if let Some((first, last)) = reading.lines.filter(|_| is_shown) {
        known.shown.push(LineRange {
            first,
            last,
            call,
            read_in: Some(step),
        });
    }
    known
}

impl KnownFile {
    /// Whether the shown line ranges together cover all lines of the file. Ignores the ranges for
    /// which `counts` returns false.
    fn covers_file(&self, counts: impl Fn(&LineRange) -> bool) -> bool {
        let Some(n_lines) = self.n_lines else {
            return false;
        };
        let mut ranges: Vec<&LineRange> = self.shown.iter().filter(|range| counts(range)).collect();
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

    fn version(content: &str) -> FileVersion {
        FileVersion::from_content(content.as_bytes())
    }

    fn read(known: &KnownFiles, call: &str, lines: (u64, u64), n_lines: Option<u64>, step: Step) {
        let reading = ReadFileLines {
            version: version("v1"),
            lines: Some(lines),
            n_lines,
        };
        known.record_file_read(&call.into(), "f".to_owned(), reading, TEXT);
        known.end_call(call, step, TEXT, false);
    }

    #[test]
    fn a_file_is_known_once_all_its_lines_were_shown() {
        let known = KnownFiles::default();
        let check = |step| known.check_overwrite("f", version("v1"), step);
        assert_eq!(check((1, 1)), Err(WriteRefusal::Unread));
        read(&known, "a", (1, 5), None, (1, 1));
        assert_eq!(check((1, 2)), Err(WriteRefusal::Partly));
        read(&known, "b", (7, 9), Some(9), (1, 2));
        assert_eq!(check((1, 3)), Err(WriteRefusal::Partly));
        read(&known, "c", (6, 6), None, (1, 3));
        assert_eq!(check((1, 3)), Err(WriteRefusal::SameStep));
        assert_eq!(check((2, 1)), Ok(()));
        let other = known.check_overwrite("f", version("v2"), (2, 1));
        assert_eq!(other, Err(WriteRefusal::Changed));
        assert_eq!(
            known.check_edit("f", version("v2")),
            Err(WriteRefusal::Changed)
        );
        assert_eq!(known.check_edit("unread", version("v2")), Ok(()));
    }

    #[test]
    fn text_that_the_model_does_not_have_does_not_count() {
        let known = KnownFiles::default();
        let check = |content| known.check_overwrite("f", version(content), (9, 9));
        read(&known, "a", (1, 5), Some(5), (1, 1));
        known.forget_removed_lines(|call| call != "a");
        assert_eq!(check("v1"), Err(WriteRefusal::Partly));

        let reading = ReadFileLines {
            version: version("v1"),
            lines: Some((1, 5)),
            n_lines: Some(5),
        };
        known.record_file_read(&"b".into(), "f".to_owned(), reading, "key=123");
        known.end_call("b", (1, 2), "key=[masked]", false);
        assert_eq!(check("v1"), Err(WriteRefusal::Partly));

        known.record_file_written(&"c".into(), "f".to_owned(), version("v2"), 1);
        known.end_call("c", (1, 3), "", false);
        assert_eq!(check("v2"), Ok(()));
        known.record_partial_edit(&"d".into(), "f".to_owned(), version("v3"));
        known.end_call("d", (1, 4), "", false);
        assert_eq!(check("v3"), Ok(()));
        known.forget_removed_lines(|call| call != "d");
        assert_eq!(check("v3"), Err(WriteRefusal::Partly));

        known.record_file_written(&"e".into(), "f".to_owned(), version("v4"), 1);
        known.end_call("e", (1, 5), "", true);
        assert_eq!(check("v4"), Err(WriteRefusal::Partly));
    }
}
