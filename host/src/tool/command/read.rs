//! Parser of shell commands: the small part of the language that rules may allow, and an
//! approximation of the rest for rules that deny.
//!
//! bash, dash, busybox and zsh as `sh` all read this grammar alike, and rules allow nothing else:
//!
//! ```text
//! line        = { LF } chain { ( ";" | LF ) chain } [ ";" | LF ]
//! chain       = simple { ( "&&" | "||" | "|" ) { LF } simple }
//! simple      = { redirection } word { word | redirection }
//! redirection = [ digit ] ( ">" | ">>" | "<" ) word | [ digit ] ">&" digit
//! word        = { plain | single | double } | "[" | "]"
//! single      = "'" { any but "'" } "'"
//! double      = '"' { any but '"' "$" "`" "\" "!" } '"'
//! plain       = ASCII letter or digit | one of - _ . / : , @ % + = ^ | "#" and "~" after plain
//! ```
//!
//! Words are separated by spaces and tabs. The first word is not a reserved word and contains no
//! `=`. At the first character outside the grammar, the parser calls
//! [`ShellParser::mark_syntax_unsupported_by_rules`] if the programs are still known (such as for a
//! variable among the arguments), otherwise [`ShellParser::mark_uncertain_and_stop`]. A mark is
//! never removed, so a parsing mistake after it cannot allow anything. In addition, an allowed
//! command may only contain the characters that `alphabet.rs` permits.

use super::alphabet;
use super::nested::{self, MAX_COMMAND_NESTING_DEPTH};
use super::pattern::STAR_SENTINEL;
use super::{Command, CommandPart, MAX_PARTS, ShellWord};

/// Words that begin or end a compound command in any of the shells.
pub(super) const SHELL_RESERVED_WORDS: &[&str] = &[
    "-",
    "[[",
    "]]",
    "case",
    "coproc",
    "do",
    "done",
    "elif",
    "else",
    "end",
    "esac",
    "fi",
    "for",
    "foreach",
    "function",
    "if",
    "in",
    "nocorrect",
    "noglob",
    "repeat",
    "select",
    "then",
    "time",
    "until",
    "while",
    "{",
    "}",
];

/// Parses `text` into `command`. `depth` is the nesting level of the command.
pub(super) fn parse_command(text: &str, depth: usize, command: &mut Command) {
    // Look for a NUL even inside a comment, because the system ends the text there.
    if text.contains('\0') {
        return command.set_doubt_reason("a NUL in it");
    }
    ShellParser::new(text, depth, false, command).parse_command_list(None);
    if !alphabet::has_only_portable_shell_characters(text) {
        command.set_outside_grammar("a character that not every shell takes alike");
    }
}

/// Parses a pattern from the settings into `command`, with [`STAR_SENTINEL`] for each unquoted `*`.
pub(super) fn parse_command_pattern(text: &str, command: &mut Command) {
    ShellParser::new(text, 0, true, command).parse_command_list(None);
}

struct ShellParser<'a> {
    rest: Vec<char>,
    at: usize,
    depth: usize,
    is_pattern: bool,
    command: &'a mut Command,
}

/// A simple command that is being parsed.
#[derive(Default)]
struct PartialSimpleCommand {
    words: Vec<ShellWord>,
    /// Values of the command's variable assignments, and the known fragments of its unknown words.
    others: Vec<String>,
    has_assignments: bool,
    has_redirections: bool,
}

impl PartialSimpleCommand {
    fn is_empty(&self) -> bool {
        self.words.is_empty() && !self.has_assignments && !self.has_redirections
    }
}

/// Word that is being parsed.
#[derive(Default)]
struct ShellWordBuilder {
    text: String,
    /// Whether the word contains an expansion, whose text only the shell knows.
    is_any: bool,
    is_quoted: bool,
}

impl ShellWordBuilder {
    fn into_word(self) -> ShellWord {
        if self.is_any {
            ShellWord::Any
        } else {
            ShellWord::Literal(self.text)
        }
    }
}

