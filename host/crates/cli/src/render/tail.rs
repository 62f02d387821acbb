//! The open end of an answer on a terminal: drawn as it looks now, and redrawn when more text
//! arrives.
//!
//! Must be [erased](DrawnTail::erase) before anything else is written to the terminal. Start from
//! [`DrawnTail::draw`].

use std::io::Write;
use std::time::{Duration, Instant};

use super::print_answer;
use crate::terminal::terminal_size;

/// Rows of the screen that are left free, so that no drawn row has left the screen when it is to be
/// erased.
const FREE_ROWS: usize = 2;

/// Shortest time between two drawings: a model sends its words faster than a person or a slow line
/// takes them.
const INTERVAL: Duration = Duration::from_millis(50);

/// Rows that stand at the end of the terminal, without a line feed after the last.
#[derive(Default)]
pub(super) struct DrawnTail {
    rows: Vec<String>,
    /// Number of the last of these rows that are on the screen.
    n_shown: usize,
    /// Time of the last drawing.
    drawn: Option<Instant>,
}

impl DrawnTail {
    /// Whether it is time to draw again.
    pub(super) fn is_due(&self) -> bool {
        self.drawn.is_none_or(|drawn| drawn.elapsed() >= INTERVAL)
    }

    /// Replaces the drawn rows; if the screen has no room for all rows, only the last ones are
    /// drawn.
    pub(super) fn draw(&mut self, rows: Vec<String>) {
        self.erase();
        let room = terminal_size().rows.saturating_sub(FREE_ROWS).max(1);
        self.n_shown = rows.len().min(room);
        if self.n_shown > 0 {
            print_answer(rows[rows.len() - self.n_shown..].join("\n"));
        }
        self.rows = rows;
        self.drawn = Some(Instant::now());
    }

    /// Removes the rows from the screen.
    pub(super) fn erase(&mut self) {
        let n_up = self.n_shown.saturating_sub(1);
        if std::mem::take(&mut self.n_shown) == 0 {
            return;
        }
        // Not through the writer of answers, which removes such sequences where colors are off.
        let mut out = std::io::stdout().lock();
        let up = match n_up {
            0 => String::new(),
            n => format!("\x1b[{n}A"),
        };
        let _ = write!(out, "\r{up}\x1b[J").and_then(|()| out.flush());
    }

    /// Ends the rows with a line feed if they are just these and whole on the screen. Returns
    /// whether they were.
    pub(super) fn retain_rows(&mut self, rows: &[String]) -> bool {
        let is_whole = self.n_shown > 0 && self.n_shown == rows.len() && self.rows == rows;
        if is_whole {
            print_answer("\n");
            self.n_shown = 0;
        }
        is_whole
    }

    /// Leaves the rows on the screen as they are, because the cursor is elsewhere now.
    pub(super) fn leave(&mut self) {
        self.n_shown = 0;
    }
}
