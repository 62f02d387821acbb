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
        let texts = part.words().iter().filter_map(Word::literal);
        if part.is_redirection() {
            return false;
        }
        if self.is_redirection {
            let mut texts = texts.filter(|text| text.contains('>'));
            let path = self.words.first().map_or("", String::as_str);
            return texts.any(|text| {
                let mut pieces = pieces(text);
                pieces.any(|piece| Self::is_word(path, &plain_path(&piece)))
            });
        }
        let of_words = |(at, word): (usize, &'_ String)| {
            let name = if at == 0 { base_name(word) } else { word };
            let words = name.split_whitespace().map(str::to_owned);
            words.collect::<Vec<_>>()
        };
        let wanted = self.words.iter().enumerate().flat_map(of_words);
        let mut wanted = wanted.filter(|word| !word.chars().all(|c| c == STAR));
        // A pattern without any word of its own matches by itself.
        let Some(mut next) = wanted.next() else {
            return false;
        };
        for text in texts {
            for piece in std::iter::once(text.to_owned()).chain(pieces(text)) {
                if is_word(&next, &piece) || is_word(&next, base_name(&piece)) {
                    match wanted.next() {
                        Some(word) => next = word,
                        None => return true,
                    }
                }
            }
        }
        false
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

/// The words within a text that is one word of a command, however they are quoted there; also the value that an option has
/// behind `=` or its letter. None for a word that can hold no other.
fn pieces(text: &str) -> impl Iterator<Item = String> {
    let is_border = |c: char| c.is_whitespace() || "=;&|<>(){}[]!,:$`#*?~".contains(c);
    let has_more = text.starts_with('-') || text.contains(|c| is_border(c) || "'\"\\".contains(c));
    let bare: String = text.chars().filter(|c| !"'\"\\".contains(*c)).collect();
    let mut pieces = Vec::new();
    if has_more {
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
    }
    pieces.into_iter()
}
