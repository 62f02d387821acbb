//! Splits a text into words and records their context: whether a sentence begins there, and whether
//! they are quoted.

use std::borrow::Cow;

use crate::pattern::SentenceWordAccess;

/// Word of a text, normalized for comparison.
#[derive(Debug)]
pub(crate) struct NormalizedTextWord<'a> {
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
struct WordByteRange {
    start: usize,
    end: usize,
    /// Kinds of the word's characters, as bits such as [`LOWERCASE_OR_DIGIT_KIND`].
    seen: u8,
}

impl WordByteRange {
    /// Returns the first word at or after `from`.
    fn find_next_word(text: &str, from: usize) -> Option<Self> {
        let (start, _) =
            find_character_run_end(text, from, WORD_SEPARATOR_KINDS, |it| !it.is_alphanumeric());
        if start == text.len() {
            return None;
        }
        let (end, seen) = find_character_run_end(text, start, CHARACTER_KINDS_WITHIN_WORDS, |it| {
            it.is_alphanumeric() || it == '’'
        });
        Some(Self { start, end, seen })
    }

    fn normalize_word_in_text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        normalize_word(&text[self.start..self.end], self.seen)
    }
}

/// Returns the word that starts at this position, and the words after it. An ASCII word keeps its
/// case.
pub(crate) fn word_at(text: &str, start: usize) -> Option<(Cow<'_, str>, RemainingTextWords<'_>)> {
    let span = WordByteRange::find_next_word(text, start)?;
    let word = match span.seen & NON_ASCII_CHARACTER_KIND {
        0 => Cow::Borrowed(&text[span.start..span.end]),
        _ => span.normalize_word_in_text(text),
    };
    let from = span.end;
    Some((word, RemainingTextWords { text, from }))
}

/// The words after a word of a text, where index 1 is the next word. All words count as one
/// sentence, because the ends of sentences are not known yet. A match must be checked again later.
pub(crate) struct RemainingTextWords<'a> {
    text: &'a str,
    from: usize,
}

impl SentenceWordAccess for RemainingTextWords<'_> {
    fn next_word_in_sentence(&self, index: usize) -> Option<Cow<'_, str>> {
        // Search from the start at each call: patterns look only a few words ahead.
        let mut span = WordByteRange::find_next_word(self.text, self.from)?;
        for _ in 1..index {
            span = WordByteRange::find_next_word(self.text, span.end)?;
        }
        Some(span.normalize_word_in_text(self.text))
    }
}

/// Splits a text into its words.
pub(crate) fn split_words(text: &str) -> Vec<NormalizedTextWord<'_>> {
    let mut words: Vec<NormalizedTextWord<'_>> = Vec::new();
    let mut quotes = UnclosedQuoteState::default();
    let mut rest = 0;
    while let Some(span) = WordByteRange::find_next_word(text, rest) {
        let start = span.start;
        let (gap, raw) = (&text[rest..start], &text[start..span.end]);
        let mut word = NormalizedTextWord {
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
            let seen = quotes.update_from_text_between_words(gap);
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
/// else. The characters of a word are [`CHARACTER_KINDS_WITHIN_WORDS`], those between two words
/// [`WORD_SEPARATOR_KINDS`]. An apostrophe is in both sets: it may be part of a word, but begins
/// none.
const LOWERCASE_OR_DIGIT_KIND: u8 = 1;
const CAPITAL_LETTER_KIND: u8 = 2;
const APOSTROPHE_CHARACTER_KIND: u8 = 4;
const OTHER_ASCII_CHARACTER_KIND: u8 = 8;
const CHARACTER_KINDS_WITHIN_WORDS: u8 =
    LOWERCASE_OR_DIGIT_KIND | CAPITAL_LETTER_KIND | APOSTROPHE_CHARACTER_KIND;
const WORD_SEPARATOR_KINDS: u8 = OTHER_ASCII_CHARACTER_KIND | APOSTROPHE_CHARACTER_KIND;
/// Kind of all non-ASCII characters, as a bit.
const NON_ASCII_CHARACTER_KIND: u8 = 16;

/// Kind of character for each byte.
const CHARACTER_KIND_BY_BYTE: [u8; 256] = {
    let mut kinds = [NON_ASCII_CHARACTER_KIND; 256];
    let mut byte = 0;
    while byte < 128 {
        kinds[byte] = match byte as u8 {
            b'a'..=b'z' | b'0'..=b'9' => LOWERCASE_OR_DIGIT_KIND,
            b'A'..=b'Z' => CAPITAL_LETTER_KIND,
            b'\'' => APOSTROPHE_CHARACTER_KIND,
            _ => OTHER_ASCII_CHARACTER_KIND,
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
        let kind = CHARACTER_KIND_BY_BYTE[usize::from(*byte)];
        if kind & kinds != 0 {
            at += 1;
        } else if kind == NON_ASCII_CHARACTER_KIND
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
struct WordStartContext {
    /// Whether the text before the word shows that a sentence begins with the word.
    begins: bool,
    /// Whether the word is the first on its line. A line break alone does not begin a sentence,
    /// because lines of prose may be wrapped; a capital letter or a dash at the start of the line
    /// does.
    goes_on_below: bool,
}

/// State of the quotes that are open at a position in the text.
#[derive(Default)]
struct UnclosedQuoteState {
    straight: bool,
    backtick: bool,
    curly: bool,
}

impl UnclosedQuoteState {
    /// Updates the open quotes from `gap`, the text between two words, and returns the context of
    /// the second word.
    fn update_from_text_between_words(&mut self, gap: &str) -> WordStartContext {
        let mut seen = WordStartContext::default();
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
    if seen & NON_ASCII_CHARACTER_KIND == 0 {
        return if seen & CAPITAL_LETTER_KIND != 0 {
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
