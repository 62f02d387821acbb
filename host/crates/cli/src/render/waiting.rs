//! Progress line with a spinner, shown while the program waits.

use std::io::Write;
use std::time::{Duration, Instant};

use super::super::terminal::terminal_columns;
use super::wrap::text_width;
use super::{DIM, one_line, put_line, style_text};

/// Interval at which the line is redrawn.
pub(in super::super) const TICK: Duration = Duration::from_millis(120);

/// Time without output before the line appears: short waits need none.
const PATIENCE: Duration = Duration::from_millis(400);

const FRAMES: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];

/// Sequence that returns to the first column and erases the line.
const ERASE: &str = "\r\x1b[2K";

/// Longest text of the line. It must fit narrow terminals: a wrapped line could not be erased.
const WIDTH: usize = 60;

/// Longest line with the last line of an output behind its text, in columns.
const MAX_COLUMNS: usize = 160;

/// Fewest columns that are worth an output.
const MIN_OUTPUT_COLUMNS: usize = 12;

/// Current wait, if there is one. The line is drawn on [`tick`](Self::draw_tick) alone, so nothing
/// can be written over it as long as it is [hidden](Self::hide_line) first. Not one of
/// `indicatif`'s, because those fill the terminal's whole width, and the `^C` that a terminal shows
/// then moves to a line of its own.
#[derive(Default)]
pub(super) struct WaitLine {
    has_terminal: bool,
    since: Option<(String, Instant)>,
    frame: usize,
    is_shown: bool,
}

impl WaitLine {
    pub(super) fn new(has_terminal: bool) -> Self {
        Self {
            has_terminal,
            ..Self::default()
        }
    }

    /// Starts a wait. A wait for the same thing continues without resetting its time.
    pub(super) fn start_wait(&mut self, what: &str) {
        if self.since.as_ref().is_none_or(|(known, _)| known != what) {
            self.hide_line();
            self.since = Some((what.to_owned(), Instant::now()));
        }
    }

    /// Whether there is something to wait for, so that the next tick draws the line.
    pub(super) fn is_waiting(&self) -> bool {
        self.since.is_some()
    }

    pub(super) fn stop_wait(&mut self) {
        self.hide_line();
        self.since = None;
    }

    /// Removes the line from the screen; the next tick redraws it.
    pub(super) fn hide_line(&mut self) {
        if std::mem::take(&mut self.is_shown) {
            erase_line();
        }
    }

    /// Draws the line, with the last line of an output behind its text as far as there is room.
    pub(super) fn draw_tick(&mut self, output: &str) {
        let Some((what, since)) = &self.since else {
            return;
        };
        let waited = since.elapsed();
        if !self.has_terminal || waited < PATIENCE {
            return;
        }
        self.frame = (self.frame + 1) % FRAMES.len();
        let mut text = format!(
            "{} {} {} s",
            FRAMES[self.frame],
            one_line(what, WIDTH),
            waited.as_secs()
        );
        text.push_str(&output_text(output, text_width(&text)));
        erase_line();
        put_line(style_text(DIM, text));
        self.is_shown = true;
    }
}

/// Returns the last line of an output as the rest of a line that has so many columns already.
fn output_text(output: &str, n_before: usize) -> String {
    let columns = terminal_columns(std::io::stderr())
        .unwrap_or(WIDTH)
        .min(MAX_COLUMNS);
    // A line that fills the last column may wrap.
    let room = columns.saturating_sub(n_before + 1);
    if output.is_empty() || room < MIN_OUTPUT_COLUMNS {
        return String::new();
    }
    let mut words = String::from(" │ ");
    for character in one_line(output, MAX_COLUMNS).chars() {
        words.push(character);
        if text_width(&words) > room {
            words.pop();
            break;
        }
    }
    words
}

/// Erases the line. Past `anstream`, which takes this for color and leaves it out where `NO_COLOR`
/// is set.
fn erase_line() {
    let _ = std::io::stderr().write_all(ERASE.as_bytes());
}
