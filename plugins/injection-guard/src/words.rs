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
    while let Some(offset) = text[rest..].find(is_alphanumeric) {
        let start = rest + offset;
        let gap = &text[rest..start];
        quotes.pass(gap);
        let length = text[start..].find(|it: char| !is_alphanumeric(it) && it != '\'' && it != '’');
        let end = length.map_or(text.len(), |length| start + length);
        let raw = &text[start..end];
        words.push(Word {
            begins: words.is_empty() || begins(gap, raw),
            after_comma: gap.starts_with(','),
            after_folder: gap == "/",
            joined: !gap.is_empty() && gap.chars().all(|it| it == '_' || it == '-'),
            quoted: quotes.is_open(),
            text: fold(raw),
            start,
        });
        rest = end;
    }
    words
}

/// As the method of `char`, quicker for most texts.
fn is_alphanumeric(character: char) -> bool {
    character.is_ascii_alphanumeric() || (!character.is_ascii() && character.is_alphanumeric())
}

/// Whether something new begins with a word after this gap.
fn begins(gap: &str, word: &str) -> bool {
    // What is between most words.
    if gap == " " {
        return false;
    }
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
        if gap == " " {
            return;
        }
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
fn fold(word: &str) -> Cow<'_, str> {
    if word.is_ascii() {
        let is_lower = !word.bytes().any(|byte| byte.is_ascii_uppercase());
        return if is_lower {
            Cow::Borrowed(word)
        } else {
            Cow::Owned(word.to_ascii_lowercase())
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
