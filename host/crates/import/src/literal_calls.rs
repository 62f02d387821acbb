//! Parses calls with literal values in a Starlark file: `name(key = "text", other = ["a", ["b"]])`.
//!
//! Parsing stops at the first expression or variable, because neither is evaluated. Start from
//! [`parse_starlark_calls`].

/// Maximum nesting depth of lists in the arguments of a call.
const MAX_LIST_NESTING_DEPTH: usize = 8;

/// Maximum number of function calls that are parsed in one file.
const MAX_CALLS_PER_FILE: usize = 5_000;

/// Call of a Starlark function whose arguments are named and literal.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct StarlarkCall {
    pub(crate) name: String,
    /// Number of the line that contains the call's name, counted from 1.
    pub(crate) line: usize,
    arguments: Vec<(String, StarlarkLiteral)>,
}

/// Literal value of an argument in a Starlark call.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum StarlarkLiteral {
    Text(String),
    List(Vec<StarlarkLiteral>),
    /// Literal without quotes: a number, `True`, `False` or `None`.
    Word(String),
}

/// First statement of a file that is not a call with literal values.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NonLiteralStatement {
    /// Number of the line at which the statement begins, counted from 1.
    pub(crate) line: usize,
    /// Text of the statement's first line.
    pub(crate) text: String,
}

impl StarlarkCall {
    /// Returns the value of the call's argument with this name.
    pub(crate) fn argument(&self, name: &str) -> Option<&StarlarkLiteral> {
        let own = self.arguments.iter().find(|(own, _)| own == name);
        own.map(|(_, value)| value)
    }
}

/// Parses function calls until the text ends or a statement follows that is no such call. Returns
/// that statement as a fault.
pub(crate) fn parse_starlark_calls(text: &str) -> (Vec<StarlarkCall>, Option<NonLiteralStatement>) {
    let mut reader = StarlarkCallParser {
        rest: text.strip_prefix('\u{feff}').unwrap_or(text),
        line: 1,
    };
    let mut calls = Vec::new();
    loop {
        reader.skip_whitespace_and_comments();
        let line = reader.line;
        if reader.rest.is_empty() {
            return (calls, None);
        }
        match reader.parse_call() {
            Some(call) if calls.len() < MAX_CALLS_PER_FILE => calls.push(call),
            _ => {
                let text = text.lines().nth(line - 1).unwrap_or_default().trim();
                let text = text.to_owned();
                return (calls, Some(NonLiteralStatement { line, text }));
            }
        }
    }
}

struct StarlarkCallParser<'a> {
    rest: &'a str,
    line: usize,
}

