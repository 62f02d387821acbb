//! Reads lines of standard input before the chat needs them, for the chat that works line by line.

use std::io::BufRead;

use tokio::sync::mpsc::{self, Receiver};

use super::super::render;
use super::super::render::hold::write_stderr_immediately;

/// Maximum number of input lines that are read before the chat needs them.
const MAX_LINES_READ_AHEAD: usize = 64;

/// Reads standard input on a separate thread, so that a blocked read does not delay the exit.
pub(super) fn spawn_stdin_line_reader() -> Receiver<String> {
    let (sender, lines) = mpsc::channel(MAX_LINES_READ_AHEAD);
    std::thread::spawn(move || {
        let mut stdin = std::io::stdin().lock();
        let mut bytes = Vec::new();
        while let Ok(1..) = stdin.read_until(b'\n', &mut bytes) {
            let line = String::from_utf8_lossy(&bytes);
            if sender
                .blocking_send(line.trim_end_matches(['\n', '\r']).to_owned())
                .is_err()
            {
                return;
            }
            bytes.clear();
        }
    });
    lines
}

/// Reports that a line was ignored, because it was typed before the question appeared.
pub(super) fn report_ignored_typeahead_line(line: &str) {
    let line = render::truncate_to_one_line(line, 400);
    write_stderr_immediately(format_args!(
        "ignored, because it was typed before the question appeared: {line}\n"
    ));
}

/// Drops and reports the lines that were typed so far. Returns whether there were any.
pub(super) fn discard_early_typed_lines(lines: &mut Receiver<String>) -> bool {
    let mut has_any = false;
    while let Ok(line) = lines.try_recv() {
        report_ignored_typeahead_line(&line);
        has_any = true;
    }
    has_any
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_were_read_before_a_question_could_be_are_all_ignored() {
        let (sender, mut lines) = mpsc::channel(MAX_LINES_READ_AHEAD);
        assert!(!discard_early_typed_lines(&mut lines));
        for line in ["y", "always"] {
            sender.try_send(line.to_owned()).unwrap();
        }
        assert!(discard_early_typed_lines(&mut lines));
        assert!(!discard_early_typed_lines(&mut lines) && lines.is_empty());
    }
}
