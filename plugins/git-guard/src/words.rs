//! Reads what a shell command does with git, from its words alone: quotes, substitutions and continued lines are followed,
//! variables are not.

use std::iter::Peekable;
use std::str::Chars;

/// Uses of git that a command makes.
#[derive(Debug, Default)]
pub(crate) struct Uses {
    /// Whether a push may overwrite or delete what others pushed.
    pub(crate) is_forced: bool,
    /// Commands of git that move a branch or publish it, in their order.
    pub(crate) changes: Vec<String>,
    /// Branches that it changes by name: that it pushes to, and that it switches to before a change.
    pub(crate) branches: Vec<String>,
    /// Reason why a change may be on another branch than that of the workspace.
    pub(crate) unknown: Option<&'static str>,
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

/// Most levels of quotes within quotes.
const MAX_DEPTH: u32 = 16;

/// Reads a command, which runs in the folder `workspace`.
pub(crate) fn uses(command: &str, workspace: &str) -> Uses {
    let mut reader = Reader {
        workspace,
        uses: Uses::default(),
        switched: Vec::new(),
        moved: None,
        depth: 0,
    };
    reader.command(command);
    reader.uses
}

/// A word of a command, without its quotes.
#[derive(Default)]
struct Word {
    text: String,
    is_quoted: bool,
}

impl Word {
    /// Whether it may be a command of its own, as in `sh -c "git push"`.
    fn is_command(&self) -> bool {
        let is_sign = |c: char| c.is_whitespace() || ";&|()`".contains(c);
        self.is_quoted && self.text.contains(is_sign)
    }

    /// Whether it sets a variable.
    fn is_assignment(&self) -> bool {
        let name = self.text.split_once('=').map(|(name, _)| name);
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
        name.is_some_and(|name| !name.is_empty() && name.chars().all(fits))
    }

    fn is_git(&self) -> bool {
        let is_path = self.text.ends_with("/git") && !self.text.starts_with('-');
        self.text == "git" || (is_path && !self.is_assignment())
    }
}

struct Reader<'a> {
    workspace: &'a str,
    uses: Uses,
    /// Branches that the command switched to so far.
    switched: Vec<String>,
    /// Reason why it is elsewhere by now.
    moved: Option<&'static str>,
    depth: u32,
}

