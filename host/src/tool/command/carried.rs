//! Finds arguments that are commands: options of well-known programs that start other programs or
//! write to a given file.
//!
//! This does not cover everything that such programs can do: a rule that allows `make *` allows all
//! of the makefile. It covers programs that users consider harmless, so that a rule or an "always"
//! answer for `git log …` does not allow an arbitrary command in an option. Start from
//! [`read_carried`].

mod table;

use super::{Command, Word};
use table::{CARRIERS, GIT, git_letters};

/// A program, and which of its arguments can be commands or output files.
struct CarrierProgram {
    names: &'static [&'static str],
    /// Letters of dangerous short options, which may be combined with other letters.
    letters: &'static str,
    /// Dangerous long options without dashes. Programs accept any unambiguous prefix.
    long: &'static [&'static str],
    /// Dangerous options with a single dash, and other dangerous words.
    words: &'static [&'static str],
    /// Verbs whose arguments can all be commands.
    verbs: &'static [&'static str],
    /// The only verbs that start no other program. If empty, every verb that is not in `verbs`
    /// counts as harmless.
    harmless: &'static [&'static str],
    /// Options before the verb whose value is the next word; a long one also takes its value after
    /// `=`.
    valued: &'static [&'static str],
    /// Options before the verb without a value. A trailing `=` or `*` makes the text a prefix.
    flags: &'static [&'static str],
}

/// Returns the index of the verb among the arguments of a program, if all options before it are
/// known.
pub(super) fn verb_at(name: &str, arguments: &[Word]) -> Option<usize> {
    let carrier = find_carrier(name).filter(|carrier| carrier.has_options())?;
    carrier.verb_at(arguments).ok()
}

fn find_carrier(name: &str) -> Option<&'static CarrierProgram> {
    let mut carriers = CARRIERS.iter();
    carriers.find(|carrier| carrier.names.contains(&name))
}

/// Returns the verb in the name of a program that implements a git verb: `push` for `git-push`.
pub(super) fn own_program_of_git(name: &str) -> Option<&str> {
    name.strip_prefix("git-").filter(|verb| !verb.is_empty())
}

/// Marks the command as doubtful if one of the arguments of the program `name` is, or can be, a
/// command or an output file.
pub(super) fn read_carried(name: &str, arguments: &[Word], command: &mut Command) {
    if let Some(verb) = own_program_of_git(name) {
        let verb = [Word::Literal(verb.to_owned())];
        return read_carried(GIT, &[&verb, arguments].concat(), command);
    }
    let Some(carrier) = find_carrier(name) else {
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
        // The shell may expand an unknown word, such as one with braces or a glob that matches a
        // file named like an option, to a dangerous option.
        let Word::Literal(text) = word else {
            return command.doubt(format!("`{name}` with what is not known here"));
        };
        if carrier.carries_argument(at, text, verb.filter(|_| at > verb_at)) {
            return command.doubt(format!("`{name} {text}` may start or write anything"));
        }
    }
}

impl CarrierProgram {
    fn has_options(&self) -> bool {
        !self.valued.is_empty() || !self.flags.is_empty()
    }

    /// Returns the index of the verb, or the number of arguments if there is none. The error is the
    /// first unknown option.
    fn verb_at<'a>(&self, arguments: &'a [Word]) -> Result<usize, &'a str> {
        let mut at = 0;
        while let Some(word) = arguments.get(at) {
            // The word is known only when the command runs. Put `…` in its place; `read_carried`
            // marks the command as doubtful.
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

    /// Whether this argument can be a command or an output file. `verb` is the first argument that
    /// is not an option, if it precedes this one.
    fn carries_argument(&self, at: usize, text: &str, verb: Option<&str>) -> bool {
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
        // tar accepts option letters without a dash in its first word.
        let is_bundle = at == 0 && self.names.contains(&"tar");
        let letters = text.strip_prefix('-').or(is_bundle.then_some(text));
        letters.is_some_and(|letters| letters.chars().any(|c| own.contains(c)))
    }
}

/// Whether an address makes git start a remote helper: `ext::command`.
fn is_of_helper(text: &str) -> bool {
    text.split_once("::").is_some_and(|(name, _)| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
    })
}
