//! Writes to standard error, and holds output back while a question is open.
//!
//! A question must stay on the screen unchanged until it is answered, so notices, logs and warnings
//! are buffered. Start from [`buffer_output_during_question`]. A chat owns the screen, and
//! redirects all output to itself with [`redirect_output_to_chat`].

use std::fmt::Display;
use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard};

use tokio::sync::mpsc::UnboundedSender;

pub(in super::super) use super::output::write_stderr_immediately;
use rind_lib::lock::lock_ignoring_poison;

/// Maximum number of bytes that are buffered. More output would scroll away the lines before the
/// next question.
const MAX_BUFFERED_OUTPUT_BYTES: usize = 16 << 10;

struct PausableOutputBuffer {
    n_questions: usize,
    text: String,
    n_left_out: usize,
}

static HELD_OUTPUT: Mutex<PausableOutputBuffer> = Mutex::new(PausableOutputBuffer {
    n_questions: 0,
    text: String::new(),
    n_left_out: 0,
});

fn lock_buffered_output() -> MutexGuard<'static, PausableOutputBuffer> {
    // A poisoned lock is harmless: text and counts are consistent after every statement.
    lock_ignoring_poison(&HELD_OUTPUT)
}

/// Guard that holds output back while a question is open. Dropping the last guard writes the
/// buffered output.
pub(in super::super) struct OutputBufferingGuard(());

/// Holds back all output but the question itself until the guard is dropped.
pub(in super::super) fn buffer_output_during_question() -> OutputBufferingGuard {
    lock_buffered_output().n_questions += 1;
    OutputBufferingGuard(())
}

impl Drop for OutputBufferingGuard {
    fn drop(&mut self) {
        let mut held = lock_buffered_output();
        held.n_questions -= 1;
        if held.n_questions > 0 {
            return;
        }
        let text = std::mem::take(&mut held.text);
        let n_left_out = std::mem::take(&mut held.n_left_out);
        drop(held);
        write_stderr_immediately(text);
        if n_left_out > 0 {
            write_stderr_immediately(format_args!(
                "▲ {n_left_out} more lines were written while you were asked; RIND_LOG and --trace show them\n"
            ));
        }
    }
}

/// Channel to the chat that owns the screen, which receives all output.
static CHAT_OUTPUT_CHANNEL: Mutex<Option<UnboundedSender<String>>> = Mutex::new(None);

fn lock_chat_output_channel() -> MutexGuard<'static, Option<UnboundedSender<String>>> {
    lock_ignoring_poison(&CHAT_OUTPUT_CHANNEL)
}

/// Guard of a redirection of output; dropping it directs output to standard error again.
pub(in super::super) struct OutputRedirectGuard(());

/// Sends all output to this channel until the guard is dropped.
pub(in super::super) fn redirect_output_to_chat(
    to: UnboundedSender<String>,
) -> OutputRedirectGuard {
    *lock_chat_output_channel() = Some(to);
    OutputRedirectGuard(())
}

impl Drop for OutputRedirectGuard {
    fn drop(&mut self) {
        *lock_chat_output_channel() = None;
    }
}

/// Writes a text to the chat that owns the screen. Without such a chat, writes the text to standard
/// error, or buffers it while a question is open.
pub(in super::super) fn write_or_buffer_output(text: impl Display) {
    if let Some(to) = &*lock_chat_output_channel() {
        // Ignore an error: the channel is closed if the screen that reads from it has just ended.
        let _ = to.send(text.to_string());
        return;
    }
    let mut held = lock_buffered_output();
    if held.n_questions == 0 {
        drop(held);
        return write_stderr_immediately(text);
    }
    let text = text.to_string();
    if held.text.len() + text.len() > MAX_BUFFERED_OUTPUT_BYTES {
        held.n_left_out += text.lines().count();
    } else {
        held.text.push_str(&text);
    }
}

/// Writer for logs to standard error, held back like all output.
pub(in super::super) struct BufferedLogWriter;

impl Write for BufferedLogWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        write_or_buffer_output(String::from_utf8_lossy(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_while_a_question_is_open_waits_and_is_bounded() {
        let open = buffer_output_during_question();
        for n in 0..10_000 {
            write_or_buffer_output(format_args!("line {n}\n"));
        }
        {
            let mut held = lock_buffered_output();
            assert!(
                held.text.starts_with("line 0\n") && held.text.len() <= MAX_BUFFERED_OUTPUT_BYTES
            );
            assert_eq!(held.text.lines().count() + held.n_left_out, 10_000);
            // Do not print the held text to the terminal of the test run.
            held.text.clear();
            held.n_left_out = 0;
        }
        drop(open);
        assert_eq!(lock_buffered_output().n_questions, 0);
    }
}
