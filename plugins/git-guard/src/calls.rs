//! Reads a call of git: the branches that it changes, the folder that it is about, whether it overwrites.

use crate::words::{Reader, Word};

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

/// Commands with a message of their own.
const WITH_MESSAGE: [&str; 5] = ["commit", "merge", "notes", "stash", "tag"];

/// Options of git itself with a value of their own.
const WITH_VALUE: [&str; 9] = [
    "-C",
    "-c",
    "--attr-source",
    "--config-env",
    "--exec-path",
    "--git-dir",
    "--namespace",
    "--super-prefix",
    "--work-tree",
];

/// Options of a push that overwrite or delete. Git takes any beginning that only one of its options has.
const FORCES: [&str; 6] = [
    "delete",
    "force",
    "force-if-includes",
    "force-with-lease",
    "mirror",
    "prune",
];

/// Options of a switch with the name of a branch that it makes.
const MAKES: [&str; 3] = ["create", "force-create", "orphan"];

/// Options of a rebase with a value of their own.
const REBASES_WITH: [&str; 8] = [
    "-X",
    "-s",
    "-x",
    "--empty",
    "--exec",
    "--onto",
    "--strategy",
    "--strategy-option",
];

/// Settings that say where a push goes.
const PUSH_SETTINGS: [&str; 3] = ["branch.", "push.", "remote."];

/// Letters of a word that the shell puts something else in place of.
const UNKNOWN: [char; 4] = ['$', '{', '?', '['];

const VARIABLE: &str = "a variable or a pattern names the branch";

