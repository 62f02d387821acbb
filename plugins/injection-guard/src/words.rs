//! A text as words, with what matters of their surroundings: where a sentence begins, what is quoted.

use std::borrow::Cow;

/// One word.
#[derive(Debug)]
pub(crate) struct Word<'a> {
    /// In lower case, look-alike letters replaced.
    pub(crate) text: Cow<'a, str>,
    /// Where it starts in the text.
    pub(crate) start: usize,
    /// Whether a sentence, a quote or an item of a list starts with it.
    pub(crate) begins: bool,
    /// Whether it is between quotes or backticks.
    pub(crate) quoted: bool,
    /// Whether a comma stands before it.
    pub(crate) after_comma: bool,
    /// Whether a folder stands before it, as in `docs/name`.
    pub(crate) after_folder: bool,
    /// Whether it is joined to the word before, as in `snake_case`.
    pub(crate) joined: bool,
}

/// The words of a text.
pub(crate) fn words(text: &str) -> Vec<Word<'_>> {
    // Most have four letters or more, and something stands between them.
    let mut words: Vec<Word<'_>> = Vec::with_capacity(text.len() / 5);
    let mut quotes = Quotes::default();
    let mut rest = 0;
    loop {
        let (start, _) = run(
            text,
            rest,
            |byte| !byte.is_ascii_alphanumeric(),
            |it| !it.is_alphanumeric(),
        );
        if start == text.len() {
            return words;
        }
        let (end, seen) = run(
            text,
            start,
            |byte| byte.is_ascii_alphanumeric() || byte == b'\'',
            |it| it.is_alphanumeric() || it == '’',
        );
        let (gap, raw) = (&text[rest..start], &text[start..end]);
        let mut word = Word {
            text: fold(raw, seen),
            start,
            begins: words.is_empty(),
            quoted: quotes.is_open(),
            after_comma: false,
            after_folder: false,
            joined: false,
        };
        // What is between most words says nothing.
        if gap != " " {
            quotes.pass(gap);
            word.begins |= begins(gap, raw);
            word.quoted = quotes.is_open();
            word.after_comma = gap.starts_with(',');
            word.after_folder = gap == "/";
            word.joined = !gap.is_empty() && gap.bytes().all(|it| it == b'_' || it == b'-');
        }
        words.push(word);
        rest = end;
    }
}

/// What there is in a word besides small letters and digits.
#[derive(Clone, Copy, Default)]
struct Seen {
    upper: bool,
    beyond_ascii: bool,
}

/// Where the characters from `from` on end that are of a kind, and what is among them. By bytes: most texts are ASCII.
fn run(
    text: &str,
    from: usize,
    ascii: impl Fn(u8) -> bool,
    beyond: impl Fn(char) -> bool,
) -> (usize, Seen) {
    let mut seen = Seen::default();
    let mut at = from;
    while let Some(&byte) = text.as_bytes().get(at) {
        if byte.is_ascii() {
            if !ascii(byte) {
                break;
            }
            seen.upper |= byte.is_ascii_uppercase();
            at += 1;
        } else {
            match text[at..].chars().next() {
                Some(character) if beyond(character) => at += character.len_utf8(),
                _ => break,
            }
            seen.beyond_ascii = true;
        }
    }
    (at, seen)
}

/// Whether something new begins with a word after this gap.
fn begins(gap: &str, word: &str) -> bool {
    if gap.contains("\n\n") || gap.contains(|it| "\"“”`({[]})<>*#|•—".contains(it)) {
        return true;
    }
    // A full stop inside of `.env` or `a.b` ends nothing.
    let mut pairs = gap.chars().zip(gap.chars().skip(1));
    if pairs.any(|(one, next)| ".!?:;".contains(one) && next.is_whitespace()) {
        return true;
    }
    // Prose is wrapped in the middle of a sentence; a line that starts with a capital or a dash starts one.
    gap.contains('\n') && (gap.contains(['-', '+']) || word.starts_with(char::is_uppercase))
}

/// Which quotes are open.
#[derive(Default)]
struct Quotes {
    straight: bool,
    backtick: bool,
    curly: bool,
}

impl Quotes {
    fn pass(&mut self, gap: &str) {
        if gap.contains("\n\n") {
            // A quote that nobody closed ends with its paragraph.
            *self = Self::default();
        }
        for character in gap.chars() {
            match character {
                '"' => self.straight = !self.straight,
                '`' => self.backtick = !self.backtick,
                '“' | '«' | '„' => self.curly = true,
                '”' | '»' => self.curly = false,
                _ => {}
            }
        }
    }

    fn is_open(&self) -> bool {
        self.straight || self.backtick || self.curly
    }
}

/// Lower case, and Latin letters for Cyrillic and Greek ones that look like them in a word that mixes both.
fn fold(word: &str, seen: Seen) -> Cow<'_, str> {
    if !seen.beyond_ascii {
        return if seen.upper {
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