impl<'a> ShellParser<'a> {
    fn new(text: &str, depth: usize, is_pattern: bool, command: &'a mut Command) -> Self {
        Self {
            rest: text.chars().collect(),
            at: 0,
            depth,
            is_pattern,
            command,
        }
    }

    fn peek(&self) -> Option<char> {
        self.peek_at(0)
    }

    fn peek_at(&self, ahead: usize) -> Option<char> {
        self.rest.get(self.at + ahead).copied()
    }

    fn next(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.at += 1;
        Some(next)
    }

    fn skip_while(&mut self, is_skipped: impl Fn(char) -> bool) {
        while self.peek().is_some_and(&is_skipped) {
            self.at += 1;
        }
    }

    /// Marks the command as outside the grammar in which rules can allow commands; its programs are
    /// still known.
    fn mark_syntax_unsupported_by_rules(&mut self, why: &str) {
        self.command.set_outside_grammar(why);
    }

    /// Marks the meaning of the command as uncertain and stops parsing, because from here on the
    /// position may be inside any shell construct.
    fn mark_uncertain_and_stop(&mut self, why: &str) {
        self.command.set_doubt_reason(why);
        self.at = self.rest.len();
    }

    /// Parses commands up to `end`, or to the end of the text.
    fn parse_command_list(&mut self, end: Option<char>) {
        self.depth += 1;
        if self.depth > MAX_COMMAND_NESTING_DEPTH {
            self.mark_uncertain_and_stop("commands that are nested too deeply");
        }
        let mut simple = PartialSimpleCommand::default();
        // Whether a command must follow, as after `&&`, `||` and `|`.
        let mut is_open = false;
        loop {
            if self.command.parts.len() > MAX_PARTS {
                self.mark_uncertain_and_stop(&format!("more than {MAX_PARTS} commands"));
            }
            let Some(c) = self.peek() else {
                if end.is_some() {
                    self.mark_uncertain_and_stop("a substitution that does not end");
                }
                break;
            };
            if Some(c) == end {
                self.at += 1;
                break;
            }
            match c {
                ' ' | '\t' => {
                    self.at += 1;
                    if self.peek() == Some('\\') && self.peek_at(1) == Some('\n') {
                        self.mark_syntax_unsupported_by_rules("a backslash at the end of a line");
                        self.at += 2;
                    }
                }
                '\n' if simple.is_empty() => self.at += 1,
                '#' => {
                    self.mark_syntax_unsupported_by_rules("a comment");
                    self.skip_while(|c| c != '\n');
                }
                ';' | '&' | '|' if simple.is_empty() => {
                    self.mark_uncertain_and_stop("an operator without a command")
                }
                '\n' | ';' | '&' | '|' => {
                    self.finish_simple_command(std::mem::take(&mut simple));
                    is_open = self.parse_operator();
                    continue;
                }
                '<' | '>' => self.parse_redirection(&mut simple),
                '(' | ')' => self.mark_uncertain_and_stop("a subshell or a function"),
                _ => self.parse_command_word(&mut simple),
            }
            is_open &= simple.is_empty();
        }
        if is_open {
            self.mark_uncertain_and_stop("an operator without a command");
        }
        self.finish_simple_command(simple);
        self.depth -= 1;
    }

    /// Parses a control operator; returns whether another command must follow.
    fn parse_operator(&mut self) -> bool {
        match (self.next(), self.peek()) {
            (Some('&'), Some('&')) | (Some('|'), Some('|')) => {
                self.at += 1;
                true
            }
            (Some(';'), Some(';' | '&')) => {
                self.mark_uncertain_and_stop("`;;` or `;&`");
                false
            }
            // In `true &>/dev/null x`, bash reads `&>` as one operator, dash as two.
            (Some('&'), Some('>' | '|')) | (Some('|'), Some('&')) => {
                self.mark_uncertain_and_stop("`&>`, `&|` or `|&`, which not every shell has");
                false
            }
            (Some('&'), _) => {
                self.mark_syntax_unsupported_by_rules("a command in the background");
                false
            }
            (operator, _) => operator == Some('|'),
        }
    }

