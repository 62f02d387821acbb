//! Wraps lines of the program's own text at blanks, to the width of their terminal.
//!
//! A terminal itself breaks lines anywhere, even within a word. Output to a pipe or a file stays
//! unwrapped, and so does the model's text.
//!
//! Two lines, and the rows that they become at 18 columns:
//!
//! ```text
//! ▲ these are words enough       ▲ these are words
//!                                  enough
//! ✓ name   text that goes on     ✓ name   text that
//!                                         goes on
//! ```

use std::borrow::Cow;

use unicode_width::UnicodeWidthChar;

/// First character of an escape sequence, which takes no columns.
const ESCAPE_SEQUENCE_START: char = '\u{1b}';

/// Escape sequence that ends all styles of the terminal.
const STYLE_RESET_SEQUENCE: &str = "\u{1b}[0m";

/// Indentation of continuation rows if the line has no column to align them with.
const DEFAULT_CONTINUATION_INDENT: usize = 2;

/// Wraps every line to `columns`; `None` leaves the text unwrapped. A word that is wider than a row
/// is not broken, so that a path or digest can be copied.
pub(in super::super) fn wrap_lines_to_columns(text: &str, columns: Option<usize>) -> Cow<'_, str> {
    match columns {
        Some(columns) if text.lines().any(|line| text_width(line) > columns) => {
            let lines = text
                .split('\n')
                .map(|line| wrap_styled_line_at_words(line, columns));
            Cow::Owned(lines.collect::<Vec<_>>().join("\n"))
        }
        _ => Cow::Borrowed(text),
    }
}

/// Part of a line: a character with its width in columns, or an escape sequence with `None`.
pub(in super::super) struct LineCharacterOrEscape<'a> {
    pub(in super::super) text: &'a str,
    pub(in super::super) width: Option<usize>,
}

/// Splits a line into its characters and escape sequences: styles, which end with a letter, and
/// link addresses, which end with `ESC \`.
pub(in super::super) fn split_into_characters_and_escapes(
    line: &str,
) -> impl Iterator<Item = LineCharacterOrEscape<'_>> {
    let mut rest = line;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let (n, width) = match first {
            ESCAPE_SEQUENCE_START => (escape_sequence_length(rest), None),
            _ => (first.len_utf8(), Some(first.width().unwrap_or(0))),
        };
        let (text, after) = rest.split_at_checked(n).unwrap_or((rest, ""));
        rest = after;
        Some(LineCharacterOrEscape { text, width })
    })
}

fn escape_sequence_length(text: &str) -> usize {
    const HYPERLINK_TERMINATOR: &str = "\u{1b}\\";
    let end = match text.strip_prefix("\u{1b}]") {
        Some(link) => link
            .find(HYPERLINK_TERMINATOR)
            .map(|at| 2 + at + HYPERLINK_TERMINATOR.len()),
        None => text
            .find(|c: char| c.is_ascii_alphabetic())
            .map(|at| at + 1),
    };
    end.unwrap_or(text.len())
}

/// Returns the visible characters of a line, with the width of each in columns.
fn list_visible_characters(line: &str) -> impl Iterator<Item = (char, usize)> {
    split_into_characters_and_escapes(line)
        .filter_map(|part| Some((part.text.chars().next()?, part.width?)))
}

/// Returns the width of a text on a terminal, in columns.
pub(in super::super) fn text_width(text: &str) -> usize {
    list_visible_characters(text).map(|(_, width)| width).sum()
}

/// Returns the prefix of the continuation rows of a line: its leading `│` marks and blanks, then
/// spaces up to the column in which the text begins.
fn continuation_row_prefix(line: &str, columns: usize) -> String {
    let is_mark = |character: &char| matches!(character, ' ' | '│');
    let marks: String = list_visible_characters(line)
        .map(|(c, _)| c)
        .take_while(is_mark)
        .collect();
    let (mut at, mut n_blanks, mut column) = (0, 0, None);
    for (character, width) in list_visible_characters(line) {
        if character == ' ' {
            n_blanks += 1;
        } else {
            if n_blanks > 1 && at <= columns / 2 {
                column = Some(at);
            }
            n_blanks = 0;
        }
        at += width;
    }
    let own = text_width(&marks);
    let hang = column
        .filter(|column| *column > own)
        .unwrap_or(own + DEFAULT_CONTINUATION_INDENT);
    let n_blanks = hang.min(columns / 2).saturating_sub(own);
    marks + &" ".repeat(n_blanks)
}

