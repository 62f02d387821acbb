//! Reads a shell command by its words: quotes, substitutions, texts of `<<` and continued lines are followed, variables are not.
//!
//! It knows which words stand together and what may be run of what is quoted; `calls` knows what they mean to git. Start from
//! [`uses`].

use std::iter::Peekable;
use std::str::Chars;

use crate::calls;

/// Uses of git that a command makes.
#[derive(Debug, Default)]
pub(crate) struct Uses {
    /// Whether a push may overwrite or delete what others pushed.
    pub(crate) is_forced: bool,
    /// Whether a text would be such a push if something ran it, or a word if it was git.
    pub(crate) may_be_forced: bool,
    /// Commands of git that move a branch or publish it, in their order.
    pub(crate) changes: Vec<String>,
    /// Branches that it changes by name: that it pushes to, and that it switches to before a change.
    pub(crate) branches: Vec<String>,
    /// Reason why a change may be on another branch than that of the workspace.
    pub(crate) unknown: Option<&'static str>,
}

/// Programs that run the text of an argument, or of their input.
const SHELLS: [&str; 11] = [
    "ash", "bash", "dash", "eval", "fish", "ksh", "sh", "ssh", "su", "trap", "zsh",
];

/// Programs that run the words behind them.
const WRAPPERS: [&str; 9] = [
    "command", "env", "exec", "nice", "nohup", "sudo", "time", "timeout", "xargs",
];

/// Substitutions whose result is known, with a word that means the same.
const KNOWN: [(&str, &str); 7] = [
    ("which git", "git"),
    ("command -v git", "git"),
    ("type -p git", "git"),
    ("type -P git", "git"),
    ("git branch --show-current", "HEAD"),
    ("git rev-parse --abbrev-ref HEAD", "HEAD"),
    ("git symbolic-ref --short HEAD", "HEAD"),
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
        is_run: true,
    };
    reader.command(command, true);
    reader.uses
}

/// A word of a command, without its quotes.
#[derive(Default)]
pub(crate) struct Word {
    pub(crate) text: String,
    is_quoted: bool,
}

impl Word {
    fn quote(&mut self, text: &str) {
        self.is_quoted = true;
        self.text.push_str(text);
    }

    /// Returns what may be a command of its own, as in `sh -c "git push"` and `P="git push"`.
    fn command(&self) -> Option<&str> {
        let is_sign = |c: char| c.is_whitespace() || ";&|()`".contains(c);
        let value = self.text.split_once('=');
        let value = value.filter(|(name, _)| !name.contains(is_sign));
        let text = value.map_or(&*self.text, |(_, value)| value);
        (self.is_quoted && text.contains(is_sign)).then_some(text)
    }

    /// Whether it sets a variable.
    pub(crate) fn is_assignment(&self) -> bool {
        let name = self.text.split_once('=').map(|(name, _)| name);
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
        name.is_some_and(|name| !name.is_empty() && name.chars().all(fits))
    }

    pub(crate) fn is_git(&self) -> bool {
        let is_path = self.text.ends_with("/git") && !self.text.starts_with('-');
        self.text == "git" || (is_path && !self.is_assignment())
    }

    fn is_shell(&self) -> bool {
        let name = self.text.rsplit('/').next().unwrap_or_default();
        SHELLS.contains(&name)
    }

    /// Whether the word behind it may still be the program.
    fn is_before_program(&self) -> bool {
        let text = self.text.as_str();
        self.is_assignment()
            || WRAPPERS.contains(&text)
            || text.starts_with('-')
            || text.chars().all(|c| c.is_ascii_digit())
    }
}

/// End of a text that stands behind the line, as of `<<EOF`.
struct TextEnd {
    word: String,
    /// Whether nothing in the text is put in place.
    is_quoted: bool,
    /// Place of the command that reads it, in its pipeline.
    part: usize,
}

impl TextEnd {
    fn read(letters: &mut Peekable<Chars<'_>>, part: usize) -> Self {
        let mut end = Self {
            word: String::new(),
            is_quoted: false,
            part,
        };
        while letters.next_if(|c| "- \t".contains(*c)).is_some() {}
        let fits = |c: &char| !c.is_whitespace() && !";&|()<>".contains(*c);
        while let Some(letter) = letters.next_if(fits) {
            end.is_quoted |= "'\"\\".contains(letter);
            match letter {
                '\'' | '"' => end
                    .word
                    .extend(letters.by_ref().take_while(|c| *c != letter)),
                '\\' => {}
                letter => end.word.push(letter),
            }
        }
        end
    }

    /// Takes the text; `None` when it has no end, so that it is read like everything else.
    fn take(&self, letters: &mut Peekable<Chars<'_>>) -> Option<String> {
        let mut ahead = letters.clone();
        let mut text = String::new();
        loop {
            let line: String = ahead.by_ref().take_while(|c| *c != '\n').collect();
            if line.trim() == self.word {
                *letters = ahead;
                return Some(text);
            }
            ahead.peek()?;
            text.push_str(&line);
            text.push('\n');
        }
    }
}

