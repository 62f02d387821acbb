//! Prints the changes and losses that migrating a skill causes.

use std::path::Path;

use similar::{ChangeTag, TextDiff};

use super::{
    BAD, BOLD, DIM, GOOD, answer_line, print_note, print_warning, printable_prose, printable_text,
    style_text,
};
use rind_lib::skill::FormatLoss;

/// Number of unchanged lines shown around a change.
const CONTEXT: usize = 3;

/// Prints the changed lines of a file with the unchanged lines around them.
pub(in super::super) fn print_file_diff(file: &Path, before: &str, after: &str) {
    answer_line(style_text(
        BOLD,
        printable_text(&file.display().to_string()),
    ));
    let diff = TextDiff::from_lines(before, after);
    for (n, group) in diff.grouped_ops(CONTEXT).iter().enumerate() {
        if n > 0 {
            answer_line(style_text(DIM, "  ⋮"));
        }
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            let (mark, style) = match change.tag() {
                ChangeTag::Delete => ('-', BAD),
                ChangeTag::Insert => ('+', GOOD),
                ChangeTag::Equal => (' ', DIM),
            };
            let line = change.value().trim_end_matches(['\r', '\n']);
            answer_line(style_text(
                style,
                format_args!("{mark} {}", printable_prose(line)),
            ));
        }
    }
}

/// Prints the keys that are lost because the target format cannot express them.
pub(in super::super) fn print_format_losses(lost: &[FormatLoss]) {
    for one in lost {
        let text = format!("`{}` is lost: {}", one.key, one.text);
        match one.is_restriction {
            true => print_warning(&text),
            false => print_note(&text),
        }
    }
}

pub(in super::super) fn print_migrated_file(file: &Path) {
    answer_line(format_args!(
        "{} {} written",
        style_text(GOOD, "✓"),
        printable_text(&file.display().to_string())
    ));
}
