//! Draws a progress line with a spinner while the program waits.

use std::io::Write;
use std::time::{Duration, Instant};

use super::super::terminal::terminal_columns;
use super::wrap::text_width;
use super::{DIM_STYLE, style_text, truncate_to_one_line, write_or_buffer_output};

/// Interval at which the line that shows a wait is redrawn.
pub(in super::super) const SPINNER_REDRAW_INTERVAL: Duration = Duration::from_millis(120);

/// Time without output before the line appears, so that it does not appear for short waits.
const WAITING_LINE_DELAY: Duration = Duration::from_millis(400);

const SPINNER_FRAMES: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];

/// Escape sequence that moves to the first column and erases the line.
const ERASE_LINE_SEQUENCE: &str = "\r\x1b[2K";

/// Maximum length of the description in the line, in characters. A line that wraps on a narrow
/// terminal could not be erased.
const MAX_WAIT_DESCRIPTION_CHARS: usize = 60;

/// Maximum width of the line when it ends with output of a command, in columns.
const MAX_PROGRESS_LINE_COLUMNS: usize = 160;

/// Minimum free columns for showing output of a command in the line.
const MIN_COLUMNS_FOR_OUTPUT: usize = 12;

/// Current wait, if any, and the line that shows it. Only
/// [`redraw_on_tick`](Self::redraw_on_tick) draws the line, so other output is
/// safe after [`hide_line_until_next_tick`](Self::hide_line_until_next_tick).
///
/// `indicatif` is not used, because its lines fill the width of the terminal, so that the `^C` that
/// a terminal echoes would move to a new line.
#[derive(Default)]
pub(super) struct WaitStatusLine {
    has_terminal: bool,
    since: Option<(String, Instant)>,
    frame: usize,
    is_shown: bool,
}

impl WaitStatusLine {
    pub(super) fn new(has_terminal: bool) -> Self {
        Self {
            has_terminal,
            ..Self::default()
        }
    }

    /// Starts a wait. If the same wait is already running, its time is not reset.
    pub(super) fn start_wait_if_new(&mut self, what: &str) {
        if self.since.as_ref().is_none_or(|(known, _)| known != what) {
            self.hide_line_until_next_tick();
            self.since = Some((what.to_owned(), Instant::now()));
        }
    }

    /// Whether a wait is in progress, whose line a later tick draws.
    pub(super) fn is_waiting(&self) -> bool {
        self.since.is_some()
    }

    pub(super) fn stop_wait_and_hide_line(&mut self) {
        self.hide_line_until_next_tick();
        self.since = None;
    }

    /// Removes the line from the screen until the next periodic redraw.
    pub(super) fn hide_line_until_next_tick(&mut self) {
        if std::mem::take(&mut self.is_shown) {
            erase_wait_line();
        }
    }

    /// Draws the line that shows what is awaited and for how long, and after it as much of
    /// `output`, the last line of a command's output, as fits.
    pub(super) fn redraw_on_tick(&mut self, output: &str) {
        let Some((what, since)) = &self.since else {
            return;
        };
        let waited = since.elapsed();
        if !self.has_terminal || waited < WAITING_LINE_DELAY {
            return;
        }
        self.frame = (self.frame + 1) % SPINNER_FRAMES.len();
        let mut text = format!(
            "{} {} {} s",
            SPINNER_FRAMES[self.frame],
            truncate_to_one_line(what, MAX_WAIT_DESCRIPTION_CHARS),
            waited.as_secs()
        );
        text.push_str(&truncate_last_output_line_to_columns(
            output,
            text_width(&text),
        ));
        erase_wait_line();
        write_or_buffer_output(style_text(DIM_STYLE, text));
        self.is_shown = true;
    }
}

/// Returns the last line of a command's output, truncated to fit after `n_before` columns of text;
/// empty if too little fits.
fn truncate_last_output_line_to_columns(output: &str, n_before: usize) -> String {
    let columns = terminal_columns(std::io::stderr())
        .unwrap_or(MAX_WAIT_DESCRIPTION_CHARS)
        .min(MAX_PROGRESS_LINE_COLUMNS);
    // Leave the last column free: a line that fills it may wrap.
    let room = columns.saturating_sub(n_before + 1);
    if output.is_empty() || room < MIN_COLUMNS_FOR_OUTPUT {
        return String::new();
    }
    let mut words = String::from(" │ ");
    for character in truncate_to_one_line(output, MAX_PROGRESS_LINE_COLUMNS).chars() {
        words.push(character);
        if text_width(&words) > room {
            words.pop();
            break;
        }
    }
    words
}

/// Erases the line. Writes directly to standard error, because `anstream` strips this sequence like
/// a color if `NO_COLOR` is set.
fn erase_wait_line() {
    let _ = std::io::stderr().write_all(ERASE_LINE_SEQUENCE.as_bytes());
}