/// Words that were read of one level: of the command itself, or of a substitution in it.
#[derive(Default)]
struct Level {
    word: Option<Word>,
    words: Vec<Word>,
    /// Parts whose output goes to what is being read.
    pipeline: Vec<Vec<Word>>,
    texts: Vec<TextEnd>,
    n_pipelines: usize,
    /// The words of the last pipeline, if it had one part.
    spelled: String,
}

impl Level {
    fn word(&mut self) -> &mut Word {
        self.word.get_or_insert_default()
    }

    fn end_word(&mut self) {
        self.words.extend(self.word.take());
    }

    /// Takes the parts of the pipeline that ends here.
    fn take(&mut self) -> Vec<Vec<Word>> {
        self.end_word();
        let mut parts = std::mem::take(&mut self.pipeline);
        parts.push(std::mem::take(&mut self.words));
        parts.retain(|words| !words.is_empty());
        if let Some(first) = parts.first() {
            self.n_pipelines += 1;
            let words: Vec<&str> = first.iter().map(|word| &*word.text).collect();
            self.spelled = words.join(" ");
        }
        if parts.len() > 1 {
            self.spelled.clear();
        }
        parts
    }
}

pub(crate) struct Reader<'a> {
    pub(crate) workspace: &'a str,
    pub(crate) uses: Uses,
    /// Branches that the command switched to so far.
    pub(crate) switched: Vec<String>,
    /// Reason why it is elsewhere by now.
    pub(crate) moved: Option<&'static str>,
    depth: u32,
    /// Whether what is being read is run for certain.
    is_run: bool,
}

