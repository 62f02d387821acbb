//! Finds the text in a file that is most similar to a text that was not found, and describes the
//! difference.
//!
//! Models often write plain quotes instead of typographic ones, composed instead of decomposed
//! letters, and spaces instead of tabs or no-break spaces. Naming the line and the character saves
//! the model from reading the file again in search of an invisible difference. Start from
//! [`describe_most_similar_text`].

use std::ops::Range;

use icu_normalizer::properties::{CanonicalDecompositionBorrowed, Decomposed};
use memchr::memmem;

use crate::text::escape_and_truncate_line;

/// Maximum number of bytes of a line that a message shows.
const MAX_DISPLAYED_LINE_BYTES: usize = 200;

/// Maximum length of a line that is compared by similarity, in bytes.
const MAX_COMPARED_LINE_BYTES: usize = 400;

/// Maximum number of lines that are compared by similarity.
const MAX_COMPARED_LINES: usize = 20_000;

/// Minimum similarity of a line, from 0 to 1, for which the line is reported.
const MIN_REPORTED_LINE_SIMILARITY: f64 = 0.6;

/// Describes the most similar text to `old` and the first difference; `None` if no text is similar.
pub(super) fn describe_most_similar_text(text: &str, old: &str) -> Option<String> {
    for folds_case in [false, true] {
        if let Some(place) = find_similar_text(text, old, folds_case) {
            return Some(describe_first_difference(text, place, old));
        }
    }
    describe_nearest_line(text, old)
}

/// A text without differences that are hard to see, such as white space and kinds of quotes, and
/// for each of its bytes the offset of the original character.
struct FoldedTextWithOffsets {
    text: String,
    offsets: Vec<usize>,
}

impl FoldedTextWithOffsets {
    fn new(text: &str, folds_case: bool) -> Self {
        let decomposition = CanonicalDecompositionBorrowed::new();
        let mut folded = Self {
            text: String::with_capacity(text.len()),
            offsets: Vec::with_capacity(text.len()),
        };
        for (offset, c) in text.char_indices() {
            if c.is_ascii() && !c.is_ascii_whitespace() && !folds_case {
                folded.push(c, offset);
            } else {
                folded.fold_character(c, offset, &decomposition, folds_case);
            }
        }
        folded
    }

    fn fold_character(
        &mut self,
        c: char,
        offset: usize,
        decomposition: &CanonicalDecompositionBorrowed<'static>,
        folds_case: bool,
    ) {
        match c {
            _ if c.is_whitespace() => {}
            '\u{ad}' | '\u{200b}'..='\u{200d}' | '\u{2060}' | '\u{feff}' => {}
            '\u{2018}'..='\u{201b}' | '\u{2032}' | '\u{b4}' | '`' => self.push('\'', offset),
            '\u{201c}'..='\u{201f}' | '\u{2033}' | '\u{ab}' | '\u{bb}' => self.push('"', offset),
            '\u{2010}'..='\u{2015}' | '\u{2212}' => self.push('-', offset),
            '\u{2026}' => (0..3).for_each(|_| self.push('.', offset)),
            _ => match decomposition.decompose(c) {
                Decomposed::Default if folds_case => {
                    c.to_lowercase().for_each(|c| self.push(c, offset));
                }
                Decomposed::Default => self.push(c, offset),
                Decomposed::Singleton(c) => {
                    self.fold_character(c, offset, decomposition, folds_case)
                }
                Decomposed::Expansion(first, second) => {
                    self.fold_character(first, offset, decomposition, folds_case);
                    self.fold_character(second, offset, decomposition, folds_case);
                }
            },
        }
    }

    fn push(&mut self, c: char, offset: usize) {
        self.text.push(c);
        self.offsets.resize(self.text.len(), offset);
    }
}

/// Finds the first match that differs from `old` only in white space and in similar characters, and
/// in case if `folds_case`. Returns its range in `text`.
fn find_similar_text(text: &str, old: &str, folds_case: bool) -> Option<Range<usize>> {
    let wanted = FoldedTextWithOffsets::new(old, folds_case);
    if wanted.text.is_empty() {
        return None;
    }
    let folded = FoldedTextWithOffsets::new(text, folds_case);
    let at = memmem::find(folded.text.as_bytes(), wanted.text.as_bytes())?;
    let start = *folded.offsets.get(at)?;
    let last = *folded.offsets.get(at + wanted.text.len() - 1)?;
    let mut end = last + text[last..].chars().next().map_or(0, char::len_utf8);
    // Extend the match by the combining marks that belong to its last letter.
    while let Some(c) = text[end..].chars().next().filter(|c| is_combining_mark(*c)) {
        end += c.len_utf8();
    }
    Some(start..end)
}

