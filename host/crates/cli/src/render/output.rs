//! Writing to standard output and standard error, and whether that worked.
//!
//! A failed write does not stop a turn, whose tools may be half done. It is remembered, and
//! [`output_failure`] returns it at the end of the program: exit code 0 means that the whole answer
//! was written.

use std::fmt::{Display, Write as _};
use std::io::{ErrorKind, IsTerminal, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use rind_lib::text::is_deceptive;

use super::hold::put_line;
use super::wrap::wrap_text;
use crate::terminal::terminal_columns;

/// Name of standard output in messages.
const STDOUT: &str = "standard output";

/// The first write that failed, as text.
static FAILURE: OnceLock<String> = OnceLock::new();

/// Whether the program that read standard output is gone.
static IS_UNREAD: AtomicBool = AtomicBool::new(false);

/// Writes one line to standard error, broken at blanks on a terminal.
pub(in super::super) fn say_line(line: impl Display) {
    let line = format!("{line}\n");
    put_line(wrap_text(&line, terminal_columns(std::io::stderr())));
}

/// Writes to standard error even while output is held: for questions themselves.
pub(in super::super) fn at_once(text: impl Display) {
    write_line(anstream::stderr(), "standard error", text);
}

/// Writes to standard output unchanged.
pub(in super::super) fn print_answer(text: impl Display) {
    write_line(anstream::stdout(), STDOUT, text);
}

/// Writes lines of JSON to standard output. At a terminal, characters that it would obey or a person
/// would miss are escaped, which means the same in JSON.
pub(in super::super) fn answer_json(lines: &str) {
    let out = std::io::stdout().lock();
    match out.is_terminal() {
        true => write_line(out, STDOUT, escape_json(lines)),
        false => write_line(out, STDOUT, lines),
    }
}

/// Escapes deceptive characters of JSON, which only texts in it have.
fn escape_json(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len());
    for character in json.chars() {
        if character == '\n' || !is_deceptive(character) {
            escaped.push(character);
            continue;
        }
        for unit in character.encode_utf16(&mut [0; 2]) {
            // Writing to a text does not fail.
            let _ = write!(escaped, "\\u{unit:04x}");
        }
    }
    escaped
}

/// Writes one line of the program's own to standard output, broken at blanks on a terminal.
pub(in super::super) fn answer_line(line: impl Display) {
    let line = format!("{line}\n");
    print_answer(wrap_text(&line, terminal_columns(std::io::stdout())));
}

/// Returns the reason why output was lost, if some was.
pub(in super::super) fn output_failure() -> Option<&'static str> {
    FAILURE.get().map(String::as_str)
}

/// Whether nobody reads standard output any more, so that a command that continues forever may end.
pub(in super::super) fn is_output_unread() -> bool {
    IS_UNREAD.load(Ordering::Relaxed)
}

fn write_line(mut stream: impl Write, name: &str, text: impl Display) {
    let written = write!(stream, "{text}").and_then(|()| stream.flush());
    match written {
        // A broken pipe is no failure: its reader has seen enough.
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            // Keep the first failure only.
            let _ = FAILURE.set(format!("cannot write to {name}: {error}"));
        }
        Err(_) if name == STDOUT => IS_UNREAD.store(true, Ordering::Relaxed),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_at_a_terminal_has_nothing_that_it_obeys_and_means_the_same() {
        let text = "a\u{9b}2J \u{202e}b\u{200b} \u{e0041}é\n";
        let json = serde_json::to_string(text).unwrap();
        let escaped = escape_json(&json);
        assert_eq!(escaped, r#""a\u009b2J \u202eb\u200b \udb40\udc41é\n""#);
        assert_eq!(serde_json::from_str::<String>(&escaped).unwrap(), text);
    }
}