    fn parse_command_word(&mut self, simple: &mut PartialSimpleCommand) {
        let begin = self.at;
        let building = self.parse_word();
        let written = &self.rest[begin..self.at];
        if matches!(self.peek(), Some('<' | '>')) {
            // A single digit before `<` or `>` is the file descriptor that is redirected.
            match written {
                [digit] if digit.is_ascii_digit() => return self.parse_redirection(simple),
                _ if written.iter().all(char::is_ascii_digit) || written.first() == Some(&'{') => {
                    return self.mark_uncertain_and_stop(
                        "a descriptor of more than one digit, or in a variable",
                    );
                }
                _ => {}
            }
        }
        if simple.words.is_empty() {
            if is_assignment(written) {
                simple.has_assignments = true;
                simple.others.push(building.text);
                return self.mark_syntax_unsupported_by_rules("it sets variables");
            }
            if written.contains(&'=') {
                self.mark_syntax_unsupported_by_rules("`=` in the name of a program");
            }
            if !building.is_quoted && !building.is_any {
                if building.text == "!" {
                    return;
                }
                if SHELL_RESERVED_WORDS.contains(&building.text.as_str()) {
                    let why = format!("the reserved word `{}` of the shell", building.text);
                    return self.mark_uncertain_and_stop(&why);
                }
            }
        }
        if building.is_any && !building.text.is_empty() {
            simple.others.push(building.text.clone());
        }
        simple.words.push(building.into_word());
    }

    /// Adds the parts of a complete simple command, including the programs that it starts.
    fn finish_simple_command(&mut self, simple: PartialSimpleCommand) {
        let PartialSimpleCommand {
            words,
            others,
            has_assignments,
            ..
        } = simple;
        if words.is_empty() {
            if has_assignments {
                self.mark_uncertain_and_stop(
                    "it sets variables, which may change what the later commands do",
                );
            } else if simple.has_redirections && !self.is_pattern {
                self.mark_syntax_unsupported_by_rules("a redirection without a command");
            }
        } else {
            let part = CommandPart {
                is_altered: has_assignments,
                others,
                ..CommandPart::from_program_words(words)
            };
            match self.is_pattern {
                true => self.command.parts.push(part),
                false => nested::add_parsed_command_part(part, self.depth, self.command),
            }
        }
    }

    /// Parses a redirection, from `<` or `>` to the end of the word that follows.
    fn parse_redirection(&mut self, simple: &mut PartialSimpleCommand) {
        simple.has_redirections = true;
        let writes = self.next() == Some('>');
        match self.peek() {
            Some('>') if writes => self.at += 1,
            Some('|') if writes => {
                self.mark_syntax_unsupported_by_rules("`>|`");
                self.at += 1;
            }
            Some('&') if writes => {
                self.at += 1;
                let target = self.next();
                if target == Some('-') {
                    self.mark_syntax_unsupported_by_rules("a descriptor that is closed");
                }
                // `>&-x` closes a file descriptor in some shells and writes a file in others.
                let is_known = target.is_some_and(|c| c.is_ascii_digit() || c == '-');
                if !is_known || !self.is_at_word_end() {
                    self.mark_uncertain_and_stop("`>&` before something else than a digit");
                }
                return;
            }
            Some('<' | '>' | '&' | '(' | '|') => {
                return self.mark_uncertain_and_stop(
                    "a here-document, or a redirection that is not known",
                );
            }
            _ => {}
        }
        self.skip_while(|c| matches!(c, ' ' | '\t'));
        let begin = self.at;
        let word = self.parse_word().into_word();
        if begin == self.at {
            return self.mark_uncertain_and_stop("a redirection to nowhere");
        }
        let path = word.literal().unwrap_or_default();
        if path.starts_with("/dev/tcp") || path.starts_with("/dev/udp") {
            return self.mark_uncertain_and_stop("a redirection to the network");
        }
        if writes && path != "/dev/null" {
            self.command.parts.push(CommandPart::redirection_part(word));
        }
    }

