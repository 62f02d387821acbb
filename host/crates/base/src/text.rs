//! Sanitizes text from untrusted sources for a log, an approval prompt or a terminal, and formats
//! counts.
//!
//! Decides which characters are deceptive and how they are escaped. It must not know who wrote a
//! text or where it is shown.
//!
//! Start from [`printable_text`] for text of several lines, [`escape_to_one_line`] for text that
//! must stay on one line, [`escape_prose_for_display`] for text that people only read, and
//! [`escape_and_truncate_line`] for one line of limited length.

use icu_properties::props::{DefaultIgnorableCodePoint, GeneralCategory};
use icu_properties::{CodePointMapData, CodePointSetData};

/// Symbols with an empty glyph. No Unicode property distinguishes them from visible symbols.
const INVISIBLE_SYMBOLS: [char; 2] = ['\u{2800}', '\u{1d159}'];

/// Maximum number of combining marks that are kept on one character. More marks would cover the
/// lines above and below.
const MAX_COMBINING_MARKS_PER_CHAR: usize = 3;

/// Formats a count with its noun, such as "1 step" and "2 steps".
#[must_use]
pub fn format_count_with_noun(n: u64, what: &str) -> String {
    let ending = if n == 1 { "" } else { "s" };
    format!("{n} {what}{ending}")
}

/// Whether a terminal would interpret the character, or a reader would miss it, see it at another
/// position or mistake it for a space: control and format characters, default-ignorable code
/// points, separators except the space, blank symbols, and private-use or unassigned code points.
#[must_use]
pub fn is_deceptive_character(character: char) -> bool {
    if character.is_ascii() {
        return character.is_ascii_control();
    }
    if CodePointSetData::new::<DefaultIgnorableCodePoint>().contains(character)
        || INVISIBLE_SYMBOLS.contains(&character)
    {
        return true;
    }
    matches!(
        unicode_general_category(character),
        GeneralCategory::Control
            | GeneralCategory::Format
            | GeneralCategory::SpaceSeparator
            | GeneralCategory::LineSeparator
            | GeneralCategory::ParagraphSeparator
            | GeneralCategory::PrivateUse
            | GeneralCategory::Surrogate
            | GeneralCategory::Unassigned
    )
}

fn unicode_general_category(character: char) -> GeneralCategory {
    CodePointMapData::<GeneralCategory>::new().get(character)
}

/// Whether the character is a combining mark, drawn over the character before it.
fn is_combining_mark(character: char) -> bool {
    use GeneralCategory::{EnclosingMark, NonspacingMark};
    !character.is_ascii()
        && matches!(
            unicode_general_category(character),
            NonspacingMark | EnclosingMark
        )
}

/// Whether languages or emoji need the character although it is invisible: no-break and other space
/// characters, joiners, and variation selectors.
fn is_needed_invisible_character(character: char) -> bool {
    matches!(character, '\u{200c}' | '\u{200d}' | '\u{fe0e}' | '\u{fe0f}')
        || unicode_general_category(character) == GeneralCategory::SpaceSeparator
}

/// Escapes deceptive characters as `\u{…}`, for example U+202E as `\u{202e}`. Line breaks and tabs
/// are kept.
///
/// For example:
///
/// ```text
/// a<TAB>b<LF><ESC>[2K    ->  a<TAB>b<LF>\u{1b}[2K
/// ```
#[must_use]
pub fn printable_text(text: &str) -> String {
    escape_characters_except(text, |character| matches!(character, '\n' | '\t'))
}

/// Escapes deceptive characters, line breaks and tabs as `\u{…}`, so that the result is always one
/// line.
///
/// For example:
///
/// ```text
/// a<LF>b<TAB>c    ->  a\u{a}b\u{9}c
/// ```
#[must_use]
pub fn escape_to_one_line(text: &str) -> String {
    escape_characters_except(text, |_| false)
}

/// Formats an error and its causes in one line.
#[must_use]
pub fn format_error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

/// Escapes like [`printable_text`], but keeps invisible characters that languages and emoji need.
/// Use it only for text that people read, and not for text on which a decision depends.
#[must_use]
pub fn escape_prose_for_display(text: &str) -> String {
    escape_characters_except(text, |character| {
        matches!(character, '\n' | '\t') || is_needed_invisible_character(character)
    })
}

fn escape_characters_except(text: &str, stays: impl Fn(char) -> bool) -> String {
    let mut shown = String::with_capacity(text.len());
    // Escape combining marks at the start of the text, because they would combine with the
    // character that the program prints before it.
    let mut n_marks = MAX_COMBINING_MARKS_PER_CHAR;
    for character in text.chars() {
        if stays(character) {
            shown.push(character);
            n_marks = MAX_COMBINING_MARKS_PER_CHAR;
            continue;
        }
        let is_mark = is_combining_mark(character);
        if is_mark && n_marks >= MAX_COMBINING_MARKS_PER_CHAR {
            shown.extend(character.escape_unicode());
            continue;
        }
        n_marks = if is_mark { n_marks + 1 } else { 0 };
        push_escaped_character(&mut shown, character);
    }
    shown
}

