//! Replaces a text within a text, for `edit_file`.
//!
//! Line endings are compared as if all were LF, because models write `\n` regardless of the file.
//! Inserted lines take the line endings of the lines that they replace. This module must not know
//! files or encodings. Start from [`replace_text`].

use std::borrow::Cow;
use std::fmt::Write;

use memchr::memmem;

use super::format_count_with_noun;
use super::near_miss::describe_most_similar_text;

/// Number of unchanged lines shown before the change, and the same number after it.
const UNCHANGED_CONTEXT_LINES: usize = 3;

/// Maximum number of lines shown of the old text, and the same number of the new text.
const MAX_DISPLAYED_CHANGED_LINES: usize = 40;

/// Maximum number of bytes shown of one line: a generated file may be a single line of megabytes.
const MAX_DISPLAYED_LINE_BYTES: usize = 2_000;

/// Maximum number of overlapping matches to count. Each one costs time linear in the length of the
/// text.
const MAX_OVERLAPPING_MATCHES: usize = 100;

/// A text to replace, and its replacement.
#[derive(Clone, Copy)]
pub(super) struct TextReplacement<'a> {
    pub(super) old: &'a str,
    pub(super) new: &'a str,
    pub(super) is_everywhere: bool,
}

#[derive(Debug)]
pub(super) struct TextReplacementResult {
    /// Numbers of the first and the last line of the first match, counted from 1.
    pub(super) lines: (usize, usize),
    /// Complete text after the replacement.
    pub(super) content: String,
    pub(super) n_places: usize,
    /// Unified diff of the first replacement.
    pub(super) snippet: String,
}

/// Replaces the only occurrence of a text in `content`, or all occurrences.
///
/// # Errors
/// Reason why nothing was replaced, worded for the model.
pub(super) fn replace_text(
    content: &str,
    asked: TextReplacement<'_>,
) -> Result<TextReplacementResult, String> {
    let TextReplacement { old, new, .. } = asked;
    if old.is_empty() {
        return Err("old_text is empty".to_owned());
    }
    if old == new {
        return Err("old_text and new_text are the same".to_owned());
    }
    let (flat_old, flat_new) = (replace_crlf_with_lf(old), replace_crlf_with_lf(new));
    // If `old` and `new` differ only in line endings, the edit is meant to change the line endings.
    let is_literal = flat_old == flat_new;
    let text = match is_literal {
        true => LfNormalizedText::from_unconverted_text(content),
        false => LfNormalizedText::new(content),
    };
    let (old, new) = match is_literal {
        true => (Cow::Borrowed(old), Cow::Borrowed(new)),
        false => (flat_old, flat_new),
    };
    let places = find_match_offsets(&text.text, &old, asked.is_everywhere)
        .map_err(|why| why.unwrap_or_else(|| old_text_not_found_error(&text.text, &old)))?;
    let mut changed = String::with_capacity(content.len() + new.len());
    let mut first = None;
    let mut rest = 0;
    for at in &places {
        let end = at + old.len();
        let (start, stop) = (text.original_offset(*at), text.original_offset(end));
        changed.push_str(&content[rest..start]);
        let put = text.adapt_line_endings(*at, &old, &new);
        changed.push_str(&put);
        rest = stop;
        first.get_or_insert((start, stop, put));
    }
    changed.push_str(&content[rest..]);
    let (start, stop, put) = first.unwrap_or_default();
    let line =
        |offset: usize| memchr::memchr_iter(b'\n', &content.as_bytes()[..offset]).count() + 1;
    Ok(TextReplacementResult {
        lines: (line(start), line(stop.saturating_sub(1).max(start))),
        snippet: format_edit_diff(content, start, &content[start..stop], &put),
        content: changed,
        n_places: places.len(),
    })
}

fn old_text_not_found_error(text: &str, old: &str) -> String {
    match describe_most_similar_text(text, old) {
        Some(near) => format!("old_text is not in the file. {near}"),
        None => "old_text is not in the file, nor is a similar text. It must match exactly, white space included; read the file again"
            .to_owned(),
    }
}

