//! Formats changes of files as lines: a heading for each path, and the rows of its diff.
//!
//! All texts are escaped. Styles are separate from texts, so that a question, a terminal and plain
//! text can show the same lines. Start from [`format_file_change_lines`].

use anstyle::Style;

use super::diff::{RenderedDiffRow, TextsToDiff, compute_diff_rows};
use super::{
    BOLD_STYLE, DIM_STYLE, ERROR_STYLE, SUCCESS_STYLE, escape_prose_for_display, format_bytes,
};
use rind_lib::checkpoint::FileState;

/// Change of the file at one path, to be shown.
pub(in super::super) struct FileChangeToShow<'a> {
    pub(in super::super) path: &'a str,
    pub(in super::super) from: &'a FileState,
    pub(in super::super) to: &'a FileState,
    /// Contents of the file before and after the change; `None` if a content is unknown.
    pub(in super::super) contents: [Option<Vec<u8>>; 2],
}

/// Line that describes how a file was changed.
pub(in super::super) struct FileChangeLine {
    pub(in super::super) style: Style,
    /// Text of the line, escaped and without styles.
    pub(in super::super) text: String,
}

impl FileChangeLine {
    fn new(style: Style, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { style, text }
    }
}

/// Returns the heading of a change and at most `most` rows of its diff.
pub(in super::super) fn format_file_change_lines(
    change: &FileChangeToShow<'_>,
    most: usize,
) -> Vec<FileChangeLine> {
    let style = match (change.from, change.to) {
        (FileState::Absent, _) => SUCCESS_STYLE,
        (_, FileState::Absent) => ERROR_STYLE,
        _ => BOLD_STYLE,
    };
    let mut lines = vec![FileChangeLine::new(
        style,
        format_file_change_heading(change),
    )];
    let [before, after] = &change.contents;
    let is_file = |state: &FileState| matches!(state, FileState::File { .. });
    let is_shown = is_file(change.from)
        && is_file(change.to)
        && change.from.content_digest() != change.to.content_digest()
        || is_file(change.from) && *change.to == FileState::Absent
        || is_file(change.to) && *change.from == FileState::Absent;
    if !is_shown {
        return lines;
    }
    let text = |state: &FileState, content: &Option<Vec<u8>>| match (state, content) {
        (FileState::Absent, _) => Some(String::new()),
        (_, Some(content)) if !content.contains(&0) => String::from_utf8(content.clone()).ok(),
        _ => None,
    };
    match (text(change.from, before), text(change.to, after)) {
        (Some(before), Some(after)) => {
            let texts = TextsToDiff::new_for_prose(change.path, &before, &after);
            let (rows, n_more) = compute_diff_rows(texts, most);
            let row = |row: &RenderedDiffRow| {
                FileChangeLine::new(row.row_style(), format!("  {}", row.plain_text()))
            };
            lines.extend(rows.iter().map(row));
            if n_more > 0 {
                lines.push(FileChangeLine::new(
                    DIM_STYLE,
                    format!("  … {n_more} more rows"),
                ));
            }
        }
        _ => lines.push(FileChangeLine::new(DIM_STYLE, "  not text, or not kept")),
    }
    lines
}

/// Returns the path and the kind of change, such as `src/a.rs: changed`.
pub(in super::super) fn format_file_change_heading(change: &FileChangeToShow<'_>) -> String {
    let path = escape_prose_for_display(change.path).replace('\n', "\\n");
    format!("{path}: {}", describe_file_change(change.from, change.to))
}

/// Describes how a file changed from one state to another.
pub(in super::super) fn describe_file_change(from: &FileState, to: &FileState) -> String {
    match (from, to) {
        (FileState::Absent, to) => format!("new {}", describe_file_state(to)),
        (from, FileState::Absent) => format!("removed, {}", describe_file_state(from)),
        (FileState::Folder { mode: from }, FileState::Folder { mode: to }) => {
            format!("mode {from:o}, then {to:o}")
        }
        (
            FileState::File {
                digest: old,
                mode: from,
                ..
            },
            FileState::File {
                digest: new,
                mode: to,
                ..
            },
        ) => match (old == new, from == to) {
            (true, _) => format!("mode {from:o}, then {to:o}"),
            (false, true) => "changed".to_owned(),
            (false, false) => format!("changed; mode {from:o}, then {to:o}"),
        },
        (FileState::Link { target: from }, FileState::Link { target: to }) => format!(
            "link to {}, then to {}",
            super::truncate_to_one_line(from, 100),
            super::truncate_to_one_line(to, 100)
        ),
        (FileState::Unkept { .. }, FileState::Unkept { .. }) => {
            "changed; its content is not kept".to_owned()
        }
        (from, to) => format!(
            "{}, then {}",
            describe_file_state(from),
            describe_file_state(to)
        ),
    }
}

fn describe_file_state(state: &FileState) -> String {
    match state {
        FileState::Absent => "nothing".to_owned(),
        FileState::File { bytes, mode, .. } => {
            let is_program = if mode & 0o111 == 0 { "" } else { "executable " };
            format!("{is_program}file of {}", format_bytes(*bytes))
        }
        FileState::Unkept { bytes, .. } => format!("file of {}", format_bytes(*bytes)),
        FileState::Link { target } => {
            format!("link to {}", super::truncate_to_one_line(target, 100))
        }
        FileState::Folder { .. } => "folder".to_owned(),
        FileState::Other => "neither file nor folder".to_owned(),
    }
}
