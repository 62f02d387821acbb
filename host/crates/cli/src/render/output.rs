//! Writing to standard output and standard error, and whether that worked.
//!
//! A failed write does not stop a turn, whose tools may be half done. It is remembered, and
//! [`output_failure`] returns it at the end of the program: exit code 0 means that the whole answer
//! was written.

use std::fmt::Display;
use std::io::{ErrorKind, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

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

/// Writes lines of JSON to standard output. JSON has no styles to remove, so there is no check for
/// a terminal.
pub(in super::super) fn answer_json(lines: &str) {
    write_line(std::io::stdout().lock(), STDOUT, lines);
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
