//! Handles keys and typed texts of a chat in a session whose turns another program runs.

use tokio::time::Instant;

use super::super::super::exit_code::ExitStatus;
use super::super::super::looks;
use super::super::super::render::{
    BOLD_STYLE, DIM_STYLE, format_warning_line, style_text, truncate_to_one_line,
};
use super::super::super::terminal::INPUT_SILENCE_BEFORE_ANSWER;
use super::super::ask::{AnswerLineOutcome, OpenChatQuestion};
use super::super::keys::{KeyCode, TerminalInputEvent, TypedKeyWithModifiers};
use super::super::press::{apply_editing_key, is_likely_question_answer};
use super::super::slash::is_slash_command_line;
use super::AttachedChat;

/// Text of `/help` in a chat whose turns another program runs: its commands and keys.
const ATTACHED_CHAT_HELP_TEXT: &str = "\
Commands: /help, /quit
Keys of the chat:
  Enter        sends; while a turn runs it steers: the model reads it before its next request
  Tab          sends the text as the next input, which waits for the end of the turn
  Up, Down     go through the history
  Ctrl-C       ends the turn, twice leaves the session; so does Ctrl-D on an empty line
  Esc          ends the turn; at a question it answers no as well
  Shift-Enter  begins a line; so do Alt-Enter and Ctrl-J
Leaving changes nothing: turns go on, and questions stay open for others.";

impl AttachedChat {
    pub(super) fn handle_key_input(&mut self, input: TerminalInputEvent) {
        if let TerminalInputEvent::Background(is_light) = input {
            return looks::set_code_palette_for_background(is_light);
        }
        if self.question.is_some() {
            return self.handle_question_key(input);
        }
        let key = match input {
            TerminalInputEvent::Paste(text) => {
                self.last_key = Instant::now();
                return self.editor.paste_text(&text);
            }
            TerminalInputEvent::Key(key) => key,
            _ => return,
        };
        self.last_key = Instant::now();
        match (key.code, key.ctrl, key.alt, key.shift) {
            (KeyCode::Char('c'), true, ..) => self.interrupt_or_leave(),
            (KeyCode::Char('d'), true, ..) if self.editor.is_empty() => {
                self.leaving = Some(ExitStatus::Done);
            }
            (KeyCode::Char('l'), true, ..) => self.screen.invalidate_region(),
            (KeyCode::Esc, ..) => {
                self.stop_turn();
            }
            // Ignore an Enter that was probably meant for a question that has just closed.
            (KeyCode::Enter, false, false, false) if self.has_late_question_answer() => {}
            (KeyCode::Enter, false, false, false) => self.submit_line(false),
            (KeyCode::Tab, false, false, _) => self.submit_line(true),
            (KeyCode::Up, false, false, false) => {
                let now = self.editor.typed_and_pasted_pieces();
                if !self.editor.move_cursor_vertically(true)
                    && let Some(pieces) = self.history.move_to_older_text(&now)
                {
                    self.editor.set_text_pieces(&pieces);
                }
            }
            (KeyCode::Down, false, false, false) => {
                if !self.editor.move_cursor_vertically(false)
                    && let Some(pieces) = self.history.move_to_newer_text()
                {
                    self.editor.set_text_pieces(&pieces);
                }
            }
            _ => {
                apply_editing_key(&mut self.editor, key);
            }
        }
    }

    fn has_late_question_answer(&self) -> bool {
        let is_recent = self
            .closed
            .is_some_and(|at| at.elapsed() < INPUT_SILENCE_BEFORE_ANSWER);
        is_recent && is_likely_question_answer(&self.editor.full_text())
    }

    fn handle_question_key(&mut self, input: TerminalInputEvent) {
        let now = Instant::now();
        let open = self.question.as_mut();
        let is_taken = open.is_some_and(|open| open.should_accept_key(now));
        let key = match input {
            // Insert a paste into the editor, because it is text to write and not an answer.
            TerminalInputEvent::Paste(text) => return self.editor.paste_text(&text),
            TerminalInputEvent::Key(key) => key,
            _ => return,
        };
        match (key.code, key.ctrl) {
            (KeyCode::Char('c'), true) => self.interrupt_or_leave(),
            (KeyCode::Esc, _)
                if self
                    .question
                    .as_mut()
                    .is_some_and(OpenChatQuestion::close_question_page) => {}
            (KeyCode::Esc, _) => self.decline_question(),
            _ if !is_taken => {}
            (KeyCode::Char('d'), true) if self.answer.is_empty() => self.decline_question(),
            (KeyCode::Enter, _) => self.submit_question_answer(),
            _ => {
                apply_editing_key(&mut self.answer, key);
            }
        }
    }

