//! Controls the terminal of a chat: switches raw mode on and off, reads input, and determines the
//! size.
//!
//! The module must not know what is on the screen. Start from [`RawTerminal`].

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::time::Instant;

use super::super::terminal::TerminalSize;
use super::keys::{BACKGROUND_COLOR_QUERY, TerminalInputDecoder, TerminalInputEvent};
use rind_lib::lock::lock_ignoring_poison;

/// Time to wait after an escape byte. If no further byte arrives, the byte is the Escape key.
const ESCAPE_KEY_TIMEOUT: Duration = Duration::from_millis(30);

/// Enables bracketed paste, distinct codes for modified keys, and focus reports, if the terminal
/// supports them.
const ENABLE_TERMINAL_MODES_SEQUENCE: &str = "\x1b[?2004h\x1b[>4;1m\x1b[?1004h";
/// Switches all modes of `ENABLE_TERMINAL_MODES_SEQUENCE` off, shows the cursor, resets text
/// attributes, and ends a synchronized update that was not ended.
const RESTORE_TERMINAL_MODES_SEQUENCE: &str =
    "\x1b[?1004l\x1b[?2004l\x1b[>4;0m\x1b[?25h\x1b[0m\x1b[?2026l";

/// Maximum time to wait for the terminal's background color before the chat begins. A later answer
/// takes effect when it arrives.
const BACKGROUND_COLOR_REPLY_TIMEOUT: Duration = Duration::from_millis(100);

/// Maximum time that the reader thread waits for input before it checks whether to pause or stop.
const INPUT_POLL_TIMEOUT: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 50_000_000,
};

/// Maximum number of bytes that one read from the terminal returns.
const MAX_TERMINAL_READ_BYTES: usize = 16 << 10;

/// A terminal in raw mode. Dropping it restores the earlier state.
pub(super) struct RawTerminal {
    before: Termios,
    is_raw: bool,
    keys: TerminalKeyReader,
    turn: Arc<TerminalReaderPauseLock>,
}

struct TerminalKeyReader {
    decoder: TerminalInputDecoder,
    read: UnboundedReceiver<Vec<u8>>,
    /// Inputs that arrived while the terminal was asked for its background color.
    early: Vec<TerminalInputEvent>,
    /// Time of the last escape byte, if it may be the Escape key or the start of a sequence.
    undecided: Option<Instant>,
}

/// Coordinates which program reads from the terminal: the reader thread of the chat or, for some
/// time, another program.
#[derive(Default)]
struct TerminalReaderPauseLock {
    is_paused: AtomicBool,
    reading: Mutex<()>,
}

impl RawTerminal {
    /// Puts the terminal into raw mode and begins to read. If `asks_looks` is set, also queries the
    /// background color and waits a moment for the answer.
    pub(super) fn open_terminal(asks_looks: bool) -> std::io::Result<Self> {
        let before = tcgetattr(std::io::stdin())?;
        let (sender, read) = mpsc::unbounded_channel();
        let turn = Arc::new(TerminalReaderPauseLock::default());
        let mut tty = Self {
            before,
            is_raw: false,
            keys: TerminalKeyReader::new(read),
            turn: turn.clone(),
        };
        tty.enter_raw_mode()?;
        if asks_looks {
            tty.keys.query_background_color()?;
        }
        // Read on a thread, because a read from the terminal cannot be cancelled, and the
        // descriptor must stay blocking for the shell that shares it.
        std::thread::Builder::new()
            .name("keys".to_owned())
            .spawn(move || read_and_forward_terminal_bytes(&turn, &sender))?;
        Ok(tty)
    }

    pub(super) fn enter_raw_mode(&mut self) -> std::io::Result<()> {
        let mut raw = self.before.clone();
        raw.make_raw();
        tcsetattr(std::io::stdin(), OptionalActions::Now, &raw)?;
        self.is_raw = true;
        self.turn.is_paused.store(false, Ordering::Release);
        write_text_to_terminal(ENABLE_TERMINAL_MODES_SEQUENCE)
    }

