//! Captures a guest's standard error. Writes always succeed; the last bytes are stored, because
//! they contain the message of a panic.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::io::AsyncWrite;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamResult};

use crate::lock::lock_ignoring_poison;

/// Number of bytes that a guest may write in one call of the stream's `write`.
const MAX_STDERR_WRITE_BYTES: usize = 64 << 10;

/// The last bytes that a guest wrote to standard error. The stream must never close when the buffer
/// is full: that would make Rust's `eprintln!` panic and kill a plugin that only logs a lot.
#[derive(Clone)]
pub(super) struct GuestStderrTail {
    kept: Arc<Mutex<VecDeque<u8>>>,
    /// Whether the buffer contains output. A separate flag, because every call checks it and most
    /// guests never write.
    is_dirty: Arc<AtomicBool>,
    capacity: usize,
}

impl GuestStderrTail {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            kept: Arc::default(),
            is_dirty: Arc::default(),
            capacity,
        }
    }

    /// Returns the stored output as text. If the buffer is full, the text starts after the first
    /// whitespace, because a truncated word may be part of a secret that no rule recognizes;
    /// without whitespace the text is empty.
    pub(super) fn text(&self) -> String {
        let mut bytes: Vec<u8> = lock_ignoring_poison(&self.kept).iter().copied().collect();
        if bytes.len() == self.capacity {
            let blank = bytes.iter().position(u8::is_ascii_whitespace);
            bytes.drain(..blank.map_or(bytes.len(), |at| at + 1));
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Whether the guest has written output since [`clear_tail`](Self::clear_tail).
    pub(super) fn has_output_since_clear(&self) -> bool {
        self.is_dirty.load(Ordering::Acquire)
    }

    /// Discards the output from before a call, so that it does not appear in the message of that
    /// call.
    pub(super) fn clear_tail(&self) {
        if self.is_dirty.load(Ordering::Acquire) && self.is_dirty.swap(false, Ordering::AcqRel) {
            lock_ignoring_poison(&self.kept).clear();
        }
    }

    fn push(&self, bytes: &[u8]) {
        let bytes = &bytes[bytes.len().saturating_sub(self.capacity)..];
        let mut kept = lock_ignoring_poison(&self.kept);
        let over = (kept.len() + bytes.len()).saturating_sub(self.capacity);
        kept.drain(..over);
        kept.extend(bytes);
        self.is_dirty.store(true, Ordering::Release);
    }
}

impl IsTerminal for GuestStderrTail {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for GuestStderrTail {
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(self.clone())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

impl OutputStream for GuestStderrTail {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.push(&bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(MAX_STDERR_WRITE_BYTES)
    }
}

#[wasmtime_wasi::async_trait]
impl Pollable for GuestStderrTail {
    async fn ready(&mut self) {}
}

impl AsyncWrite for GuestStderrTail {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.push(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Returns the location and the message of a Rust panic, with the output before it. The trap itself
/// contains neither.
pub(super) fn find_panic_message(printed: &str) -> Option<String> {
    let (before, panic) = printed.split_once("' ")?;
    let (before, _) = before.rsplit_once("thread '")?;
    let (_, panic) = panic.split_once("panicked at ")?;
    Some(match before.trim() {
        "" => format!("a panic at {panic}"),
        before => format!("a panic at {panic}; before that it printed: {before}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_told_by_its_place_and_message() {
        for (printed, expected) in [
            (
                "thread '<unnamed>' (1) panicked at src/lib.rs:23:47: no",
                Some("a panic at src/lib.rs:23:47: no"),
            ),
            (
                "seen 4 thread 'main' panicked at src/lib.rs:2:3: it's",
                Some("a panic at src/lib.rs:2:3: it's; before that it printed: seen 4"),
            ),
            ("isn' t", None),
            ("", None),
        ] {
            assert_eq!(
                find_panic_message(printed).as_deref(),
                expected,
                "{printed}"
            );
        }
    }

    #[test]
    fn everything_is_taken_and_the_last_of_it_kept() {
        let tail = GuestStderrTail::new(8);
        tail.push(b"one ");
        tail.push(b"two three");
        assert_eq!(tail.text(), "three", "`wo` is half a word");
        tail.push(&[b'x'; 100]);
        assert_eq!(tail.text(), "", "the end of a word alone");
        tail.clear_tail();
        assert_eq!(tail.text(), "");
    }
}