impl Reader<'_> {
    /// Reads a call of git: the words of its part before and after its name.
    pub(crate) fn git(&mut self, before: &[Word], after: &[Word]) {
        let is_moved = |word: &Word| {
            let text = word.text.as_str();
            (word.is_assignment() && text.starts_with("GIT_"))
                || text == "-C"
                || text.starts_with("--chdir")
        };
        let is_elsewhere = before.iter().any(is_moved);
        let mut unknown = is_elsewhere.then_some("it names another folder");
        let (options, verb, arguments) = split(after);
        for (option, value) in options {
            let name = option.split('=').next().unwrap_or_default();
            if matches!(name, "-C" | "--git-dir" | "--work-tree") {
                unknown = Some("it names another folder");
            }
            let value = value.filter(|_| option == "-c").unwrap_or_default();
            if PUSH_SETTINGS.iter().any(|key| value.starts_with(key)) {
                unknown = unknown.or(Some("it sets where a push goes"));
            }
            if let Some((name, does)) = value.split_once('=')
                && name.starts_with("alias.")
            {
                match does.strip_prefix('!') {
                    Some(command) => self.command(command, true),
                    None => self.command(&format!("git {does}"), true),
                }
            }
        }
        let Some(verb) = verb else {
            return;
        };
        match verb {
            "switch" | "checkout" => self.switch(verb, &arguments),
            "rebase" => self.rebase(&arguments),
            "branch" => self.rename(&arguments),
            "symbolic-ref" => {
                let to = named(&arguments, &[]).get(1).copied();
                to.into_iter().for_each(|to| self.switch_to(to));
            }
            "stash" if arguments.first() == Some(&"branch") => {
                let to = arguments.get(1).copied();
                to.into_iter().for_each(|to| self.switch_to(to));
            }
            "push" => self.push(&arguments),
            _ => {}
        }
        if verb.contains('$') {
            if arguments.iter().any(|word| is_force(word)) {
                self.uses.may_be_forced = true;
            }
            unknown = unknown.or(Some("a variable names the command of git"));
        } else if !CHANGES.contains(&verb) {
            return;
        }
        let uses = &mut self.uses;
        if !uses.changes.iter().any(|change| change == verb) {
            uses.changes.push(verb.to_owned());
        }
        uses.branches.extend(self.switched.iter().cloned());
        uses.unknown = uses.unknown.or(unknown).or(self.moved);
    }

    fn push(&mut self, arguments: &[&str]) {
        if arguments.iter().any(|word| is_force(word)) {
            self.forced();
        }
        let uses = &mut self.uses;
        for word in arguments {
            let is_all = |option: &str| {
                let is_one = |name: &str| option.len() > 1 && name.starts_with(option);
                is_one("all") || is_one("branches")
            };
            let option = word.strip_prefix("--");
            if option.is_some_and(is_all) || word.contains('*') {
                uses.unknown = Some("it pushes several branches");
            } else if word.contains(UNKNOWN) {
                uses.unknown = uses.unknown.or(Some(VARIABLE));
            }
            if !word.starts_with('-') {
                let mut ends = word.rsplit(':').filter(|end| !end.is_empty());
                uses.branches
                    .push(branch(ends.next().unwrap_or_default()).to_owned());
            }
        }
    }

    fn switch(&mut self, verb: &str, arguments: &[&str]) {
        let mut arguments = arguments.to_vec();
        if let Some(at) = arguments.iter().position(|word| *word == "--") {
            // The rest are files.
            if verb == "checkout" && at + 1 < arguments.len() {
                return;
            }
            arguments.remove(at);
        }
        let (mut to, mut is_tracked) = (None, false);
        let mut words = arguments.iter().copied();
        while let Some(word) = words.next() {
            let made = match (word.strip_prefix("--"), word.strip_prefix('-')) {
                (Some(option), _) => {
                    let (name, value) = option.split_once('=').unzip();
                    let name = name.unwrap_or(option);
                    is_tracked |= name.len() > 1 && "track".starts_with(name);
                    let is_made = |long: &&str| !name.is_empty() && long.starts_with(name);
                    let is_made = name != "force" && MAKES.iter().any(is_made);
                    is_made.then_some(value)
                }
                (None, Some(letters)) => {
                    let at = letters.find(['b', 'B', 'c', 'C', 't']);
                    let (letter, glued) = at.map_or(("", ""), |at| {
                        letters.get(at..).unwrap_or_default().split_at(1)
                    });
                    is_tracked |= letter == "t";
                    let is_made = !letter.is_empty() && letter != "t";
                    is_made.then(|| Some(glued).filter(|glued| !glued.is_empty()))
                }
                (None, None) => {
                    to = to.or(Some(word));
                    continue;
                }
            };
            if word == "-" {
                to = to.or(Some(word));
            }
            if let Some(value) = made {
                let made = value.or_else(|| words.next());
                return made.into_iter().for_each(|to| self.switch_to(to));
            }
        }
        let Some(to) = to else {
            return;
        };
        if !is_tracked {
            return self.switch_to(to);
        }
        // The branch is called as that of the remote.
        let to = to.strip_prefix("refs/").unwrap_or(to);
        let to = to.strip_prefix("remotes/").unwrap_or(to);
        self.switch_to(to.split_once('/').map_or(to, |(_, name)| name));
    }

    fn switch_to(&mut self, to: &str) {
        if to == "-" || to.starts_with("@{-") {
            self.moved = Some("it goes back to another branch");
        } else if to.contains(UNKNOWN) || to.contains('*') {
            self.moved = Some(VARIABLE);
        } else {
            self.switched.push(branch(to).to_owned());
        }
    }

    /// Reads `git rebase UPSTREAM BRANCH`, which switches to that first.
    fn rebase(&mut self, arguments: &[&str]) {
        let n_before = usize::from(!arguments.contains(&"--root"));
        let named = named(arguments, &REBASES_WITH);
        let branches = named.into_iter().skip(n_before);
        branches.for_each(|to| self.switch_to(to));
    }

    /// Reads `git branch -m NAME`: the branch has that name from then on.
    fn rename(&mut self, arguments: &[&str]) {
        let is_short = |word: &str| {
            let letters = word.strip_prefix('-');
            letters.is_some_and(|letters| !letters.starts_with('-') && letters.contains(['m', 'M']))
        };
        let is_move = |word: &str| is_short(word) || (word.len() > 3 && "--move".starts_with(word));
        if arguments.iter().any(|word| is_move(word)) {
            let to = named(arguments, &[]).pop();
            to.into_iter().for_each(|to| self.switch_to(to));
        }
    }
}