impl Reader<'_> {
    pub(crate) fn command(&mut self, text: &str, is_run: bool) {
        if self.depth == MAX_DEPTH {
            // Nobody writes this, so it hides something.
            self.uses.is_forced |= text.contains("push");
            return;
        }
        self.depth += 1;
        let text = text.replace("\\\r\n", "").replace("\\\n", "");
        self.doubtful(is_run, |reader| {
            reader.up_to(&mut text.chars().peekable(), None);
        });
        self.depth -= 1;
    }

    /// Reads what is run only if `is_run`.
    fn doubtful(&mut self, is_run: bool, read: impl FnOnce(&mut Self)) {
        let before = self.is_run;
        self.is_run &= is_run;
        read(self);
        self.is_run = before;
    }

    /// Notes a push that overwrites or deletes.
    pub(crate) fn forced(&mut self) {
        match self.is_run {
            true => self.uses.is_forced = true,
            false => self.uses.may_be_forced = true,
        }
    }

    /// Reads up to `end`, which is that of a substitution, and returns a word that stands for that. What stands in one is read by
    /// itself, and the words around it are those of one part: `git push $(git branch --show-current) --force`.
    fn up_to(&mut self, letters: &mut Peekable<Chars<'_>>, end: Option<char>) -> &'static str {
        let mut level = Level::default();
        let mut last = ' ';
        while let Some(letter) = letters.next() {
            if Some(letter) == end {
                break;
            }
            let before = std::mem::replace(&mut last, letter);
            match letter {
                '\'' => {
                    let text: String = letters.by_ref().take_while(|c| *c != '\'').collect();
                    level.word().quote(&text);
                }
                '"' => self.quoted(letters, level.word(), Some('"')),
                '\\' => level.word().quote(&String::from_iter(letters.next())),
                '$' if letters.next_if_eq(&'\'').is_some() => {
                    level.word().quote(&escaped(letters));
                }
                // `$"…"` is a quote as well.
                '$' if letters.peek() == Some(&'"') => {}
                '$' | '`' => self.dollar(letter, letters, level.word()),
                '(' => {
                    level.end_word();
                    self.up_to(letters, Some(')'));
                }
                '#' if level.word.is_none() => while letters.next_if(|c| *c != '\n').is_some() {},
                // `2>&1` and `&>file` send output elsewhere.
                '&' if matches!(before, '>' | '<') || letters.peek() == Some(&'>') => {
                    level.end_word();
                }
                '<' if letters.next_if_eq(&'<').is_some() => {
                    level.end_word();
                    // `<<<` has its text at once.
                    if letters.next_if_eq(&'<').is_none() {
                        let end = TextEnd::read(letters, level.pipeline.len());
                        level.texts.push(end);
                    }
                }
                '|' if letters.next_if_eq(&'|').is_none() => {
                    letters.next_if_eq(&'&');
                    level.end_word();
                    level.pipeline.push(std::mem::take(&mut level.words));
                }
                '\n' => self.line(letters, &mut level),
                ';' | '&' | '|' | ')' => self.pipeline(&level.take()),
                '<' | '>' => level.end_word(),
                letter if letter.is_whitespace() => level.end_word(),
                letter => level.word().text.push(letter),
            }
        }
        self.pipeline(&level.take());
        let known = KNOWN.iter().filter(|_| level.n_pipelines == 1);
        let mut known = known.filter(|(spelled, _)| *spelled == level.spelled);
        known.next().map_or("$", |(_, word)| word)
    }

    /// Ends a line: the texts that stand behind it are words of their commands.
    fn line(&mut self, letters: &mut Peekable<Chars<'_>>, level: &mut Level) {
        level.end_word();
        for end in std::mem::take(&mut level.texts) {
            let Some(text) = end.take(letters) else {
                continue;
            };
            let mut word = Word::default();
            match end.is_quoted {
                true => word.quote(&text),
                false => self.quoted(&mut text.chars().peekable(), &mut word, None),
            }
            let words = level.pipeline.get_mut(end.part);
            words.unwrap_or(&mut level.words).push(word);
        }
        // A line may end behind `|`.
        if !level.words.is_empty() {
            self.pipeline(&level.take());
        }
    }

    /// Reads a text in double quotes, up to its `end`.
    fn quoted(&mut self, letters: &mut Peekable<Chars<'_>>, word: &mut Word, end: Option<char>) {
        word.is_quoted = true;
        while let Some(letter) = letters.next() {
            match letter {
                letter if Some(letter) == end => break,
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
        let stands_for = if letter == '`' {
            self.up_to(letters, Some('`'))
        } else if letters.next_if_eq(&'(').is_some() {
            self.up_to(letters, Some(')'))
        } else {
            "$"
        };
        word.text.push_str(stands_for);
    }

    /// Reads the parts of a pipeline.
    fn pipeline(&mut self, parts: &[Vec<Word>]) {
        for (at, words) in parts.iter().enumerate() {
            let mut later = parts.iter().skip(at + 1).flatten();
            let is_fed_to_shell = later.any(Word::is_shell);
            self.part(words, is_fed_to_shell);
        }
    }

    /// Reads the words of one part of a command.
    fn part(&mut self, words: &[Word], is_fed_to_shell: bool) {
        for (at, word) in words.iter().enumerate() {
            let (before, rest) = words.split_at(at);
            let Some(text) = word.command().filter(|_| !calls::is_message(before, rest)) else {
                continue;
            };
            let is_run = is_fed_to_shell || before.iter().any(Word::is_shell);
            self.command(text, is_run);
        }
        for (at, word) in words.iter().enumerate() {
            let (before, after) = words.split_at(at);
            let after = after.get(1..).unwrap_or_default();
            if word.is_git() {
                self.git(before, after);
            } else if word.text.contains('$')
                && !word.is_assignment()
                && before.iter().all(Word::is_before_program)
                && calls::is_change(after)
            {
                self.doubtful(false, |reader| reader.git(before, after));
            } else if matches!(word.text.as_str(), "cd" | "pushd" | "chdir") {
                self.goes(after);
            }
        }
    }

    fn goes(&mut self, after: &[Word]) {
        let mut to = after.iter().map(|word| word.text.as_str());
        let to = to.find(|word| !word.starts_with('-'));
        let trim = |path: &str| path.trim_end_matches('/').to_owned();
        let is_here = |to: &str| to == "." || trim(to) == trim(self.workspace);
        if !to.is_some_and(is_here) {
            self.moved = Some("it goes to another folder");
        }
    }
}

/// Reads the rest of a text in `$'…'`, in which a backslash begins a letter as in C.
fn escaped(letters: &mut Peekable<Chars<'_>>) -> String {
    let mut text = String::new();
    while let Some(letter) = letters.next() {
        match letter {
            '\'' => break,
            '\\' => match letters.next() {
                Some('n' | 't' | 'r' | 'v' | 'f') => text.push(' '),
                Some('x') => text.extend(numbered(letters, String::new(), 16, 2)),
                Some('u') => text.extend(numbered(letters, String::new(), 16, 4)),
                Some('U') => text.extend(numbered(letters, String::new(), 16, 8)),
                Some(digit @ '0'..='7') => text.extend(numbered(letters, digit.into(), 8, 3)),
                other => text.extend(other),
            },
            letter => text.push(letter),
        }
    }
    text
}

/// The letter of a number with so many digits at most.
fn numbered(
    letters: &mut Peekable<Chars<'_>>,
    mut digits: String,
    radix: u32,
    n_digits: usize,
) -> Option<char> {
    while digits.len() < n_digits
        && let Some(digit) = letters.next_if(|c| c.is_digit(radix))
    {
        digits.push(digit);
    }
    char::from_u32(u32::from_str_radix(&digits, radix).ok()?)
}
