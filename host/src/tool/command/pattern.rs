//! `command = "cargo *"`: which parts of commands a rule speaks of.

use super::{Part, Word, nested, quoted};

/// Result of matching a pattern against a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Matched {
    /// No match.
    No,
    /// Possible match, depending on what only the shell knows.
    Maybe,
    /// Match in every case.
    Yes,
}

/// A pattern of commands, in which `*` matches any text. One that ends with ` *` also speaks of the program without arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandPattern {
    text: String,
}

/// A piece of a text: one character, or anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Piece {
    One(char),
    Any,
}

impl CommandPattern {
    /// Parses a pattern of the settings.
    ///
    /// # Errors
    /// It names no program, or is not one command.
    pub fn new(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.is_empty() {
            return Err("a rule's `command` is empty".to_owned());
        }
        if text.contains(['\n', '|', ';', '&', '`', '$']) {
            return Err(format!(
                "`command = {text:?}` is more than one command: every part of a chain is looked up by itself, so write a rule \
                 for \
                 each"
            ));
        }
        Ok(Self {
            text: text.to_owned(),
        })
    }

    /// The pattern as it was written.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Specificity: of two that match, the one that fixes more of the command decides.
    #[must_use]
    pub fn n_fixed(&self) -> usize {
        self.text.chars().filter(|c| *c != '*').count()
    }

    /// Matches it against a part.
    #[must_use]
    pub fn matched(&self, part: &Part) -> Matched {
        self.against(part, None)
    }

    /// Matches by the program's name alone, whatever folder it is in: for rules that ask or deny.
    #[must_use]
    pub fn matched_by_name(&self, part: &Part) -> Matched {
        let Some(Word::Literal(program)) = part.words.first() else {
            return self.matched(part);
        };
        if part.is_redirection {
            // That is a file, and its folder counts.
            return self.matched(part);
        }
        let name = nested::base_name(program);
        self.matched(part).max(self.against(part, Some(name)))
    }

    fn against(&self, part: &Part, name: Option<&str>) -> Matched {
        let readings = readings(part, name);
        let widest = pieces(part, name, |_| Reading::Either);
        let patterns = [Some(self.text.as_str()), self.text.strip_suffix(" *")];
        let piece = |c| if c == '*' { Piece::Any } else { Piece::One(c) };
        let patterns = patterns.into_iter().flatten();
        let patterns: Vec<Vec<Piece>> = patterns
            .map(|text| text.chars().map(piece).collect())
            .collect();
        let is_covered = |reading: &Vec<Piece>| {
            patterns
                .iter()
                .any(|pattern| matches(pattern, reading, false))
        };
        if !readings.is_empty() && readings.iter().all(is_covered) {
            Matched::Yes
        } else if patterns
            .iter()
            .any(|pattern| matches(pattern, &widest, true))
        {
            Matched::Maybe
        } else {
            Matched::No
        }
    }
}

/// Treatment of an unknown word.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reading {
    Nothing,
    Words,
    Either,
}

/// Most unknown words of which every reading is tried.
const MAX_UNKNOWN: usize = 6;

/// Returns the text of a part in every reading of its unknown words; none when there are too many.
fn readings(part: &Part, name: Option<&str>) -> Vec<Vec<Piece>> {
    let n_unknown = part.words.iter().filter(|word| **word == Word::Any).count();
    if n_unknown > MAX_UNKNOWN {
        return Vec::new();
    }
    let all = 0..1_usize << n_unknown;
    all.map(|bits| {
        pieces(part, name, |n| {
            if bits >> n & 1 == 0 {
                Reading::Nothing
            } else {
                Reading::Words
            }
        })
    })
    .collect()
}

/// Returns the text of a part, with `name` in place of its program; `reading` decides each unknown word.
fn pieces(part: &Part, name: Option<&str>, reading: impl Fn(usize) -> Reading) -> Vec<Piece> {
    let mut pieces = Vec::new();
    if part.is_redirection {
        pieces.extend("> ".chars().map(Piece::One));
    }
    let mut n_unknown = 0;
    for (at, word) in part.words.iter().enumerate() {
        let space = (at > 0).then_some(Piece::One(' '));
        match word {
            Word::Literal(text) => {
                pieces.extend(space);
                let text = name.filter(|_| at == 0).unwrap_or(text);
                pieces.extend(quoted(text).chars().map(Piece::One));
            }
            Word::Any => {
                match reading(n_unknown) {
                    Reading::Nothing => {}
                    Reading::Words => pieces.extend(space.into_iter().chain([Piece::Any])),
                    Reading::Either => pieces.push(Piece::Any),
                }
                n_unknown += 1;
            }
        }
    }
    pieces
}

/// Whether the pattern matches: computes which of its prefixes match which of the text, row by row. Only a `*` of its own takes
/// an unknown piece, so that it matches whatever those are; when `is_open`, one may be taken for whatever the pattern wants.
fn matches(pattern: &[Piece], text: &[Piece], is_open: bool) -> bool {
    let is_unknown = |piece: Piece| is_open && piece == Piece::Any;
    let mut row = vec![true];
    for piece in text {
        row.push(row.last() == Some(&true) && is_unknown(*piece));
    }
    for wanted in pattern {
        let mut next = vec![*wanted == Piece::Any && row.first() == Some(&true)];
        for (at, piece) in text.iter().enumerate() {
            let without_wanted = row.get(at + 1) == Some(&true);
            let without_piece = next.last() == Some(&true);
            let without_both = row.get(at) == Some(&true);
            next.push(if *wanted == Piece::Any || is_unknown(*piece) {
                without_wanted || without_piece
            } else {
                without_both && wanted == piece
            });
        }
        row = next;
    }
    row.last() == Some(&true)
}
