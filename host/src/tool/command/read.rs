//! The shell's language, as much of it as is read.

use super::nested::{self, MAX_DEPTH};
use super::{Command, Part, Word};

/// Words that begin or end what is more than a simple command.
const RESERVED: &[&str] = &[
    "[[", "]]", "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function",
    "if", "in", "select", "then", "time", "until", "while", "{", "}",
];

/// Builtins after which the same words may mean something else, or that run what cannot be seen here.
pub(super) const CHANGING: &[&str] = &[
    ".",
    "alias",
    "bind",
    "compgen",
    "complete",
    "compopt",
    "declare",
    "enable",
    "export",
    "fc",
    "getopts",
    "hash",
    "history",
    "let",
    "local",
    "mapfile",
    "read",
    "readarray",
    "readonly",
    "set",
    "shopt",
    "source",
    "trap",
    "typeset",
    "unalias",
    "unset",
];

/// Reads `text` into `command`. `depth` counts commands in commands.
pub(super) fn read(text: &str, depth: usize, command: &mut Command) {
    if depth > MAX_DEPTH {
        return command.doubt("commands in commands in commands");
    }
    if text.contains('\0') {
        return command.doubt("a NUL in it");
    }
    let mut reader = Reader {
        rest: text.chars().collect(),
        at: 0,
        depth,
        command,
    };
    reader.list(None);
}

struct Reader<'a> {
    rest: Vec<char>,
    at: usize,
    depth: usize,
    command: &'a mut Command,
}

/// A simple command while it is read.
#[derive(Default)]
struct Simple {
    words: Vec<Word>,
    has_assignments: bool,
}

/// A word while it is read.
#[derive(Default)]
struct Building {
    text: String,
    /// Whether something in it is only known to the shell.
    is_any: bool,
    is_quoted: bool,
}

impl Building {
    fn word(self) -> Word {
        if self.is_any {
            Word::Any
        } else {
            Word::Literal(self.text)
        }
    }
}

