//! Formats the diff of two texts as rows with line numbers, colored by language.
//!
//! Neither reads the texts nor displays the rows. Start from [`compute_diff_rows`].

use std::time::Duration;

use anstyle::Style;
use similar::{ChangeTag, DiffOp, TextDiff};

use super::highlight::CodeHighlighter;
use super::look::diff_line_background;
use super::{DIM_STYLE, ERROR_STYLE, SUCCESS_STYLE, escape_prose_for_display};

/// Number of unchanged lines shown before and after a change.
const DIFF_CONTEXT_LINES: usize = 3;

/// Timeout for finding a minimal diff, for which the turn waits. After it, the diff may show more
/// lines as changed than necessary.
const MINIMAL_DIFF_SEARCH_TIMEOUT: Duration = Duration::from_millis(50);

/// Note below a changed last line that has no line break.
const NO_FINAL_LINE_BREAK_NOTE: &str = "\\ no line break at the end";

/// Row of a diff, ready to be printed.
pub(in super::super) struct RenderedDiffRow {
    /// `-` for a removed line, `+` for an added one, a blank for an unchanged one, `⋮` between two
    /// changes, or `\` for a remark.
    mark: char,
    /// Beginning of the row: line number and mark.
    head: String,
    /// Pieces of the line, escaped, each with its style.
    pieces: Vec<(Style, String)>,
}

impl RenderedDiffRow {
    fn new_unstyled_row(mark: char, head: String) -> Self {
        let pieces = Vec::new();
        Self { mark, head, pieces }
    }

    /// Returns the complete row of the diff as text without styles.
    pub(in super::super) fn plain_text(&self) -> String {
        let texts = self.pieces.iter().map(|(_, text)| text.as_str());
        self.head
            .chars()
            .chain(texts.flat_map(str::chars))
            .collect()
    }

    /// Returns the style of the complete row, which depends on the mark at its beginning.
    pub(in super::super) fn row_style(&self) -> Style {
        match self.mark {
            '-' => ERROR_STYLE,
            '+' => SUCCESS_STYLE,
            _ => DIM_STYLE,
        }
    }

    /// Returns the pieces of the row, each with its own style.
    pub(in super::super) fn into_pieces(self) -> Vec<(Style, String)> {
        let head = (self.row_style(), self.head);
        std::iter::once(head).chain(self.pieces).collect()
    }
}

/// Two texts to compare, and how to show their lines.
#[derive(Clone, Copy)]
pub(in super::super) struct TextsToDiff<'a> {
    /// File name of both texts, which determines the language for coloring.
    pub(in super::super) path: &'a str,
    pub(in super::super) before: &'a str,
    pub(in super::super) after: &'a str,
    /// Function that escapes one line of the texts for display.
    pub(in super::super) escape: fn(&str) -> String,
}

impl<'a> TextsToDiff<'a> {
    /// Creates a comparison whose rows are only shown to a person, for example of a text in prose.
    /// Invisible characters that some languages and emoji need are kept and not escaped.
    pub(in super::super) fn new_for_prose(path: &'a str, before: &'a str, after: &'a str) -> Self {
        Self {
            path,
            before,
            after,
            escape: escape_prose_line,
        }
    }
}

fn escape_prose_line(line: &str) -> String {
    escape_prose_for_display(&line.replace('\t', "    "))
}

/// Compares two texts. Returns at most the first `most` rows of the diff, and the number of further
/// rows.
pub(in super::super) fn compute_diff_rows(
    texts: TextsToDiff<'_>,
    most: usize,
) -> (Vec<RenderedDiffRow>, usize) {
    let TextsToDiff { before, after, .. } = texts;
    let mut config = TextDiff::configure();
    let diff = config
        .timeout(MINIMAL_DIFF_SEARCH_TIMEOUT)
        .diff_lines(before, after);
    let n_lines = before.lines().count().max(after.lines().count());
    let width = n_lines.to_string().len();
    // Do not show CR if all lines of both texts end with CR LF.
    let is_crlf = has_only_crlf_line_breaks(before) && has_only_crlf_line_breaks(after);
    let groups = diff.grouped_ops(DIFF_CONTEXT_LINES);
    let (mut rows, mut n_remarks) = (Vec::new(), 0);
    for (n, group) in groups.iter().enumerate() {
        if rows.len() >= most {
            break;
        }
        if n > 0 {
            rows.push(RenderedDiffRow::new_unstyled_row(
                '⋮',
                format!("{:>width$} ⋮", ""),
            ));
        }
        let mut colors = DiffHighlighters::for_path(texts.path);
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            if rows.len() >= most {
                break;
            }
            let (mark, number) = match change.tag() {
                ChangeTag::Delete => ('-', change.old_index()),
                ChangeTag::Insert => ('+', change.new_index()),
                ChangeTag::Equal => (' ', change.new_index()),
            };
            let number = number.map_or(0, |number| number + 1);
            let line = change.value().trim_end_matches('\n');
            let line = (texts.escape)(line.strip_suffix('\r').filter(|_| is_crlf).unwrap_or(line));
            rows.push(RenderedDiffRow {
                mark,
                head: format!("{number:>width$} {mark} "),
                pieces: colors.highlight_line(mark, line),
            });
            // Add a remark, because otherwise a change of only the last line break would show the
            // same line twice.
            let is_change = mark != ' ' && !before.is_empty() && !after.is_empty();
            if is_change && change.missing_newline() {
                let words = format!("{:>width$} {NO_FINAL_LINE_BREAK_NOTE}", "");
                rows.push(RenderedDiffRow::new_unstyled_row('\\', words));
                n_remarks += 1;
            }
        }
    }
    // Compute the number of hidden rows without building them: a file may have hundreds of
    // thousands of lines.
    let n_of = |op: &DiffOp| match op {
        DiffOp::Equal { len, .. } => *len,
        _ => op.old_range().len() + op.new_range().len(),
    };
    let n_all: usize = groups.iter().flatten().map(n_of).sum();
    let n_all = n_all + groups.len().saturating_sub(1) + n_remarks;
    let n_more = n_all.saturating_sub(rows.len());
    (rows, n_more)
}

