//! Shell commands as rules and approvals see them: the list of programs that a command starts, each
//! with its words.
//!
//! Rules and "always" answers allow only commands in a small grammar that every shell reads alike
//! (see `read.rs`); of programs that start other programs, only known forms are allowed (see
//! `nested.rs`). Everything else asks: `Command::doubt` is set if the list of programs may be
//! incomplete, `Command::outside` if it is complete but the command is outside the grammar. Rules
//! that deny match more: a denied program and its words anywhere in a command may be a match (see
//! `mention.rs`).
//!
//! This module reads text only and must not run or look up anything. Start from [`Command::parse`].

mod alphabet;
mod carried;
mod mention;
mod nested;
mod pattern;
mod read;
mod starters;
#[cfg(test)]
mod tests;

pub use pattern::{CommandPattern, CommandPatternMatch};
pub(super) use starters::is_launcher_with_unparsed_arguments;
pub(crate) use starters::is_program_launcher;

use super::subject::WorkspacePath;

/// Maximum length of a command, in bytes: that of one argument of a program on Linux
/// (`MAX_ARG_STRLEN`, which includes the terminating NUL).
pub const MAX_BYTES: usize = 128 * 1024 - 1;

/// Maximum number of parts of a command.
const MAX_PARTS: usize = 1000;

/// Maximum length, in bytes, of the scope of an "always" answer: the texts of all parts together,
/// or one path. The user would not read a longer one.
pub(super) const MAX_COVER_BYTES: usize = 200;

/// Maximum number of different parts of a command for which an "always" answer is possible.
const MAX_COVERED: usize = 8;

/// Word of a shell command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShellWord {
    /// Literal text, after the removal of quotes.
    Literal(String),
    /// Text that is unknown before the shell expands it, such as `$X`; it may become several words
    /// or none.
    Any,
}

impl ShellWord {
    fn literal(&self) -> Option<&str> {
        match self {
            Self::Literal(text) => Some(text),
            Self::Any => None,
        }
    }
}

/// Part of a command: a program that the command starts, or a file to which it redirects output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandPart {
    /// Words of the program and its arguments; only the file if the part is a redirection.
    words: Vec<ShellWord>,
    /// Whether variable assignments precede the program, as in `A=1 make`; they may change its
    /// behavior.
    is_altered: bool,
    /// Whether the part is a file to which output is redirected.
    is_redirection: bool,
    /// Further texts that deny rules are matched against: other names of a redirection's file,
    /// values of variable assignments, and the known fragments of unknown words.
    others: Vec<String>,
}

/// A parsed command line.
///
/// `parts` is complete only if `doubt` is `None`. A rule that allows must therefore check
/// [`Command::reason_to_ask_user`] first; a rule that denies can match `parts` in any case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Command {
    /// Programs that the command starts, also in substitutions and through other programs, and
    /// files to which the command redirects output.
    pub parts: Vec<CommandPart>,
    /// Reason why `parts` may be incomplete; `None` if the list is certainly complete.
    pub doubt: Option<String>,
    /// Reason why no rule for commands allows the command although its parts are known, such as
    /// syntax outside the grammar that rules support, or a redirection to an unknown target.
    pub outside: Option<String>,
    /// Length of the command in bytes if it exceeds [`MAX_BYTES`], so that it is not parsed.
    pub n_bytes_too_long: Option<usize>,
}

