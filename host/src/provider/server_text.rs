//! Text from a model server, sanitized for display.
//!
//! Owns how the text is truncated and which characters are removed. It must not know where the text
//! is shown. Start from [`SanitizedServerText`].

use std::fmt;

use crate::text::is_deceptive_character;

/// Maximum length of server text in an error, in characters: enough for any real explanation, but
/// too short to flood a terminal or a transcript.
pub const MAX_SERVER_TEXT_CHARS: usize = 500;

/// Text that a server sent: truncated, on one line, without control characters. It is data and
/// never an instruction, and is always shown in quotes.
///
/// For example:
///
/// ```text
/// two<LF>lines<TAB>and  spaces    ->  "two lines and spaces"
/// <ESC>[31mred<BEL>               ->  "[31mred"
/// (empty)                         ->  nothing
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SanitizedServerText(Box<str>);

impl SanitizedServerText {
    /// Sanitizes and truncates `text`.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let mut kept = String::new();
        let mut n_chars = 0;
        for word in text.split(|c: char| c.is_whitespace() || c.is_control()) {
            for c in word.chars().filter(|c| !is_deceptive_character(*c)) {
                if n_chars == MAX_SERVER_TEXT_CHARS {
                    kept.push('…');
                    return Self(kept.into());
                }
                kept.push(c);
                n_chars += 1;
            }
            if !word.is_empty() && n_chars < MAX_SERVER_TEXT_CHARS {
                kept.push(' ');
                n_chars += 1;
            }
        }
        Self(kept.trim_end().into())
    }

    /// Returns the sanitized text without quotes.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SanitizedServerText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("nothing");
        }
        write!(f, "\"{}\"", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_text_is_capped_on_one_line_and_without_controls() {
        let long = "x".repeat(600);
        let table: &[(&str, &str)] = &[
            ("plain", "\"plain\""),
            ("", "nothing"),
            (" \n ", "nothing"),
            ("two\nlines\tand  spaces ", "\"two lines and spaces\""),
            ("\u{1b}[31mred\u{7}", "\"[31mred\""),
            ("a\u{202e}b\u{200b}c", "\"abc\""),
        ];
        for (text, expected) in table {
            assert_eq!(
                SanitizedServerText::new(text).to_string(),
                *expected,
                "{text:?}"
            );
        }
        let capped = SanitizedServerText::new(&long);
        assert_eq!(capped.as_str().chars().count(), MAX_SERVER_TEXT_CHARS + 1);
        assert!(capped.as_str().ends_with('…'));
    }
}
