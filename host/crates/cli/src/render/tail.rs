//! Draws the unfinished end of an answer on a terminal, and redraws it when more text arrives.
//!
//! The drawing must be [erased](DrawnAnswerTail::erase) before anything else is written to the
//! terminal. Start from [`DrawnAnswerTail::draw`].

use std::io::Write;
use std::time::{Duration, Instant};

use super::print_to_stdout;
use crate::terminal::terminal_size;

/// Number of screen rows left free, so that no drawn row scrolls off the screen, where it could not
/// be erased.
const ROWS_LEFT_FREE_ON_SCREEN: usize = 2;

/// Minimum time between two drawings. A model streams faster than a person reads or a slow
/// connection transmits.
const MIN_STREAM_REDRAW_INTERVAL: Duration = Duration::from_millis(50);

/// Rows drawn at the bottom of the terminal, without a line feed after the last one.
#[derive(Default)]
pub(super) struct DrawnAnswerTail {
    rows: Vec<String>,
    /// Number of the last entries in `rows` that are drawn on the screen; 0 if none is drawn.
    n_shown: usize,
    /// Time at which the rows were drawn last; `None` if they were never drawn.
    drawn: Option<Instant>,
}

impl DrawnAnswerTail {
    /// Whether [`MIN_STREAM_REDRAW_INTERVAL`] has passed since the last drawing.
    pub(super) fn is_redraw_due(&self) -> bool {
        self.drawn
            .is_none_or(|drawn| drawn.elapsed() >= MIN_STREAM_REDRAW_INTERVAL)
    }

    /// Replaces the drawn rows; if the screen has no room for all rows, only the last ones are
    /// drawn.
    pub(super) fn draw(&mut self, rows: Vec<String>) {
        self.erase();
        let room = terminal_size()
            .rows
            .saturating_sub(ROWS_LEFT_FREE_ON_SCREEN)
            .max(1);
        self.n_shown = rows.len().min(room);
        if self.n_shown > 0 {
            print_to_stdout(rows[rows.len() - self.n_shown..].join("\n"));
        }
        self.rows = rows;
        self.drawn = Some(Instant::now());
    }

    /// Removes the drawn rows from the screen.
    pub(super) fn erase(&mut self) {
        let n_up = self.n_shown.saturating_sub(1);
        if std::mem::take(&mut self.n_shown) == 0 {
            return;
        }
        // Write to standard output directly: `anstream` would remove the control sequences that
        // erase rows if colors are off.
        let mut out = std::io::stdout().lock();
        let up = match n_up {
            0 => String::new(),
            n => format!("\x1b[{n}A"),
        };
        let _ = write!(out, "\r{up}\x1b[J").and_then(|()| out.flush());
    }

    /// Keeps the drawn rows on the terminal, by moving to the line below them, if exactly `rows`
    /// are drawn and all are on the screen. Returns whether the rows were kept.
    pub(super) fn keep_rows_if_fully_drawn(&mut self, rows: &[String]) -> bool {
        let is_whole = self.n_shown > 0 && self.n_shown == rows.len() && self.rows == rows;
        if is_whole {
            print_to_stdout("\n");
            self.n_shown = 0;
        }
        is_whole
    }

    /// Forgets the drawing without erasing it, because the cursor is no longer at its end.
    pub(super) fn forget_rows_without_erasing(&mut self) {
        self.n_shown = 0;
    }
}
