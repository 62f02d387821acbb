//! Draws the screen of a chat: finished lines go into the terminal's own scrollback, and a region
//! below them is redrawn.
//!
//! Keeps track of the terminal's rows that belong to the region. Makes each change with one write
//! in a synchronized update, so that no intermediate state is visible. The module must not know the
//! meaning of the rows. Start from [`ChatScreen::draw_region`].

use std::fmt::Write;

use super::super::render::strip_styles;
use super::super::render::wrap::split_into_characters_and_escapes;
use super::super::terminal::TerminalSize;
use super::tty;

const BEGIN_SYNCHRONIZED_UPDATE_SEQUENCE: &str = "\x1b[?2026h\x1b[?25l";
const END_SYNCHRONIZED_UPDATE_SEQUENCE: &str = "\x1b[?2026l";

/// Bottom rows of the chat, which are redrawn in place. The finished lines above them stay as they
/// were printed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RedrawnRowsWithCursor {
    pub(super) rows: Vec<String>,
    /// Row and column of the cursor, counted from 0; `None` hides the cursor.
    pub(super) cursor: Option<(usize, usize)>,
}

#[derive(Debug)]
pub(super) struct ChatScreen {
    size: TerminalSize,
    has_color: bool,
    /// Region as it was last drawn; `None` if the content of the screen is unknown.
    drawn: Option<RedrawnRowsWithCursor>,
    /// Row of the drawn region in which the terminal's cursor is now.
    at: usize,
}

impl ChatScreen {
    pub(super) fn new(size: TerminalSize, has_color: bool) -> Self {
        Self {
            size,
            has_color,
            drawn: Some(RedrawnRowsWithCursor::default()),
            at: 0,
        }
    }

    pub(super) fn size(&self) -> TerminalSize {
        self.size
    }

    /// Sets the new size of the terminal. The region is redrawn below the existing output.
    pub(super) fn set_terminal_size(&mut self, size: TerminalSize) {
        self.size = size;
        // If the terminal became smaller, upper rows of the region were scrolled out and cannot be
        // redrawn.
        self.at = self.at.min(size.rows.saturating_sub(1));
        self.drawn = None;
    }

    /// Marks the drawn region as unknown, because another program has written to the terminal.
    pub(super) fn invalidate_region(&mut self) {
        (self.drawn, self.at) = (None, 0);
    }

    /// Writes finished lines above the region (the rows at the bottom that are redrawn), and draws
    /// the region.
    pub(super) fn draw_region(
        &mut self,
        finished: &[String],
        region: RedrawnRowsWithCursor,
    ) -> std::io::Result<()> {
        let text = self.build_redraw_output(finished, region);
        if text.is_empty() {
            return Ok(());
        }
        tty::write_text_to_terminal(&text)
    }

    /// Removes the region, so that the shell continues below the finished lines.
    pub(super) fn erase_region(&mut self, finished: &[String]) -> std::io::Result<()> {
        self.draw_region(finished, RedrawnRowsWithCursor::default())?;
        tty::write_text_to_terminal("\x1b[?25h")
    }

    /// Returns the bytes that redraw the terminal: the finished lines, and the changes from the
    /// region that was drawn last to this one.
    pub(super) fn build_redraw_output(
        &mut self,
        finished: &[String],
        mut region: RedrawnRowsWithCursor,
    ) -> String {
        self.fit_rows_to_screen(&mut region);
        let is_known = self.drawn.is_some();
        let drawn = self.drawn.take().unwrap_or_default();
        if is_known && finished.is_empty() && region == drawn {
            self.drawn = Some(drawn);
            return String::new();
        }
        let mut text = String::with_capacity(256);
        text.push_str(BEGIN_SYNCHRONIZED_UPDATE_SEQUENCE);
        text.push('\r');
        append_cursor_up_sequence(&mut text, self.at);
        let is_erased = !is_known || !finished.is_empty() || region.rows.is_empty();
        if is_erased {
            text.push_str("\x1b[J");
        }
        for line in finished {
            for row in line.split('\n') {
                text.push_str(&self.color_row_background(row));
                text.push_str("\r\n");
            }
        }
        for (n, row) in region.rows.iter().enumerate() {
            if n > 0 {
                text.push_str("\r\n");
            }
            // Erase the line before writing the row. Erasing after a row of full width would erase
            // its last letter.
            text.push_str("\x1b[K");
            text.push_str(&self.color_row_background(row));
        }
        let last = region.rows.len().saturating_sub(1);
        if !is_erased && drawn.rows.len() > region.rows.len() {
            text.push_str("\r\n\x1b[J\x1b[A");
        }
        self.at = last;
        if let Some((row, column)) = region.cursor {
            text.push('\r');
            append_cursor_up_sequence(&mut text, last.saturating_sub(row));
            if column > 0 {
                let _ = write!(text, "\x1b[{column}C");
            }
            text.push_str("\x1b[?25h");
            self.at = row;
        }
        text.push_str(END_SYNCHRONIZED_UPDATE_SEQUENCE);
        self.drawn = Some(region);
        text
    }

    /// Fits the region into the screen: drops rows from its top, and truncates rows that are too
    /// wide.
    fn fit_rows_to_screen(&self, region: &mut RedrawnRowsWithCursor) {
        // Keep one row of the screen empty, so that erasing below the region does not scroll.
        let n_more = region
            .rows
            .len()
            .saturating_sub(self.size.rows.saturating_sub(1).max(1));
        region.rows.drain(..n_more);
        if let Some((row, column)) = &mut region.cursor {
            *row = row.saturating_sub(n_more);
            *column = (*column).min(self.size.columns.saturating_sub(1));
        }
        for row in &mut region.rows {
            *row = truncate_row(row, self.size.columns);
        }
    }

    fn color_row_background(&self, row: &str) -> String {
        match self.has_color {
            true => row.to_owned(),
            false => strip_styles(row),
        }
    }
}

fn append_cursor_up_sequence(text: &mut String, n_rows: usize) {
    if n_rows > 0 {
        let _ = write!(text, "\x1b[{n_rows}A");
    }
}

/// Returns the beginning of a row that fits into this number of columns. Keeps all style sequences,
/// even those in the part that is cut off.
pub(super) fn truncate_row(row: &str, columns: usize) -> String {
    let mut clipped = String::with_capacity(row.len());
    let mut width = 0;
    for part in split_into_characters_and_escapes(row) {
        width += part.width.unwrap_or(0);
        if part.width.is_none() || width <= columns {
            clipped.push_str(part.text);
        }
    }
    clipped
}