    /// Restores the terminal's earlier state and stops reading.
    pub(super) fn leave_raw_mode(&mut self) {
        self.turn.is_paused.store(true, Ordering::Release);
        drop(lock_ignoring_poison(&self.turn.reading));
        if std::mem::take(&mut self.is_raw) {
            restore_terminal(&self.before);
        }
    }

    /// Returns a function that restores the terminal's earlier state, for a panic hook.
    pub(super) fn terminal_restoring_function(&self) -> impl Fn() + Send + Sync + 'static {
        let before = self.before.clone();
        move || restore_terminal(&before)
    }

    /// Returns the next inputs; `None` after the terminal was closed. Safe to cancel: no input is
    /// lost if the future is dropped. The time since an escape byte is kept as well, so that the
    /// Escape key is recognized even if the caller cancels often.
    pub(super) async fn wait_for_key_inputs(&mut self) -> Option<Vec<TerminalInputEvent>> {
        self.keys.next_key_inputs().await
    }

    /// Returns whether the background is light; `None` if the terminal has not reported its color.
    pub(super) fn has_light_background(&self) -> Option<bool> {
        self.keys.early.iter().find_map(|input| match input {
            TerminalInputEvent::Background(is_light) => Some(*is_light),
            _ => None,
        })
    }

    /// Pauses the reader thread, and returns all unread input without waiting.
    pub(super) fn take_pending_key_inputs(&mut self) -> Vec<TerminalInputEvent> {
        self.turn.is_paused.store(true, Ordering::Release);
        let reading = lock_ignoring_poison(&self.turn.reading);
        let mut inputs = std::mem::take(&mut self.keys.early);
        while let Ok(bytes) = self.keys.read.try_recv() {
            inputs.extend(self.keys.decoder.feed_bytes(&bytes));
        }
        while wait_for_terminal_input(Timespec::default())
            && let Some(bytes) = read_terminal_bytes()
        {
            inputs.extend(self.keys.decoder.feed_bytes(&bytes));
        }
        drop(reading);
        inputs
    }
}

impl TerminalKeyReader {
    fn new(read: UnboundedReceiver<Vec<u8>>) -> Self {
        Self {
            decoder: TerminalInputDecoder::default(),
            read,
            early: Vec::new(),
            undecided: None,
        }
    }

    /// Queries the terminal for its background color. Keys that are pressed before the answer are
    /// kept.
    fn query_background_color(&mut self) -> std::io::Result<()> {
        self.decoder.expect_background_color_answer();
        write_text_to_terminal(BACKGROUND_COLOR_QUERY)?;
        let until = std::time::Instant::now() + BACKGROUND_COLOR_REPLY_TIMEOUT;
        while !self.early.contains(&TerminalInputEvent::Answered) {
            let left = until.saturating_duration_since(std::time::Instant::now());
            let patience = Timespec::try_from(left).unwrap_or_default();
            if left.is_zero() || !wait_for_terminal_input(patience) {
                break;
            }
            let Some(bytes) = read_terminal_bytes() else {
                break;
            };
            self.early.extend(self.decoder.feed_bytes(&bytes));
        }
        Ok(())
    }

    /// Returns the next inputs; `None` after the terminal was closed. Safe to cancel: no input is
    /// lost if the future is dropped. The time since an escape byte is kept as well, so that the
    /// Escape key is recognized even if the caller cancels often.
    async fn next_key_inputs(&mut self) -> Option<Vec<TerminalInputEvent>> {
        if !self.early.is_empty() {
            return Some(std::mem::take(&mut self.early));
        }
        loop {
            let bytes = if self.decoder.has_pending_escape() {
                let until = *self.undecided.get_or_insert_with(Instant::now) + ESCAPE_KEY_TIMEOUT;
                let read = match self.read.try_recv() {
                    Ok(bytes) => Some(bytes),
                    Err(_) if until <= Instant::now() => None,
                    Err(_) => match tokio::time::timeout_at(until, self.read.recv()).await {
                        Ok(bytes) => Some(bytes?),
                        Err(_) => None,
                    },
                };
                self.undecided = None;
                match read {
                    Some(bytes) => bytes,
                    None => return Some(self.decoder.flush_pending_escape()),
                }
            } else {
                self.read.recv().await?
            };
            let inputs = self.decoder.feed_bytes(&bytes);
            if !inputs.is_empty() {
                return Some(inputs);
            }
        }
    }
}

