//! Shows changes of files by the built-in tools as diffs with line numbers.
//!
//! A file is read when its tool starts and again when it ends, in the task that runs the tool, so
//! that the diff shows the actual change on disk. Start from [`FileChangeDiffs`].

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::super::render::diff::{RenderedDiffRow, TextsToDiff, compute_diff_rows};
use super::super::render::style_text;
use rind_lib::event::{Event, Stamped};
use rind_lib::lock::lock_ignoring_poison;

/// Maximum size of a file for which a diff is shown, in bytes.
const MAX_DIFFED_FILE_BYTES: u64 = 1 << 20;

/// Maximum number of rows of a diff that are shown.
const MAX_SHOWN_DIFF_ROWS: usize = 40;

/// Built-in tools that write one file.
const FILE_WRITING_TOOL_NAMES: [&str; 2] = ["edit_file", "write_file"];

/// Contents of files before the calls that change them, and the resulting changes, by call id.
#[derive(Clone, Default)]
pub(super) struct FileChangeDiffs(Arc<Mutex<ToolCallDiffState>>);

#[derive(Default)]
struct ToolCallDiffState {
    before: HashMap<String, (PathBuf, String)>,
    changed: HashMap<String, TruncatedFileDiffRows>,
    /// Ids of calls whose approval question showed the complete change.
    shown: HashSet<String>,
}

#[derive(Default)]
pub(super) struct TruncatedFileDiffRows {
    /// First rows of the diff with context lines, each with its line number.
    pub(super) rows: Vec<String>,
    /// Number of lines of the diff that are not in `rows`.
    pub(super) n_more: usize,
}

impl FileChangeDiffs {
    /// Reads a file when the call that writes it starts, and compares the file when the call ends.
    pub(super) fn record_file_change_from_event(&self, workspace: &Path, stamped: &Stamped) {
        match &stamped.event {
            Event::ToolStart {
                call, plugin: None, ..
            } if FILE_WRITING_TOOL_NAMES.contains(&&*call.name) => {
                let Some(path) = call.arguments.get("path").and_then(|path| path.as_str()) else {
                    return;
                };
                let path = workspace.join(path);
                if let Some(text) = read_file_text_for_diff(&path) {
                    lock_ignoring_poison(&self.0)
                        .before
                        .insert(call.id.clone(), (path, text));
                }
            }
            Event::ToolEnd { result, .. } => {
                let before = lock_ignoring_poison(&self.0).before.remove(&result.call_id);
                if let Some((path, before)) = before
                    && !result.is_error
                    && let Some(after) = read_file_text_for_diff(&path)
                {
                    let changed = diff_contents(&path.to_string_lossy(), &before, &after);
                    let id = result.call_id.clone();
                    lock_ignoring_poison(&self.0).changed.insert(id, changed);
                }
            }
            _ => {}
        }
    }

    /// Records that the approval question of this call has shown the complete change.
    pub(super) fn mark_change_as_shown(&self, call: String) {
        lock_ignoring_poison(&self.0).shown.insert(call);
    }

    /// Removes and returns the change that a tool call made to a file; empty if the approval
    /// question has already shown the change.
    pub(super) fn take_diff(&self, call: &str) -> TruncatedFileDiffRows {
        let mut known = lock_ignoring_poison(&self.0);
        let changed = known.changed.remove(call).unwrap_or_default();
        match known.shown.remove(call) {
            true => TruncatedFileDiffRows::default(),
            false => changed,
        }
    }
}

/// Returns the text of a file. Returns an empty text if the file is missing, and `None` if it is
/// too large or not readable as text.
fn read_file_text_for_diff(path: &Path) -> Option<String> {
    match std::fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Some(String::new()),
        // Read only regular files, because opening a FIFO could block forever.
        Ok(found) if found.is_file() && found.len() <= MAX_DIFFED_FILE_BYTES => {}
        _ => return None,
    }
    let mut text = String::new();
    let file = File::open(path).ok()?;
    file.take(MAX_DIFFED_FILE_BYTES)
        .read_to_string(&mut text)
        .ok()?;
    Some(text)
}

fn diff_contents(path: &str, before: &str, after: &str) -> TruncatedFileDiffRows {
    let texts = TextsToDiff::new_for_prose(path, before, after);
    let (rows, n_more) = compute_diff_rows(texts, MAX_SHOWN_DIFF_ROWS);
    let row = |row: RenderedDiffRow| {
        let pieces = row.into_pieces().into_iter();
        let styled: String = pieces
            .map(|(style, text)| style_text(style, text))
            .collect();
        format!("  {styled}")
    };
    TruncatedFileDiffRows {
        rows: rows.into_iter().map(row).collect(),
        n_more,
    }
}
