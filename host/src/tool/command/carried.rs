//! Arguments that are commands: options of well-known programs that make them start others, or write where they are told.
//!
//! Not a list of everything that such programs can do: who allows `make *` allows what the makefile says. It keeps those
//! apart that people take for harmless, so that a rule or an "always" for `git log …` does not carry a command along.

mod table;

use super::{Command, Word};
use table::{CARRIERS, GIT, git_letters};

/// A program and those of its arguments that are commands, or places to write to.
struct Carrier {
    names: &'static [&'static str],
    /// Letters of short options, also when combined in one word.
    letters: &'static str,
    /// Long options without their dashes; programs take any beginning of them that is clear.
    long: &'static [&'static str],
    /// Options that are spelled with one dash, and other whole words.
    words: &'static [&'static str],
    /// Verbs after which everything may be a command.
    verbs: &'static [&'static str],
    /// The only verbs that start nothing but what the program is for; when empty, all but `verbs`.
    harmless: &'static [&'static str],
    /// Options before the verb whose value is the next word; a long one also takes it behind `=`.
    valued: &'static [&'static str],
    /// Options before the verb without a value. One that ends with `=` or `*` is a beginning.
    flags: &'static [&'static str],
}

/// Returns the place of the verb among the arguments of a program, when all options before it are known.
pub(super) fn verb_at(name: &str, arguments: &[Word]) -> Option<usize> {
    let carrier = find(name).filter(|carrier| carrier.has_options())?;
    carrier.verb_at(arguments).ok()
}

fn find(name: &str) -> Option<&'static Carrier> {
    let mut carriers = CARRIERS.iter();
    carriers.find(|carrier| carrier.names.contains(&name))
}

/// Returns the verb of which a program is the one that git starts for it: `git-push`.
pub(super) fn own_program_of_git(name: &str) -> Option<&str> {
    name.strip_prefix("git-").filter(|verb| !verb.is_empty())
}

/// Doubts a part one of whose arguments is a command, or may be one.
pub(super) fn read(name: &str, arguments: &[Word], command: &mut Command) {
    if let Some(verb) = own_program_of_git(name) {
        let verb = [Word::Literal(verb.to_owned())];
        return read(GIT, &[&verb, arguments].concat(), command);
    }
    let Some(carrier) = find(name) else {
        return;
    };
    let has_verbs = !carrier.verbs.is_empty() || !carrier.harmless.is_empty();
    let verb_at = match carrier.verb_at(arguments) {
        Err(option) if has_verbs => {
            return command.doubt(format!("`{name} {option}`, an option that is not known"));
        }
        at => at.unwrap_or(arguments.len()),
    };
    let verb = arguments.get(verb_at).and_then(Word::literal);
    if verb.is_some_and(|verb| carrier.is_doubtful(verb)) {
        let verb = verb.unwrap_or_default();
        return command.doubt(format!("`{name} {verb}` may start or write anything"));
    }
    for (at, word) in arguments.iter().enumerate() {
        // What is in braces, or the name of a file that begins with a dash, may be one of those options.
        let Word::Literal(text) = word else {
            return command.doubt(format!("`{name}` with what is not known here"));
        };
        if carrier.carries(at, text, verb.filter(|_| at > verb_at)) {
            return command.doubt(format!("`{name} {text}` may start or write anything"));
        }
    }
}

impl Carrier {
    fn has_options(&self) -> bool {
        !self.valued.is_empty() || !self.flags.is_empty()
    }

    /// The place of the verb; the option that is not known when it is not clear. Without a verb, the number of arguments.
    fn verb_at<'a>(&self, arguments: &'a [Word]) -> Result<usize, &'a str> {
        let mut at = 0;
        while let Some(word) = arguments.get(at) {
            // `carried::read` doubts the word.
            let Some(text) = word.literal() else {
                return Err("…");
            };
            let is_flag = |flag: &&str| match flag.strip_suffix('*') {
                Some(beginning) => text.starts_with(beginning),
                None => *flag == text || (flag.ends_with('=') && text.starts_with(flag)),
            };
            let is_joined = |option: &&str| {
                let value = text.strip_prefix(option);
                option.starts_with("--") && value.is_some_and(|value| value.starts_with('='))
            };
            if self.valued.contains(&text) {
                at += 2;
            } else if self.flags.iter().any(is_flag) || self.valued.iter().any(is_joined) {
                at += 1;
            } else if text.starts_with('-') {
                return Err(text);
            } else {
                break;
            }
        }
        Ok(at.min(arguments.len()))
    }

    fn is_doubtful(&self, verb: &str) -> bool {
        self.verbs.contains(&verb) || (!self.harmless.is_empty() && !self.harmless.contains(&verb))
    }

    /// `verb` is the first argument that is no option, when it stands before this one.
    fn carries(&self, at: usize, text: &str, verb: Option<&str>) -> bool {
        if self.words.contains(&text) {
            return true;
        }
        if let Some(long) = text.strip_prefix("--") {
            let name = long.split('=').next().unwrap_or_default();
            return !name.is_empty() && self.long.iter().any(|option| option.starts_with(name));
        }
        let is_git = self.names.contains(&GIT);
        if is_git && is_of_helper(text) {
            return true;
        }
        let own = if is_git {
            git_letters(verb)
        } else {
            self.letters
        };
        // tar takes the letters of its first word without a dash.
        let is_bundle = at == 0 && self.names.contains(&"tar");
        let letters = text.strip_prefix('-').or(is_bundle.then_some(text));
        letters.is_some_and(|letters| letters.chars().any(|c| own.contains(c)))
    }
}

/// Whether an address makes git start a helper for remotes: `ext::command`.
fn is_of_helper(text: &str) -> bool {
    text.split_once("::").is_some_and(|(name, _)| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
    })
}
