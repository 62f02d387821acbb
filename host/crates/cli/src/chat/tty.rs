//! Controls the terminal of a chat: raw mode, the input, the size, and the restoring of the earlier
//! state.
//!
//! The module must not know the contents of the screen. Start from [`RawTerminal`].

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::time::Instant;

use super::super::terminal::TerminalSize;
use super::keys::{ASK_LOOKS, KeyDecoder, KeyInput};
use rind_lib::lock::lock;

/// Timeout after which an escape byte without a sequence is the Escape key.
const ESCAPE_WAIT: Duration = Duration::from_millis(30);

/// Enables bracketed paste, distinct codes for modified keys, and focus reports, if the terminal
/// supports them.
const ENTER: &str = "\x1b[?2004h\x1b[>4;1m\x1b[?1004h";
/// Switches all modes of `ENTER` off, shows the cursor, resets attributes and ends an open update.
const LEAVE: &str = "\x1b[?1004l\x1b[?2004l\x1b[>4;0m\x1b[?25h\x1b[0m\x1b[?2026l";

/// Maximum wait for the terminal to report its background before the chat begins. A later answer
/// takes effect when it arrives.
const ANSWER_WAIT: Duration = Duration::from_millis(100);

/// Maximum time that the reader waits for input before it checks whether to pause or stop.
const PATIENCE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 50_000_000,
};

/// Maximum bytes of one read.
const MAX_READ_BYTES: usize = 16 << 10;

/// A terminal in raw mode. Dropping it restores the earlier state.
pub(super) struct RawTerminal {
    before: Termios,
    is_raw: bool,
    keys: KeyReader,
    turn: Arc<ReadTurn>,
}

struct KeyReader {
    decoder: KeyDecoder,
    read: UnboundedReceiver<Vec<u8>>,
    /// Inputs that arrived while the terminal was asked for its background.
    early: Vec<KeyInput>,
    /// Time of the last escape byte, which may be the Escape key or the start of a sequence.
    undecided: Option<Instant>,
}

/// Coordinates who reads the terminal: the reader thread, or for a while another program.
#[derive(Default)]
struct ReadTurn {
    is_paused: AtomicBool,
    reading: Mutex<()>,
}

impl RawTerminal {
    /// Puts the terminal into raw mode and begins to read. If `asks_looks`, also asks for the
    /// background and waits a moment for the answer.
    pub(super) fn open_terminal(asks_looks: bool) -> std::io::Result<Self> {
        let before = tcgetattr(std::io::stdin())?;
        let (sender, read) = mpsc::unbounded_channel();
        let turn = Arc::new(ReadTurn::default());
        let mut tty = Self {
            before,
            is_raw: false,
            keys: KeyReader::new(read),
            turn: turn.clone(),
        };
        tty.enter_raw()?;
        if asks_looks {
            tty.keys.query_background()?;
        }
        // Read on a thread: a terminal read cannot be cancelled, and the descriptor, which the
        // shell shares, must stay blocking.
        std::thread::Builder::new()
            .name("keys".to_owned())
            .spawn(move || read_keys(&turn, &sender))?;
        Ok(tty)
    }

    pub(super) fn enter_raw(&mut self) -> std::io::Result<()> {
        let mut raw = self.before.clone();
        raw.make_raw();
        tcsetattr(std::io::stdin(), OptionalActions::Now, &raw)?;
        self.is_raw = true;
        self.turn.is_paused.store(false, Ordering::Release);
        put_text(ENTER)
    }

    /// Restores the terminal's earlier state and stops reading.
    pub(super) fn leave_raw(&mut self) {
        self.turn.is_paused.store(true, Ordering::Release);
        drop(lock(&self.turn.reading));
        if std::mem::take(&mut self.is_raw) {
            restore_terminal(&self.before);
        }
    }

    /// Returns a function that restores the terminal's earlier state, for a panic hook.
    pub(super) fn restorer(&self) -> impl Fn() + Send + Sync + 'static {
        let before = self.before.clone();
        move || restore_terminal(&before)
    }

    /// Returns the next inputs; `None` when the terminal is gone. Safe to cancel: dropping the
    /// future loses nothing, not even the time since an escape, so a caller that cancels often
    /// still sees a lone Escape.
    pub(super) async fn wait_inputs(&mut self) -> Option<Vec<KeyInput>> {
        self.keys.next().await
    }

    /// Returns whether the background is light, if the terminal has reported it.
    pub(super) fn background(&self) -> Option<bool> {
        self.keys.early.iter().find_map(|input| match input {
            KeyInput::Background(is_light) => Some(*is_light),
            _ => None,
        })
    }

    /// Pauses the reader thread, and returns all unread input without waiting.
    pub(super) fn rest_inputs(&mut self) -> Vec<KeyInput> {
        self.turn.is_paused.store(true, Ordering::Release);
        let reading = lock(&self.turn.reading);
        let mut inputs = std::mem::take(&mut self.keys.early);
        while let Ok(bytes) = self.keys.read.try_recv() {
            inputs.extend(self.keys.decoder.feed_bytes(&bytes));
        }
        while has_input(Timespec::default())
            && let Some(bytes) = read_bytes()
        {
            inputs.extend(self.keys.decoder.feed_bytes(&bytes));
        }
        drop(reading);
        inputs
    }
}