impl StarlarkCallParser<'_> {
    fn advance_bytes(&mut self, n_bytes: usize) {
        let (read, rest) = self.rest.split_at(n_bytes);
        self.line += read.matches('\n').count();
        self.rest = rest;
    }

    /// Skips blanks, line ends and comments.
    fn skip_whitespace_and_comments(&mut self) {
        loop {
            let blank = self.rest.len() - self.rest.trim_start().len();
            self.advance_bytes(blank);
            if !self.rest.starts_with('#') {
                return;
            }
            let end = self.rest.find('\n').unwrap_or(self.rest.len());
            self.advance_bytes(end);
        }
    }

    /// Consumes the character `wanted`, after blanks and comments; `None` if another character
    /// follows.
    fn consume_character(&mut self, wanted: char) -> Option<()> {
        self.skip_whitespace_and_comments();
        self.rest
            .starts_with(wanted)
            .then(|| self.advance_bytes(wanted.len_utf8()))
    }

    fn parse_identifier(&mut self) -> Option<String> {
        self.skip_whitespace_and_comments();
        let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let end = self
            .rest
            .find(|c| !is_of_name(c))
            .unwrap_or(self.rest.len());
        let name = self.rest.get(..end)?.to_owned();
        let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        is_name.then(|| self.advance_bytes(end))?;
        Some(name)
    }

    fn parse_call(&mut self) -> Option<StarlarkCall> {
        let line = self.line;
        let name = self.parse_identifier()?;
        self.consume_character('(')?;
        let mut arguments = Vec::new();
        while self.consume_character(')').is_none() {
            let key = self.parse_identifier()?;
            self.consume_character('=')?;
            arguments.push((key, self.parse_literal(0)?));
            if self.consume_character(',').is_none() {
                self.consume_character(')')?;
                break;
            }
        }
        Some(StarlarkCall {
            name,
            line,
            arguments,
        })
    }

    fn parse_literal(&mut self, depth: usize) -> Option<StarlarkLiteral> {
        self.skip_whitespace_and_comments();
        match self.rest.chars().next()? {
            '[' | '(' if depth < MAX_LIST_NESTING_DEPTH => self.parse_list_literal(depth),
            '"' | '\'' => self.parse_string_literal().map(StarlarkLiteral::Text),
            'r' if self.rest.starts_with("r\"") || self.rest.starts_with("r'") => None,
            c if c.is_ascii_alphanumeric() || c == '-' => {
                let is_of_word = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
                let end = self
                    .rest
                    .find(|c| !is_of_word(c))
                    .unwrap_or(self.rest.len());
                let word = self.rest.get(..end)?.to_owned();
                // Reject any other word: it is a variable, whose value is unknown.
                let is_literal = matches!(word.as_str(), "True" | "False" | "None")
                    || word.parse::<f64>().is_ok();
                is_literal.then(|| self.advance_bytes(end))?;
                Some(StarlarkLiteral::Word(word))
            }
            _ => None,
        }
    }

    fn parse_list_literal(&mut self, depth: usize) -> Option<StarlarkLiteral> {
        let end = if self.rest.starts_with('[') { ']' } else { ')' };
        self.advance_bytes(1);
        let mut values = Vec::new();
        while self.consume_character(end).is_none() {
            values.push(self.parse_literal(depth + 1)?);
            if self.consume_character(',').is_none() {
                self.consume_character(end)?;
                break;
            }
        }
        Some(StarlarkLiteral::List(values))
    }

    /// Parses a string in single or triple quotes of either kind.
    fn parse_string_literal(&mut self) -> Option<String> {
        let quote = self.rest.get(..1)?.to_owned();
        let long = quote.repeat(3);
        let end = if self.rest.starts_with(&long) {
            long
        } else {
            quote
        };
        self.advance_bytes(end.len());
        let mut text = String::new();
        loop {
            if self.rest.starts_with(&end) {
                self.advance_bytes(end.len());
                return Some(text);
            }
            let c = self.rest.chars().next()?;
            self.advance_bytes(c.len_utf8());
            match c {
                '\n' if end.len() == 1 => return None,
                '\\' => text.push(self.parse_escape_sequence()?),
                _ => text.push(c),
            }
        }
    }

    fn parse_escape_sequence(&mut self) -> Option<char> {
        let c = self.rest.chars().next()?;
        self.advance_bytes(c.len_utf8());
        match c {
            'n' => Some('\n'),
            't' => Some('\t'),
            'r' => Some('\r'),
            '\\' | '"' | '\'' => Some(c),
            // Codex escapes strings as in JSON.
            'u' => {
                let digits = self.rest.get(..4)?;
                let own = u32::from_str_radix(digits, 16)
                    .ok()
                    .and_then(char::from_u32)?;
                self.advance_bytes(4);
                Some(own)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_with_literal_values_are_read() {
        let text = "# a\n f ( a = \"x\\\"y\\u0041\", # b\n  b = ['1', [2, True,],],)\ng()\nh(t = \"\"\"long\ntext\"\"\")";
        let (calls, fault) = parse_starlark_calls(text);
        assert_eq!(fault, None);
        let names: Vec<(&str, usize)> = calls
            .iter()
            .map(|own| (own.name.as_str(), own.line))
            .collect();
        assert_eq!(names, [("f", 2), ("g", 4), ("h", 5)]);
        let text = |text: &str| StarlarkLiteral::Text(text.to_owned());
        assert_eq!(calls[0].argument("a"), Some(&text("x\"yA")));
        assert_eq!(calls[2].argument("t"), Some(&text("long\ntext")));
        assert!(calls[0].argument("c").is_none());
    }

    #[test]
    fn everything_else_ends_the_reading_with_its_line() {
        for (text, line) in [
            ("x = 1", 1),
            ("f(a)", 1),
            ("f(a = b)", 1),
            ("f(a = \"x\" + \"y\")", 1),
            ("f()\n\nload(\"x\", y = \"z\")", 3),
            ("f(a = \"open", 1),
            ("f(a = r\"x\")", 1),
            ("f(a = [", 1),
            ("def f():\n  pass", 1),
            ("\u{1b}", 1),
        ] {
            let (_, fault) = parse_starlark_calls(text);
            assert_eq!(fault.map(|own| own.line), Some(line), "{text}");
        }
        let deep = format!("f(a = {})", "[".repeat(1 << 20));
        assert!(parse_starlark_calls(&deep).1.is_some());
    }
}