/// Returns the offsets of the matches to replace. Returns `Err(None)` if there is no match, and
/// `Err` with a reason if there are matches that cannot be replaced.
fn find_match_offsets(
    text: &str,
    old: &str,
    is_everywhere: bool,
) -> Result<Vec<usize>, Option<String>> {
    let (text, old) = (text.as_bytes(), old.as_bytes());
    let finder = memmem::Finder::new(old);
    let apart: Vec<usize> = finder.find_iter(text).collect();
    if apart.is_empty() {
        return Err(None);
    }
    if can_text_overlap_itself(old) {
        // Occurrences of `old` may overlap, because it begins and ends with the same text.
        let overlaps = apart.iter().any(|at| {
            let end = text.len().min(at + 2 * old.len() - 1);
            finder.find(&text[at + 1..end]).is_some()
        });
        if overlaps {
            let mut n_places = 0;
            let mut from = 0;
            while let Some(at) = finder
                .find(&text[from..])
                .filter(|_| n_places < MAX_OVERLAPPING_MATCHES)
            {
                n_places += 1;
                from += at + 1;
            }
            let least = if n_places == MAX_OVERLAPPING_MATCHES {
                "at least "
            } else {
                ""
            };
            return Err(Some(format!(
                "old_text occurs in the file {least}{n_places} times, and these places overlap. Give more lines around it so that it is \
                 unique"
            )));
        }
    }
    match apart.len() {
        1 => Ok(apart),
        _ if is_everywhere => Ok(apart),
        n_places => Err(Some(format!(
            "old_text occurs in the file {n_places} times. Give more lines around it so that it is unique, or set replace_all"
        ))),
    }
}

/// Whether two matches of the text can overlap, because a proper prefix of it is also a suffix.
/// This is so if the last value of the prefix function (Knuth-Morris-Pratt) is not 0.
fn can_text_overlap_itself(text: &[u8]) -> bool {
    let mut borders = vec![0_usize; text.len()];
    for at in 1..text.len() {
        let mut border = borders[at - 1];
        while border > 0 && text[at] != text[border] {
            border = borders[border - 1];
        }
        borders[at] = border + usize::from(text[at] == text[border]);
    }
    borders.last().is_some_and(|border| *border > 0)
}

/// Returns the text with CR LF replaced by LF.
fn replace_crlf_with_lf(text: &str) -> Cow<'_, str> {
    match text.contains("\r\n") {
        true => text.replace("\r\n", "\n").into(),
        false => text.into(),
    }
}

/// A text with CR LF replaced by LF, with a mapping back to the original.
struct LfNormalizedText<'a> {
    text: Cow<'a, str>,
    /// Offsets in `text` of the line breaks that are CR LF in the original, in order.
    crlf: Vec<usize>,
}

impl<'a> LfNormalizedText<'a> {
    /// Creates a text in which CR LF is not replaced.
    fn from_unconverted_text(content: &'a str) -> Self {
        Self {
            text: content.into(),
            crlf: Vec::new(),
        }
    }

    fn new(content: &'a str) -> Self {
        let found = memmem::find_iter(content.as_bytes(), b"\r\n");
        // Each earlier CR LF made the text one byte shorter.
        let crlf = found.enumerate().map(|(n, at)| at - n).collect();
        Self {
            text: replace_crlf_with_lf(content),
            crlf,
        }
    }

    /// Converts an offset in `text` to an offset in the text before the replacement of CR LF.
    fn original_offset(&self, at: usize) -> usize {
        at + self.crlf.partition_point(|offset| *offset < at)
    }

    fn is_crlf_at(&self, at: usize) -> bool {
        self.crlf.binary_search(&at).is_ok()
    }

