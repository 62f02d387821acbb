//! Finds the words of a denied command anywhere in another command: after options, as arguments of
//! a program that may run them, or inside a quoted text.
//!
//! This over-approximates on purpose. It is unknown in general whether a program starts its
//! arguments, so `runner -x git push` may be a push, and so may `echo "do not git push"`. Such a
//! match asks the user instead of denying. Start from [`CommandPattern::is_mentioned`].
//!
//! For example:
//!
//! ```text
//! denied pattern    command                       match
//! git push *        git log push                  maybe
//! git push *        echo "do not git push"        maybe
//! git push *        runner '--exec=git push'      maybe
//! git push *        legit push                    no
//! ```

use super::pattern::{CommandPattern, STAR, plain_path};
use super::starters::base_name;
use super::{Part, Word};

impl CommandPattern {
    /// Whether the program of the pattern and its further words occur in a part, in this order.
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
                let mut pieces = text_pieces(text);
                pieces.any(|piece| Self::is_word(path, &plain_path(&piece)))
            });
        }
        let mut wanted = WordsInOrder::new(&self.words);
        // A pattern without literal words matches any command, which `matched` handles.
        if wanted.is_over() {
            return false;
        }
        // The texts of `others` may occur anywhere among the words, so search them before and
        // after.
        for text in others() {
            wanted.take_words(text);
        }
        let mut is_of_program = false;
        for (at, word) in part.words().iter().enumerate() {
            match word.literal() {
                Some(text) => wanted.take_words(text),
                // An unknown word after the program, as in `runner git $X`, may expand to the rest.
                // If the program is the first word of the part, the caller has already compared the
                // words.
                None if wanted.n_taken > 0 && !is_of_program => return true,
                None => {}
            }
            is_of_program |= at == 0 && wanted.n_taken > 0;
        }
        for text in others() {
            wanted.take_words(text);
        }
        wanted.is_over()
    }
}

/// Words of a pattern, searched in their order and in lower case, because some file systems are
/// case-insensitive.
struct WordsInOrder {
    words: Vec<String>,
    n_taken: usize,
}

impl WordsInOrder {
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

    /// Counts the next words of the pattern as found if a text contains them, whole or in its
    /// pieces.
    fn take_words(&mut self, text: &str) {
        self.take_word(text);
        if has_pieces(text) {
            text_pieces(text).for_each(|piece| self.take_word(&piece));
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

/// Whether a pattern word can match this word. A star can span several words, so only the text
/// before the first star is compared, or the text after it if nothing is before it.
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

/// Whether a character separates words in a text.
fn is_border(c: char) -> bool {
    c.is_whitespace() || "=;&|<>(){}[]!,:$`#*?~".contains(c)
}

/// Whether a single word of a command can contain other words.
fn has_pieces(text: &str) -> bool {
    text.starts_with('-') || text.contains(|c| is_border(c) || "'\"\\".contains(c))
}

/// Splits a word of a command into the words inside it, ignoring quotes. Also returns option values
/// after `=` or after the option letter.
fn text_pieces(text: &str) -> impl Iterator<Item = String> {
    let bare: String = text.chars().filter(|c| !"'\"\\".contains(*c)).collect();
    let mut pieces = Vec::new();
    for piece in bare.split(is_border).filter(|piece| !piece.is_empty()) {
        // The value in `-Igit`, which follows the option letter.
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
