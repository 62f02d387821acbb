//! Words of a denied command anywhere in another one: behind options, as arguments of a program that may run them, within text.
//!
//! It finds too much on purpose. Nobody knows of every program whether it starts what it is given, so `runner -x git push` may be
//! a push, and so may `echo "do not git push"`: such a match only asks.

use super::pattern::{CommandPattern, STAR, plain_path};
use super::starters::base_name;
use super::{Part, Word};

impl CommandPattern {
    /// Whether the program of the pattern and its further words stand in a part, in this order.
    pub(super) fn is_mentioned(&self, part: &Part) -> bool {
        if part.is_redirection() {
            return false;
        }
        let literal = part.words().iter().filter_map(Word::literal);
        let others = || part.others.iter().map(String::as_str);
        if self.is_redirection {
            let mut texts = literal.chain(others()).filter(|text| text.contains('>'));
            let path = self.words.first().map_or("", String::as_str);
            return texts.any(|text| {
                let mut pieces = pieces(text);
                pieces.any(|piece| Self::is_word(path, &plain_path(&piece)))
            });
        }
        let mut wanted = Wanted::new(&self.words);
        // A pattern without any word of its own matches by itself.
        if wanted.is_over() {
            return false;
        }
        // Where the unknown words stand among the others is not kept.
        for text in others() {
            wanted.take(text);
        }
        let mut is_of_program = false;
        for (at, word) in part.words().iter().enumerate() {
            match word.literal() {
                Some(text) => wanted.take(text),
                // An unknown word behind the program, as in `runner git $X`, may be the rest. Behind the part's own program it
                // was matched before.
                None if wanted.n_taken > 0 && !is_of_program => return true,
                None => {}
            }
            is_of_program |= at == 0 && wanted.n_taken > 0;
        }
        for text in others() {
            wanted.take(text);
        }
        wanted.is_over()
    }
}

/// Words of a pattern that are looked for one after the other, in small letters: some file systems know no others.
struct Wanted {
    words: Vec<String>,
    n_taken: usize,
}

impl Wanted {
    fn new(words: &[String]) -> Self {
        let of_words = |(at, word): (usize, &String)| {
            let name = if at == 0 { base_name(word) } else { word };
            let words = name.split_whitespace().map(str::to_lowercase);
            words.collect::<Vec<_>>()
        };
        let words = words.iter().enumerate().flat_map(of_words);
        Self {
            words: words
                .filter(|word| !word.chars().all(|c| c == STAR))
                .collect(),
            n_taken: 0,
        }
    }

    /// Takes the words that stand in a text.
    fn take(&mut self, text: &str) {
        self.take_word(text);
        if has_pieces(text) {
            pieces(text).for_each(|piece| self.take_word(&piece));
        }
    }

    fn take_word(&mut self, word: &str) {
        let Some(next) = self.words.get(self.n_taken) else {
            return;
        };
        let small;
        let word = if word.contains(|c: char| !c.is_ascii_lowercase()) {
            small = word.to_lowercase();
            &small
        } else {
            word
        };
        if is_word(next, word) || is_word(next, base_name(word)) {
            self.n_taken += 1;
        }
    }

    fn is_over(&self) -> bool {
        self.n_taken == self.words.len()
    }
}

/// Whether a word of a pattern may be this one. A star may reach over several words, so that only what stands before it counts.
fn is_word(pattern: &str, text: &str) -> bool {
    match pattern.split_once(STAR) {
        None => pattern == text,
        Some(("", rest)) => {
            let fixed = rest.split(STAR).find(|fixed| !fixed.is_empty());
            fixed.is_none_or(|fixed| text.contains(fixed))
        }
        Some((fixed, _)) => text.starts_with(fixed),
    }
}

/// Whether a character separates words within a text.
fn is_border(c: char) -> bool {
    c.is_whitespace() || "=;&|<>(){}[]!,:$`#*?~".contains(c)
}

/// Whether a text that is one word of a command may hold further words.
fn has_pieces(text: &str) -> bool {
    text.starts_with('-') || text.contains(|c| is_border(c) || "'\"\\".contains(c))
}

/// The words within a text that is one word of a command, however they are quoted there; also the value that an option has
/// behind `=` or its letter.
fn pieces(text: &str) -> impl Iterator<Item = String> {
    let bare: String = text.chars().filter(|c| !"'\"\\".contains(*c)).collect();
    let mut pieces = Vec::new();
    for piece in bare.split(is_border).filter(|piece| !piece.is_empty()) {
        // The value of `-Igit`, whose letter is one.
        let value = piece
            .strip_prefix('-')
            .filter(|rest| !rest.starts_with('-'));
        let value = value
            .and_then(|rest| rest.get(1..))
            .filter(|rest| !rest.is_empty());
        pieces.push(piece.to_owned());
        pieces.extend(value.map(str::to_owned));
    }
    pieces.into_iter()
}