impl Reader<'_> {
    fn peek(&self) -> Option<char> {
        self.rest.get(self.at).copied()
    }

    fn peek_at(&self, ahead: usize) -> Option<char> {
        self.rest.get(self.at + ahead).copied()
    }

    fn next(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.at += 1;
        Some(next)
    }

    fn skip(&mut self, is_skipped: impl Fn(char) -> bool) {
        while self.peek().is_some_and(&is_skipped) {
            self.at += 1;
        }
    }

    fn doubt(&mut self, why: &str) {
        self.command.doubt(why);
        // Nothing after this is read: it may be in the middle of anything.
        self.at = self.rest.len();
    }

    /// Commands up to `end`, or to the end of the text.
    fn list(&mut self, end: Option<char>) {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            self.doubt("commands in commands in commands");
        }
        let mut simple = Simple::default();
        loop {
            let Some(c) = self.peek() else {
                if end.is_some() {
                    self.doubt("a substitution that does not end");
                }
                break;
            };
            if Some(c) == end {
                self.at += 1;
                break;
            }
            match c {
                ' ' | '\t' => self.at += 1,
                '\\' if self.peek_at(1) == Some('\n') => self.at += 2,
                '#' => self.skip(|c| c != '\n'),
                ';' if self.peek_at(1) == Some(';') || self.peek_at(1) == Some('&') => {
                    self.doubt("`;;` or `;&`");
                }
                '&' if self.peek_at(1) == Some('>') => {
                    self.at += 1;
                    self.redirection(&mut simple);
                }
                '\n' | ';' | '&' | '|' => {
                    self.at += 1;
                    self.finish(std::mem::take(&mut simple));
                }
                '<' | '>' => self.redirection(&mut simple),
                '(' | ')' => self.doubt("a subshell or a function"),
                _ => self.word_of(&mut simple),
            }
        }
        self.finish(simple);
        self.depth -= 1;
    }

    fn word_of(&mut self, simple: &mut Simple) {
        let begin = self.at;
        let building = self.word();
        // The number of a descriptor belongs to the redirection after it.
        let is_number = self.rest[begin..self.at].iter().all(char::is_ascii_digit);
        if is_number && matches!(self.peek(), Some('<' | '>')) {
            return self.redirection(simple);
        }
        if matches!(self.peek(), Some('<' | '>')) {
            if self.rest.get(begin) == Some(&'{') {
                return self.doubt("a descriptor that is kept in a variable");
            }
            if self.peek_at(1) == Some('(') {
                return self.doubt("a substitution in the middle of a word");
            }
        }
        if simple.words.is_empty() {
            if is_assignment(&self.rest[begin..self.at]) {
                simple.has_assignments = true;
                return;
            }
            if !building.is_quoted && !building.is_any {
                if building.text == "!" {
                    return;
                }
                if RESERVED.contains(&building.text.as_str()) {
                    let why = format!("`{}` of the shell's own language", building.text);
                    return self.doubt(&why);
                }
            }
        }
        simple.words.push(building.word());
    }

    /// Ends a simple command: what it starts is known now.
    fn finish(&mut self, simple: Simple) {
        let Simple {
            words,
            has_assignments,
        } = simple;
        if words.is_empty() {
            if has_assignments {
                self.command
                    .doubt("it sets variables, which may change what follows");
            }
            return;
        }
        nested::start(words, has_assignments, self.depth, self.command);
    }

    /// Reads a redirection, from `<` or `>` to the end of the word that follows.
    fn redirection(&mut self, simple: &mut Simple) {
        let mut operator = String::new();
        while let Some(c @ ('<' | '>' | '&' | '|')) = self.peek() {
            // `>&2 | x`: a bar belongs only to the arrow right before it.
            if matches!(c, '&' | '|') && !matches!(operator.as_str(), "<" | ">") {
                break;
            }
            operator.push(c);
            self.at += 1;
        }
        if self.peek() == Some('(') {
            if !matches!(operator.as_str(), "<" | ">") {
                return self.doubt("a redirection that is not known");
            }
            simple.words.push(Word::Any);
            return self.process_substitution();
        }
        if operator.starts_with("<<") && operator != "<<<" {
            return self.doubt("a here-document");
        }
        self.skip(|c| matches!(c, ' ' | '\t'));
        if matches!(self.peek(), Some('<' | '>')) && self.peek_at(1) == Some('(') {
            self.at += 1;
            return self.process_substitution();
        }
        let begin = self.at;
        let word = self.word().word();
        if begin == self.at {
            return self.doubt("a redirection to nowhere");
        }
        let is_descriptor = matches!(&word, Word::Literal(text) if text == "-" || text.trim_end_matches('-').bytes().all(|b| b.is_ascii_digit()));
        match operator.as_str() {
            "<" | "<<<" => {}
            "<&" | ">&" if is_descriptor => {}
            "<&" => self.doubt("a descriptor that is not a number"),
            ">" | ">>" | ">|" | ">&" | "<>" => {
                if word != Word::Literal("/dev/null".to_owned()) {
                    self.command.parts.push(Part {
                        words: vec![word],
                        is_altered: false,
                        is_redirection: true,
                    });
                }
            }
            _ => self.doubt("a redirection that is not known"),
        }
    }

    /// The commands in `<(…)` or `>(…)`, from the bracket on.
    fn process_substitution(&mut self) {
        self.at += 1;
        self.list(Some(')'));
        if !self.is_at_word_end() {
            self.doubt("a substitution in the middle of a word");
        }
    }

    /// One word, quotes taken off.
    fn word(&mut self) -> Building {
        let mut word = Building::default();
        while let Some(c) = self.peek() {
            match c {
                _ if ends_word(c) => break,
                '\'' => {
                    self.at += 1;
                    word.is_quoted = true;
                    loop {
                        match self.next() {
                            Some('\'') => break,
                            Some(c) => word.text.push(c),
                            None => {
                                self.doubt("a quote that does not end");
                                break;
                            }
                        }
                    }
                }
                '"' => {
                    self.at += 1;
                    word.is_quoted = true;
                    self.double_quoted(&mut word);
                }
                '\\' => {
                    self.at += 1;
                    word.is_quoted = true;
                    match self.next() {
                        Some('\n') => {}
                        Some(c) => word.text.push(c),
                        None => word.text.push('\\'),
                    }
                }
                '$' | '`' => self.dollar(&mut word, false),
                '{' if self.peek_at(1) == Some('}') => {
                    self.at += 2;
                    word.text.push_str("{}");
                }
                // Names of files, lists in braces, home folders: only the shell knows what they become.
                '*' | '?' | '[' | '{' | '}' | '~' => {
                    self.at += 1;
                    word.text.push(c);
                    // Alone these are the name of a program, or reserved.
                    let is_alone = word.text.len() == 1 && self.is_at_word_end();
                    word.is_any |= !(is_alone && matches!(c, '[' | '{' | '}'));
                }
                // Some locales take these for blanks.
                _ if c.is_whitespace() && !c.is_ascii() => {
                    self.doubt("a blank that is none everywhere");
                }
                _ => {
                    self.at += 1;
                    word.text.push(c);
                }
            }
        }
        word
    }

    fn is_at_word_end(&self) -> bool {
        self.peek().is_none_or(ends_word)
    }

    fn double_quoted(&mut self, word: &mut Building) {
        loop {
            match self.peek() {
                Some('"') => {
                    self.at += 1;
                    return;
                }
                Some('\\') => {
                    self.at += 1;
                    match self.next() {
                        Some('\n') => {}
                        Some(c @ ('$' | '`' | '"' | '\\')) => word.text.push(c),
                        Some(c) => word.text.extend(['\\', c]),
                        None => {}
                    }
                }
                Some('$' | '`') => self.dollar(word, true),
                Some(c) => {
                    self.at += 1;
                    word.text.push(c);
                }
                None => return self.doubt("a quote that does not end"),
            }
        }
    }

    /// Reads an expansion that begins with `$` or a backtick.
    fn dollar(&mut self, word: &mut Building, is_in_quotes: bool) {
        if self.next() == Some('`') {
            word.is_any = true;
            return self.backticks();
        }
        match self.peek() {
            Some('(') if self.peek_at(1) == Some('(') => self.doubt("arithmetic"),
            Some('(') => {
                self.at += 1;
                word.is_any = true;
                self.list(Some(')'));
            }
            Some('{') => {
                self.at += 1;
                let begin = self.at;
                self.skip(|c| c.is_ascii_alphanumeric() || c == '_');
                word.is_any = true;
                if begin == self.at || self.next() != Some('}') {
                    self.doubt("`${…}` that is more than a name");
                }
            }
            Some('\'' | '"') if !is_in_quotes => self.doubt("`$'…'`"),
            Some('[') => self.doubt("arithmetic"),
            Some(c) if c.is_ascii_alphanumeric() || "_@*#?$!-".contains(c) => {
                word.is_any = true;
                self.at += 1;
                if c.is_ascii_alphabetic() || c == '_' {
                    self.skip(|c| c.is_ascii_alphanumeric() || c == '_');
                }
            }
            _ => word.text.push('$'),
        }
    }

    fn backticks(&mut self) {
        let begin = self.at;
        self.skip(|c| !matches!(c, '`' | '\\'));
        if self.peek() == Some('\\') {
            return self.doubt("a backslash between backticks");
        }
        let inner: String = self.rest[begin..self.at].iter().collect();
        if self.next().is_none() {
            return self.doubt("a backtick that does not end");
        }
        read(&inner, self.depth + 1, self.command);
    }
}

fn ends_word(c: char) -> bool {
    " \t\n;&|<>()".contains(c)
}

/// Whether a word of the source sets a variable.
fn is_assignment(written: &[char]) -> bool {
    let Some(at) = written.iter().position(|c| *c == '=') else {
        return false;
    };
    let name = written[..at].strip_suffix(&['+']).unwrap_or(&written[..at]);
    // An element of an array as well, whatever its index is.
    let name = name.split(|c| *c == '[').next().unwrap_or_default();
    let is_first = |c: &char| c.is_ascii_alphabetic() || *c == '_';
    name.first().is_some_and(is_first)
        && name.iter().all(|c| c.is_ascii_alphanumeric() || *c == '_')
}
