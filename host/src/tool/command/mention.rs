//! Finds the words of a denied command anywhere in another command: after options, as arguments of
//! a program that may run them, or inside a quoted text.
//!
//! This over-approximates on purpose. It is unknown in general whether a program starts its
//! arguments, so `runner -x git push` may be a push, and so may `echo "do not git push"`. Such a
//! match asks the user instead of denying. Start from [`CommandPattern::occurs_in_command_part`].
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

use super::pattern::{CommandPattern, STAR_SENTINEL, simplify_path};
use super::starters::base_name;
use super::{CommandPart, ShellWord};

impl CommandPattern {
    /// Whether the words of the pattern, beginning with its program, occur in this order in a part
    /// of a command.
    pub(super) fn occurs_in_command_part(&self, part: &CommandPart) -> bool {
        if part.is_redirection() {
            return false;
        }
        let literal = part.words().iter().filter_map(ShellWord::literal);
        let others = || part.others.iter().map(String::as_str);
        if self.is_redirection {
            let mut texts = literal.chain(others()).filter(|text| text.contains('>'));
            let path = self.words.first().map_or("", String::as_str);
            return texts.any(|text| {
                let mut pieces = split_into_words(text);
                pieces.any(|piece| Self::matches_word(path, &simplify_path(&piece)))
            });
        }
        let mut wanted = PatternWordSequenceMatcher::new(&self.words);
        // Skip a pattern that has no literal words: it would be found in any command, and
        // `match_part_by_program_name` has already compared it.
        if wanted.has_found_all_words() {
            return false;
        }
        // Search the texts of `others` before the words of the command and again after them: their
        // position among the words is unknown.
        for text in others() {
            wanted.consume_matching_words(text);
        }
        let mut is_of_program = false;
        for (at, word) in part.words().iter().enumerate() {
            match word.literal() {
                Some(text) => wanted.consume_matching_words(text),
                // An unknown word after the program, as in `runner git $X`, may expand to the rest.
                // If the program is the first word of the part, the caller has already compared the
                // words.
                None if wanted.n_taken > 0 && !is_of_program => return true,
                None => {}
            }
            is_of_program |= at == 0 && wanted.n_taken > 0;
        }
        for text in others() {
            wanted.consume_matching_words(text);
        }
        wanted.has_found_all_words()
    }
}

/// Search for the words of a pattern in their order. The words are in lower case, because some file
/// systems are case-insensitive.
struct PatternWordSequenceMatcher {
    words: Vec<String>,
    n_taken: usize,
}

impl PatternWordSequenceMatcher {
    fn new(words: &[String]) -> Self {
        let of_words = |(at, word): (usize, &String)| {
            let name = if at == 0 { base_name(word) } else { word };
            let words = name.split_whitespace().map(str::to_lowercase);
            words.collect::<Vec<_>>()
        };
        let words = words.iter().enumerate().flat_map(of_words);
        Self {
            words: words
                .filter(|word| !word.chars().all(|c| c == STAR_SENTINEL))
                .collect(),
            n_taken: 0,
        }
    }

    /// Advances past the next words of the pattern if `text` equals them or contains them.
    fn consume_matching_words(&mut self, text: &str) {
        self.advance_past_word(text);
        if is_splittable_shell_word(text) {
            split_into_words(text).for_each(|piece| self.advance_past_word(&piece));
        }
    }

    fn advance_past_word(&mut self, word: &str) {
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
        if can_pattern_word_match(next, word) || can_pattern_word_match(next, base_name(word)) {
            self.n_taken += 1;
        }
    }

    fn has_found_all_words(&self) -> bool {
        self.n_taken == self.words.len()
    }
}

/// Whether a pattern word can match this word. A star can span several words, so only the text
/// before the first star is compared, or the text after it if nothing is before it.
fn can_pattern_word_match(pattern: &str, text: &str) -> bool {
    match pattern.split_once(STAR_SENTINEL) {
        None => pattern == text,
        Some(("", rest)) => {
            let fixed = rest.split(STAR_SENTINEL).find(|fixed| !fixed.is_empty());
            fixed.is_none_or(|fixed| text.contains(fixed))
        }
        Some((fixed, _)) => text.starts_with(fixed),
    }
}

/// Whether a character separates words in a text.
fn is_word_separator(c: char) -> bool {
    c.is_whitespace() || "=;&|<>(){}[]!,:$`#*?~".contains(c)
}

/// Whether one word of a command may contain several words, as a quoted text or an option with a
/// value does.
fn is_splittable_shell_word(text: &str) -> bool {
    text.starts_with('-') || text.contains(|c| is_word_separator(c) || "'\"\\".contains(c))
}

/// Splits a word of a command into the words inside it, ignoring quotes. Also returns option values
/// after `=` or after the option letter.
fn split_into_words(text: &str) -> impl Iterator<Item = String> {
    let bare: String = text.chars().filter(|c| !"'\"\\".contains(*c)).collect();
    let mut pieces = Vec::new();
    for piece in bare
        .split(is_word_separator)
        .filter(|piece| !piece.is_empty())
    {
        // Also return the value that directly follows an option letter, such as `git` in `-Igit`.
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