/// Reads bytes and sends them until the receiver is dropped or the terminal is closed. Waits while
/// reading is paused.
fn read_and_forward_terminal_bytes(
    turn: &TerminalReaderPauseLock,
    keys: &UnboundedSender<Vec<u8>>,
) {
    while !keys.is_closed() {
        if turn.is_paused.load(Ordering::Acquire) {
            std::thread::sleep(Duration::from_millis(20));
            continue;
        }
        let _reading = lock_ignoring_poison(&turn.reading);
        let is_ours = !turn.is_paused.load(Ordering::Acquire);
        if is_ours && wait_for_terminal_input(INPUT_POLL_TIMEOUT) {
            match read_terminal_bytes() {
                Some(bytes) => drop(keys.send(bytes)),
                None => return,
            }
        }
    }
}

/// Reads the bytes that the terminal has sent; `None` after the terminal was closed.
fn read_terminal_bytes() -> Option<Vec<u8>> {
    let mut bytes = vec![0; MAX_TERMINAL_READ_BYTES];
    loop {
        match rustix::io::read(std::io::stdin(), &mut bytes) {
            Ok(0) => return None,
            Ok(n_read) => {
                bytes.truncate(n_read);
                return Some(bytes);
            }
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
            Err(_) => return None,
        }
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        self.leave_raw_mode();
    }
}

fn restore_terminal(before: &Termios) {
    let _ = write_text_to_terminal(RESTORE_TERMINAL_MODES_SEQUENCE);
    // Discard unread input, because it was not meant for the shell.
    let _ = tcsetattr(std::io::stdin(), OptionalActions::Flush, before);
}

/// Returns the size of the terminal, or 80 columns and 24 rows if it is unknown.
pub(super) fn terminal_size() -> TerminalSize {
    let told = tcgetwinsize(std::io::stdout()).ok();
    let told = told.filter(|size| size.ws_col > 0 && size.ws_row > 0);
    told.map_or(
        TerminalSize {
            columns: 80,
            rows: 24,
        },
        |size| TerminalSize {
            columns: usize::from(size.ws_col),
            rows: usize::from(size.ws_row),
        },
    )
}

/// Writes a text to the terminal with a single write and flushes it.
pub(super) fn write_text_to_terminal(text: &str) -> std::io::Result<()> {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

fn wait_for_terminal_input(patience: Timespec) -> bool {
    let stdin = std::io::stdin();
    let mut wanted = [PollFd::new(&stdin, PollFlags::IN)];
    poll(&mut wanted, Some(&patience)).is_ok_and(|n_ready| n_ready > 0)
}

#[cfg(test)]
mod tests {
    use super::super::keys::{KeyCode, TypedKeyWithModifiers};
    use super::*;

    #[tokio::test]
    async fn an_escape_is_the_key_also_for_somebody_who_is_called_away_all_the_time() {
        let (sender, read) = mpsc::unbounded_channel();
        let mut keys = TerminalKeyReader::new(read);
        sender.send(vec![0x1b]).unwrap();
        let begun = Instant::now();
        let inputs = loop {
            tokio::select! {
                biased;
                inputs = keys.next_key_inputs() => break inputs,
                () = tokio::task::yield_now() => {}
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "it never came");
        };
        assert_eq!(
            inputs,
            Some(vec![TerminalInputEvent::Key(
                TypedKeyWithModifiers::without_modifiers(KeyCode::Esc)
            )])
        );
        // The rest of a sequence may come later, as long as it does not take too long.
        sender.send(vec![0x1b]).unwrap();
        sender.send(b"[A".to_vec()).unwrap();
        let up = TerminalInputEvent::Key(TypedKeyWithModifiers::without_modifiers(KeyCode::Up));
        assert_eq!(keys.next_key_inputs().await, Some(vec![up]));
        drop(sender);
        assert_eq!(keys.next_key_inputs().await, None);
    }
}
