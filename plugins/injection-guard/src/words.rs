//! Splits a text into words and records their context: whether a sentence begins there, and whether
//! they are quoted.

use std::borrow::Cow;

use crate::pattern::SentenceWords;

/// One word.
#[derive(Debug)]
pub(crate) struct TextWord<'a> {
    /// The word in lower case, with look-alike letters replaced by Latin ones.
    pub(crate) text: Cow<'a, str>,
    /// Byte offset of the word in the text.
    pub(crate) start: usize,
    /// Whether a sentence, a quote or a list item starts with this word.
    pub(crate) begins: bool,
    /// Whether the word is between quotes or backticks.
    pub(crate) quoted: bool,
    /// Whether a comma precedes the word.
    pub(crate) after_comma: bool,
    /// Whether a folder precedes the word, as in `docs/name`.
    pub(crate) after_folder: bool,
    /// Whether the word is joined to the previous one by `_` or `-`, as in `snake_case`.
    pub(crate) joined: bool,
}

/// Byte range of a word in a text.
struct WordSpan {
    start: usize,
    end: usize,
    /// Kinds of the word's characters, as bits such as [`SMALL`].
    seen: u8,
}

impl WordSpan {
    /// Returns the first word at or after `from`.
    fn next(text: &str, from: usize) -> Option<Self> {
        let (start, _) = find_character_run_end(text, from, OUTSIDE, |it| !it.is_alphanumeric());
        if start == text.len() {
            return None;
        }
        let (end, seen) =
            find_character_run_end(text, start, INSIDE, |it| it.is_alphanumeric() || it == '’');
        Some(Self { start, end, seen })
    }

    fn normalize_span<'a>(&self, text: &'a str) -> Cow<'a, str> {
        normalize_word(&text[self.start..self.end], self.seen)
    }
}

/// Returns the word that starts at this position, and the words after it. An ASCII word keeps its
/// case.
pub(crate) fn word_at(text: &str, start: usize) -> Option<(Cow<'_, str>, FollowingWords<'_>)> {
    let span = WordSpan::next(text, start)?;
    let word = match span.seen & BEYOND {
        0 => Cow::Borrowed(&text[span.start..span.end]),
        _ => span.normalize_span(text),
    };
    let from = span.end;
    Some((word, FollowingWords { text, from }))
}

/// The words after a word of a text, where index 1 is the next word. All words count as one
/// sentence, because the ends of sentences are not known yet. A match must be checked again later.
pub(crate) struct FollowingWords<'a> {
    text: &'a str,
    from: usize,
}

impl SentenceWords for FollowingWords<'_> {
    fn next_word_in_sentence(&self, index: usize) -> Option<Cow<'_, str>> {
        // Search from the start at each call: patterns look only a few words ahead.
        let mut span = WordSpan::next(self.text, self.from)?;
        for _ in 1..index {
            span = WordSpan::next(self.text, span.end)?;
        }
        Some(span.normalize_span(self.text))
    }
}

/// Splits a text into its words.
pub(crate) fn split_words(text: &str) -> Vec<TextWord<'_>> {
    let mut words: Vec<TextWord<'_>> = Vec::new();
    let mut quotes = OpenQuotes::default();
    let mut rest = 0;
    while let Some(span) = WordSpan::next(text, rest) {
        let start = span.start;
        let (gap, raw) = (&text[rest..start], &text[start..span.end]);
        let mut word = TextWord {
            text: normalize_word(raw, span.seen),
            start,
            begins: words.is_empty(),
            quoted: quotes.has_open_quote(),
            after_comma: false,
            after_folder: false,
            joined: false,
        };
        // A single space, the most common gap, changes no context.
        if gap != " " {
            let seen = quotes.read_gap(gap);
            word.begins |=
                seen.begins || (seen.goes_on_below && raw.starts_with(char::is_uppercase));
            word.quoted = quotes.has_open_quote();
            word.after_comma = gap.starts_with(',');
            word.after_folder = gap == "/";
            word.joined = !gap.is_empty() && gap.bytes().all(|it| it == b'_' || it == b'-');
        }
        words.push(word);
        rest = span.end;
    }
    words
}

/// Kinds of ASCII characters, as bits: lower-case letter or digit, capital, apostrophe, anything
/// else. The characters of a word are [`INSIDE`], those between two words [`OUTSIDE`]. An
/// apostrophe is in both sets: it may be part of a word, but begins none.
const SMALL: u8 = 1;
const CAPITAL: u8 = 2;
const APOSTROPHE: u8 = 4;
const OTHER: u8 = 8;
const INSIDE: u8 = SMALL | CAPITAL | APOSTROPHE;
const OUTSIDE: u8 = OTHER | APOSTROPHE;
/// Kind of a non-ASCII character.
const BEYOND: u8 = 16;