    /// Parses one word and removes its quotes.
    fn parse_word(&mut self) -> ShellWordBuilder {
        let begin = self.at;
        let mut word = ShellWordBuilder::default();
        while let Some(c) = self.peek() {
            let before = self.rest[begin..self.at].last().copied();
            match c {
                _ if is_word_end_character(c) => break,
                '\'' => {
                    self.at += 1;
                    self.read_single_quoted(&mut word);
                }
                '"' => {
                    self.at += 1;
                    self.read_double_quoted(&mut word);
                }
                '=' if before.is_none() => {
                    self.read_character_outside_grammar(&mut word, "a word that begins with `=`")
                }
                '#' if before.is_some_and(is_literal_outside_quotes) => {
                    self.read_character_literally(&mut word)
                }
                '~' if before.is_some_and(|c| c.is_ascii_alphanumeric())
                    && !word.text.contains(['=', ':']) =>
                {
                    self.read_character_literally(&mut word);
                }
                _ if is_literal_outside_quotes(c) => self.read_character_literally(&mut word),
                '[' | ']'
                    if before.is_none() && self.peek_at(1).is_none_or(is_word_end_character) =>
                {
                    self.read_character_literally(&mut word);
                }
                // The following arms handle characters that the supported shell grammar lacks.
                '*' if self.is_pattern => {
                    self.at += 1;
                    word.text.push(STAR_SENTINEL);
                }
                '#' => self.mark_uncertain_and_stop(
                    "`#` in a place where not every shell begins a comment",
                ),
                '\\' => self.read_backslash_escape(&mut word),
                '$' => self.parse_expansion(&mut word, false),
                '`' => self.mark_uncertain_and_stop("backticks"),
                '{' if self.peek_at(1) == Some('}') => {
                    self.read_character_outside_grammar(&mut word, "braces");
                    self.read_character_literally(&mut word);
                }
                // A brace that is a word by itself is an ordinary or a reserved word.
                '{' | '}'
                    if before.is_none() && self.peek_at(1).is_none_or(is_word_end_character) =>
                {
                    self.read_character_outside_grammar(&mut word, "braces");
                }
                '*' | '?' | '[' | ']' | '{' | '}' | '~' => {
                    word.is_any = true;
                    self.read_character_outside_grammar(
                        &mut word,
                        "`*`, `?`, `[`, `{` or `~` outside of quotes",
                    );
                }
                '!' => self.read_character_outside_grammar(&mut word, "`!`"),
                _ if c.is_control() => self.mark_uncertain_and_stop("a control character"),
                // In some locales, shells split words at these characters.
                _ if c.is_whitespace() => {
                    self.mark_uncertain_and_stop("a blank that only some shells treat as one")
                }
                _ => self.read_character_outside_grammar(
                    &mut word,
                    "a letter that is not ASCII, outside of quotes",
                ),
            }
        }
        word
    }

    fn read_character_literally(&mut self, word: &mut ShellWordBuilder) {
        word.text.extend(self.next());
    }

    /// Adds the next character to the word and marks the command as outside the grammar. Shells
    /// read such a character literally or expand it.
    fn read_character_outside_grammar(&mut self, word: &mut ShellWordBuilder, why: &str) {
        self.mark_syntax_unsupported_by_rules(why);
        self.read_character_literally(word);
    }

    fn is_at_word_end(&self) -> bool {
        self.peek().is_none_or(is_word_end_character)
    }

    fn read_single_quoted(&mut self, word: &mut ShellWordBuilder) {
        word.is_quoted = true;
        loop {
            match self.next() {
                Some('\'') => return,
                Some(c) if is_allowed_quoted_character(c) => word.text.push(c),
                Some(_) => return self.mark_uncertain_and_stop("a control character"),
                None => return self.mark_uncertain_and_stop("a quote that does not end"),
            }
        }
    }

