//! Finds the commands of a shell line that are checks, such as running tests: those that match a
//! pattern of the operator.

use crate::command::parse_line_commands;

/// Whether a shell line always fails if a check in it fails. A check is a command that matches a
/// pattern. `None` if the line runs no check.
pub(crate) fn is_check_failure_propagated(line: &str, patterns: &[String]) -> Option<bool> {
    let commands = parse_line_commands(line);
    let is_check = |words: &[String]| {
        patterns
            .iter()
            .any(|pattern| matches_command_pattern(words, pattern))
    };
    let mut checks = commands
        .iter()
        .filter(|command| is_check(&command.words))
        .peekable();
    checks.peek()?;
    Some(checks.all(|command| command.decides))
}

/// Whether the first words of a command match the words of a pattern. Options and `+toolchain`
/// between them are skipped.
fn matches_command_pattern(words: &[String], pattern: &str) -> bool {
    let mut words = words.iter();
    pattern
        .split_whitespace()
        .enumerate()
        .all(|(n, alternatives)| {
            let fits = |word: &str| {
                alternatives
                    .split('|')
                    .any(|alternative| matches_glob(word, alternative))
            };
            loop {
                match words.next() {
                    Some(word) if fits(word) => return true,
                    Some(word) if n > 0 && word.starts_with(['-', '+']) => {}
                    _ => return false,
                }
            }
        })
}

/// Whether a word matches a glob with `*`.
fn matches_glob(word: &str, glob: &str) -> bool {
    let mut parts = glob.split('*');
    let Some(mut rest) = parts.next().and_then(|first| word.strip_prefix(first)) else {
        return false;
    };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else {
        return rest.is_empty();
    };
    for part in middle {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}
