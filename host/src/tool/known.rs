//! Tracks the files that an agent knows: the version that its model read or wrote, and the lines
//! that were shown to the model.
//!
//! The model may overwrite a whole file only if it was shown all of it and the file has not changed
//! since. Otherwise the work of a person, a command or another agent would be lost silently. Each
//! agent has its own memory: a subagent must read files itself. The memory is not stored in the
//! session: after a resume every file counts as unread, because the files were not watched
//! meanwhile. It must not know how files are read or written. Start from [`KnownFiles`].

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use crate::lock::lock;

/// Maximum number of files; beyond it the memory is cleared, and files must be read again.
const MAX_FILES: usize = 10_000;

/// Maximum number of ranges and edits of a file; beyond it the file must be read again.
const MAX_SHOWN: usize = 256;

/// Version of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
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

impl Version {
    pub(super) fn of(content: &[u8]) -> Self {
        Self::Content(blake3::hash(content))
    }
}

/// Lines of a file that a call reads for the model.
#[derive(Clone, Debug)]
pub(super) struct Reading {
    pub(super) version: Version,
    /// First and last line, from 1; `None` if no complete line was read.
    pub(super) lines: Option<(u64, u64)>,
    /// Number of lines of the file, if the call read to its end.
    pub(super) n_lines: Option<u64>,
}

/// A call whose result is not final yet.
enum Pending {
    Read { reading: Reading, text: Shown },
    Wrote { version: Version, n_lines: u64 },
    Edited { version: Version },
}

/// Length and hash of the text that a tool returned. The model may get less, because limits or
/// hooks can remove parts.
struct Shown {
    bytes: usize,
    hash: blake3::Hash,
}

impl Shown {
    fn is_in(&self, text: &str) -> bool {
        let begin = text.as_bytes().get(..self.bytes);
        begin.is_some_and(|begin| blake3::hash(begin) == self.hash)
    }
}

/// Turn and step of a call. The model wrote all calls of a step before it saw any of their results.
pub(super) type Step = (u32, u32);

struct Range {
    first: u64,
    last: u64,
    call: Arc<str>,
    /// Step of the call that read it; `None` when the model wrote it itself.
    read_in: Option<Step>,
}

struct Known {
    version: Version,
    shown: Vec<Range>,
    n_lines: Option<u64>,
    /// Ids of the calls that edited the shown text.
    edits: Vec<Arc<str>>,
}

/// Reason why a write is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unknown {
    /// The file exists, and this agent has not read it.
    Unread,
    /// The file changed since this agent read or wrote it.
    Changed,
    /// The conversation does not contain the whole file.
    Partly,
    /// The file was read in the same step as the write.
    SameStep,
}

#[derive(Default)]
struct Inner {
    /// By path relative to the workspace, with symlinks resolved.
    files: HashMap<String, Known>,
    /// By the id of the call.
    pending: HashMap<Arc<str>, (String, Pending)>,
}

/// Files that one agent knows. See the [module](self).
#[derive(Default)]
pub struct KnownFiles(Mutex<Inner>);

impl std::fmt::Debug for KnownFiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KnownFiles").finish_non_exhaustive()
    }
}

impl KnownFiles {
    /// Records that a call read lines and returned `text`. It takes effect when the call is
    /// [finished](Self::finish).
    pub(super) fn read(&self, call: &Arc<str>, path: String, reading: Reading, text: &str) {
        let text = Shown {
            bytes: text.len(),
            hash: blake3::hash(text.as_bytes()),
        };
        self.note(call, path, Pending::Read { reading, text });
    }

    /// Records that a call wrote a whole file.
    pub(super) fn wrote(&self, call: &Arc<str>, path: String, version: Version, n_lines: u64) {
        self.note(call, path, Pending::Wrote { version, n_lines });
    }

    /// Records that a call changed a part of a file.
    pub(super) fn edited(&self, call: &Arc<str>, path: String, version: Version) {
        self.note(call, path, Pending::Edited { version });
    }

    fn note(&self, call: &Arc<str>, path: String, pending: Pending) {
        let mut inner = lock(&self.0);
        if inner.pending.len() >= MAX_FILES {
            inner.pending.clear();
        }
        inner.pending.insert(call.clone(), (path, pending));
    }

    /// Finishes a call. `result` is the text that the model gets. `is_changed`: hooks changed the
    /// arguments of the model. Unknown calls are ignored.
    pub fn finish(&self, call: &str, step: (u32, u32), result: &str, is_changed: bool) {
        let mut inner = lock(&self.0);
        let Some((call, (path, pending))) = inner.pending.remove_entry(call) else {
            return;
        };
        if inner.files.len() >= MAX_FILES {
            inner.files.clear();
        }
        let known = inner.files.remove(&path);
        let known = match pending {
            Pending::Read { reading, text } => {
                let is_shown = text.is_in(result);
                known_after_read(known, reading, is_shown, call, step)
            }
            Pending::Wrote { version, n_lines } => {
                let whole = Range {
                    first: 1,
                    last: n_lines,
                    call,
                    read_in: None,
                };
                Known {
                    version,
                    shown: if is_changed { Vec::new() } else { vec![whole] },
                    n_lines: Some(n_lines),
                    edits: Vec::new(),
                }
            }
            Pending::Edited { version } => {
                let mut known = known.unwrap_or(Known {
                    version,
                    shown: Vec::new(),
                    n_lines: None,
                    edits: Vec::new(),
                });
                known.version = version;
                known.edits.push(call);
                // An edit shifts later line numbers, so a file that was not shown completely must
                // be read again.
                if is_changed || known.edits.len() > MAX_SHOWN || !known.covers(|_| true) {
                    known.shown.clear();
                }
                known
            }
        };
        inner.files.insert(path, known);
    }

