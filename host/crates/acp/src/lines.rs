//! Reads lines on one thread and writes lines on another, because the process's standard streams
//! block.
//!
//! Owns the limits: the length of an input line, and the number of bytes queued for a client that
//! does not read.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

/// Maximum length of an input line, in bytes. A prompt with sixteen images of 3.75 MiB each is
/// longer and is answered with an error.
pub(crate) const MAX_INPUT_LINE_BYTES: usize = 32 << 20;

/// Maximum number of bytes in the output queue. If more are queued, the client is considered stuck
/// and its connection is closed.
const MAX_QUEUED_OUTPUT_BYTES: usize = 64 << 20;

/// Maximum number of input lines in the queue; while the queue is full, no more input is read.
const MAX_QUEUED_INPUT_LINES: usize = 16;

/// A line of input from the client.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ClientInputLine {
    /// Complete line, without its line break.
    Line(Vec<u8>),
    /// A line that was longer than [`MAX_INPUT_LINE_BYTES`]; its bytes were dropped.
    TooLong,
}

/// Starts a thread that reads lines and skips blank ones. The thread ends at the end of the input
/// or when the receiver is dropped.
///
/// # Errors
/// The thread cannot be started.
pub(crate) fn start_line_reader(
    input: impl Read + Send + 'static,
) -> io::Result<mpsc::Receiver<ClientInputLine>> {
    let (lines, receiver) = mpsc::channel(MAX_QUEUED_INPUT_LINES);
    let read = move || {
        let mut reader = BufReader::with_capacity(64 << 10, input);
        loop {
            match next_line(&mut reader, MAX_INPUT_LINE_BYTES) {
                Ok(Some(ClientInputLine::Line(line)))
                    if line.iter().all(u8::is_ascii_whitespace) => {}
                Ok(Some(line)) => {
                    if lines.blocking_send(line).is_err() {
                        return;
                    }
                }
                Ok(None) => return,
                Err(error) => {
                    tracing::warn!(%error, "cannot read from the client");
                    return;
                }
            }
        }
    };
    std::thread::Builder::new()
        .name("acp-input".to_owned())
        .spawn(read)?;
    Ok(receiver)
}

/// Reads the next line. Returns [`ClientInputLine::TooLong`] for a line of more than `limit` bytes,
/// and `None` at the end of the input.
fn next_line(reader: &mut impl BufRead, limit: usize) -> io::Result<Option<ClientInputLine>> {
    let mut line = Vec::new();
    let mut is_too_long = false;
    loop {
        let bytes = match reader.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            bytes => bytes?,
        };
        if bytes.is_empty() {
            return Ok(match (is_too_long, line.is_empty()) {
                (true, _) => Some(ClientInputLine::TooLong),
                (false, true) => None,
                (false, false) => Some(ClientInputLine::Line(line)),
            });
        }
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let part = bytes.get(..end.unwrap_or(bytes.len())).unwrap_or_default();
        if line.len() + part.len() > limit {
            is_too_long = true;
            line = Vec::new();
        }
        if !is_too_long {
            line.extend_from_slice(part);
        }
        let n_used = end.map_or(bytes.len(), |end| end + 1);
        reader.consume(n_used);
        if end.is_some() {
            return Ok(Some(match is_too_long {
                true => ClientInputLine::TooLong,
                false => ClientInputLine::Line(line),
            }));
        }
    }
}

/// Queue of lines to write to the client. Clones share one queue.
#[derive(Clone)]
pub(crate) struct ClientOutputLineQueue {
    lines: mpsc::UnboundedSender<String>,
    waiting_bytes: Arc<AtomicUsize>,
    /// Cancelled when a write to the client has failed, or when the queue is too long.
    pub(crate) broken: CancellationToken,
}

impl ClientOutputLineQueue {
    /// Appends a line to the queue without blocking. If the queue is too long, because the client
    /// does not read, the connection is closed instead.
    pub(crate) fn queue_line(&self, line: String) {
        if self.broken.is_cancelled() {
            return;
        }
        let n_before = self.waiting_bytes.fetch_add(line.len(), Ordering::Relaxed);
        if n_before > MAX_QUEUED_OUTPUT_BYTES {
            tracing::warn!("the client has stopped reading; the connection is closed");
            self.broken.cancel();
            return;
        }
        // Ignore a closed channel: the writer thread has already ended.
        let _ = self.lines.send(line);
    }

    /// Tells the writer thread to end after it has written the queued lines.
    pub(crate) fn end_writer_thread(&self) {
        // Real messages are never empty, so an empty line can mark the end.
        let _ = self.lines.send(String::new());
    }
}

/// Starts the thread that writes queued lines. The returned receiver is notified when the thread
/// ends: after [`ClientOutputLineQueue::end_writer_thread`], or after a failed write.
///
/// # Errors
/// The thread cannot be started.
pub(crate) fn start_line_writer(
    mut output: impl Write + Send + 'static,
) -> io::Result<(ClientOutputLineQueue, oneshot::Receiver<()>)> {
    let (lines, mut waiting) = mpsc::unbounded_channel::<String>();
    let (done, written) = oneshot::channel();
    let outbox = ClientOutputLineQueue {
        lines,
        waiting_bytes: Arc::default(),
        broken: CancellationToken::new(),
    };
    let (waiting_bytes, broken) = (outbox.waiting_bytes.clone(), outbox.broken.clone());
    let write = move || {
        while let Some(mut line) = waiting.blocking_recv().filter(|line| !line.is_empty()) {
            let n_bytes = line.len();
            line.push('\n');
            let outcome = output
                .write_all(line.as_bytes())
                .and_then(|()| output.flush());
            waiting_bytes.fetch_sub(n_bytes, Ordering::Relaxed);
            if let Err(error) = outcome {
                tracing::debug!(%error, "cannot write to the client");
                broken.cancel();
                break;
            }
        }
        let _ = done.send(());
    };
    std::thread::Builder::new()
        .name("acp-output".to_owned())
        .spawn(write)?;
    Ok((outbox, written))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_too_long_is_dropped_and_the_next_is_read() {
        let text = format!("one\n{}\r\ntwo", "x".repeat(100));
        let mut reader = BufReader::with_capacity(7, text.as_bytes());
        let mut next = || next_line(&mut reader, 10).unwrap();
        assert_eq!(next(), Some(ClientInputLine::Line(b"one".to_vec())));
        assert_eq!(next(), Some(ClientInputLine::TooLong));
        assert_eq!(next(), Some(ClientInputLine::Line(b"two".to_vec())));
        assert_eq!(next(), None);
        let long = "x".repeat(100);
        let mut reader = BufReader::new(long.as_bytes());
        assert_eq!(
            next_line(&mut reader, 10).unwrap(),
            Some(ClientInputLine::TooLong)
        );
        assert_eq!(next_line(&mut reader, 10).unwrap(), None);
    }

    /// A stream that takes nothing until it is dropped.
    struct Stuck;

    impl Write for Stuck {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            std::thread::park();
            Ok(0)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_client_that_does_not_read_is_given_up() {
        let (outbox, _) = start_line_writer(Stuck).unwrap();
        for _ in 0..80 {
            outbox.queue_line("x".repeat(1 << 20));
        }
        assert!(outbox.broken.is_cancelled());
    }
}