/// Whether a text has line breaks and all of them are CR LF.
fn has_only_crlf_line_breaks(text: &str) -> bool {
    let n_breaks = text.matches('\n').count();
    n_breaks > 0 && text.matches("\r\n").count() == n_breaks
}

/// Colors the lines of one change. Removed and added lines are parsed by separate highlighters,
/// because they belong to different texts.
struct DiffHighlighters {
    before: Option<CodeHighlighter>,
    after: Option<CodeHighlighter>,
}

impl DiffHighlighters {
    fn for_path(path: &str) -> Self {
        let after = CodeHighlighter::for_path(path);
        Self {
            before: after.clone(),
            after,
        }
    }

    /// Returns the colored pieces of a diff line with this mark, and advances the highlighters of
    /// the texts that contain the line.
    fn highlight_line(&mut self, mark: char, line: String) -> Vec<(Style, String)> {
        let plain = match mark {
            '-' => ERROR_STYLE,
            '+' => SUCCESS_STYLE,
            _ => DIM_STYLE,
        };
        let of = |colors: &mut Option<CodeHighlighter>, behind: Style| match colors {
            Some(colors) => colors.highlight_next_line_to_pieces(&line, behind),
            None => vec![(plain, line.clone())],
        };
        match mark {
            '-' => match diff_line_background(false) {
                Some(behind) => of(&mut self.before, behind),
                None => {
                    of(&mut self.before, plain);
                    vec![(plain, line)]
                }
            },
            '+' => of(
                &mut self.after,
                diff_line_background(true).unwrap_or_default(),
            ),
            _ => {
                of(&mut self.before, Style::new());
                of(&mut self.after, Style::new())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(path: &str, before: &str, after: &str) -> Vec<String> {
        let texts = TextsToDiff::new_for_prose(path, before, after);
        let (rows, n_more) = compute_diff_rows(texts, 100);
        assert_eq!(n_more, 0);
        rows.iter().map(RenderedDiffRow::plain_text).collect()
    }

    #[test]
    fn changes_have_their_numbers_and_three_lines_around_them() {
        let lines = |changed: &str| {
            let line = |n| match n {
                5 => format!("{changed}\n"),
                n => format!("line {n}\n"),
            };
            (1..=12).map(line).collect::<String>()
        };
        for path in ["a.txt", "a.rs"] {
            assert_eq!(
                rows(path, &lines("old\u{1b}[2J"), &lines("new\nmore")),
                [
                    " 2   line 2",
                    " 3   line 3",
                    " 4   line 4",
                    " 5 - old\\u{1b}[2J",
                    " 5 + new",
                    " 6 + more",
                    " 7   line 6",
                    " 8   line 7",
                    " 9   line 8",
                ]
            );
        }
    }

    #[test]
    fn a_line_break_that_is_lost_is_told() {
        let shown = rows("a.txt", "one\ntwo\n", "one\ntwo");
        let expected = [
            "1   one",
            "2 - two",
            "2 + two",
            "  \\ no line break at the end",
        ];
        assert_eq!(shown, expected);
        assert_eq!(rows("a.txt", "", "two"), ["1 + two"]);
        assert_eq!(rows("a.txt", "a\r\n", "a\n"), ["1 - a\\u{d}", "1 + a"]);
        assert_eq!(rows("a.txt", "a\r\n", "b\r\n"), ["1 - a", "1 + b"]);
    }

    #[test]
    fn a_file_in_which_every_line_changed_is_compared_up_to_a_point() {
        let lines =
            |what: &str| -> String { (0..50_000).map(|n| format!("{what} {n}\n")).collect() };
        let (before, after) = (lines("old"), lines("new"));
        let (rows, n_more) =
            compute_diff_rows(TextsToDiff::new_for_prose("a.rs", &before, &after), 40);
        assert_eq!((rows.len(), n_more), (40, 99_960));
    }
}
