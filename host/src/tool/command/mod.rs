//! A shell command as rules and approvals see it: the programs that it starts, each with its words.
//!
//! Only a part of the shell's language is read: simple commands, quotes, `;`, `&`, `&&`, `||`, `|`, line breaks, redirections,
//! substitutions of commands, and the common programs that start another one. Everything else is a doubt, and a command with
//! a doubt is never allowed by a rule about commands: to be wrong about the whole language would be worse than to ask. What
//! the shell really does is not known here, so whatever is not certain to be literal is [`Word::Any`].
//!
//! Start from [`Command::read`].

mod carried;
mod nested;
mod pattern;
mod read;
#[cfg(test)]
mod tests;

pub use pattern::{CommandPattern, Matched};

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
}

/// A whole command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Command {
    /// Commands that it starts, also inside substitutions and programs that start others.
    pub parts: Vec<Part>,
    /// Doubt: reason why its parts may not be all; `None` when they are certain to be all.
    pub doubt: Option<String>,
}

impl Command {
    /// Reads a command as `bash -c` would.
    #[must_use]
    pub fn read(text: &str) -> Self {
        let mut command = Self::default();
        read::read(text, 0, &mut command);
        if command.parts.is_empty() {
            command.doubt("it starts no program");
        }
        command
    }

    fn doubt(&mut self, why: impl Into<String>) {
        self.doubt.get_or_insert_with(|| why.into());
    }

    /// Scope of a yes for the whole session: for each part the program and its first argument, or exactly the part where
    /// that would be too much.
    ///
    /// # Errors
    /// Reason why there is no such yes.
    pub fn covers(&self) -> Result<Vec<String>, String> {
        if let Some(doubt) = &self.doubt {
            return Err(format!(
                "this command cannot be read with certainty ({doubt})"
            ));
        }
        let mut covers: Vec<String> = Vec::new();
        for part in &self.parts {
            let cover = part.cover()?;
            if !covers.contains(&cover) {
                covers.push(cover);
            }
        }
        let n_bytes: usize = covers.iter().map(String::len).sum();
        if covers.len() > MAX_COVERED || n_bytes > MAX_COVER_BYTES {
            return Err("this command is too long to be covered as a whole".to_owned());
        }
        Ok(covers)
    }
}

impl Part {
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
        if self.is_altered {
            return Err(format!(
                "`{}` runs with variables that this command sets",
                self.text()
            ));
        }
        let mut words = self.words.iter();
        let (Some(Word::Literal(program)), first) = (words.next(), words.next()) else {
            return Err("the name of a program in it is not known before it runs".to_owned());
        };
        let is_general = !self.is_redirection && !nested::starts_others(program);
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

/// A word as it would be typed.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./:=,@%+^".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}
