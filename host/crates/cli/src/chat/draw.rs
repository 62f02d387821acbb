//! Draws the chat. Finished lines are drawn once. The region below them is redrawn and contains the
//! editor or a question.

use super::recall;
use anyhow::Context;
use tokio::time::Instant;

use super::super::render::{DIM_STYLE, WARNING_STYLE, style_text, truncate_to_one_line};
use super::super::terminal::TerminalSize;
use super::ask::QuestionScreenSize;
use super::calls::format_output_row;
use super::editor::{ChatInputEditor, FIRST_EDITOR_ROW_PREFIX};
use super::live::LiveChat;
use super::screen::RedrawnRowsWithCursor;

/// Maximum number of output lines that are shown while a shell command of the person runs.
const MAX_RUNNING_SHELL_OUTPUT_LINES: usize = 10;

impl LiveChat {
    pub(super) fn draw_screen(&mut self) -> anyhow::Result<()> {
        let finished = match &self.question {
            // Hold back finished lines while a question is open, so that the question does not
            // move. The lines from before the question are already on the screen.
            Some(question) if question.is_question_drawn() => Vec::new(),
            _ => self.view.take_finished_rows(),
        };
        if let Some(question) = &mut self.question {
            question.enable_keys_if_visible_long_enough(Instant::now());
        }
        let region = self.build_redrawn_screen_rows();
        self.screen
            .draw_region(&finished, region)
            .context("cannot write to the terminal")?;
        self.last_draw = Instant::now();
        if let Some(question) = &mut self.question {
            question.record_question_drawn(self.last_draw);
        }
        self.is_dirty = false;
        Ok(())
    }

    pub(super) fn available_question_space(&self) -> QuestionScreenSize {
        question_screen_size(self.screen.size(), &self.answer)
    }

    fn build_redrawn_screen_rows(&self) -> RedrawnRowsWithCursor {
        let size = self.screen.size();
        let (above, editor, below) = match &self.question {
            Some(question) => (
                question.render_rows(self.available_question_space()),
                &self.answer,
                Vec::new(),
            ),
            None => match &self.picker {
                Some(picker) => {
                    let mut above = self.rows_above_editor();
                    above.extend(picker.render_rows(size.rows));
                    (above, &picker.query, self.rows_below_editor())
                }
                None => (
                    self.rows_above_editor(),
                    &self.editor,
                    self.rows_below_editor(),
                ),
            },
        };
        layout_editor_region(size, above, editor, below, self.question.is_some())
    }

    /// Returns the rows above the editor: the unfinished answer of the model, the waiting texts,
    /// the running `!` command and the open search of the history.
    fn rows_above_editor(&self) -> Vec<String> {
        let mut rows = self.view.redrawn_rows();
        rows.push(String::new());
        let width = self
            .screen
            .size()
            .columns
            .saturating_sub(FIRST_EDITOR_ROW_PREFIX.len() + 12);
        for waiting in self.steering.waiting_texts() {
            let what = if waiting.is_follow_up {
                "later"
            } else {
                "next"
            };
            let typed = self.waiting.get(&waiting.number);
            let text = typed.map_or(&*waiting.input.text, |typed| &typed.text);
            let text = truncate_to_one_line(text, width);
            rows.push(style_text(DIM_STYLE, format_args!("  ↳ {what}: {text}")));
        }
        if let Some(command) = self.shell.running_command() {
            let command = truncate_to_one_line(command, width);
            let keys = match self.worker.is_job_running() {
                true => "Ctrl-C ends the turn first",
                false => "Ctrl-C ends it",
            };
            rows.push(style_text(
                DIM_STYLE,
                format_args!("  ! {command} runs; {keys}"),
            ));
            let lines = self.shell.last_output_lines(MAX_RUNNING_SHELL_OUTPUT_LINES);
            let columns = self.screen.size().columns;
            rows.extend(lines.iter().map(|line| format_output_row(line, columns)));
        }
        rows.extend(recall::render_history_search_row(self));
        if !self.asked.is_empty() {
            rows.push(style_text(
                WARNING_STYLE,
                "  ? a question waits until you stop typing",
            ));
        }
        rows
    }

    fn rows_below_editor(&self) -> Vec<String> {
        let mut rows = self.menu.render_rows();
        if self.is_awaiting_second_ctrl_c() && !self.worker.is_job_running() {
            rows.push(style_text(WARNING_STYLE, "Ctrl-C again quits"));
        }
        rows.push(self.view.status.format_line());
        if self.worker.is_job_running() {
            let keys = match self.interrupted {
                Some(_) if self.worker.is_turn_running() => "ending the turn; Ctrl-C again quits",
                Some(_) => "ending the command; Ctrl-C again quits",
                None if self.worker.is_turn_running() => {
                    "Enter steers · Tab queues for later · Ctrl-C ends the turn"
                }
                None => "Enter sends when the command has ended · Ctrl-C ends it",
            };
            rows.push(style_text(DIM_STYLE, keys));
        }
        rows
    }
}

/// Lays out an editor between the rows above and below it. If not all rows fit, drops rows from the
/// top. Never drops rows of a question, whose first row must stay visible.
pub(super) fn layout_editor_region(
    size: TerminalSize,
    above: Vec<String>,
    editor: &ChatInputEditor,
    below: Vec<String>,
    is_question: bool,
) -> RedrawnRowsWithCursor {
    let laid = editor.layout_rows(size.columns, (size.rows / 2).max(1));
    let n_beside = laid.rows.len() + below.len() + 1;
    let n_skipped = match is_question {
        // `ChatScreen::fit_rows_to_screen` drops rows of a question only on very low screens.
        true => 0,
        false => (above.len() + n_beside).saturating_sub(size.rows),
    };
    let mut rows: Vec<String> = above.into_iter().skip(n_skipped).collect();
    let (row, column) = laid.cursor;
    let cursor = Some((rows.len() + row, column));
    rows.extend(laid.rows);
    rows.extend(below);
    RedrawnRowsWithCursor { rows, cursor }
}

/// Returns the size of the terminal, and the number of rows that the typed answer needs.
pub(super) fn question_screen_size(
    size: TerminalSize,
    answer: &ChatInputEditor,
) -> QuestionScreenSize {
    let laid = answer.layout_rows(size.columns, (size.rows / 2).max(1));
    QuestionScreenSize {
        size,
        n_typed: laid.rows.len(),
    }
}
