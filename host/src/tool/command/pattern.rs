//! Patterns of commands in rules, such as `command = "cargo *"`.
//!
//! A rule that allows must match every possible expansion of a part; a rule that denies or asks
//! matches if some expansion does. Matching works on one text per part, in which sentinel
//! characters separate the words. Start from [`CommandPattern`].

use super::starters::base_name;
use super::{Command, CommandPart, ShellWord, carried, read};

/// Sentinel for `*` in the words of a pattern. The last code point, a noncharacter that no text
/// contains.
pub(super) const STAR_SENTINEL: char = '\u{10FFFF}';

/// Sentinel between two words in the matched text. Words contain no control characters except line
/// feed and tab.
const WORD_BORDER_SENTINEL: char = '\0';

/// Sentinel for an unknown word in the text that a pattern is matched against.
const UNKNOWN_WORD_SENTINEL: char = '\u{1}';

/// Sentinel at the start of the text that represents a redirection to a file.
const FILE_REDIRECTION_SENTINEL: char = '\u{2}';

/// Maximum number of unknown words in a part of a command that an allowing rule can match. Each one
/// doubles the number of texts to match.
const MAX_UNKNOWN_WORDS_PER_COMMAND_PART: u32 = 4;

/// Result of matching a pattern against a part of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CommandPatternMatch {
    /// No match in any case.
    No,
    /// Possible match, depending on an expansion of the shell or on how a program treats its
    /// arguments.
    Maybe,
    /// Match in every case.
    Yes,
}

/// Pattern of commands, in which `*` matches any text. A pattern that ends with ` *` also matches
/// the program without arguments.
///
/// For example:
///
/// ```text
/// git *           git                     yes
/// git *           gitk                    no
/// git status *    git $X                  maybe: only the shell knows $X
/// git push *      git log $X              no
/// echo 'a b' *    echo "a b" c            yes: quotes are not compared
/// > out/*         make > ./out/log        yes
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandPattern {
    text: String,
    /// Words of the pattern without quotes, with [`STAR_SENTINEL`] for each `*`.
    pub(super) words: Vec<String>,
    pub(super) is_redirection: bool,
}

impl CommandPattern {
    /// Parses a pattern from the settings, with the parser for commands.
    ///
    /// # Errors
    /// The pattern names no program, is more than one command, or can match no command.
    pub fn new(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.is_empty() {
            return Err("a rule's `command` is empty".to_owned());
        }
        let mut command = Command::default();
        if text.contains(STAR_SENTINEL) {
            command.set_doubt_reason("a character that does not exist");
        }
        read::parse_command_pattern(text, &mut command);
        if let Some(why) = command.reason_to_ask_user() {
            return Err(format!(
                "`command = {text:?}` can match no command ({why}): rules match only what every shell reads as it stands; write `*` \
                 for what varies, and quotes around words with special characters, as in \"curl 'https://a.example/?q=*'\""
            ));
        }
        if command.parts.len() > 1 || text.contains('\n') {
            return Err(format!(
                "`command = {text:?}` is more than one command: every part of a chain is looked up by itself, so write a rule \
                 for each"
            ));
        }
        let Some(CommandPart {
            words,
            is_redirection,
            ..
        }) = command.parts.pop()
        else {
            return Err(format!("`command = {text:?}` names no program"));
        };
        let words = words.iter().filter_map(ShellWord::literal);
        let words: Vec<String> = if is_redirection {
            words.map(simplify_path).collect()
        } else {
            words.map(str::to_owned).collect()
        };
        Ok(Self {
            text: text.to_owned(),
            words,
            is_redirection,
        })
    }

    /// Returns the pattern as written in the settings.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the program that the pattern names; `None` for a redirection or a name with `*`.
    #[must_use]
    pub fn program_name(&self) -> Option<&str> {
        let program = self.words.first().filter(|_| !self.is_redirection)?;
        (!program.contains(STAR_SENTINEL)).then_some(program)
    }

    /// Returns the number of literal characters and words. Of two matching patterns, the one with
    /// the larger number decides.
    #[must_use]
    pub fn specificity(&self) -> usize {
        let fixed = self.words.iter().flat_map(|word| word.chars());
        fixed.filter(|c| *c != STAR_SENTINEL).count() + self.words.len()
    }