    /// Returns `new`, with the line endings of the lines of the file that it replaces. `at` is the
    /// offset of the match in `text`.
    fn adapt_line_endings(&self, at: usize, old: &str, new: &str) -> String {
        if self.crlf.is_empty() || !new.contains('\n') {
            return new.to_owned();
        }
        let breaks = memchr::memchr_iter(b'\n', old.as_bytes());
        let ends: Vec<bool> = breaks.map(|offset| self.is_crlf_at(at + offset)).collect();
        let (old_lines, new_lines): (Vec<&str>, Vec<&str>) =
            (old.split('\n').collect(), new.split('\n').collect());
        let n_new = new_lines.len() - 1;
        let least = ends.len().min(n_new);
        let pairs = old_lines.iter().zip(&new_lines);
        let n_same = pairs.take_while(|(old, new)| old == new).count().min(least);
        let pairs = old_lines.iter().rev().zip(new_lines.iter().rev());
        let n_same_end = pairs.take_while(|(old, new)| old == new).count();
        let n_same_end = n_same_end.min(least - n_same);
        let usual = self.should_insert_crlf(at, old.len(), &ends);
        let is_crlf = |number: usize| {
            let from_end = n_new - number;
            if number < n_same || n_new == ends.len() {
                ends[number]
            } else if from_end <= n_same_end {
                ends[ends.len() - from_end]
            } else {
                usual
            }
        };
        let mut text = String::with_capacity(new.len() + n_new);
        for (number, line) in new_lines.iter().enumerate() {
            text.push_str(line);
            if number < n_new {
                text.push_str(if is_crlf(number) { "\r\n" } else { "\n" });
            }
        }
        text
    }

    /// Whether inserted lines end in CR LF. Decided by the majority of the replaced lines, else by
    /// the ending of the current line, else by the ending of the line before.
    fn should_insert_crlf(&self, at: usize, len: usize, ends: &[bool]) -> bool {
        let n_crlf = ends.iter().filter(|is_crlf| **is_crlf).count();
        if let Some(first) = ends.first() {
            return match (2 * n_crlf).cmp(&ends.len()) {
                std::cmp::Ordering::Equal => *first,
                order => order.is_gt(),
            };
        }
        let bytes = self.text.as_bytes();
        let next = memchr::memchr(b'\n', &bytes[at + len..]).map(|offset| at + len + offset);
        let near = next.or_else(|| memchr::memrchr(b'\n', &bytes[..at]));
        near.is_some_and(|at| self.is_crlf_at(at))
    }
}