impl Command {
    /// Parses a command as a shell would. A command over [`MAX_BYTES`], which no system can start,
    /// is not parsed.
    ///
    /// For example, a command on the left and its parts on the right, separated by `|`:
    ///
    /// ```text
    /// a; b && c || d           a | b | c | d
    /// a >out 2>&1 </dev/null   > out | a
    /// exec git log             git log | exec git log
    /// xargs -0 -n1 rm          rm … | xargs -0 -n1 rm
    /// sh -c 'a; b'             a | b | sh -c 'a; b'
    /// ```
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut command = Self::default();
        if text.len() > MAX_BYTES {
            command.n_bytes_too_long = Some(text.len());
            command.set_doubt_reason(format!("it has more than {MAX_BYTES} bytes"));
            return command;
        }
        read::parse_command(text, 0, &mut command);
        if command.parts.is_empty() {
            command.set_doubt_reason("it starts no program");
        }
        command.check_folder_changes();
        command
    }

    /// Resolves the files of redirections with `place`, as the file tools resolve their paths: a
    /// file inside the workspace gets a path relative to the workspace.
    #[must_use]
    pub fn resolve_redirections(mut self, place: impl Fn(&str) -> WorkspacePath) -> Self {
        for part in self.parts.iter_mut().filter(|part| part.is_redirection) {
            let others = part.others.iter().filter_map(|path| match place(path) {
                WorkspacePath::Known(known) => Some(known),
                WorkspacePath::Unknown => None,
            });
            let others: Vec<String> = others.collect();
            part.others.extend(others);
            let Some(ShellWord::Literal(path)) = part.words.first_mut() else {
                continue;
            };
            if let WorkspacePath::Known(known) = place(path) {
                let as_written = std::mem::replace(path, known);
                part.others.push(as_written);
            } else if !path.starts_with('/') {
                // The path of the redirection is relative and leads out of the workspace, by `..`
                // or a symlink.
                let why = format!("the target of `> {path}` is unknown");
                self.outside.get_or_insert(why);
                part.words = vec![ShellWord::Any];
            }
        }
        self
    }

    /// Returns the reason why no rule allows the command, if there is one.
    #[must_use]
    pub fn reason_to_ask_user(&self) -> Option<&str> {
        self.doubt.as_deref().or(self.outside.as_deref())
    }

    fn set_doubt_reason(&mut self, why: impl Into<String>) {
        self.doubt.get_or_insert_with(|| why.into());
    }

    fn set_outside_grammar(&mut self, why: impl Into<String>) {
        self.outside.get_or_insert_with(|| why.into());
    }

    /// Marks the command as outside the grammar if it changes the working directory and uses a
    /// relative path for a later program or for a redirection, or if it redirects output to a path
    /// with `..`, below `/proc/` or below `/dev/fd/`.
    fn check_folder_changes(&mut self) {
        let moves = |part: &CommandPart| part.name().is_some_and(|name| MOVING.contains(&name));
        let first_move = self.parts.iter().position(moves);
        let mut why = None;
        for (at, part) in self.parts.iter_mut().enumerate() {
            let Some(ShellWord::Literal(path)) = part.words.first_mut() else {
                continue;
            };
            let is_relative = !path.starts_with('/');
            if part.is_redirection {
                let plain = pattern::simplify_path(path);
                if is_relative && first_move.is_some() {
                    why = Some(format!(
                        "the path in `> {path}` is relative and follows a change of the working directory"
                    ));
                    part.words = vec![ShellWord::Any];
                } else if plain.starts_with("/proc/") || plain.starts_with("/dev/fd/") {
                    why = Some(format!("the target of `> {path}` is unknown"));
                    part.words = vec![ShellWord::Any];
                } else if plain.split('/').any(|name| name == "..") {
                    why = Some(format!("`> {path}` with `..`"));
                    part.others.push(pattern::resolve_parent_components(&plain));
                    *path = plain;
                } else {
                    *path = plain;
                }
            } else if is_relative && path.contains('/') && first_move.is_some_and(|n| n < at) {
                why = Some(format!(
                    "the path `{path}` is relative and follows a change of the working directory"
                ));
            }
        }
        if let Some(why) = why {
            self.set_outside_grammar(why);
        }
    }

    /// Returns the scope of an "always" answer. For each part, this is the program and its first
    /// argument; or the exact part, if it is a redirection, has no argument or begins with an
    /// option, or if the program may run others.
    ///
    /// For example:
    ///
    /// ```text
    /// git log -n 1 | head    ->  git log …; head
    /// rm -rf x               ->  rm -rf x
    /// make >out              ->  > out; make
    /// git log $X             ->  an error, as only the shell knows $X
    /// ```
    ///
    /// # Errors
    /// Reason why no "always" answer is possible.
    pub fn session_approval_scopes(&self) -> Result<Vec<String>, String> {
        if let Some(why) = self.reason_to_ask_user() {
            return Err(format!(
                "an \"always\" answer can cover only simple commands, and this one is not simple ({why})"
            ));
        }
        let mut covers: Vec<String> = Vec::new();
        for part in &self.parts {
            let cover = part.always_answer_scope()?;
            if !covers.contains(&cover) {
                covers.push(cover);
            }
            if covers.len() > MAX_COVERED {
                break;
            }
        }
        let n_bytes: usize = covers.iter().map(String::len).sum();
        if covers.len() > MAX_COVERED || n_bytes > MAX_COVER_BYTES {
            return Err("this command is too long for an \"always\" answer".to_owned());
        }
        Ok(covers)
    }
}

/// Shell builtins that change the working directory.
const MOVING: &[&str] = &["cd", "popd", "pushd"];

impl CommandPart {
    fn from_program_words(words: Vec<ShellWord>) -> Self {
        Self {
            words,
            is_altered: false,
            is_redirection: false,
            others: Vec::new(),
        }
    }

    fn redirection_part(file: ShellWord) -> Self {
        Self {
            is_redirection: true,
            ..Self::from_program_words(vec![file])
        }
    }

    /// Returns the base name of the part's program, if known.
    fn name(&self) -> Option<&str> {
        let program = self.words.first()?.literal()?;
        (!self.is_redirection).then(|| starters::base_name(program))
    }

    /// Returns the words of this part: the program and its arguments. For a redirection, the only
    /// word is the file.
    #[must_use]
    pub fn words(&self) -> &[ShellWord] {
        &self.words
    }

    /// Whether the program is preceded by variable assignments, which may change its behavior.
    #[must_use]
    pub fn has_variable_assignments(&self) -> bool {
        self.is_altered
    }

    /// Whether the part is a file to which output is redirected.
    #[must_use]
    pub fn is_redirection(&self) -> bool {
        self.is_redirection
    }

    fn always_answer_scope(&self) -> Result<String, String> {
        let mut words = self.words.iter();
        let (Some(ShellWord::Literal(program)), first) = (words.next(), words.next()) else {
            return Err("the name of a program in it is not known before it runs".to_owned());
        };
        let is_general = !self.is_redirection && !starters::may_run_other_programs(program);
        match first {
            Some(ShellWord::Literal(first)) if is_general && !first.starts_with('-') => {
                Ok(format!("{} {} …", quote_word(program), quote_word(first)))
            }
            _ if self.words.contains(&ShellWord::Any) => Err(format!(
                "the arguments of `{}` are not known before it runs",
                quote_word(program)
            )),
            _ => Ok(self.text()),
        }
    }

    /// Formats the part as one line, with quotes where the shell needs them. `…` marks a word whose
    /// value is known only when the command runs.
    #[must_use]
    pub fn text(&self) -> String {
        let words = self.words.iter().map(|word| match word {
            ShellWord::Literal(text) => quote_word(text),
            ShellWord::Any => "…".to_owned(),
        });
        let text = words.collect::<Vec<_>>().join(" ");
        if self.is_redirection {
            format!("> {text}")
        } else {
            text
        }
    }
}

/// Quotes a word where a shell needs it. Patterns in rules have the same syntax.
fn quote_word(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:,@%+=^".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) && !word.starts_with('=') {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r#"'"'"'"#))
    }
}