/// An option of git, with the word behind it.
type GitOption<'a> = (&'a str, Option<&'a str>);

/// Options of git itself, each with the word behind it if that is its value; the command; the words behind that.
fn split(after: &[Word]) -> (Vec<GitOption<'_>>, Option<&str>, Vec<&str>) {
    let mut rest = after.iter().map(|word| word.text.as_str()).peekable();
    let mut options = Vec::new();
    while let Some(option) = rest.next_if(|word| word.starts_with('-')) {
        let has_value = WITH_VALUE.contains(&option);
        options.push((option, has_value.then(|| rest.next()).flatten()));
    }
    let verb = rest.next();
    (options, verb, rest.collect())
}

/// Whether words behind what may be git are a call that moves a branch or publishes it.
pub(crate) fn is_change(after: &[Word]) -> bool {
    let (_, verb, _) = split(after);
    verb.is_some_and(|verb| CHANGES.contains(&verb))
}

/// Arguments that are no options, nor values of these.
fn named<'a>(arguments: &[&'a str], with_value: &[&str]) -> Vec<&'a str> {
    let mut named = Vec::new();
    let mut words = arguments.iter().copied();
    while let Some(word) = words.next() {
        if with_value.contains(&word) {
            words.next();
        } else if !word.starts_with('-') || word == "-" {
            named.push(word);
        }
    }
    named
}

/// A branch without the folders that git keeps it in.
fn branch(name: &str) -> &str {
    let name = name.strip_prefix("refs/").unwrap_or(name);
    name.strip_prefix("heads/").unwrap_or(name)
}

/// Whether the first of the words in `rest` is the message of a commit, which nothing runs.
pub(crate) fn is_message(before: &[Word], rest: &[Word]) -> bool {
    let mut words = before.iter().skip_while(|word| !word.is_git());
    let has_message =
        words.next().is_some() && words.any(|word| WITH_MESSAGE.contains(&word.text.as_str()));
    // Letters of options in front of that with the message: `-am`.
    let is_short = |word: &str| {
        let letters = word.strip_prefix('-').and_then(|rest| rest.split_once('m'));
        letters.is_some_and(|(flags, _)| flags.chars().all(|flag| "aeinopqsvz".contains(flag)))
    };
    let is_option = |word: &str| word == "--message" || (is_short(word) && word.ends_with('m'));
    let is_inside = |word: &str| word.starts_with("--message=") || is_short(word);
    let last = before.last().map(|word| word.text.as_str());
    let own = rest.first().map(|word| word.text.as_str());
    has_message && (last.is_some_and(is_option) || own.is_some_and(is_inside))
}

/// Whether a word of a push overwrites or deletes. Of a word with braces each part counts: `{--force,}`.
fn is_force(word: &str) -> bool {
    // Another shell takes away what this one left.
    let word = word.trim_matches(['"', '\'']);
    if word.contains('{') {
        let mut parts = word.split(['{', '}', ',']);
        let is_option = |part: &str| part.starts_with(['-', '+']) && is_force(part);
        return parts.any(|part| is_option(part) || part.contains("--force"));
    }
    if let Some(option) = word.strip_prefix("--") {
        let name = option.split('=').next().unwrap_or_default();
        return !name.is_empty() && FORCES.iter().any(|force| force.starts_with(name));
    }
    if let Some(letters) = word.strip_prefix('-') {
        return letters.contains(['f', 'd']);
    }
    word.starts_with('+') || (word.starts_with(':') && word.len() > 1)
}
