//! A shell command as rules and approvals see it: the programs that it starts, each with its words.
//!
//! Rules and an "always" allow only what stands in a small grammar that every shell reads alike (see `read.rs`), and of programs
//! that start others only the shapes that are known (see `nested.rs`). Everything else asks: `Command::doubt` where its programs are
//! not all known, `Command::outside` where they are. Rules that deny see more than that: a denied program and its words anywhere
//! in a command may be a match (see `mention.rs`).
//!
//! Start from [`Command::read`].

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

/// Longest command that is read, in bytes: Linux starts no program with a longer argument (`MAX_ARG_STRLEN` with its NUL).
pub const MAX_BYTES: usize = 128 * 1024 - 1;

/// Most parts of a command that are read.
const MAX_PARTS: usize = 1000;

/// Longest text that "always" may cover: a longer one would not be read.
pub(super) const MAX_COVER_BYTES: usize = 200;

/// Most parts that "always" may cover.
const MAX_COVERED: usize = 8;

/// One word of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Word {
    /// Exactly this text.
    Literal(String),
    /// A text that only the shell knows, and maybe several words or none.
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

/// One program that a command starts, or one file that it writes through `>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The program and its arguments; the file when [`Part::is_redirection`].
    words: Vec<Word>,
    /// Whether variables are set for it, which may change what it does.
    is_altered: bool,
    /// Whether it is the output of another part that goes to a file.
    is_redirection: bool,
    /// Further texts for rules that deny: other names of the file that a redirection writes, what a program's variables are set
    /// to, what is known of its unknown words.
    others: Vec<String>,
}

/// A whole command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Command {
    /// Commands that it starts, also inside substitutions and programs that start others.
    pub parts: Vec<Part>,
    /// Doubt: reason why its parts may not be all; `None` when they are certain to be all.
    pub doubt: Option<String>,
    /// Reason why no rule allows it although its parts are known: it is not written in the grammar of rules.
    pub outside: Option<String>,
    /// Length in bytes, when it is too long to be read or started.
    pub n_bytes_too_long: Option<usize>,
}

impl Command {
    /// Reads a command as a shell would. One that no system starts ([`MAX_BYTES`]) is not read.
    #[must_use]
    pub fn read(text: &str) -> Self {
        let mut command = Self::default();
        if text.len() > MAX_BYTES {
            command.n_bytes_too_long = Some(text.len());
            command.doubt(format!("it has more than {MAX_BYTES} bytes"));
            return command;
        }
        read::read(text, 0, &mut command);
        if command.parts.is_empty() {
            command.doubt("it starts no program");
        }
        command.look_at_folders();
        command
    }

    /// Resolves the files that it writes with `place`, as the tools for files do: to a path from the workspace where it lies within.
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
                // It leads out, by `..` or a link.
                let why = format!("the target of `> {path}` is unknown");
                self.outside.get_or_insert(why);
                part.words = vec![Word::Any];
            }
        }
        self
    }

    /// Reason why no rule allows it.
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

    /// Marks relative paths as unknown where the command changes the folder that they are relative to, and those with `..`.
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

    /// Scope of a yes for the whole session: for each part the program and its first argument, or exactly the part where
    /// that would be too much.
    ///
    /// # Errors
    /// Reason why there is no such yes.
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

/// Builtins that change the folder which paths are relative to.
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

    /// Base name of its program, where that is known.
    fn name(&self) -> Option<&str> {
        let program = self.words.first()?.literal()?;
        (!self.is_redirection).then(|| starters::base_name(program))
    }

    /// The program and its arguments; the file alone where it is output that goes there.
    #[must_use]
    pub fn words(&self) -> &[Word] {
        &self.words
    }

    /// Whether variables are set for it, which may change what it does.
    #[must_use]
    pub fn is_altered(&self) -> bool {
        self.is_altered
    }

    /// Whether it is a file that output goes to.
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

    /// Returns the part as one line, words quoted where the shell needs it; `…` marks unknown words.
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

/// A word as it would be typed, and as a pattern of rules may have it.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:,@%+=^".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) && !word.starts_with('=') {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r#"'"'"'"#))
    }
}
