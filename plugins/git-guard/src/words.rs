//! Reads what a shell command does with git, from its words alone.

/// A use of git that a command makes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Deed {
    /// A push that may overwrite what others pushed.
    ForcePush,
    /// A change of the branch, by the name of the git command.
    Change(String),
}

/// Commands of git that move the branch, or publish it.
const CHANGES: [&str; 8] = [
    "am",
    "cherry-pick",
    "commit",
    "merge",
    "pull",
    "push",
    "rebase",
    "revert",
];

/// Returns everything that a command does with git, in its order. Words within quotes count as well: `sh -c "git push -f"`.
pub(crate) fn deeds(command: &str) -> Vec<Deed> {
    let is_end = |c: char| ";&|\n(){}`".contains(c);
    command.split(is_end).flat_map(of_part).collect()
}

fn of_part(part: &str) -> Option<Deed> {
    let trim = |word: &'_ str| word.trim_matches(['"', '\'', '\\', '$']).to_owned();
    let words: Vec<String> = part.split_whitespace().map(trim).collect();
    let at = words
        .iter()
        .position(|word| word == "git" || word.ends_with("/git"))?;
    let mut rest = words.get(at + 1..)?.iter().peekable();
    // Options of git itself, some with a value of their own.
    while let Some(option) = rest.next_if(|word| word.starts_with('-')) {
        if matches!(option.as_str(), "-C" | "-c" | "--git-dir" | "--work-tree") {
            rest.next();
        }
    }
    let verb = rest.next()?.clone();
    let is_force = |word: &&String| {
        let is_short = word.starts_with('-') && !word.starts_with("--") && word.contains('f');
        is_short || word.starts_with("--force") || *word == "--mirror" || word.starts_with('+')
    };
    if verb == "push" && rest.clone().any(|word| is_force(&word)) {
        return Some(Deed::ForcePush);
    }
    CHANGES
        .contains(&verb.as_str())
        .then_some(Deed::Change(verb))
}