impl Reader<'_> {
    fn command(&mut self, text: &str) {
        if self.depth == MAX_DEPTH {
            // Nobody writes this, so it hides something.
            self.uses.is_forced |= text.contains("push");
            return;
        }
        self.depth += 1;
        let text = text.replace("\\\r\n", "").replace("\\\n", "");
        self.up_to(&mut text.chars().peekable(), None);
        self.depth -= 1;
    }

    /// Reads up to `end`, which is that of a substitution. What stands in one is read by itself, and the words around it are those
    /// of one part: `git push $(git branch --show-current) --force`.
    fn up_to(&mut self, letters: &mut Peekable<Chars<'_>>, end: Option<char>) {
        let mut words = Vec::new();
        let mut word: Option<Word> = None;
        let mut last = ' ';
        while let Some(letter) = letters.next() {
            if Some(letter) == end {
                break;
            }
            let open = std::mem::replace(&mut last, letter);
            match letter {
                '\'' => {
                    let word = word.get_or_insert_default();
                    word.is_quoted = true;
                    word.text
                        .extend(letters.by_ref().take_while(|c| *c != '\''));
                }
                '"' => self.quoted(letters, word.get_or_insert_default()),
                '\\' => word.get_or_insert_default().text.extend(letters.next()),
                // `$'…'` and `$"…"` are quotes as well.
                '$' if matches!(letters.peek(), Some('\'' | '"')) => {}
                '$' | '`' => self.dollar(letter, letters, word.get_or_insert_default()),
                '(' => {
                    words.extend(word.take());
                    self.up_to(letters, Some(')'));
                }
                '#' if word.is_none() => while letters.next_if(|c| *c != '\n').is_some() {},
                // `2>&1` and `&>file` send output elsewhere.
                '&' if matches!(open, '>' | '<') || letters.peek() == Some(&'>') => {
                    words.extend(word.take());
                }
                ';' | '&' | '|' | '\n' | ')' => {
                    words.extend(word.take());
                    self.part(&std::mem::take(&mut words));
                }
                '<' | '>' => words.extend(word.take()),
                letter if letter.is_whitespace() => words.extend(word.take()),
                letter => word.get_or_insert_default().text.push(letter),
            }
        }
        words.extend(word);
        self.part(&words);
    }

    /// Reads to the end of a text in double quotes.
    fn quoted(&mut self, letters: &mut Peekable<Chars<'_>>, word: &mut Word) {
        word.is_quoted = true;
        while let Some(letter) = letters.next() {
            match letter {
                '"' => break,
                '\\' => match letters.next_if(|c| "\"\\$`".contains(*c)) {
                    Some(escaped) => word.text.push(escaped),
                    None => word.text.push('\\'),
                },
                '$' | '`' => self.dollar(letter, letters, word),
                letter => word.text.push(letter),
            }
        }
    }

    /// Reads a substitution, or the sign alone.
    fn dollar(&mut self, letter: char, letters: &mut Peekable<Chars<'_>>, word: &mut Word) {
        word.text.push('$');
        if letter == '`' {
            self.up_to(letters, Some('`'));
        } else if letters.next_if_eq(&'(').is_some() {
            self.up_to(letters, Some(')'));
        }
    }

    /// Reads the words of one part of a command.
    fn part(&mut self, words: &[Word]) {
        for (at, word) in words.iter().enumerate() {
            if word.is_command() && !is_message(words, at) {
                self.command(&word.text);
            }
        }
        for (at, word) in words.iter().enumerate() {
            let (before, after) = words.split_at(at);
            let after = after.get(1..).unwrap_or_default();
            if word.is_git() {
                self.git(before, after);
            } else if matches!(word.text.as_str(), "cd" | "pushd" | "chdir") {
                let mut to = after.iter().map(|word| word.text.as_str());
                let to = to.find(|word| !word.starts_with('-'));
                let is_here = |to: &str| {
                    let trim = |path: &str| path.trim_end_matches('/').to_owned();
                    to == "." || trim(to) == trim(self.workspace)
                };
                if !to.is_some_and(is_here) {
                    self.moved = Some("it goes to another folder");
                }
            }
        }
    }

    /// Reads a call of git: the words of its part before and after its name.
    fn git(&mut self, before: &[Word], after: &[Word]) {
        let is_moved = |word: &Word| {
            let text = word.text.as_str();
            (word.is_assignment() && text.starts_with("GIT_"))
                || text == "-C"
                || text.starts_with("--chdir")
        };
        let mut is_elsewhere = before.iter().any(is_moved);
        let mut rest = after.iter().map(|word| word.text.as_str()).peekable();
        while let Some(option) = rest.next_if(|word| word.starts_with('-')) {
            let name = option.split('=').next().unwrap_or_default();
            is_elsewhere |= matches!(name, "-C" | "--git-dir" | "--work-tree");
            if WITH_VALUE.contains(&option) {
                rest.next();
            }
        }
        let Some(verb) = rest.next() else {
            return;
        };
        let arguments: Vec<&str> = rest.collect();
        if matches!(verb, "switch" | "checkout") {
            self.switch(&arguments);
        }
        if !CHANGES.contains(&verb) {
            return;
        }
        if verb == "push" {
            self.push(&arguments);
        }
        let uses = &mut self.uses;
        if !uses.changes.iter().any(|change| change == verb) {
            uses.changes.push(verb.to_owned());
        }
        uses.branches.extend(self.switched.iter().cloned());
        let elsewhere = is_elsewhere.then_some("it names another folder");
        uses.unknown = uses.unknown.or(elsewhere).or(self.moved);
    }

    fn push(&mut self, arguments: &[&str]) {
        let uses = &mut self.uses;
        uses.is_forced |= arguments.iter().any(|word| is_force(word));
        for word in arguments {
            let is_all = |option: &str| {
                let is_one = |name: &str| option.len() > 1 && name.starts_with(option);
                is_one("all") || is_one("branches")
            };
            let option = word.strip_prefix("--");
            if option.is_some_and(is_all) || word.contains('*') {
                uses.unknown = Some("it pushes several branches");
            }
            if !word.starts_with('-') {
                let to = word.rsplit(':').next().unwrap_or_default();
                let to = to.strip_prefix("refs/").unwrap_or(to);
                uses.branches
                    .push(to.strip_prefix("heads/").unwrap_or(to).to_owned());
            }
        }
    }

    fn switch(&mut self, arguments: &[&str]) {
        // The rest are files.
        if arguments.contains(&"--") {
            return;
        }
        let makes = [
            "-b",
            "-B",
            "-c",
            "-C",
            "--create",
            "--force-create",
            "--orphan",
        ];
        let made = arguments.iter().position(|word| makes.contains(word));
        let to = match made {
            Some(at) => arguments.get(at + 1),
            None => arguments
                .iter()
                .find(|word| !word.starts_with('-') || **word == "-"),
        };
        match to {
            Some(&"-") => self.moved = Some("it goes back to another branch"),
            Some(to) if to.starts_with("@{-") => {
                self.moved = Some("it goes back to another branch");
            }
            Some(to) => self.switched.push((*to).to_owned()),
            None => {}
        }
    }
}

/// Whether a word is the message of a commit, which nothing runs.
fn is_message(words: &[Word], at: usize) -> bool {
    let (before, rest) = words.split_at(at);
    let is_option = |word: &str| {
        let is_short = word.starts_with('-') && !word.starts_with("--") && word.ends_with('m');
        is_short || word == "--message"
    };
    let is_inside = rest
        .first()
        .is_some_and(|word| word.text.starts_with("--message="));
    before.iter().any(Word::is_git)
        && (is_inside || before.last().is_some_and(|word| is_option(&word.text)))
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