/// Formats the change of the first match as a unified diff with complete lines.
fn format_edit_diff(content: &str, at: usize, old: &str, new: &str) -> String {
    let start = content[..at].rfind('\n').map_or(0, |line| line + 1);
    let old_end = at + old.len();
    let end = if old.ends_with('\n') {
        old_end
    } else {
        content[old_end..]
            .find('\n')
            .map_or(content.len(), |more| old_end + more)
    };
    let removed = &content[start..end];
    let added = format!("{}{new}{}", &content[start..at], &content[old_end..end]);
    let n_before = memchr::memchr_iter(b'\n', &content.as_bytes()[..start]).count();
    let before: Vec<&str> = content[..start]
        .lines()
        .rev()
        .take(UNCHANGED_CONTEXT_LINES)
        .collect();
    let rest = &content[end..];
    let after = if old.ends_with('\n') {
        rest
    } else {
        let after_break = rest.strip_prefix("\r\n").or(rest.strip_prefix('\n'));
        after_break.unwrap_or_default()
    };
    let mut text = format!("@@ line {} @@\n", n_before + 1);
    let mut push = |sign: char, lines: &mut dyn Iterator<Item = &str>, cap: usize| {
        let mut n_more = 0_usize;
        for (number, line) in lines.enumerate() {
            if number >= cap {
                n_more += 1;
                continue;
            }
            let shown = &line[..line.floor_char_boundary(MAX_DISPLAYED_LINE_BYTES)];
            let cut = line.len() - shown.len();
            let _ = match cut {
                0 => writeln!(text, "{sign}{line}"),
                _ => writeln!(
                    text,
                    "{sign}{shown}[… {} more]",
                    format_count_with_noun(cut, "byte")
                ),
            };
        }
        if n_more > 0 {
            let _ = writeln!(
                text,
                "{sign}[… {} more]",
                format_count_with_noun(n_more, "line")
            );
        }
    };
    push(
        ' ',
        &mut before.iter().rev().copied(),
        UNCHANGED_CONTEXT_LINES,
    );
    push('-', &mut removed.lines(), MAX_DISPLAYED_CHANGED_LINES);
    push('+', &mut added.lines(), MAX_DISPLAYED_CHANGED_LINES);
    push(
        ' ',
        &mut after.lines().take(UNCHANGED_CONTEXT_LINES),
        UNCHANGED_CONTEXT_LINES,
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(
        content: &str,
        old: &str,
        new: &str,
        is_everywhere: bool,
    ) -> Result<TextReplacementResult, String> {
        let asked = TextReplacement {
            old,
            new,
            is_everywhere,
        };
        replace_text(content, asked)
    }

    fn check(content: &str, old: &str, new: &str, expected: &str) {
        let change = change(content, old, new, false).map(|change| change.content);
        assert_eq!(
            change.as_deref(),
            Ok(expected),
            "{content:?} {old:?} {new:?}"
        );
    }

    #[test]
    fn the_snippet_shows_whole_lines_around_the_change() {
        for (content, old, new, expected) in [
            (
                "one\ntwo\nthree\nfour\nfive\n",
                "re",
                "r33",
                "@@ line 3 @@\n one\n two\n-three\n+thr33e\n four\n five\n",
            ),
            (
                "one\ntwo\nthree\n",
                "two\n",
                "",
                "@@ line 2 @@\n one\n-two\n three\n",
            ),
        ] {
            let change = change(content, old, new, false).map(|change| change.snippet);
            assert_eq!(change.as_deref(), Ok(expected));
        }
        let long = "x".repeat(10_000);
        let change = change(&format!("{long}old"), "old", "new", false).unwrap();
        assert!(change.snippet.len() < 3 * MAX_DISPLAYED_LINE_BYTES);
    }

    #[test]
    fn lines_and_characters_stay_whole() {
        check("one\ntwo\nthree\n", "two\n", "", "one\nthree\n");
        check("äöü\nß\n", "ö", "€", "ä€ü\nß\n");
    }

    #[test]
    fn an_edit_keeps_the_line_ends_of_the_lines_around_it() {
        check("a\r\nb\r\n", "a\nb", "a\nx\nb", "a\r\nx\r\nb\r\n");
        // A file with mixed line endings: edits in either part, and across both.
        check("a\nb\nc\r\n", "a\nb", "a\nx\nb", "a\nx\nb\nc\r\n");
        check(
            "a\r\nb\r\nc\nd\n",
            "a\nb",
            "a\nx\nb",
            "a\r\nx\r\nb\r\nc\nd\n",
        );
        check("a\nb\r\nc\nd", "a\nb\nc", "a\nx\nc", "a\nx\r\nc\nd");
        check(
            "a\r\nb\nc\n",
            "a\nb\nc",
            "a\nx\ny\nb\nc",
            "a\r\nx\r\ny\r\nb\nc\n",
        );
        check("a\r\nb\nc\r\nd", "b\nc\n", "b\n", "a\r\nb\nd");
        // An inserted line takes the line ending of its neighbors.
        check("a\r\nb", "b", "b\nc", "a\r\nb\r\nc");
        check("a\nb\r\nc\n", "b", "b\nx", "a\nb\r\nx\r\nc\n");
        // The model wrote CR LF, but the file has LF.
        check("a\nb\n", "a\r\nb", "a\r\nx", "a\nx\n");
        // A line ending at the edge of the match is replaced as a whole.
        check("a\r\nb\r\nc", "\nb\n", "\n", "a\r\nc");
        // An edit that differs only in line endings changes them.
        check("a\r\nb\n", "a\r\n", "a\n", "a\nb\n");
    }

    #[test]
    fn the_number_of_places_is_told() {
        let why =
            |content, old, is_everywhere| change(content, old, "y", is_everywhere).unwrap_err();
        assert!(why("x x x", "x", false).contains("3 times"));
        let all = change("x x x", "x", "y", true).map(|change| change.content);
        assert_eq!(all.as_deref(), Ok("y y y"));
        for (content, old, n) in [
            ("aaa", "aa", "2"),
            ("x\nx\nx\n", "x\nx\n", "2"),
            ("aaaa", "aa", "3"),
        ] {
            for is_everywhere in [false, true] {
                let why = why(content, old, is_everywhere);
                assert!(
                    why.contains(&format!("{n} times, and these places overlap")),
                    "{why}"
                );
            }
        }
        let long = "a".repeat(1 << 20);
        assert!(why(&long, &long[1000..], false).contains("at least 100 times"));
        // The text could overlap with itself, but its matches do not.
        let all = change("aba-aba", "aba", "x", true).map(|change| change.content);
        assert_eq!(all.as_deref(), Ok("x-x"));
    }
}
