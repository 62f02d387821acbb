//! Reads the lines of a file of entries, and checks that each line can be parsed and that the
//! `parent` of its entry is the entry on the line before.

use std::collections::HashSet;
use std::io;
use std::path::Path;

use crate::session::entry::{Body, Entry};
use crate::session::guarded::{self, LimitedFileLine, LimitedLineReader, MAX_SESSION_LINE_BYTES};
use crate::session::head::find_entry_type;

/// Description of the repair of a line that cannot be read.
const UNREADABLE_LINE_REPAIR_DESCRIPTION: Option<&str> =
    Some("the repair removes it; a copy of the whole file is kept");

/// Description of the repair of a line whose `parent` is not the entry on the line before.
const WRONG_PARENT_REPAIR_DESCRIPTION: Option<&str> =
    Some("the repair corrects its `parent`; a copy of the whole file is kept");

/// Fault of one line in a file of entries.
pub(super) struct SessionEntryLineFault {
    /// Description of the fault, beginning with the number of the line.
    pub(super) text: String,
    pub(super) repair: Option<&'static str>,
}

/// Entries and faults that were found in a file of entries.
#[derive(Default)]
pub(super) struct EntryFileExamination {
    /// Highest version of the session format that a header of the file names; 0 without a header.
    pub(super) version: u32,
    /// Body, size of the line in bytes, and type of each entry.
    pub(super) bodies: Vec<(Body, u64, String)>,
    pub(super) faults: Vec<SessionEntryLineFault>,
}

/// Reads and examines a file of entries.
pub(super) fn examine_entry_file(path: &Path) -> io::Result<EntryFileExamination> {
    let (file, _) = guarded::open_regular_file(path)?;
    let mut lines = LimitedLineReader::new(file, MAX_SESSION_LINE_BYTES);
    let mut read = EntryFileExamination::default();
    let mut ids = HashSet::new();
    let mut last: Option<String> = None;
    while let Some(line) = lines.next()? {
        let (text, is_torn) = match line {
            LimitedFileLine::Whole(text) => (text, false),
            LimitedFileLine::Torn(text) => (text, true),
            LimitedFileLine::TooLong(n) => {
                let text = format!("has {n} bytes, at most {MAX_SESSION_LINE_BYTES} are supported");
                let number = lines.number;
                read.add_fault(number, &text, None);
                continue;
            }
        };
        let (bytes, kind) = (text.len() as u64 + 1, find_entry_type(text));
        let kind = String::from_utf8_lossy(kind).into_owned();
        let parsed = Entry::parse_line(text);
        let number = lines.number;
        let entry = match parsed {
            Ok(entry) => entry,
            Err(why) if is_torn => {
                read.add_fault(
                    number,
                    &format!("is cut off: {why}"),
                    UNREADABLE_LINE_REPAIR_DESCRIPTION,
                );
                continue;
            }
            Err(why) => {
                read.add_fault(
                    number,
                    &format!("cannot be read: {why}"),
                    UNREADABLE_LINE_REPAIR_DESCRIPTION,
                );
                continue;
            }
        };
        if let Body::Session { version, .. } = entry.body {
            read.version = read.version.max(version);
        }
        if read.bodies.is_empty() && !matches!(entry.body, Body::Session { .. }) {
            read.add_fault(number, "is not the entry that begins a session", None);
        }
        if entry.parent != last {
            read.add_fault(
                number,
                "does not follow the entry before it",
                WRONG_PARENT_REPAIR_DESCRIPTION,
            );
        }
        if !ids.insert(entry.id.clone()) {
            read.add_fault(number, "has the id of an earlier entry", None);
        }
        last = Some(entry.id);
        let kind = match entry.body {
            Body::Unknown { .. } => "unknown".to_owned(),
            _ => kind,
        };
        read.bodies.push((entry.body, bytes, kind));
    }
    Ok(read)
}

impl EntryFileExamination {
    fn add_fault(&mut self, number: u64, what: &str, repair: Option<&'static str>) {
        let text = format!("line {number} {what}");
        self.faults.push(SessionEntryLineFault { text, repair });
    }
}