    /// Matches a part of a command for an allowing rule: the part must spell the program or file
    /// exactly as the pattern does.
    #[must_use]
    pub fn match_part_exactly(&self, part: &CommandPart) -> CommandPatternMatch {
        let n_unknown = part
            .words
            .iter()
            .filter(|word| **word == ShellWord::Any)
            .count();
        let n_unknown = u32::try_from(n_unknown).unwrap_or(u32::MAX);
        if n_unknown > MAX_UNKNOWN_WORDS_PER_COMMAND_PART {
            return self.match_possible_word_expansions(part.words(), part);
        }
        // An unknown word may expand to nothing, so the pattern must match the command part both
        // with and without each unknown word.
        let mut readings = 0..1_u32 << n_unknown;
        if readings
            .all(|bits| self.matches_text(&encode_words_for_matching(part, &part.words, bits)))
        {
            CommandPatternMatch::Yes
        } else {
            self.match_possible_word_expansions(part.words(), part)
        }
    }

    /// Matches a part for a rule that asks or denies. The program also matches by its base name and
    /// without the options before its verb, and the file of a redirection by each of its paths. If
    /// the pattern's words occur only as other words of the part, the match is
    /// [`CommandPatternMatch::Maybe`].
    #[must_use]
    pub fn match_part_by_program_name(&self, part: &CommandPart) -> CommandPatternMatch {
        let mut found = CommandPatternMatch::No;
        for words in list_equivalent_command_spellings(part) {
            let is_covered =
                |bits| self.matches_text(&encode_words_for_matching(part, &words, bits));
            if is_covered(0) && is_covered(u32::MAX) {
                return CommandPatternMatch::Yes;
            }
            found = found.max(self.match_possible_word_expansions(&words, part));
        }
        if found == CommandPatternMatch::No && self.occurs_in_command_part(part) {
            return CommandPatternMatch::Maybe;
        }
        found
    }

    /// Whether the pattern matches the complete text. A word of the command that is not known until
    /// it runs matches only a `*`.
    fn matches_text(&self, text: &[char]) -> bool {
        self.encode_pattern_for_matching()
            .iter()
            .any(|pattern| matches_whole_text(pattern, text))
    }

    fn match_possible_word_expansions(
        &self,
        words: &[ShellWord],
        part: &CommandPart,
    ) -> CommandPatternMatch {
        if !words.contains(&ShellWord::Any) {
            return CommandPatternMatch::No;
        }
        let text = encode_words_for_matching(part, words, u32::MAX);
        let mut patterns = self.encode_pattern_for_matching().into_iter();
        if patterns.any(|pattern| can_match_some_expansion(&pattern, &text)) {
            CommandPatternMatch::Maybe
        } else {
            CommandPatternMatch::No
        }
    }

    /// Returns the pattern in the form of the texts that it is compared with, which have sentinel
    /// characters at word borders. If the pattern ends with ` *`, also returns it without that
    /// ending.
    fn encode_pattern_for_matching(&self) -> Vec<Vec<char>> {
        let join = |words: &[String]| {
            let mut pieces = Vec::new();
            if self.is_redirection {
                pieces.push(FILE_REDIRECTION_SENTINEL);
            }
            for (at, word) in words.iter().enumerate() {
                pieces.extend((at > 0).then_some(WORD_BORDER_SENTINEL));
                pieces.extend(word.chars());
            }
            pieces
        };
        let mut patterns = vec![join(&self.words)];
        if let Some((last, before)) = self.words.split_last()
            && last.chars().eq([STAR_SENTINEL])
            && !before.is_empty()
        {
            patterns.push(join(before));
        }
        patterns
    }

    /// Whether one word of the pattern matches a text.
    pub(super) fn matches_word(pattern: &str, text: &str) -> bool {
        let (pattern, text): (Vec<char>, Vec<char>) =
            (pattern.chars().collect(), text.chars().collect());
        matches_whole_text(&pattern, &text)
    }
}

/// Returns every spelling of a part that `ask` and `deny` rules are matched against.
fn list_equivalent_command_spellings(part: &CommandPart) -> Vec<Vec<ShellWord>> {
    let mut spellings = vec![part.words.clone()];
    if part.is_redirection {
        let others = part.others.iter();
        spellings.extend(others.map(|path| vec![ShellWord::Literal(simplify_path(path))]));
        return spellings;
    }
    let Some(ShellWord::Literal(program)) = part.words.first() else {
        return spellings;
    };
    let name = base_name(program);
    let named = ShellWord::Literal(name.to_owned());
    let arguments = part.words.get(1..).unwrap_or_default();
    if name != program {
        spellings.push([std::slice::from_ref(&named), arguments].concat());
    }
    if let Some(verb) = carried::git_subcommand_of_program(name) {
        let verb = ["git", verb].map(|word| ShellWord::Literal(word.to_owned()));
        spellings.push([&verb, arguments].concat());
    }
    let verb_at = carried::find_subcommand_index(name, arguments).filter(|at| *at > 0);
    if let Some(from_verb) = verb_at.and_then(|at| arguments.get(at..)) {
        spellings.push([std::slice::from_ref(&named), from_verb].concat());
    }
    spellings
}