    fn submit_question_answer(&mut self) {
        let (room, line) = (self.available_question_space(), self.answer.full_text());
        let Some(question) = &mut self.question else {
            return;
        };
        let kept = question.question_rows_for_scrollback(room.size);
        // Pass no steering function: the program that runs the session passes the reason of a no to
        // the model.
        match question.handle_answer_line(&line, room, |_| {}) {
            AnswerLineOutcome::NotYet => self.answer.clear_text(),
            AnswerLineOutcome::Invalid => self.answer.clear_text_with_undo(),
            AnswerLineOutcome::Answered(words) => {
                self.answer.clear_text();
                self.close_question();
                kept.into_iter()
                    .for_each(|row| self.view.add_finished_output_line(row));
                let words = format!("  {}", truncate_to_one_line(&words, 400));
                self.view
                    .add_finished_output_line(style_text(BOLD_STYLE, words));
            }
        }
    }

    /// Handles Esc and Ctrl-D in a question: answers with no, and interrupts the turn that asked.
    fn decline_question(&mut self) {
        let size = self.screen.size();
        let Some(question) = self.question.take() else {
            return;
        };
        let kept = question.question_rows_for_scrollback(size);
        kept.into_iter()
            .for_each(|row| self.view.add_finished_output_line(row));
        self.view
            .add_finished_output_line(style_text(BOLD_STYLE, "  no"));
        self.stop_turn();
        question.send_fallback_answer("the user ended the turn");
        self.close_question();
    }

    /// Closes the question. Moves an unfinished answer into the editor of the chat.
    pub(super) fn close_question(&mut self) {
        self.question = None;
        self.closed = Some(Instant::now());
        let begun = self.answer.typed_and_pasted_pieces();
        if !is_likely_question_answer(&self.answer.take_text()) {
            self.editor.prepend_text_pieces(&begun);
        }
    }

    fn submit_line(&mut self, is_next: bool) {
        let text = self.editor.full_text();
        let line = text.trim();
        let is_plain = text.starts_with(' ');
        if line.is_empty() {
            return;
        }
        if !is_plain && (is_slash_command_line(line) || line.starts_with('!')) {
            return self.run_command(line);
        }
        if self.editor.text_before_cursor() == text && text.ends_with('\\') {
            apply_editing_key(
                &mut self.editor,
                TypedKeyWithModifiers::without_modifiers(KeyCode::Backspace),
            );
            return self.editor.insert_typed_character('\n');
        }
        self.history
            .add_sent_text_pieces(&self.editor.typed_and_pasted_pieces());
        self.editor.clear_text();
        match self.is_running && self.is_held && !is_next {
            true => self.steer_turn(text),
            false => self.queue_text_as_session_input(text),
        }
    }

    fn run_command(&mut self, line: &str) {
        let name = line.split_whitespace().next().unwrap_or(line);
        match name {
            "/quit" | "/exit" => self.leaving = Some(ExitStatus::Done),
            "/help" => {
                let lines = ATTACHED_CHAT_HELP_TEXT.lines();
                lines.for_each(|line| {
                    self.view
                        .add_finished_output_line(style_text(DIM_STYLE, line))
                });
            }
            _ => {
                let words = format!(
                    "{} is not available here, because the session runs at a worker; put a blank before the line to send it to the model",
                    truncate_to_one_line(name, 60)
                );
                return self
                    .view
                    .add_finished_output_line(format_warning_line(&words));
            }
        }
        self.editor.clear_text();
    }

    /// Handles Ctrl-C: interrupts the turn, clears the typed text, or leaves the chat.
    fn interrupt_or_leave(&mut self) {
        if self.is_running && self.is_held && !self.is_interrupted {
            self.stop_turn();
        } else if !self.editor.is_empty() {
            self.history
                .add_sent_text_pieces(&self.editor.typed_and_pasted_pieces());
            self.editor.clear_text_with_undo();
        } else if self.is_awaiting_second_ctrl_c() || self.is_interrupted {
            self.leaving = Some(ExitStatus::Done);
        } else {
            self.quitting = Some(Instant::now());
        }
    }
}