/// Returns the text as one line of at most `limit` bytes, with deceptive characters escaped. A
/// truncated text ends with `…`, if there is room for it.
///
/// For example:
///
/// ```text
/// " one<LF>two<TAB>"    limit 20    ->  "one two"
/// "one too many"        limit 7     ->  "one …"
/// "long"                limit 2     ->  ""
/// ```
#[must_use]
pub fn escape_and_truncate_line(text: &str, limit: usize) -> String {
    const TRUNCATION_ELLIPSIS: char = '…';
    let mut line = String::with_capacity(text.len().min(limit));
    // Length at which the line can be truncated so that the `…` still fits.
    let mut cut = 0;
    for character in text.trim().chars() {
        match character {
            '\n' | '\t' => line.push(' '),
            _ => push_escaped_character(&mut line, character),
        }
        if line.len() > limit {
            line.truncate(cut);
            if cut + TRUNCATION_ELLIPSIS.len_utf8() <= limit {
                line.push(TRUNCATION_ELLIPSIS);
            }
            break;
        }
        if line.len() + TRUNCATION_ELLIPSIS.len_utf8() <= limit {
            cut = line.len();
        }
    }
    line
}

fn push_escaped_character(shown: &mut String, character: char) {
    if is_deceptive_character(character) {
        shown.extend(character.escape_unicode());
    } else {
        shown.push(character);
    }
}

/// Returns the number of the line, counted from 1, that contains a byte offset.
#[must_use]
pub fn line_number_at(text: &str, offset: usize) -> usize {
    let before = text.bytes().take(offset);
    before.filter(|byte| *byte == b'\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_deceives_is_written_out_and_what_each_reader_needs_stays() {
        type Reader = fn(&str) -> String;
        let answer = "«\u{a0}oui\u{202f}» ❤\u{fe0f} 👩\u{200d}🔬 می\u{200c}خواهم";
        let table: [(Reader, &str, &str); 4] = [
            (
                printable_text,
                "a\tb\n\u{1b}[2K\u{202e}é",
                "a\tb\n\\u{1b}[2K\\u{202e}é",
            ),
            (
                escape_to_one_line,
                "a\nb\tc\r\u{85}\u{2028}d",
                "a\\u{a}b\\u{9}c\\u{d}\\u{85}\\u{2028}d",
            ),
            (escape_prose_for_display, answer, answer),
            (
                escape_prose_for_display,
                "\u{1b}\u{202e}\u{200b}\u{3164}",
                "\\u{1b}\\u{202e}\\u{200b}\\u{3164}",
            ),
        ];
        for (reader, text, expected) in table {
            assert_eq!(reader(text), expected);
        }
    }

    /// Seven characters that an earlier filter let through, and one of each other kind.
    const UNSEEN: &str = "\u{3164}\u{115f}\u{1160}\u{ffa0}\u{2800}\u{a0}\u{3000}\u{034f}\u{17b4}\u{fe0f}\u{e0100}\u{1d159}\u{600}\u{e000}\u{378}\u{1680}\u{2028}\u{2063}\u{ad}";

    #[test]
    fn what_cannot_be_seen_or_looks_like_a_space_is_written_out() {
        for character in UNSEEN.chars() {
            let text = format!("a{character}b");
            let expected = format!("a{}b", character.escape_unicode());
            assert_eq!(printable_text(&text), expected);
            assert_eq!(escape_and_truncate_line(&text, 40), expected);
            assert_eq!(escape_to_one_line(&text), expected);
        }
        let seen = "é ß 日本 한국어 👍 «x» עברית العربية";
        assert_eq!(printable_text(seen), seen);
    }

    #[test]
    fn every_character_that_unicode_lets_a_display_ignore_is_deceptive() {
        let ignorable = CodePointSetData::new::<DefaultIgnorableCodePoint>();
        let mut n_checked = 0;
        for range in ignorable.iter_ranges() {
            for character in range.filter_map(char::from_u32) {
                assert!(is_deceptive_character(character), "{character:?}");
                n_checked += 1;
            }
        }
        assert!(n_checked > 4_000, "{n_checked}");
    }

    #[test]
    fn marks_cover_neither_what_stands_before_the_text_nor_other_lines() {
        assert_eq!(printable_text("\u{338}a\u{301}"), "\\u{338}a\u{301}");
        let many = format!("a{}", "\u{301}".repeat(9));
        assert_eq!(
            printable_text(&many).matches("\\u{301}").count(),
            9 - MAX_COMBINING_MARKS_PER_CHAR
        );
        assert_eq!(printable_text("a\n\u{338}b"), "a\n\\u{338}b");
    }

    #[test]
    fn a_clean_text_is_one_line_within_its_limit() {
        let table = [
            (" one\ntwo\t", 20, "one two"),
            ("exactly", 7, "exactly"),
            ("one too many", 7, "one …"),
            ("\u{7}\u{7}", 9, "\\u{7}…"),
            ("\u{7}\u{7}", 7, "…"),
            ("long", 2, ""),
            ("", 0, ""),
        ];
        for (text, limit, expected) in table {
            assert_eq!(
                escape_and_truncate_line(text, limit),
                expected,
                "{text:?} in {limit}"
            );
        }
    }
}