/// Joins the words of a command part to one text, with sentinel characters at word borders and for
/// unknown words. The n-th unknown word is included only if bit n of `bits` is set.
fn encode_words_for_matching(part: &CommandPart, words: &[ShellWord], bits: u32) -> Vec<char> {
    let mut text = Vec::new();
    if part.is_redirection {
        text.push(FILE_REDIRECTION_SENTINEL);
    }
    let mut n_unknown = 0_u32;
    for (at, word) in words.iter().enumerate() {
        let border = (at > 0).then_some(WORD_BORDER_SENTINEL);
        match word {
            ShellWord::Literal(word) => {
                text.extend(border);
                text.extend(word.chars());
            }
            ShellWord::Any => {
                if bits.checked_shr(n_unknown).unwrap_or(bits) & 1 == 1 {
                    text.extend(border);
                    text.push(UNKNOWN_WORD_SENTINEL);
                }
                n_unknown += 1;
            }
        }
    }
    text
}

/// Whether the pattern matches the whole text. Backtracks only to the last star, which bounds the
/// time by the product of both lengths.
fn matches_whole_text(pattern: &[char], text: &[char]) -> bool {
    let (mut at, mut in_text) = (0, 0);
    let mut star = None;
    while let Some(c) = text.get(in_text) {
        match pattern.get(at) {
            Some(&STAR_SENTINEL) => {
                star = Some((at, in_text));
                at += 1;
            }
            Some(wanted) if wanted == c => {
                at += 1;
                in_text += 1;
            }
            _ => {
                let Some((of_star, taken)) = star else {
                    return false;
                };
                star = Some((of_star, taken + 1));
                at = of_star + 1;
                in_text = taken + 1;
            }
        }
    }
    let mut rest = pattern.get(at..).unwrap_or_default().iter();
    rest.all(|piece| *piece == STAR_SENTINEL)
}

/// Whether the pattern can match for some expansion of the unknown words. Computes row by row which
/// prefixes of the pattern match which prefixes of the text.
fn can_match_some_expansion(pattern: &[char], text: &[char]) -> bool {
    let mut row = vec![true];
    // An unknown word may expand to nothing, and then its separator vanishes too.
    let is_unknown = |at: usize| {
        text.get(at) == Some(&UNKNOWN_WORD_SENTINEL)
            || (text.get(at) == Some(&WORD_BORDER_SENTINEL)
                && text.get(at + 1) == Some(&UNKNOWN_WORD_SENTINEL))
    };
    for at in 0..text.len() {
        row.push(row.last() == Some(&true) && is_unknown(at));
    }
    for wanted in pattern {
        let mut next = vec![*wanted == STAR_SENTINEL && row.first() == Some(&true)];
        for (at, c) in text.iter().enumerate() {
            let without_wanted = row.get(at + 1) == Some(&true);
            let without_piece = next.last() == Some(&true);
            let without_both = row.get(at) == Some(&true);
            let is_same = without_both && wanted == c;
            next.push(if *wanted == STAR_SENTINEL || is_unknown(at) {
                without_wanted || without_piece || is_same
            } else {
                is_same
            });
        }
        row = next;
    }
    row.last() == Some(&true)
}

/// Returns a path without `.` components and doubled slashes.
///
/// For example:
///
/// ```text
/// ./out//x    ->  out/x
/// /a/./b/     ->  /a/b
/// a/../b      ->  a/../b
/// ```
pub(super) fn simplify_path(path: &str) -> String {
    let root = if path.starts_with('/') { "/" } else { "" };
    let names = path.split('/').filter(|name| !matches!(*name, "" | "."));
    format!("{root}{}", names.collect::<Vec<_>>().join("/"))
}

/// Resolves `..` in a path textually, as if no directory in it were a symlink.
///
/// For example:
///
/// ```text
/// a/../b        ->  b
/// ../a          ->  ../a
/// /a/b/../../c  ->  /c
/// ```
pub(super) fn resolve_parent_components(path: &str) -> String {
    let root = if path.starts_with('/') { "/" } else { "" };
    let mut names: Vec<&str> = Vec::new();
    for name in path.split('/').filter(|name| !name.is_empty()) {
        match name {
            ".." if names.last().is_some_and(|last| *last != "..") => {
                names.pop();
            }
            name => names.push(name),
        }
    }
    format!("{root}{}", names.join("/"))
}