/// Whether a character is a common combining mark.
fn is_combining_mark(c: char) -> bool {
    ('\u{300}'..='\u{36f}').contains(&c)
}

/// Describes the first difference between the match in `text` at `place` and `old`.
fn describe_first_difference(text: &str, place: Range<usize>, old: &str) -> String {
    let inner = old.trim();
    let found = &text[place.clone()];
    let mut same = 0;
    for (ours, theirs) in found.chars().zip(inner.chars()) {
        if ours != theirs {
            break;
        }
        same += ours.len_utf8();
    }
    if same == found.len() && same == inner.len() {
        let line = line_number_at(text, place.start);
        return format!(
            "Line {line} is like it, but for the white space at its beginning or end: old_text begins with {} and ends with {}; \
             the file has {} and {} there. Copy the text exactly",
            escape_white_space(leading_space(old)),
            escape_white_space(trailing_space(old)),
            escape_white_space(trailing_space_of_last_line(&text[..place.start])),
            escape_white_space(leading_space(&text[place.end..])),
        );
    }
    let at = place.start + same;
    let (ours, theirs) = (&text[at..place.end], &inner[same..]);
    // Both texts may have white space directly before the difference that is a part of it: show the
    // complete run of white space.
    let back = trailing_space(&text[place.start..at]).len();
    let is_space = |text: &str| text.chars().next().is_none_or(char::is_whitespace);
    let what = if is_space(ours) || is_space(theirs) {
        let run = |text: &str| {
            let run = leading_space(text);
            match run.is_empty() {
                true => "no white space".to_owned(),
                false => escape_white_space(run),
            }
        };
        let (ours, theirs) = (&text[at - back..place.end], &inner[same - back..]);
        format!(
            "the white space: the file has {}, old_text has {}",
            run(ours),
            run(theirs)
        )
    } else {
        format!(
            "a character: the file has {}, old_text has {}",
            describe_first_character(&text[at..place.end]),
            describe_first_character(theirs)
        )
    };
    let line = line_number_at(text, at);
    format!(
        "Line {line} is similar to old_text and differs in {what}. The line is `{}`. Copy the text exactly",
        format_line_at(text, at)
    )
}

/// Describes the line of `text` that is most similar to the longest line of `old`; `None` if no
/// line is similar enough.
fn describe_nearest_line(text: &str, old: &str) -> Option<String> {
    let wanted: Vec<&str> = old.lines().collect();
    let is_like = |line: &&&str| line.len() <= MAX_COMPARED_LINE_BYTES && !line.trim().is_empty();
    let longest = wanted
        .iter()
        .filter(is_like)
        .max_by_key(|line| line.trim().len())?;
    let at_wanted = wanted.iter().position(|line| line == longest)?;
    let lines: Vec<&str> = text.lines().take(MAX_COMPARED_LINES).collect();
    let likeness = |line: &str| strsim::sorensen_dice(line.trim(), longest.trim());
    let near = lines.iter().enumerate();
    let near = near.filter(|(_, line)| line.len() <= MAX_COMPARED_LINE_BYTES);
    let near = near.map(|(number, line)| (number, likeness(line)));
    let (at, likeness) = near.max_by(|a, b| a.1.total_cmp(&b.1))?;
    if likeness < MIN_REPORTED_LINE_SIMILARITY {
        return None;
    }
    // The longest line of `old` may be in the file as it is, so compare the lines around it too.
    let first = at.checked_sub(at_wanted);
    let pairs = wanted.iter().enumerate().map(|(number, wanted)| {
        let number = first.map(|first| first + number);
        (number, number.and_then(|number| lines.get(number)), wanted)
    });
    let mut others = pairs.filter(|(_, line, wanted)| line.is_none_or(|line| line != *wanted));
    Some(match others.next() {
        Some((Some(number), Some(line), wanted)) => format!(
            "The nearest place is around line {}. Line {} differs: the file has `{}`, old_text has `{}`. Read these lines again",
            at + 1,
            number + 1,
            escape_and_truncate_line(line, MAX_DISPLAYED_LINE_BYTES),
            escape_and_truncate_line(wanted, MAX_DISPLAYED_LINE_BYTES)
        ),
        _ => format!(
            "The nearest line is line {}: `{}`; the lines around it differ. Read these lines again",
            at + 1,
            escape_and_truncate_line(lines[at], MAX_DISPLAYED_LINE_BYTES)
        ),
    })
}