/// Kind of each byte.
const KINDS: [u8; 256] = {
    let mut kinds = [BEYOND; 256];
    let mut byte = 0;
    while byte < 128 {
        kinds[byte] = match byte as u8 {
            b'a'..=b'z' | b'0'..=b'9' => SMALL,
            b'A'..=b'Z' => CAPITAL,
            b'\'' => APOSTROPHE,
            _ => OTHER,
        };
        byte += 1;
    }
    kinds
};

/// Returns the end of the run of characters that starts at `from`, and the kinds of the characters
/// in it. The run consists of ASCII characters of these kinds and of non-ASCII characters that
/// `is_one` accepts.
fn find_character_run_end(
    text: &str,
    from: usize,
    kinds: u8,
    is_one: impl Fn(char) -> bool,
) -> (usize, u8) {
    let (mut at, mut seen) = (from, 0);
    while let Some(byte) = text.as_bytes().get(at) {
        let kind = KINDS[usize::from(*byte)];
        if kind & kinds != 0 {
            at += 1;
        } else if kind == BEYOND
            && let Some(character) = text[at..].chars().next()
            && is_one(character)
        {
            at += character.len_utf8();
        } else {
            break;
        }
        seen |= kind;
    }
    (at, seen)
}

/// Context of a word, derived from the text between it and the word before.
#[derive(Default)]
struct WordGap {
    /// Whether the text before the word shows that a sentence begins with the word.
    begins: bool,
    /// Whether the word is the first on its line. A line break alone does not begin a sentence,
    /// because lines of prose may be wrapped; a capital letter or a dash at the start of the line
    /// does.
    goes_on_below: bool,
}

/// Kinds of quotes that are open.
#[derive(Default)]
struct OpenQuotes {
    straight: bool,
    backtick: bool,
    curly: bool,
}

impl OpenQuotes {
    /// Updates the open quotes from `gap`, the text between two words, and returns the context of
    /// the second word.
    fn read_gap(&mut self, gap: &str) -> WordGap {
        let mut seen = WordGap::default();
        let mut has_dash = false;
        let mut last = ' ';
        for character in gap.chars() {
            match character {
                '\n' if last == '\n' => {
                    // At a blank line, close all open quotes: a quote does not go beyond its
                    // paragraph.
                    *self = Self::default();
                    seen.begins = true;
                }
                '\n' => seen.goes_on_below = true,
                '-' | '+' => has_dash = true,
                '"' => self.straight = !self.straight,
                '`' => self.backtick = !self.backtick,
                '“' | '«' | '„' => self.curly = true,
                '”' | '»' => self.curly = false,
                _ => {}
            }
            // Punctuation ends a sentence only if white space follows: the full stops in `.env` and
            // `a.b` do not.
            seen.begins |= matches!(
                character,
                '"' | '“' | '”' | '`' | '(' | '{' | '[' | ']' | '}' | ')'
            ) || matches!(character, '<' | '>' | '*' | '#' | '|' | '•' | '—')
                || (matches!(last, '.' | '!' | '?' | ':' | ';') && character.is_whitespace());
            last = character;
        }
        seen.begins |= seen.goes_on_below && has_dash;
        seen
    }

    fn has_open_quote(&self) -> bool {
        self.straight || self.backtick || self.curly
    }
}

/// Converts a word to lower case. In a word that mixes Latin letters with Cyrillic or Greek ones,
/// look-alikes become Latin letters.
fn normalize_word(word: &str, seen: u8) -> Cow<'_, str> {
    if seen & BEYOND == 0 {
        return if seen & CAPITAL != 0 {
            Cow::Owned(word.to_ascii_lowercase())
        } else {
            Cow::Borrowed(word)
        };
    }
    let word = word.to_lowercase().replace('’', "'");
    let mixed = word.contains(|it: char| it.is_ascii_lowercase())
        && word.contains(|it| ('α'..='ӿ').contains(&it));
    if !mixed {
        return Cow::Owned(word);
    }
    let latin = |letter| match letter {
        'а' | 'α' => 'a',
        'е' | 'ε' => 'e',
        'о' | 'ο' => 'o',
        'р' | 'ρ' => 'p',
        'с' => 'c',
        'х' => 'x',
        'у' | 'υ' => 'y',
        'і' | 'ι' => 'i',
        'ѕ' => 's',
        'ν' => 'v',
        other => other,
    };
    Cow::Owned(word.chars().map(latin).collect())
}
