//! Writes to standard output and standard error, and remembers whether that failed.
//!
//! A failed write does not stop a turn, because its tools may be in the middle of their work.
//! [`first_output_write_error`] returns the failure at the end of the program: exit code 0 means
//! that the complete answer was written.

use std::fmt::{Display, Write as _};
use std::io::{ErrorKind, IsTerminal, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use rind_lib::text::is_deceptive_character;

use super::hold::write_or_buffer_output;
use super::wrap::wrap_lines_to_columns;
use crate::terminal::terminal_columns;

/// Name of standard output in error messages.
const STDOUT_DISPLAY_NAME: &str = "standard output";

/// Message of the first write to standard output or standard error that failed.
static FIRST_WRITE_FAILURE: OnceLock<String> = OnceLock::new();

/// Whether the reader of standard output has closed the pipe.
static IS_STDOUT_PIPE_CLOSED: AtomicBool = AtomicBool::new(false);

/// Writes one line to standard error, wrapped at blanks on a terminal.
pub(in super::super) fn print_stderr_line(line: impl Display) {
    let line = format!("{line}\n");
    write_or_buffer_output(wrap_lines_to_columns(
        &line,
        terminal_columns(std::io::stderr()),
    ));
}

/// Writes to standard error even while other output is held back; used for questions to the user.
pub(in super::super) fn write_stderr_immediately(text: impl Display) {
    write_to_stream_recording_failure(anstream::stderr(), "standard error", text);
}

/// Writes a text to standard output without adding a line break.
pub(in super::super) fn print_to_stdout(text: impl Display) {
    write_to_stream_recording_failure(anstream::stdout(), STDOUT_DISPLAY_NAME, text);
}

/// Writes lines of JSON to standard output. On a terminal, escapes control and invisible characters
/// as `\uXXXX`, which means the same in JSON.
pub(in super::super) fn print_json_to_stdout(lines: &str) {
    let out = std::io::stdout().lock();
    match out.is_terminal() {
        true => write_to_stream_recording_failure(
            out,
            STDOUT_DISPLAY_NAME,
            escape_deceptive_json_characters(lines),
        ),
        false => write_to_stream_recording_failure(out, STDOUT_DISPLAY_NAME, lines),
    }
}

/// Escapes deceptive characters as `\uXXXX`. They can occur only inside JSON strings, where the
/// escape is valid.
fn escape_deceptive_json_characters(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len());
    for character in json.chars() {
        if character == '\n' || !is_deceptive_character(character) {
            escaped.push(character);
            continue;
        }
        for unit in character.encode_utf16(&mut [0; 2]) {
            // Writing to a `String` does not fail.
            let _ = write!(escaped, "\\u{unit:04x}");
        }
    }
    escaped
}

/// Writes one of the program's own lines to standard output, wrapped at blanks on a terminal.
pub(in super::super) fn print_stdout_line(line: impl Display) {
    let line = format!("{line}\n");
    print_to_stdout(wrap_lines_to_columns(
        &line,
        terminal_columns(std::io::stdout()),
    ));
}

/// Returns the message of the first failed write, if output was lost.
pub(in super::super) fn first_output_write_error() -> Option<&'static str> {
    FIRST_WRITE_FAILURE.get().map(String::as_str)
}

/// Whether the reader of standard output is gone, so that a command that would run forever can end.
pub(in super::super) fn is_output_reader_gone() -> bool {
    IS_STDOUT_PIPE_CLOSED.load(Ordering::Relaxed)
}

fn write_to_stream_recording_failure(mut stream: impl Write, name: &str, text: impl Display) {
    let written = write!(stream, "{text}").and_then(|()| stream.flush());
    match written {
        // A broken pipe is not a failure: the reader wants no more output.
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            // Keep only the message of the first failure.
            let _ = FIRST_WRITE_FAILURE.set(format!("cannot write to {name}: {error}"));
        }
        Err(_) if name == STDOUT_DISPLAY_NAME => {
            IS_STDOUT_PIPE_CLOSED.store(true, Ordering::Relaxed)
        }
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
        let escaped = escape_deceptive_json_characters(&json);
        assert_eq!(escaped, r#""a\u009b2J \u202eb\u200b \udb40\udc41é\n""#);
        assert_eq!(serde_json::from_str::<String>(&escaped).unwrap(), text);
    }
}
