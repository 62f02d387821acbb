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
//! This module reads text only and must not run or look up anything. Start from [`Command::read`].

mod alphabet;
mod carried;
mod mention;
mod nested;
mod pattern;
mod read;
mod starters;
#[cfg(test)]
mod tests;

pub use pattern::{CommandPattern, Matched};
pub(crate) use starters::runs_others;
pub(super) use starters::runs_unread;

use super::subject::WorkspacePath;

/// Maximum length of a command, in bytes. Linux starts no program with a longer argument
/// (`MAX_ARG_STRLEN`, which includes the NUL).
pub const MAX_BYTES: usize = 128 * 1024 - 1;

/// Maximum number of parts of a command.
const MAX_PARTS: usize = 1000;

/// Maximum length, in bytes, of the scope of an "always" answer: the texts of all parts together,
/// or one path. The user would not read a longer one.
pub(super) const MAX_COVER_BYTES: usize = 200;

/// Maximum number of different parts that an "always" answer may cover.
const MAX_COVERED: usize = 8;

/// One word of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Word {
    /// Literal text.
    Literal(String),
    /// Text that is unknown before the shell expands it, such as `$X`; it may become several words
    /// or none.
    Any,
}

impl Word {
    fn literal(&self) -> Option<&str> {
        match self {
            Self::Literal(text) => Some(text),
            Self::Any => None,
        }
    }
}

/// Part of a command: a program that the command starts, or a file to which it redirects output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The program and its arguments; the file if [`Part::is_redirection`].
    words: Vec<Word>,
    /// Whether variable assignments precede the program, which may change its behavior.
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
/// [`Command::why_asked`] first; a rule that denies can match `parts` in any case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Command {
    /// Programs that the command starts, including those in substitutions and those that other
    /// programs start, and files to which the command redirects output.
    pub parts: Vec<Part>,
    /// Reason why `parts` may be incomplete; `None` if the list is certainly complete.
    pub doubt: Option<String>,
    /// Reason why no rule allows the command although its parts are known: it is outside the
    /// grammar.
    pub outside: Option<String>,
    /// Length in bytes, if the command is too long to be parsed or started.
    pub n_bytes_too_long: Option<usize>,
}

impl Command {
    /// Parses a command as a shell would. A command over [`MAX_BYTES`], which no system can start,
    /// is not parsed.
    ///
    /// Commands and the parts that are read, separated by `|` here:
    ///
    /// ```text
    /// a; b && c || d           a | b | c | d
    /// a >out 2>&1 </dev/null   > out | a
    /// exec git log             git log | exec git log
    /// xargs -0 -n1 rm          rm … | xargs -0 -n1 rm
    /// sh -c 'a; b'             a | b | sh -c 'a; b'
    /// ```
    #[must_use]
    pub fn read(text: &str) -> Self {
        let mut command = Self::default();
        if text.len() > MAX_BYTES {
            command.n_bytes_too_long = Some(text.len());
            command.doubt(format!("it has more than {MAX_BYTES} bytes"));
            return command;
        }
        read::read_command(text, 0, &mut command);
        if command.parts.is_empty() {
            command.doubt("it starts no program");
        }
        command.look_at_folders();
        command
    }

    /// Resolves the files of redirections with `place`, as the file tools resolve their paths: a
    /// file inside the workspace gets a path relative to the workspace.
    #[must_use]
    pub fn resolved(mut self, place: impl Fn(&str) -> WorkspacePath) -> Self {
        for part in self.parts.iter_mut().filter(|part| part.is_redirection) {
            let others = part.others.iter().filter_map(|path| match place(path) {
                WorkspacePath::Known(known) => Some(known),
                WorkspacePath::Unknown => None,
            });
            let others: Vec<String> = others.collect();
            part.others.extend(others);
            let Some(Word::Literal(path)) = part.words.first_mut() else {
                continue;
            };
            if let WorkspacePath::Known(known) = place(path) {
                let as_written = std::mem::replace(path, known);
                part.others.push(as_written);
            } else if !path.starts_with('/') {
                // The relative path leads out of the workspace, by `..` or a symlink.
                let why = format!("the target of `> {path}` is unknown");
                self.outside.get_or_insert(why);
                part.words = vec![Word::Any];
            }
        }
        self
    }

    /// Returns the reason why no rule allows the command, if there is one.
    #[must_use]
    pub fn why_asked(&self) -> Option<&str> {
        self.doubt.as_deref().or(self.outside.as_deref())
    }

    fn doubt(&mut self, why: impl Into<String>) {
        self.doubt.get_or_insert_with(|| why.into());
    }

