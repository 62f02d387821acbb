//! Finds arguments that are commands: options of well-known programs that start other programs or
//! write to a given file.
//!
//! This does not cover everything that such programs can do: a rule that allows `make *` allows all
//! of the makefile. It covers programs that users consider harmless, so that a rule or an "always"
//! answer for `git log …` does not allow an arbitrary command in an option. Start from
//! [`flag_dangerous_program_arguments`].

mod table;

use super::{Command, ShellWord};
use table::{COMMAND_LAUNCHER_PROGRAMS, GIT_PROGRAM_NAME, dangerous_git_short_options};

/// A program that can run a command from its arguments or write a file named there, with the
/// arguments that can do so.
struct CommandLauncherProgram {
    names: &'static [&'static str],
    /// Letters of dangerous short options, which may be combined with other letters.
    letters: &'static str,
    /// Dangerous long options without dashes. Programs accept any unambiguous prefix.
    long: &'static [&'static str],
    /// Other arguments that can be dangerous, such as long options with a single dash.
    words: &'static [&'static str],
    /// Verbs (subcommands) that can take a command in any of their arguments.
    verbs: &'static [&'static str],
    /// Verbs that start no other program; verbs that are not listed are dangerous. If this list is
    /// empty, every verb that is not in `verbs` counts as harmless.
    harmless: &'static [&'static str],
    /// Options before the program's subcommand whose value is the next word. A long option also
    /// takes its value after `=`.
    valued: &'static [&'static str],
    /// Options before the verb without a value. A trailing `=` or `*` makes the text a prefix.
    flags: &'static [&'static str],
}

/// Returns the index of the verb among the arguments of a program, if all options before it are
/// known.
pub(super) fn find_subcommand_index(name: &str, arguments: &[ShellWord]) -> Option<usize> {
    let carrier =
        find_command_launcher_program(name).filter(|carrier| carrier.has_known_options())?;
    carrier.find_subcommand_index(arguments).ok()
}

fn find_command_launcher_program(name: &str) -> Option<&'static CommandLauncherProgram> {
    let mut carriers = COMMAND_LAUNCHER_PROGRAMS.iter();
    carriers.find(|carrier| carrier.names.contains(&name))
}

/// Returns the verb in the name of a program that implements a git verb: `push` for `git-push`.
pub(super) fn git_subcommand_of_program(name: &str) -> Option<&str> {
    name.strip_prefix("git-").filter(|verb| !verb.is_empty())
}

/// Marks the parsed command as possibly incomplete if one of the arguments of the program `name`
/// is, or can be, a command or an output file.
pub(super) fn flag_dangerous_program_arguments(
    name: &str,
    arguments: &[ShellWord],
    command: &mut Command,
) {
    if let Some(verb) = git_subcommand_of_program(name) {
        let verb = [ShellWord::Literal(verb.to_owned())];
        return flag_dangerous_program_arguments(
            GIT_PROGRAM_NAME,
            &[&verb, arguments].concat(),
            command,
        );
    }
    let Some(carrier) = find_command_launcher_program(name) else {
        return;
    };
    let has_verbs = !carrier.verbs.is_empty() || !carrier.harmless.is_empty();
    let verb_at = match carrier.find_subcommand_index(arguments) {
        Err(option) if has_verbs => {
            return command.set_doubt_reason(format!("`{name} {option}`, an unknown option"));
        }
        at => at.unwrap_or(arguments.len()),
    };
    let verb = arguments.get(verb_at).and_then(ShellWord::literal);
    if verb.is_some_and(|verb| carrier.can_subcommand_run_commands(verb)) {
        let verb = verb.unwrap_or_default();
        return command.set_doubt_reason(format!(
            "`{name} {verb}` may start any program or write any file"
        ));
    }
    for (at, word) in arguments.iter().enumerate() {
        // The shell may expand an unknown word, such as one with braces or a glob that matches a
        // file named like an option, to a dangerous option.
        let ShellWord::Literal(text) = word else {
            return command.set_doubt_reason(format!(
                "`{name}` has an argument that only the shell can work out"
            ));
        };
        if carrier.is_dangerous_argument(at, text, verb.filter(|_| at > verb_at)) {
            return command.set_doubt_reason(format!(
                "`{name} {text}` may start any program or write any file"
            ));
        }
    }
}

impl CommandLauncherProgram {
    fn has_known_options(&self) -> bool {
        !self.valued.is_empty() || !self.flags.is_empty()
    }

    /// Returns the index of the verb (the subcommand), or the number of arguments if there is none.
    /// The error is the first unknown option.
    fn find_subcommand_index<'a>(&self, arguments: &'a [ShellWord]) -> Result<usize, &'a str> {
        let mut at = 0;
        while let Some(word) = arguments.get(at) {
            // The word is unknown until the command runs. Return `…` in its place, so that
            // `flag_dangerous_program_arguments` marks the command as doubtful.
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

    fn can_subcommand_run_commands(&self, verb: &str) -> bool {
        self.verbs.contains(&verb) || (!self.harmless.is_empty() && !self.harmless.contains(&verb))
    }

    /// Whether the argument `text` at the index `at` can be a command to run or an output file.
    /// `verb` is the first argument that is not an option, if it precedes this one.
    fn is_dangerous_argument(&self, at: usize, text: &str, verb: Option<&str>) -> bool {
        if self.words.contains(&text) {
            return true;
        }
        if let Some(long) = text.strip_prefix("--") {
            let name = long.split('=').next().unwrap_or_default();
            return !name.is_empty() && self.long.iter().any(|option| option.starts_with(name));
        }
        let is_git = self.names.contains(&GIT_PROGRAM_NAME);
        if is_git && is_git_remote_helper_address(text) {
            return true;
        }
        let own = if is_git {
            dangerous_git_short_options(verb)
        } else {
            self.letters
        };
        // tar accepts option letters without a dash in its first word.
        let is_bundle = at == 0 && self.names.contains(&"tar");
        let letters = text.strip_prefix('-').or(is_bundle.then_some(text));
        letters.is_some_and(|letters| letters.chars().any(|c| own.contains(c)))
    }
}

/// Whether git would start a remote helper program for this repository address, such as
/// `ext::command`.
fn is_git_remote_helper_address(text: &str) -> bool {
    text.split_once("::").is_some_and(|(name, _)| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
    })
}
