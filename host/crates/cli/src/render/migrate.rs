//! Changes and losses of migrating a skill.

use std::path::Path;

use similar::{ChangeTag, TextDiff};

use super::{BAD, BOLD, DIM, GOOD, answer_line, note, printable, prose, styled, warn};
use rind_lib::skill::Lost;

/// Unchanged lines around a change.
const CONTEXT: usize = 3;

/// Prints the changed lines of a file with those around them.
pub(in super::super) fn diff(file: &Path, before: &str, after: &str) {
    answer_line(styled(BOLD, printable(&file.display().to_string())));
    let diff = TextDiff::from_lines(before, after);
    for (n, group) in diff.grouped_ops(CONTEXT).iter().enumerate() {
        if n > 0 {
            answer_line(styled(DIM, "  ⋮"));
        }
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            let (mark, style) = match change.tag() {
                ChangeTag::Delete => ('-', BAD),
                ChangeTag::Insert => ('+', GOOD),
                ChangeTag::Equal => (' ', DIM),
            };
            let line = change.value().trim_end_matches(['\r', '\n']);
            answer_line(styled(style, format_args!("{mark} {}", prose(line))));
        }
    }
}

/// Prints the keys that the other format cannot express.
pub(in super::super) fn lost(lost: &[Lost]) {
    for one in lost {
        let text = format!("`{}` is lost: {}", one.key, one.text);
        match one.is_restriction {
            true => warn(&text),
            false => note(&text),
        }
    }
}

pub(in super::super) fn written(file: &Path) {
    answer_line(format_args!(
        "{} {} written",
        styled(GOOD, "✓"),
        printable(&file.display().to_string())
    ));
}