fn line_number_at(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

fn format_line_at(text: &str, at: usize) -> String {
    let start = text[..at].rfind('\n').map_or(0, |line| line + 1);
    let line = text[start..].lines().next().unwrap_or_default();
    // Show the part of a long line around the difference.
    let from = match line.len() > MAX_DISPLAYED_LINE_BYTES {
        true => line.floor_char_boundary(
            (at - start)
                .saturating_sub(MAX_DISPLAYED_LINE_BYTES / 2)
                .min(line.len()),
        ),
        false => 0,
    };
    escape_and_truncate_line(&line[from..], MAX_DISPLAYED_LINE_BYTES)
}

fn leading_space(text: &str) -> &str {
    &text[..text.len() - text.trim_start().len()]
}

fn trailing_space(text: &str) -> &str {
    &text[text.trim_end().len()..]
}

fn trailing_space_of_last_line(text: &str) -> &str {
    let start = text.rfind('\n').map_or(0, |line| line + 1);
    trailing_space(&text[start..])
}

/// Formats white space as escapes, so that it becomes visible.
fn escape_white_space(text: &str) -> String {
    let text = &text[..text.floor_char_boundary(40)];
    format!("{text:?}")
}

/// Describes the first character of a text, with its code and name.
fn describe_first_character(text: &str) -> String {
    let Some(c) = text.chars().next() else {
        return "no more text".to_owned();
    };
    let name = match c {
        '\'' => " (apostrophe)",
        '"' => " (quotation mark)",
        '\u{2018}' => " (left single quotation mark)",
        '\u{2019}' => " (right single quotation mark)",
        '\u{201c}' => " (left double quotation mark)",
        '\u{201d}' => " (right double quotation mark)",
        '\u{2010}'..='\u{2015}' => " (dash)",
        '\u{2212}' => " (minus sign)",
        '\u{2026}' => " (ellipsis)",
        '\u{ad}' => " (soft hyphen)",
        '\u{200b}'..='\u{200d}' | '\u{2060}' | '\u{feff}' => " (no width)",
        _ if is_combining_mark(c) => " (combining mark: letters are decomposed, NFD)",
        _ if text.chars().nth(1).is_some_and(is_combining_mark) => {
            " (followed by a combining mark: letters are decomposed, NFD)"
        }
        _ => "",
    };
    format!("U+{:04X} {c}{name}", u32::from(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that the message about a text contains all of these words.
    fn check(text: &str, old: &str, words: &[&str]) {
        let told = describe_most_similar_text(text, old).unwrap_or_default();
        for word in words {
            assert!(told.contains(word), "{told:?} has no {word:?}");
        }
    }

    #[test]
    fn a_difference_that_cannot_be_seen_is_named_with_its_line() {
        check(
            "a\nsay \u{2019}hi\u{2019}\n",
            "say 'hi'",
            &["Line 2", "U+2019", "U+0027", "say \u{2019}hi"],
        );
        check("\u{201c}x\u{201d}", "\"x\"", &["U+201C", "U+0022"]);
        check(
            "cafe\u{301} au lait",
            "caf\u{e9} au lait",
            &["Line 1", "NFD"],
        );
        check(
            "caf\u{e9} au lait",
            "cafe\u{301} au lait",
            &["U+00E9", "NFD"],
        );
        check(
            "a\u{a0}= 1",
            "a = 1",
            &["white space", r#""\u{a0}""#, r#"" ""#],
        );
        check(
            "if x:\n\treturn 1\n",
            "if x:\n    return 1",
            &["Line 2", r#""\n\t""#, r#""\n    ""#],
        );
        check("a  = 1", "a = 1", &[r#""  ""#]);
        check("foo(a, b)", "foo(a,b)", &["no white space"]);
        check("a \u{2013} b", "a - b", &["U+2013", "dash"]);
        check("na\u{200b}me = 1", "name = 1", &["U+200B", "no width"]);
        check("wait\u{2026}", "wait...", &["ellipsis"]);
        check(
            "last line",
            "last line\n",
            &["at its beginning or end", r#"ends with "\n""#],
        );
        check("let Name = 1;", "let name = 1;", &["U+004E N", "U+006E n"]);
    }

    #[test]
    fn the_nearest_line_is_told_when_more_differs() {
        let text = "fn one() {\n    let total = count + 1;\n    total\n}\n";
        check(
            text,
            "let total = count + 2;",
            &["line 2", "count + 1", "count + 2"],
        );
        check(
            text,
            "    let total = count + 1;\n    sum\n",
            &["line 2", "Line 3", "`total`", "`sum`"],
        );
        assert_eq!(
            describe_most_similar_text(text, "quite another thing"),
            None
        );
        assert_eq!(describe_most_similar_text("", "a"), None);
        assert_eq!(describe_most_similar_text("a", " \n"), None);
        assert_eq!(describe_most_similar_text("a", ""), None);
    }
}
