//! The terminal of the person: its size, input line by line, discarding of input typed before a
//! question, and the restoring of its earlier state.

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

use super::signals::AnySignal;
use rind_lib::lock::lock;

/// Size that is assumed if the terminal does not report one.
const USUAL: TerminalSize = TerminalSize {
    columns: 80,
    rows: 24,
};

/// Smallest size that a question is laid out for. On a smaller screen it scrolls.
const SMALLEST: TerminalSize = TerminalSize {
    columns: 24,
    rows: 8,
};

/// Period at which a reader checks whether its answer is still wanted.
const PATIENCE: Duration = Duration::from_millis(50);

/// Time without a key before a question can be answered: a key meant for something else must not
/// answer a question that the person has not read.
pub(super) const QUIET: Duration = Duration::from_millis(600);

/// Longest line that is read. Terminals end theirs at 4096 bytes.
const MAX_LINE_BYTES: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TerminalSize {
    pub(super) columns: usize,
    pub(super) rows: usize,
}

/// Whether there is a person to ask.
pub(super) fn can_ask() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

pub(super) fn terminal_size() -> TerminalSize {
    let told = tcgetwinsize(std::io::stderr()).ok().map(|size| size.ws_row);
    let rows = told
        .filter(|rows| *rows > 0)
        .map_or(USUAL.rows, usize::from);
    TerminalSize {
        columns: terminal_columns(std::io::stderr()).unwrap_or(USUAL.columns),
        rows: rows.max(SMALLEST.rows),
    }
}

/// Returns the columns of a terminal; `None` when the stream is not one, or its size is unknown.
pub(super) fn terminal_columns(stream: impl AsFd) -> Option<usize> {
    let told = tcgetwinsize(stream).ok()?.ws_col;
    (told > 0).then(|| usize::from(told).max(SMALLEST.columns))
}

/// Discards unread input, including an unfinished line: it was meant for something else, and must
/// neither answer a question nor reach the shell. Returns whether it could be discarded.
pub(super) fn drop_typed() -> bool {
    let stdin = std::io::stdin();
    // Flush only in the foreground: in the background `tcflush` would stop the process.
    let is_ours = tcgetpgrp(&stdin).is_ok_and(|group| group == rustix::process::getpgrp());
    is_ours && tcflush(&stdin, QueueSelector::IFlush).is_ok()
}

/// Waits until no line was typed for a moment, and drops earlier lines: they cannot answer a
/// question that was only just shown.
pub(super) async fn settle_terminal() {
    loop {
        tokio::time::sleep(QUIET).await;
        if !has_line() || !drop_typed() {
            return;
        }
    }
}

/// Reads one line; `None` at the end of input. Dropping the future stops the reading, so that a
/// later line is left for the next caller.
pub(super) async fn read_line() -> Option<String> {
    let (done, line) = oneshot::channel();
    // Read on a thread: a terminal read cannot be cancelled, and must not delay the exit.
    std::thread::spawn(move || {
        if let Some(line) = wait_for_line(|| done.is_closed()) {
            let _ = done.send(line);
        }
    });
    line.await.ok()
}

/// Reads one line without echo. Calls `asks` once echo is off. Use it under an [`ExitAtSignals`],
/// so that echo is restored however the process ends.
pub(super) async fn read_secret(asks: impl FnOnce()) -> Option<String> {
    let _hidden = HiddenEcho::new();
    asks();
    read_line().await
}

/// State of the terminal before echo was switched off.
static SHOWN: Mutex<Option<Termios>> = Mutex::new(None);

/// Guard that keeps the echo of the terminal off.
struct HiddenEcho;

impl HiddenEcho {
    fn new() -> Self {
        if let Ok(before) = tcgetattr(std::io::stdin()) {
            let mut hidden = before.clone();
            hidden.local_modes.remove(LocalModes::ECHO);
            *lock(&SHOWN) = Some(before);
            // If the terminal refuses, the line is echoed as usual.
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &hidden);
        }
        Self
    }
}

impl Drop for HiddenEcho {
    fn drop(&mut self) {
        show_again();
    }
}

fn show_again() {
    if let Some(before) = lock(&SHOWN).take() {
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &before);
    }
}

/// Guard that ends the program at Ctrl-C, at the closing of the terminal and at `kill`: while a
/// session is prepared, only the terminal needs cleanup. Once a process has listened for a signal,
/// its default action is gone for good.
pub(super) struct ExitAtSignals(JoinHandle<()>);

impl ExitAtSignals {
    /// # Errors
    /// The signals cannot be listened for.
    pub(super) fn new() -> std::io::Result<Self> {
        let mut interrupts = AnySignal::interrupts()?;
        Ok(Self(tokio::spawn(async move {
            interrupts.recv_signal().await;
            show_again();
            std::process::exit(130);
        })))
    }
}

impl Drop for ExitAtSignals {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Whether a line was typed and not read yet.
fn has_line() -> bool {
    let stdin = std::io::stdin();
    let mut wanted = [PollFd::new(&stdin, PollFlags::IN)];
    let now = Timespec::default();
    poll(&mut wanted, Some(&now)).is_ok_and(|n_ready| n_ready > 0)
        && wanted.iter().all(|fd| fd.revents() == PollFlags::IN)
}

fn wait_for_line(is_over: impl Fn() -> bool) -> Option<String> {
    let stdin = std::io::stdin();
    let patience = Timespec::try_from(PATIENCE).ok()?;
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
    // Bypass the buffer of `std`: bytes that it read ahead could not be dropped.
    let mut bytes = [0; MAX_LINE_BYTES];
    let n_read = rustix::io::read(&stdin, &mut bytes).ok()?;
    let text = String::from_utf8_lossy(bytes.get(..n_read)?);
    (n_read > 0).then(|| text.lines().next().unwrap_or_default().to_owned())
}
