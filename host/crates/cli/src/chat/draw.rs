//! Draws the chat: finished lines once, and below them the region that still changes, with the
//! editor or a question.

use super::recall;
use anyhow::Context;
use tokio::time::Instant;

use super::super::render::{DIM, WARN, one_line, style_text};
use super::super::terminal::TerminalSize;
use super::ask::TerminalRoom;
use super::calls::output_row;
use super::editor::{LineEditor, MARK};
use super::live::LiveChat;
use super::screen::ScreenRegion;

/// Maximum number of output lines that are shown while the person's own command runs.
const N_LIVE_LINES: usize = 10;

impl LiveChat {
    pub(super) fn draw_screen(&mut self) -> anyhow::Result<()> {
        let finished = match &self.question {
            // Hold back finished lines while a question is open, so that it does not move. The
            // lines that led to it are above it already.
            Some(question) if question.is_drawn() => Vec::new(),
            _ => self.view.take_finished(),
        };
        if let Some(question) = &mut self.question {
            question.draws_at(Instant::now());
        }
        let region = self.region();
        self.screen
            .draw_region(&finished, region)
            .context("write to the terminal")?;
        self.last_draw = Instant::now();
        if let Some(question) = &mut self.question {
            question.note_drawn(self.last_draw);
        }
        self.is_dirty = false;
        Ok(())
    }

    pub(super) fn room(&self) -> TerminalRoom {
        answer_room(self.screen.size(), &self.answer)
    }

    fn region(&self) -> ScreenRegion {
        let size = self.screen.size();
        let (above, editor, below) = match &self.question {
            Some(question) => (question.render_rows(self.room()), &self.answer, Vec::new()),
            None => match &self.picker {
                Some(picker) => {
                    let mut above = self.above();
                    above.extend(picker.rows(size.rows));
                    (above, &picker.query, self.below())
                }
                None => (self.above(), &self.editor, self.below()),
            },
        };
        layout_region(size, above, editor, below, self.question.is_some())
    }

    /// Returns the rows above the editor: the unfinished answer, the waiting texts, the running `!`
    /// command and the open search.
    fn above(&self) -> Vec<String> {
        let mut rows = self.view.live();
        rows.push(String::new());
        let width = self.screen.size().columns.saturating_sub(MARK.len() + 12);
        for waiting in self.steering.waiting() {
            let what = if waiting.is_follow_up {
                "later"
            } else {
                "next"
            };
            let typed = self.waiting.get(&waiting.number);
            let text = typed.map_or(&*waiting.input.text, |typed| &typed.text);
            let text = one_line(text, width);
            rows.push(style_text(DIM, format_args!("  ↳ {what}: {text}")));
        }
        if let Some(command) = self.shell.running() {
            let command = one_line(command, width);
            let keys = match self.worker.is_running() {
                true => "Ctrl-C ends the turn first",
                false => "Ctrl-C ends it",
            };
            rows.push(style_text(DIM, format_args!("  ! {command} runs; {keys}")));
            let lines = self.shell.last_lines(N_LIVE_LINES);
            let columns = self.screen.size().columns;
            rows.extend(lines.iter().map(|line| output_row(line, columns)));
        }
        rows.extend(recall::search_row(self));
        if !self.asked.is_empty() {
            rows.push(style_text(
                WARN,
                "  ? a question waits until you stop typing",
            ));
        }
        rows
    }

    fn below(&self) -> Vec<String> {
        let mut rows = self.menu.rows();
        if self.is_quitting() && !self.worker.is_running() {
            rows.push(style_text(WARN, "Ctrl-C again quits"));
        }
        rows.push(self.view.status.line());
        if self.worker.is_running() {
            let keys = match self.interrupted {
                Some(_) if self.worker.is_turn() => "ending the turn; Ctrl-C again quits",
                Some(_) => "ending the command; Ctrl-C again quits",
                None if self.worker.is_turn() => {
                    "Enter steers · Tab queues for later · Ctrl-C ends the turn"
                }
                None => "Enter sends when the command has ended · Ctrl-C ends it",
            };
            rows.push(style_text(DIM, keys));
        }
        rows
    }
}

/// Lays out an editor between the rows above and below it. Drops rows from the top if they do not
/// all fit, but none of a question, whose first row must stay.
pub(super) fn layout_region(
    size: TerminalSize,
    above: Vec<String>,
    editor: &LineEditor,
    below: Vec<String>,
    is_question: bool,
) -> ScreenRegion {
    let laid = editor.layout_rows(size.columns, (size.rows / 2).max(1));
    let n_beside = laid.rows.len() + below.len() + 1;
    let n_skipped = match is_question {
        // `Screen::fit_region` cuts rows only on very low screens.
        true => 0,
        false => (above.len() + n_beside).saturating_sub(size.rows),
    };
    let mut rows: Vec<String> = above.into_iter().skip(n_skipped).collect();
    let (row, column) = laid.cursor;
    let cursor = Some((rows.len() + row, column));
    rows.extend(laid.rows);
    rows.extend(below);
    ScreenRegion { rows, cursor }
}

/// Returns the size of the terminal, and the number of rows that the editor of the answer takes.
pub(super) fn answer_room(size: TerminalSize, answer: &LineEditor) -> TerminalRoom {
    let laid = answer.layout_rows(size.columns, (size.rows / 2).max(1));
    TerminalRoom {
        size,
        n_typed: laid.rows.len(),
    }
}