    fn read_double_quoted(&mut self, word: &mut ShellWordBuilder) {
        word.is_quoted = true;
        loop {
            match self.peek() {
                Some('"') => {
                    self.at += 1;
                    return;
                }
                Some('\\') => {
                    self.mark_syntax_unsupported_by_rules("a backslash in double quotes");
                    self.at += 1;
                    match self.next() {
                        Some(c @ ('$' | '`' | '"' | '\\')) => word.text.push(c),
                        Some(c) if c != '\n' && is_allowed_quoted_character(c) => {
                            word.text.extend(['\\', c])
                        }
                        _ => {
                            return self
                                .mark_uncertain_and_stop("a backslash at the end of a line");
                        }
                    }
                }
                Some('$') => self.parse_expansion(word, true),
                Some('`') => return self.mark_uncertain_and_stop("backticks"),
                Some('!') => self.read_character_outside_grammar(word, "`!` in double quotes"),
                Some(c) if is_allowed_quoted_character(c) => self.read_character_literally(word),
                Some(_) => return self.mark_uncertain_and_stop("a control character"),
                None => return self.mark_uncertain_and_stop("a quote that does not end"),
            }
        }
    }

    fn read_backslash_escape(&mut self, word: &mut ShellWordBuilder) {
        self.mark_syntax_unsupported_by_rules("a backslash");
        self.at += 1;
        word.is_quoted = true;
        match self.next() {
            Some(c) if c == ' ' || c.is_ascii_graphic() => word.text.push(c),
            // A shell removes an escaped line feed, and the characters around it may then form an
            // operator or an expansion.
            _ => self.mark_uncertain_and_stop(
                "a backslash before a line feed or a letter that is not ASCII",
            ),
        }
    }

    /// Parses an expansion that begins with `$`.
    fn parse_expansion(&mut self, word: &mut ShellWordBuilder, is_in_quotes: bool) {
        self.mark_syntax_unsupported_by_rules("an expansion with `$`");
        self.at += 1;
        match self.peek() {
            Some('(') if self.peek_at(1) != Some('(') => {
                self.at += 1;
                word.is_any = true;
                self.parse_command_list(Some(')'));
            }
            Some('{') => {
                self.at += 1;
                let begin = self.at;
                self.skip_while(is_variable_name_character);
                word.is_any = true;
                if begin == self.at || self.next() != Some('}') {
                    self.mark_uncertain_and_stop("`${…}` that is more than a name");
                }
            }
            Some(c) if is_variable_name_character(c) || "@*#?$!-".contains(c) => {
                word.is_any = true;
                self.at += 1;
                if c.is_ascii_alphabetic() || c == '_' {
                    self.skip_while(is_variable_name_character);
                }
            }
            // No expansion can follow, so `$` is literal.
            Some('"') if is_in_quotes => word.text.push('$'),
            None | Some(' ' | '\t' | '\n') => word.text.push('$'),
            Some(_) => self.mark_uncertain_and_stop("`$` before something that is not a name"),
        }
    }
}

/// Whether every shell reads a character literally outside quotes, in any position.
fn is_literal_outside_quotes(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-_./:,@%+=^".contains(c)
}

/// Whether the parser accepts a character within quotes, where shells read it literally.
fn is_allowed_quoted_character(c: char) -> bool {
    !c.is_control() || matches!(c, '\n' | '\t')
}

fn is_variable_name_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn is_word_end_character(c: char) -> bool {
    " \t\n;&|<>()".contains(c)
}

/// Whether a word, as written, assigns a variable or an array element.
fn is_assignment(written: &[char]) -> bool {
    let Some(at) = written.iter().position(|c| *c == '=') else {
        return false;
    };
    let name = written[..at].strip_suffix(&['+']).unwrap_or(&written[..at]);
    let name = name.split(|c| *c == '[').next().unwrap_or_default();
    let is_first = |c: &char| c.is_ascii_alphabetic() || *c == '_';
    name.first().is_some_and(is_first) && name.iter().all(|c| is_variable_name_character(*c))
}
