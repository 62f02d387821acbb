//! Changes of files by the built-in tools, as lines with their numbers.
//!
//! A file is read when its tool starts and again when it ends, in the task that runs the tool, so
//! that the diff shows the actual change on disk. Start from [`ChatDiffs`].

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anstyle::Style;
use similar::{ChangeTag, DiffOp, TextDiff};

use super::super::render::{BAD, DIM, GOOD, printable_prose, style_text};
use rind_lib::event::{Event, Stamped};
use rind_lib::lock::lock;

/// Largest file that is compared.
const MAX_BYTES: u64 = 1 << 20;

/// Unchanged lines around a change.
const CONTEXT: usize = 3;

/// Most rows of a change that are shown.
const MAX_ROWS: usize = 40;

/// Time limit for finding the smallest diff, because the turn waits. After it, more lines than
/// necessary may be shown as changed.
const DEADLINE: Duration = Duration::from_millis(50);

/// Built-in tools that write one file.
const WRITERS: [&str; 2] = ["edit_file", "write_file"];

/// Contents of files before their calls and the resulting changes, keyed by call id.
#[derive(Clone, Default)]
pub(super) struct ChatDiffs(Arc<Mutex<KnownContents>>);

#[derive(Default)]
struct KnownContents {
    before: HashMap<String, (PathBuf, String)>,
    changed: HashMap<String, ChangedFile>,
}

#[derive(Default)]
pub(super) struct ChangedFile {
    /// First rows of the diff with context lines, each with its line number.
    pub(super) rows: Vec<String>,
    /// Number of lines of the diff that are not in `rows`.
    pub(super) n_more: usize,
}

impl ChatDiffs {
    /// Follows the calls of a session.
    pub(super) fn observe_event(&self, workspace: &Path, stamped: &Stamped) {
        match &stamped.event {
            Event::ToolStart {
                call, plugin: None, ..
            } if WRITERS.contains(&&*call.name) => {
                let Some(path) = call.arguments.get("path").and_then(|path| path.as_str()) else {
                    return;
                };
                let path = workspace.join(path);
                if let Some(text) = read_content(&path) {
                    lock(&self.0).before.insert(call.id.clone(), (path, text));
                }
            }
            Event::ToolEnd { result, .. } => {
                let before = lock(&self.0).before.remove(&result.call_id);
                if let Some((path, before)) = before
                    && !result.is_error
                    && let Some(after) = read_content(&path)
                {
                    let changed = diff_contents(&before, &after);
                    let id = result.call_id.clone();
                    lock(&self.0).changed.insert(id, changed);
                }
            }
            _ => {}
        }
    }

    pub(super) fn take_diff(&self, call: &str) -> ChangedFile {
        lock(&self.0).changed.remove(call).unwrap_or_default()
    }
}

/// Returns the text of a file: empty if the file is missing, `None` if it cannot be compared.
fn read_content(path: &Path) -> Option<String> {
    match std::fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Some(String::new()),
        // Read regular files only: opening a FIFO could block forever.
        Ok(found) if found.is_file() && found.len() <= MAX_BYTES => {}
        _ => return None,
    }
    let mut text = String::new();
    let file = File::open(path).ok()?;
    file.take(MAX_BYTES).read_to_string(&mut text).ok()?;
    Some(text)
}

/// Row of a diff, without styles.
pub(in super::super) struct DiffRow {
    /// `-`, `+`, a blank for an unchanged line, or `⋮` between two changes.
    pub(in super::super) mark: char,
    /// Number and text of the line, printable.
    pub(in super::super) text: String,
}

/// Compares two texts. Returns the first rows of the diff, at most `most`, and the number of rows
/// that come after those.
pub(in super::super) fn diff_rows(before: &str, after: &str, most: usize) -> (Vec<DiffRow>, usize) {
    let mut config = TextDiff::configure();
    let diff = config.timeout(DEADLINE).diff_lines(before, after);
    let n_lines = before.lines().count().max(after.lines().count());
    let width = n_lines.to_string().len();
    let groups = diff.grouped_ops(CONTEXT);
    let mut rows = Vec::new();
    for (n, group) in groups.iter().enumerate() {
        let between = (n > 0).then(|| DiffRow {
            mark: '⋮',
            text: format!("{:>width$} ⋮", ""),
        });
        let changes = group.iter().flat_map(|op| diff.iter_changes(op));
        let lines = changes.map(|change| {
            let (mark, number) = match change.tag() {
                ChangeTag::Delete => ('-', change.old_index()),
                ChangeTag::Insert => ('+', change.new_index()),
                ChangeTag::Equal => (' ', change.new_index()),
            };
            let number = number.map_or(0, |number| number + 1);
            let line =
                printable_prose(&change.value().trim_end_matches('\n').replace('\t', "    "));
            let text = format!("{number:>width$} {mark} {line}");
            DiffRow { mark, text }
        });
        let n_left = most.saturating_sub(rows.len());
        rows.extend(between.into_iter().chain(lines).take(n_left));
    }
    // Count the hidden lines without building them: a file may have hundreds of thousands of lines.
    let n_of = |op: &DiffOp| match op {
        DiffOp::Equal { len, .. } => *len,
        _ => op.old_range().len() + op.new_range().len(),
    };
    let n_all: usize = groups.iter().flatten().map(n_of).sum();
    let n_all = n_all + groups.len().saturating_sub(1);
    let n_more = n_all.saturating_sub(rows.len());
    (rows, n_more)
}

/// Style of a row of a diff.
pub(in super::super) fn row_style(mark: char) -> Style {
    match mark {
        '-' => BAD,
        '+' => GOOD,
        _ => DIM,
    }
}

fn diff_contents(before: &str, after: &str) -> ChangedFile {
    let (rows, n_more) = diff_rows(before, after, MAX_ROWS);
    let row = |row: DiffRow| format!("  {}", style_text(row_style(row.mark), row.text));
    ChangedFile {
        rows: rows.into_iter().map(row).collect(),
        n_more,
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::render::bare_text;
    use super::*;

    #[test]
    fn changes_have_their_numbers_and_three_lines_around_them() {
        let lines = |changed: &str| {
            let line = |n| match n {
                5 => format!("{changed}\n"),
                n => format!("line {n}\n"),
            };
            (1..=12).map(line).collect::<String>()
        };
        let changed = diff_contents(&lines("old\u{1b}[2J"), &lines("new\nmore"));
        assert_eq!(changed.n_more, 0);
        let rows: Vec<String> = changed.rows.iter().map(|row| bare_text(row)).collect();
        assert_eq!(
            rows,
            [
                "   2   line 2",
                "   3   line 3",
                "   4   line 4",
                "   5 - old\\u{1b}[2J",
                "   5 + new",
                "   6 + more",
                "   7   line 6",
                "   8   line 7",
                "   9   line 8",
            ]
        );
    }

    #[test]
    fn a_file_in_which_every_line_changed_is_compared_up_to_a_point() {
        let lines =
            |what: &str| -> String { (0..50_000).map(|n| format!("{what} {n}\n")).collect() };
        let changed = diff_contents(&lines("old"), &lines("new"));
        assert_eq!((changed.rows.len(), changed.n_more), (MAX_ROWS, 99_960));
    }
}
