//! The terminal that a person types at: its size, one line of input at a time, and what was typed before it was asked for.

use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{
    LocalModes, OptionalActions, QueueSelector, Termios, tcflush, tcgetattr, tcgetpgrp,
    tcgetwinsize, tcsetattr,
};
use tokio::sync::oneshot;

/// Size that is assumed where a terminal does not tell its own.
const USUAL: Size = Size {
    columns: 80,
    rows: 24,
};

/// Smallest size that a question is laid out for. On a smaller screen it scrolls.
const SMALLEST: Size = Size {
    columns: 24,
    rows: 8,
};

/// Period at which a reader checks whether its answer is still wanted.
const PATIENCE: Duration = Duration::from_millis(50);

/// Longest line that is read. Terminals end theirs at 4096 bytes.
const MAX_LINE_BYTES: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) columns: usize,
    pub(super) rows: usize,
}

pub(super) fn size() -> Size {
    let told = tcgetwinsize(std::io::stderr()).ok().map(|size| size.ws_row);
    let rows = told
        .filter(|rows| *rows > 0)
        .map_or(USUAL.rows, usize::from);
    Size {
        columns: columns(std::io::stderr()).unwrap_or(USUAL.columns),
        rows: rows.max(SMALLEST.rows),
    }
}

/// Returns the columns of a terminal; `None` when the stream is not one, or its size is unknown.
pub(super) fn columns(stream: impl AsFd) -> Option<usize> {
    let told = tcgetwinsize(stream).ok()?.ws_col;
    (told > 0).then(|| usize::from(told).max(SMALLEST.columns))
}

/// Throws away what was typed and not read yet, also the beginning of a line: it was meant for something else, and must neither
/// answer a question nor reach the shell.
pub(super) fn drop_typed() {
    let stdin = std::io::stdin();
    // In the background this would stop the process.
    let is_ours = tcgetpgrp(&stdin).is_ok_and(|group| group == rustix::process::getpgrp());
    if is_ours {
        let _ = tcflush(&stdin, QueueSelector::IFlush);
    }
}

/// Reads one line; `None` at the end of input. When the future is dropped nothing more is read, so that a line that comes later
/// is there for whoever asks next.
pub(super) async fn read_line() -> Option<String> {
    let (done, line) = oneshot::channel();
    // A thread of its own: a read from a terminal cannot be called off, and must not hold up the exit.
    std::thread::spawn(move || {
        if let Some(line) = wait_for_line(|| done.is_closed()) {
            let _ = done.send(line);
        }
    });
    line.await.ok()
}

/// Reads one line that is not shown while it is typed. `asks` is called when nothing typed shows any more.
pub(super) async fn read_secret(asks: impl FnOnce()) -> Option<String> {
    let _hidden = Hidden::new();
    asks();
    read_line().await
}

/// A terminal that does not show what is typed, as long as this lives.
struct Hidden(Option<Termios>);

impl Hidden {
    fn new() -> Self {
        let before = tcgetattr(std::io::stdin()).ok();
        if let Some(before) = &before {
            let mut hidden = before.clone();
            hidden.local_modes.remove(LocalModes::ECHO);
            // Where it is refused the line is shown, as it is anywhere else.
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &hidden);
        }
        Self(before)
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, before);
        }
    }
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
    // Not through the buffer of `std`: what it read ahead could not be thrown away.
    let mut bytes = [0; MAX_LINE_BYTES];
    let n_read = rustix::io::read(&stdin, &mut bytes).ok()?;
    let text = String::from_utf8_lossy(bytes.get(..n_read)?);
    (n_read > 0).then(|| text.lines().next().unwrap_or_default().to_owned())
}
