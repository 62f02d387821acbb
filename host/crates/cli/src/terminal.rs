//! Controls the user's terminal: reads its size and its input line by line, discards input typed
//! before a question, and restores the terminal's state.

use std::io::IsTerminal;
use std::os::fd::AsFd;
use std::sync::Mutex;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{
    LocalModes, OptionalActions, QueueSelector, Termios, tcflush, tcgetattr, tcgetpgrp,
    tcgetwinsize, tcsetattr,
};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::signals::ShutdownSignals;
use rind_lib::lock::lock_ignoring_poison;

/// Size that is assumed if the terminal does not report its size.
const DEFAULT_TERMINAL_SIZE: TerminalSize = TerminalSize {
    columns: 80,
    rows: 24,
};

/// Smallest size for which a question is laid out. On a smaller screen, the question scrolls.
const MIN_QUESTION_TERMINAL_SIZE: TerminalSize = TerminalSize {
    columns: 24,
    rows: 8,
};

/// Interval at which a waiting reader checks whether its caller still waits for the line.
const READER_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Time without input before a question accepts an answer, so that a key meant for something else
/// does not answer a question that the user has not read.
pub(super) const INPUT_SILENCE_BEFORE_ANSWER: Duration = Duration::from_millis(600);

/// Maximum length of a line, in bytes. Terminals limit lines to 4096 bytes themselves.
const MAX_INPUT_LINE_BYTES: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TerminalSize {
    pub(super) columns: usize,
    pub(super) rows: usize,
}

/// Whether a user can be asked: standard input and standard error are terminals.
pub(super) fn can_ask_at_terminal() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

pub(super) fn terminal_size() -> TerminalSize {
    let told = tcgetwinsize(std::io::stderr()).ok().map(|size| size.ws_row);
    let rows = told
        .filter(|rows| *rows > 0)
        .map_or(DEFAULT_TERMINAL_SIZE.rows, usize::from);
    TerminalSize {
        columns: terminal_columns(std::io::stderr()).unwrap_or(DEFAULT_TERMINAL_SIZE.columns),
        rows: rows.max(MIN_QUESTION_TERMINAL_SIZE.rows),
    }
}

/// Returns the width of a terminal in columns; `None` if the stream is not a terminal or its size
/// is unknown.
pub(super) fn terminal_columns(stream: impl AsFd) -> Option<usize> {
    let told = tcgetwinsize(stream).ok()?.ws_col;
    (told > 0).then(|| usize::from(told).max(MIN_QUESTION_TERMINAL_SIZE.columns))
}

/// Discards unread input, including an unfinished line, because it was typed for something else and
/// must neither answer a question nor reach the shell. Returns whether the input was discarded.
pub(super) fn discard_typed_input() -> bool {
    let stdin = std::io::stdin();
    // Flush only in the foreground: in the background, `tcflush` would stop the process.
    let is_ours = tcgetpgrp(&stdin).is_ok_and(|group| group == rustix::process::getpgrp());
    is_ours && tcflush(&stdin, QueueSelector::IFlush).is_ok()
}

/// Waits until no line was typed for [`INPUT_SILENCE_BEFORE_ANSWER`], and discards lines typed
/// before: they cannot answer a question that has only just appeared.
pub(super) async fn discard_lines_until_input_pauses() {
    loop {
        tokio::time::sleep(INPUT_SILENCE_BEFORE_ANSWER).await;
        if !has_unread_input() || !discard_typed_input() {
            return;
        }
    }
}

/// Reads one line; `None` at the end of input. Dropping the future stops the reading, so that the
/// next caller gets the next line.
pub(super) async fn read_stdin_line() -> Option<String> {
    let (done, line) = oneshot::channel();
    // Read on a thread: a read of a terminal cannot be cancelled, and must not delay the exit.
    std::thread::spawn(move || {
        if let Some(line) = read_stdin_line_until_cancelled(|| done.is_closed()) {
            let _ = done.send(line);
        }
    });
    line.await.ok()
}

/// Reads one line without echo. Calls `asks` once echo is off. The caller must hold an
/// [`ExitOnSignalGuard`], so that echo is restored even if a signal ends the process.
pub(super) async fn read_secret(asks: impl FnOnce()) -> Option<String> {
    let _hidden = EchoOffGuard::new();
    asks();
    read_stdin_line().await
}

/// State that the terminal had before echo was switched off, to restore it.
static TERMINAL_STATE_BEFORE_ECHO_OFF: Mutex<Option<Termios>> = Mutex::new(None);

/// Guard that keeps the terminal's echo off until it is dropped.
struct EchoOffGuard;

impl EchoOffGuard {
    fn new() -> Self {
        if let Ok(before) = tcgetattr(std::io::stdin()) {
            let mut hidden = before.clone();
            hidden.local_modes.remove(LocalModes::ECHO);
            *lock_ignoring_poison(&TERMINAL_STATE_BEFORE_ECHO_OFF) = Some(before);
            // If the terminal refuses, the typed line is simply echoed.
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &hidden);
        }
        Self
    }
}

impl Drop for EchoOffGuard {
    fn drop(&mut self) {
        restore_echo();
    }
}

fn restore_echo() {
    if let Some(before) = lock_ignoring_poison(&TERMINAL_STATE_BEFORE_ECHO_OFF).take() {
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &before);
    }
}

/// Guard under which the program exits at once at Ctrl-C, SIGTERM or the closing of the terminal.
/// For use while a session is prepared, when only the terminal needs cleanup.
///
/// Restores echo itself, because a signal's default action is lost for good once a handler was
/// registered.
pub(super) struct ExitOnSignalGuard(JoinHandle<()>);

impl ExitOnSignalGuard {
    /// Registers the signal handlers.
    ///
    /// # Errors
    /// The signal handlers cannot be registered.
    pub(super) fn new() -> std::io::Result<Self> {
        let mut interrupts = ShutdownSignals::listen_for_interrupts()?;
        Ok(Self(tokio::spawn(async move {
            interrupts.wait_for_signal().await;
            restore_echo();
            std::process::exit(130);
        })))
    }
}

impl Drop for ExitOnSignalGuard {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Whether standard input has bytes that were not read yet.
fn has_unread_input() -> bool {
    let stdin = std::io::stdin();
    let mut wanted = [PollFd::new(&stdin, PollFlags::IN)];
    let now = Timespec::default();
    poll(&mut wanted, Some(&now)).is_ok_and(|n_ready| n_ready > 0)
        && wanted.iter().all(|fd| fd.revents() == PollFlags::IN)
}

fn read_stdin_line_until_cancelled(is_over: impl Fn() -> bool) -> Option<String> {
    let stdin = std::io::stdin();
    let patience = Timespec::try_from(READER_POLL_INTERVAL).ok()?;
    loop {
        if is_over() {
            return None;
        }
        let mut wanted = [PollFd::new(&stdin, PollFlags::IN)];
        match poll(&mut wanted, Some(&patience)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => break,
            Err(_) => return None,
        }
    }
    // Bypass the buffer of `std`, because bytes that it has read ahead could not be discarded.
    let mut bytes = [0; MAX_INPUT_LINE_BYTES];
    let n_read = rustix::io::read(&stdin, &mut bytes).ok()?;
    let text = String::from_utf8_lossy(bytes.get(..n_read)?);
    (n_read > 0).then(|| text.lines().next().unwrap_or_default().to_owned())
}
