//! Prints the changes and losses that migrating a skill causes.

use std::path::Path;

use similar::{ChangeTag, TextDiff};

use super::{
    BOLD_STYLE, DIM_STYLE, ERROR_STYLE, SUCCESS_STYLE, escape_prose_for_display, print_note,
    print_stdout_line, print_warning, printable_text, style_text,
};
use rind_lib::skill::UnconvertibleSkillKey;

/// Number of unchanged lines that the diff shows before and after a change.
const DIFF_CONTEXT_LINES: usize = 3;

/// Prints the changed lines of a file with the unchanged lines around them.
pub(in super::super) fn print_file_diff(file: &Path, before: &str, after: &str) {
    print_stdout_line(style_text(
        BOLD_STYLE,
        printable_text(&file.display().to_string()),
    ));
    let diff = TextDiff::from_lines(before, after);
    for (n, group) in diff.grouped_ops(DIFF_CONTEXT_LINES).iter().enumerate() {
        if n > 0 {
            print_stdout_line(style_text(DIM_STYLE, "  ⋮"));
        }
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            let (mark, style) = match change.tag() {
                ChangeTag::Delete => ('-', ERROR_STYLE),
                ChangeTag::Insert => ('+', SUCCESS_STYLE),
                ChangeTag::Equal => (' ', DIM_STYLE),
            };
            let line = change.value().trim_end_matches(['\r', '\n']);
            print_stdout_line(style_text(
                style,
                format_args!("{mark} {}", escape_prose_for_display(line)),
            ));
        }
    }
}

/// Prints the keys that are lost because the target format cannot express them.
pub(in super::super) fn print_keys_lost_in_migration(lost: &[UnconvertibleSkillKey]) {
    for one in lost {
        let text = format!("`{}` is lost: {}", one.key, one.text);
        match one.is_restriction {
            true => print_warning(&text),
            false => print_note(&text),
        }
    }
}

pub(in super::super) fn print_migrated_file(file: &Path) {
    print_stdout_line(format_args!(
        "{} {} written",
        style_text(SUCCESS_STYLE, "✓"),
        printable_text(&file.display().to_string())
    ));
}