impl KeyReader {
    fn new(read: UnboundedReceiver<Vec<u8>>) -> Self {
        Self {
            decoder: KeyDecoder::default(),
            read,
            early: Vec::new(),
            undecided: None,
        }
    }

    /// Queries the terminal for its background. Keys that are pressed before the answer are kept.
    fn query_background(&mut self) -> std::io::Result<()> {
        self.decoder.expect_answers();
        put_text(ASK_LOOKS)?;
        let until = std::time::Instant::now() + ANSWER_WAIT;
        while !self.early.contains(&KeyInput::Answered) {
            let left = until.saturating_duration_since(std::time::Instant::now());
            let patience = Timespec::try_from(left).unwrap_or_default();
            if left.is_zero() || !has_input(patience) {
                break;
            }
            let Some(bytes) = read_bytes() else {
                break;
            };
            self.early.extend(self.decoder.feed_bytes(&bytes));
        }
        Ok(())
    }

    /// Returns the next inputs; `None` when the terminal is gone. Safe to cancel: dropping the
    /// future loses nothing, not even the time since an escape, so a caller that cancels often
    /// still sees a lone Escape.
    async fn next(&mut self) -> Option<Vec<KeyInput>> {
        if !self.early.is_empty() {
            return Some(std::mem::take(&mut self.early));
        }
        loop {
            let bytes = if self.decoder.is_undecided() {
                let until = *self.undecided.get_or_insert_with(Instant::now) + ESCAPE_WAIT;
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
                    None => return Some(self.decoder.flush_bytes()),
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

/// Reads bytes and sends them until the receiver is dropped or the terminal is gone. Waits while
/// reading is paused.
fn read_keys(turn: &ReadTurn, keys: &UnboundedSender<Vec<u8>>) {
    while !keys.is_closed() {
        if turn.is_paused.load(Ordering::Acquire) {
            std::thread::sleep(Duration::from_millis(20));
            continue;
        }
        let _reading = lock(&turn.reading);
        let is_ours = !turn.is_paused.load(Ordering::Acquire);
        if is_ours && has_input(PATIENCE) {
            match read_bytes() {
                Some(bytes) => drop(keys.send(bytes)),
                None => return,
            }
        }
    }
}

/// Reads available bytes; `None` when the terminal is gone.
fn read_bytes() -> Option<Vec<u8>> {
    let mut bytes = vec![0; MAX_READ_BYTES];
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
        self.leave_raw();
    }
}

fn restore_terminal(before: &Termios) {
    let _ = put_text(LEAVE);
    // Flush unread input: it was not meant for the shell.
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

/// Writes a text to the terminal in one piece.
pub(super) fn put_text(text: &str) -> std::io::Result<()> {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

fn has_input(patience: Timespec) -> bool {
    let stdin = std::io::stdin();
    let mut wanted = [PollFd::new(&stdin, PollFlags::IN)];
    poll(&mut wanted, Some(&patience)).is_ok_and(|n_ready| n_ready > 0)
}

#[cfg(test)]
mod tests {
    use super::super::keys::{KeyCode, TypedKey};
    use super::*;

    #[tokio::test]
    async fn an_escape_is_the_key_also_for_somebody_who_is_called_away_all_the_time() {
        let (sender, read) = mpsc::unbounded_channel();
        let mut keys = KeyReader::new(read);
        sender.send(vec![0x1b]).unwrap();
        let begun = Instant::now();
        let inputs = loop {
            tokio::select! {
                biased;
                inputs = keys.next() => break inputs,
                () = tokio::task::yield_now() => {}
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "it never came");
        };
        assert_eq!(
            inputs,
            Some(vec![KeyInput::Key(TypedKey::plain_key(KeyCode::Esc))])
        );
        // The rest of a sequence may come later, as long as it does not take too long.
        sender.send(vec![0x1b]).unwrap();
        sender.send(b"[A".to_vec()).unwrap();
        let up = KeyInput::Key(TypedKey::plain_key(KeyCode::Up));
        assert_eq!(keys.next().await, Some(vec![up]));
        drop(sender);
        assert_eq!(keys.next().await, None);
    }
}