    /// Forgets text that is no longer in the conversation: `is_there` says whether it contains the
    /// result of a call. Compaction, archiving and `/undo` remove results.
    pub fn forget(&self, is_there: impl Fn(&str) -> bool) {
        for known in lock(&self.0).files.values_mut() {
            if known.edits.iter().any(|call| !is_there(call)) {
                known.shown.clear();
            }
            known.shown.retain(|range| is_there(&range.call));
        }
    }

    /// Checks that a whole file may be overwritten in this step.
    pub(super) fn check_whole(&self, path: &str, now: Version, step: Step) -> Result<(), Unknown> {
        let inner = lock(&self.0);
        let known = inner.files.get(path).ok_or(Unknown::Unread)?;
        if known.version != now {
            return Err(Unknown::Changed);
        }
        if !known.covers(|_| true) {
            return Err(Unknown::Partly);
        }
        match known.covers(|range| range.read_in != Some(step)) {
            true => Ok(()),
            false => Err(Unknown::SameStep),
        }
    }

    /// Checks that a part of a file may be replaced. An unread file is allowed: the edit contains
    /// the whole replaced text, which must occur once, so no unknown text is lost.
    pub(super) fn check_edit(&self, path: &str, now: Version) -> Result<(), Unknown> {
        let inner = lock(&self.0);
        match inner.files.get(path) {
            Some(known) if known.version != now => Err(Unknown::Changed),
            _ => Ok(()),
        }
    }
}

fn known_after_read(
    before: Option<Known>,
    reading: Reading,
    is_shown: bool,
    call: Arc<str>,
    step: Step,
) -> Known {
    let is_whole = reading
        .lines
        .is_some_and(|(first, last)| first == 1 && Some(last) == reading.n_lines);
    let same = before.filter(|known| known.version == reading.version);
    let mut known = match same {
        // A partial read does not invalidate a file that is known completely.
        Some(known) if known.covers(|_| true) && !is_whole => return known,
        Some(known) if known.edits.is_empty() => known,
        _ => Known {
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
        known.shown.push(Range {
            first,
            last,
            call,
            read_in: Some(step),
        });
    }
    known
}

impl Known {
    /// Whether the ranges selected by `counts` cover all lines of the file.
    fn covers(&self, counts: impl Fn(&Range) -> bool) -> bool {
        let Some(n_lines) = self.n_lines else {
            return false;
        };
        let mut ranges: Vec<&Range> = self.shown.iter().filter(|range| counts(range)).collect();
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

    fn version(content: &str) -> Version {
        Version::of(content.as_bytes())
    }

    fn read(known: &KnownFiles, call: &str, lines: (u64, u64), n_lines: Option<u64>, step: Step) {
        let reading = Reading {
            version: version("v1"),
            lines: Some(lines),
            n_lines,
        };
        known.read(&call.into(), "f".to_owned(), reading, TEXT);
        known.finish(call, step, TEXT, false);
    }

    #[test]
    fn a_file_is_known_once_all_its_lines_were_shown() {
        let known = KnownFiles::default();
        let check = |step| known.check_whole("f", version("v1"), step);
        assert_eq!(check((1, 1)), Err(Unknown::Unread));
        read(&known, "a", (1, 5), None, (1, 1));
        assert_eq!(check((1, 2)), Err(Unknown::Partly));
        read(&known, "b", (7, 9), Some(9), (1, 2));
        assert_eq!(check((1, 3)), Err(Unknown::Partly));
        read(&known, "c", (6, 6), None, (1, 3));
        assert_eq!(check((1, 3)), Err(Unknown::SameStep));
        assert_eq!(check((2, 1)), Ok(()));
        let other = known.check_whole("f", version("v2"), (2, 1));
        assert_eq!(other, Err(Unknown::Changed));
        assert_eq!(known.check_edit("f", version("v2")), Err(Unknown::Changed));
        assert_eq!(known.check_edit("unread", version("v2")), Ok(()));
    }

    #[test]
    fn text_that_the_model_does_not_have_does_not_count() {
        let known = KnownFiles::default();
        let check = |content| known.check_whole("f", version(content), (9, 9));
        read(&known, "a", (1, 5), Some(5), (1, 1));
        known.forget(|call| call != "a");
        assert_eq!(check("v1"), Err(Unknown::Partly));

        let reading = Reading {
            version: version("v1"),
            lines: Some((1, 5)),
            n_lines: Some(5),
        };
        known.read(&"b".into(), "f".to_owned(), reading, "key=123");
        known.finish("b", (1, 2), "key=[masked]", false);
        assert_eq!(check("v1"), Err(Unknown::Partly));

        known.wrote(&"c".into(), "f".to_owned(), version("v2"), 1);
        known.finish("c", (1, 3), "", false);
        assert_eq!(check("v2"), Ok(()));
        known.edited(&"d".into(), "f".to_owned(), version("v3"));
        known.finish("d", (1, 4), "", false);
        assert_eq!(check("v3"), Ok(()));
        known.forget(|call| call != "d");
        assert_eq!(check("v3"), Err(Unknown::Partly));

        known.wrote(&"e".into(), "f".to_owned(), version("v4"), 1);
        known.finish("e", (1, 5), "", true);
        assert_eq!(check("v4"), Err(Unknown::Partly));
    }
}