    fn outside(&mut self, why: impl Into<String>) {
        self.outside.get_or_insert_with(|| why.into());
    }

    /// Marks the command as outside the grammar if it changes the working directory and uses a
    /// relative path for a later program or for a redirection, or if it redirects output to a path
    /// with `..`, below `/proc/` or below `/dev/fd/`.
    fn look_at_folders(&mut self) {
        let moves = |part: &Part| part.name().is_some_and(|name| MOVING.contains(&name));
        let first_move = self.parts.iter().position(moves);
        let mut why = None;
        for (at, part) in self.parts.iter_mut().enumerate() {
            let Some(Word::Literal(path)) = part.words.first_mut() else {
                continue;
            };
            let is_relative = !path.starts_with('/');
            if part.is_redirection {
                let plain = pattern::plain_path(path);
                if is_relative && first_move.is_some() {
                    why = Some(format!("`> {path}` in a folder that the command changes"));
                    part.words = vec![Word::Any];
                } else if plain.starts_with("/proc/") || plain.starts_with("/dev/fd/") {
                    why = Some(format!("the target of `> {path}` is unknown"));
                    part.words = vec![Word::Any];
                } else if plain.split('/').any(|name| name == "..") {
                    why = Some(format!("`> {path}` with `..`"));
                    part.others.push(pattern::without_parents(&plain));
                    *path = plain;
                } else {
                    *path = plain;
                }
            } else if is_relative && path.contains('/') && first_move.is_some_and(|n| n < at) {
                why = Some(format!("`{path}` in a folder that the command changes"));
            }
        }
        if let Some(why) = why {
            self.outside(why);
        }
    }

    /// Returns the scope of an "always" answer: for each part the program and its first argument,
    /// or the exact part if that would cover too much.
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
    pub fn covers(&self) -> Result<Vec<String>, String> {
        if let Some(why) = self.why_asked() {
            return Err(format!(
                "only simple commands can be covered, and this one has more to it ({why})"
            ));
        }
        let mut covers: Vec<String> = Vec::new();
        for part in &self.parts {
            let cover = part.cover()?;
            if !covers.contains(&cover) {
                covers.push(cover);
            }
            if covers.len() > MAX_COVERED {
                break;
            }
        }
        let n_bytes: usize = covers.iter().map(String::len).sum();
        if covers.len() > MAX_COVERED || n_bytes > MAX_COVER_BYTES {
            return Err("this command is too long to be covered as a whole".to_owned());
        }
        Ok(covers)
    }
}

/// Builtins that change the working directory.
const MOVING: &[&str] = &["cd", "popd", "pushd"];

impl Part {
    fn program(words: Vec<Word>) -> Self {
        Self {
            words,
            is_altered: false,
            is_redirection: false,
            others: Vec::new(),
        }
    }

    fn redirection(file: Word) -> Self {
        Self {
            is_redirection: true,
            ..Self::program(vec![file])
        }
    }

    /// Returns the base name of the part's program, if known.
    fn name(&self) -> Option<&str> {
        let program = self.words.first()?.literal()?;
        (!self.is_redirection).then(|| starters::base_name(program))
    }

    /// Returns the program and its arguments; for a redirection, only the file.
    #[must_use]
    pub fn words(&self) -> &[Word] {
        &self.words
    }

    /// Whether variable assignments precede the program, which may change its behavior.
    #[must_use]
    pub fn is_altered(&self) -> bool {
        self.is_altered
    }

    /// Whether the part is a file to which output is redirected.
    #[must_use]
    pub fn is_redirection(&self) -> bool {
        self.is_redirection
    }

    fn cover(&self) -> Result<String, String> {
        let mut words = self.words.iter();
        let (Some(Word::Literal(program)), first) = (words.next(), words.next()) else {
            return Err("the name of a program in it is not known before it runs".to_owned());
        };
        let is_general = !self.is_redirection && !starters::may_run_others(program);
        match first {
            Some(Word::Literal(first)) if is_general && !first.starts_with('-') => {
                Ok(format!("{} {} …", quoted(program), quoted(first)))
            }
            _ if self.words.contains(&Word::Any) => Err(format!(
                "the arguments of `{}` are not known before it runs",
                quoted(program)
            )),
            _ => Ok(self.text()),
        }
    }

    /// Formats the part as one line, with quotes where the shell needs them; `…` marks unknown
    /// words.
    #[must_use]
    pub fn text(&self) -> String {
        let words = self.words.iter().map(|word| match word {
            Word::Literal(text) => quoted(text),
            Word::Any => "…".to_owned(),
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
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:,@%+=^".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) && !word.starts_with('=') {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r#"'"'"'"#))
    }
}