fn wrap_styled_line_at_words(line: &str, columns: usize) -> String {
    if text_width(line) <= columns {
        return line.to_owned();
    }
    let margin = continuation_row_prefix(line, columns);
    let mut wrapped = String::with_capacity(line.len() + 64);
    let mut at = 0;
    let mut may_break = false;
    for piece in line.split_inclusive(' ') {
        let word = piece.trim_end_matches(' ');
        let n = text_width(word);
        if may_break && n > 0 && at + n > columns {
            wrapped.truncate(wrapped.trim_end_matches(' ').len());
            wrapped.push('\n');
            wrapped.push_str(&margin);
            at = text_width(&margin);
        }
        wrapped.push_str(piece);
        at += text_width(piece);
        // Do not break after `=`: a line copied into a settings file must keep its meaning.
        may_break = if n > 0 {
            !word.ends_with('=')
        } else {
            may_break
        };
    }
    wrapped
}

/// Breaks a styled line at any character, into a first row of `columns` columns and further rows of
/// `hang` columns fewer. Styles continue in the next row.
pub(in super::super) fn break_styled_line_anywhere(
    line: &str,
    columns: usize,
    hang: usize,
) -> Vec<String> {
    let (mut rows, mut row, mut at) = (Vec::new(), String::new(), 0);
    let mut open = String::new();
    let mut room = columns;
    for part in split_into_characters_and_escapes(line) {
        let Some(width) = part.width else {
            row.push_str(part.text);
            match part.text {
                STYLE_RESET_SEQUENCE => open.clear(),
                style => open.push_str(style),
            }
            continue;
        };
        if at > 0 && at + width > room {
            if !open.is_empty() {
                row.push_str(STYLE_RESET_SEQUENCE);
            }
            rows.push(std::mem::replace(&mut row, open.clone()));
            (at, room) = (0, columns.saturating_sub(hang));
        }
        row.push_str(part.text);
        at += width;
    }
    rows.push(row);
    rows
}

#[cfg(test)]
mod tests {
    use super::super::{DIM_STYLE, style_text};
    use super::*;

    fn rows(text: &str, columns: usize) -> Vec<String> {
        let wrapped = wrap_lines_to_columns(text, Some(columns));
        wrapped.lines().map(str::to_owned).collect()
    }

    #[test]
    fn lines_are_broken_at_blanks_and_keep_their_columns_and_marks() {
        let table: [(&str, &[&str]); 6] = [
            ("short enough", &["short enough"]),
            (
                "▲ these are words enough",
                &["▲ these are words", "  enough"],
            ),
            (
                "✓ name   text that goes on",
                &["✓ name   text that", "         goes on"],
            ),
            (
                "  │ words of a plugin here",
                &["  │ words of a", "  │   plugin here"],
            ),
            (
                "/a/path/that/no/row/holds it is",
                &["/a/path/that/no/row/holds", "  it is"],
            ),
            ("    digest = 0123456789", &["    digest = 0123456789"]),
        ];
        for (text, expected) in table {
            assert_eq!(rows(text, 18), expected, "{text}");
        }
        assert_eq!(
            wrap_lines_to_columns("as it is, however long", None),
            "as it is, however long"
        );
    }

    #[test]
    fn styles_take_no_room_and_wide_characters_two_columns() {
        let text = style_text(DIM_STYLE, "eight or nine");
        assert_eq!(wrap_lines_to_columns(&text, Some(13)), text);
        assert_eq!(rows("日本 日本 日本", 9), ["日本 日本", "  日本"]);
    }

    #[test]
    fn a_line_that_is_broken_anywhere_keeps_its_styles_in_each_row() {
        let line = format!("ab{}g", style_text(DIM_STYLE, "cdef"));
        let rows = break_styled_line_anywhere(&line, 4, 1);
        assert_eq!(rows.len(), 2, "{rows:?}");
        assert_eq!(rows[0], format!("ab{}", style_text(DIM_STYLE, "cd")));
        assert_eq!(rows[1], format!("{}g", style_text(DIM_STYLE, "ef")));
        assert_eq!(break_styled_line_anywhere("日本語", 4, 2), ["日本", "語"]);
        assert_eq!(break_styled_line_anywhere("", 4, 2), [""]);
    }

    #[test]
    fn no_row_is_wider_than_the_terminal_and_no_word_is_lost() {
        let words = "▲ plugin guard is left out:  it asks for what was not given to it\n    and more\n\nlast";
        for columns in 12..70 {
            let wrapped = wrap_lines_to_columns(words, Some(columns));
            assert!(
                wrapped.lines().all(|row| text_width(row) <= columns),
                "{wrapped}"
            );
            let all = |text: &str| {
                text.split_whitespace()
                    .map(str::to_owned)
                    .collect::<Vec<_>>()
            };
            assert_eq!(all(&wrapped), all(words), "{columns}");
        }
    }
}
