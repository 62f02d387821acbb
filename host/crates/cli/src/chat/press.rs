//! Maps the keys of a chat to actions.

use super::clipboard;
use super::external;
use super::modes;
use super::recall;
use super::slash;
use std::time::Duration;

use tokio::time::Instant;

use super::super::attach;
use super::super::exit_code::ExitStatus;
use super::super::looks;
use super::super::render::{
    BOLD_STYLE, DIM_STYLE, format_warning_line, style_text, truncate_to_one_line,
};
use super::super::terminal::INPUT_SILENCE_BEFORE_ANSWER;
use super::ask::{AnswerLineOutcome, OpenChatQuestion};
use super::complete::CompletionMenu;
use super::editor::EditorCursorTarget;
use super::keys::{KeyCode, TerminalInputEvent, TypedKeyWithModifiers};
use super::live::{LiveChat, NextStepAfterChat};
use super::slash::is_slash_command_line;
use rind_lib::point::payload::Source;

/// Maximum time between two presses of Ctrl-C for the second one to quit the chat.
const MAX_CTRL_C_DOUBLE_PRESS_DELAY: Duration = Duration::from_secs(1);

/// Maximum time between two presses of Ctrl-C on an empty line for the second one to quit the chat:
/// long enough to read the hint about the second press.
pub(super) const MAX_EMPTY_LINE_DOUBLE_PRESS_DELAY: Duration = Duration::from_secs(2);

/// Words that answer a question or turn its pages. They are never sent to the model directly after
/// a question has closed.
const QUESTION_ANSWER_WORDS: [&str; 9] = ["y", "yes", "n", "no", "a", "always", "v", "view", "q"];

impl LiveChat {
    pub(super) fn handle_key_input(&mut self, input: TerminalInputEvent) {
        match input {
            TerminalInputEvent::Focus(is_in_front) => {
                return self.notifier.record_terminal_focus(is_in_front);
            }
            TerminalInputEvent::Background(is_light) => {
                return looks::set_code_palette_for_background(is_light);
            }
            TerminalInputEvent::Answered => return,
            TerminalInputEvent::Key(_) | TerminalInputEvent::Paste(_) => {}
        }
        if self.leaving.is_some() {
            return self.insert_key_during_exit(input);
        }
        if self.question.is_some() {
            return self.handle_question_key(input);
        }
        self.last_key = Instant::now();
        if self.picker.is_some() {
            return self.handle_picker_key(&input);
        }
        if recall::handle_search_key(self, &input) {
            return;
        }
        let key = match input {
            TerminalInputEvent::Paste(text) => return self.paste_text(&text),
            TerminalInputEvent::Key(key) => key,
            _ => return,
        };
        let was_dropped = std::mem::take(&mut self.is_dropped);
        if key == TypedKeyWithModifiers::with_ctrl('c') {
            self.is_dropped = was_dropped;
        }
        match (key.code, key.ctrl, key.alt, key.shift) {
            (KeyCode::Char('c'), true, ..) => self.handle_ctrl_c(),
            (KeyCode::Char('d'), true, ..) if self.editor.is_empty() => {
                self.leaving = Some(NextStepAfterChat::Quit(ExitStatus::Done));
            }
            // Ignore an Enter that was probably meant for a question that has just closed. The text
            // stays in the editor, and a second Enter sends it.
            (KeyCode::Enter, false, false, false) if self.has_late_question_answer() => {}
            (KeyCode::Enter, false, false, false)
                if self
                    .menu
                    .should_enter_key_insert_completion(self.editor.text_before_cursor()) =>
            {
                return self.accept_completion();
            }
            (KeyCode::Enter, false, false, false) => self.submit_line(),
            (KeyCode::Tab, false, false, true) => return modes::switch_to_next_approval_mode(self),
            (KeyCode::Tab, false, false, false)
                if !self.menu.can_change_line(self.editor.text_before_cursor())
                    && self.request_server_completion() =>
            {
                return;
            }
            (KeyCode::Tab, false, false, false) if !self.menu.is_empty() => {
                return self.insert_selected_completion();
            }
            (KeyCode::Tab, false, false, false)
                if self.editor.text_before_cursor().starts_with('!') =>
            {
                return self.complete_shell_word();
            }
            (KeyCode::Tab, false, false, false) if self.worker.is_job_running() => {
                self.send_editor_text(true)
            }
            (KeyCode::Up | KeyCode::Down, false, false, false) if !self.menu.is_empty() => {
                return self.menu.move_selection(key.code == KeyCode::Up);
            }
            (KeyCode::Esc, ..) if !self.menu.is_empty() => {
                self.menu = CompletionMenu::default();
                return;
            }
            (KeyCode::Char('r'), true, ..) => {
                self.menu = CompletionMenu::default();
                return recall::open_or_advance_history_search(self);
            }
            (KeyCode::Char('o'), true, ..) => return self.show_ended_call_picker(),
            (KeyCode::Char('g'), true, ..) => external::edit_prompt_in_external_editor(self),
            (KeyCode::Char('v'), true, ..) => clipboard::read_clipboard_image_in_background(self),
            (KeyCode::Char('l'), true, ..) => self.screen.invalidate_region(),
            (KeyCode::Char('z'), true, ..) => external::suspend_chat(self),
            (KeyCode::Esc, ..) => {
                self.interrupt_running_turn_or_command();
            }
            (KeyCode::Up, false, false, false) | (KeyCode::Char('p'), true, false, false) => {
                self.handle_up_key()
            }
            (KeyCode::Down, false, false, false) | (KeyCode::Char('n'), true, false, false) => {
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
        self.update_completion_menu();
    }

    /// Replaces the typed beginning of a word by the selected completion.
    fn insert_selected_completion(&mut self) {
        if let Some(chosen) = self.menu.selected_entry() {
            let blank = if chosen.text.ends_with(['/', '=', ':']) {
                ""
            } else {
                " "
            };
            let text = format!("{}{blank}", chosen.text);
            self.editor.replace_text_before_cursor(chosen.start, &text);
        }
        self.update_completion_menu();
    }

    /// Proposes files for the last word of a shell command. If only one file fits, completes the
    /// word with it.
    fn complete_shell_word(&mut self) {
        self.menu = CompletionMenu::for_shell_word(
            self.editor.text_before_cursor(),
            &self.setup.paths.workspace,
        );
        if self.menu.has_single_entry() {
            self.insert_selected_completion();
        }
    }

    /// Completes the text with the selected entry of the menu. If the text is then a complete
    /// built-in command, runs it at once.
    fn accept_completion(&mut self) {
        self.insert_selected_completion();
        let line = self.editor.full_text();
        let line = line.trim_end();
        let commands = self.worker.slash_command_set();
        let is_whole = is_slash_command_line(line)
            && commands
                .parse_call(line)
                .is_ok_and(|call| commands.is_built_in_call(&call));
        if is_whole {
            self.menu = CompletionMenu::default();
            self.submit_line();
            self.update_completion_menu();
        }
    }

    /// Adds a key that is pressed while the chat is ending to the typed text, so that the key is
    /// not lost.
    pub(super) fn insert_key_during_exit(&mut self, input: TerminalInputEvent) {
        match input {
            TerminalInputEvent::Paste(text) => self.editor.paste_text(&text),
            TerminalInputEvent::Key(TypedKeyWithModifiers {
                code: KeyCode::Char(letter),
                ctrl: false,
                alt: false,
                ..
            }) => self.editor.insert_typed_character(letter),
            TerminalInputEvent::Key(TypedKeyWithModifiers {
                code: KeyCode::Enter,
                ..
            }) if !self.editor.is_empty() => self.editor.insert_typed_character('\n'),
            _ => {}
        }
    }

    fn paste_text(&mut self, text: &str) {
        match attach::pasted_path_to_mention(text) {
            Some(named) => named
                .chars()
                .for_each(|letter| self.editor.insert_typed_character(letter)),
            None => self.editor.paste_text(text),
        }
        self.update_completion_menu();
    }

    /// Whether Enter was probably pressed for a question that has just closed: the typed text is
    /// only an answer to a question.
    fn has_late_question_answer(&self) -> bool {
        let is_recent = self
            .closed
            .is_some_and(|at| at.elapsed() < INPUT_SILENCE_BEFORE_ANSWER);
        is_recent && is_likely_question_answer(&self.editor.full_text())
    }

    fn handle_question_key(&mut self, input: TerminalInputEvent) {
        let now = Instant::now();
        let is_taken = self
            .question
            .as_mut()
            .is_some_and(|open| open.should_accept_key(now));
        let key = match input {
            // Insert a paste into the editor, because it is text to write and not an answer.
            TerminalInputEvent::Paste(text) => return self.paste_text(&text),
            TerminalInputEvent::Key(key) => key,
            _ => return,
        };
        match (key.code, key.ctrl) {
            (KeyCode::Char('c'), true) => self.handle_ctrl_c(),
            // Return to the question if Esc is pressed on a page of details.
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
        let room = self.available_question_space();
        let line = self.answer.full_text();
        let is_turn = self.worker.is_turn_running();
        let Some(question) = &mut self.question else {
            return;
        };
        let kept = question.question_rows_for_scrollback(room.size);
        let shown_call = question.fully_shown_call_id(room);
        let steering = &self.steering;
        // Pass the reason to the model at once, so that parallel calls do not run before the model
        // has read it. A plugin's command has no model.
        let steer = |why: &str| {
            if is_turn {
                steering.steer(why, Source::Terminal);
            }
        };
        match question.handle_answer_line(&line, room, steer) {
            AnswerLineOutcome::NotYet => self.answer.clear_text(),
            // Keep an invalid answer in the undo history, so that it can be corrected.
            AnswerLineOutcome::Invalid => self.answer.clear_text_with_undo(),
            AnswerLineOutcome::Answered(words) => {
                self.answer.clear_text();
                self.close_question();
                kept.into_iter()
                    .for_each(|row| self.view.add_finished_output_line(row));
                if let Some(call) = shown_call {
                    self.view.mark_file_change_shown_in_approval(call);
                }
                let words = truncate_to_one_line(&words, 400);
                self.view
                    .add_finished_output_line(style_text(BOLD_STYLE, format_args!("  {words}")));
            }
        }
    }

    /// Handles Esc and Ctrl-D in a question: answers with no, and interrupts the turn or command
    /// that asked.
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
        // Stop the turn before answering, because after the answer it would send another request to
        // the model.
        self.interrupt_running_turn_or_command();
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
            self.update_completion_menu();
        }
    }

    pub(super) fn submit_line(&mut self) {
        let text = self.editor.full_text();
        let line = text.trim();
        if is_slash_command_line(line) && !text.starts_with(' ') {
            let line = line.to_owned();
            // Keep a command that cannot be run in the editor, so that the person can correct it.
            if slash::run_command(self, &line) {
                self.editor.clear_text();
                self.history.add_text(&line);
            }
            return;
        }
        if line == "/" && text.starts_with('/') {
            let words = "type the name of a command after the slash; /help lists the commands";
            return self
                .view
                .add_finished_output_line(format_warning_line(words));
        }
        if line.starts_with('!') && !text.starts_with(' ') {
            match self.shell.run_shell_line(line) {
                Ok(()) => {
                    self.history.add_text(line);
                    self.editor.clear_text();
                }
                Err(why) => self
                    .view
                    .add_finished_output_line(format_warning_line(&why)),
            }
            return;
        }
        // A backslash at the end of a line continues it, as in a shell.
        if self.editor.text_before_cursor() == text && text.ends_with('\\') {
            apply_editing_key(
                &mut self.editor,
                TypedKeyWithModifiers::without_modifiers(KeyCode::Backspace),
            );
            return self.editor.insert_typed_character('\n');
        }
        self.send_editor_text(false);
    }

    /// Handles Ctrl-C: interrupts the turn or command, clears the typed text, or quits the chat.
    fn handle_ctrl_c(&mut self) {
        let is_second = self
            .interrupted
            .is_some_and(|at| at.elapsed() < MAX_CTRL_C_DOUBLE_PRESS_DELAY);
        if self.worker.is_job_running() {
            if is_second || !self.interrupt_running_turn_or_command() {
                self.leaving = Some(NextStepAfterChat::Quit(ExitStatus::Interrupted));
            }
        } else if self.shell.interrupt_running_command() {
            self.interrupted = Some(Instant::now());
        } else if self.editor.is_empty() && !is_second && !self.is_awaiting_second_ctrl_c() {
            self.quitting = Some(Instant::now());
        } else if self.editor.is_empty() || is_second {
            if is_second && std::mem::take(&mut self.is_dropped) {
                // Restore the text that the first Ctrl-C cleared, so that it is visible after the
                // chat.
                self.editor.undo_edit();
            }
            self.leaving = Some(NextStepAfterChat::Quit(ExitStatus::Done));
        } else {
            self.is_dropped = !self
                .history
                .add_sent_text_pieces(&self.editor.typed_and_pasted_pieces());
            self.editor.clear_text_with_undo();
            if self.is_dropped {
                let words = "the text is cleared and not kept in the history; Ctrl-_ restores it";
                self.view
                    .add_finished_output_line(style_text(DIM_STYLE, words));
            }
            self.interrupted = Some(Instant::now());
        }
    }

    /// Whether Ctrl-C was pressed on an empty line so recently that pressing it again quits the
    /// chat.
    pub(super) fn is_awaiting_second_ctrl_c(&self) -> bool {
        self.quitting
            .is_some_and(|at| at.elapsed() < MAX_EMPTY_LINE_DOUBLE_PRESS_DELAY)
    }

    /// Interrupts the running turn or command. Returns false if none runs or if it was already
    /// interrupted.
    fn interrupt_running_turn_or_command(&mut self) -> bool {
        let is_new = self.worker.interrupt_running_job();
        if is_new {
            self.interrupted = Some(Instant::now());
            self.return_waiting_texts_to_editor();
        }
        is_new
    }

    /// Moves the cursor a line up, moves the last queued text back into the editor, or goes to an
    /// older text of the history.
    fn handle_up_key(&mut self) {
        if self.editor.move_cursor_vertically(true) {
            return;
        }
        if self.editor.is_empty() && self.return_last_text_to_editor() {
            return;
        }
        let now = self.editor.typed_and_pasted_pieces();
        if let Some(pieces) = self.history.move_to_older_text(&now) {
            self.editor.set_text_pieces(&pieces);
        }
    }
}

/// Whether a text is only an answer to a question: one of [`QUESTION_ANSWER_WORDS`], a number, or
/// empty.
pub(super) fn is_likely_question_answer(text: &str) -> bool {
    let text = text.trim().to_lowercase();
    QUESTION_ANSWER_WORDS.contains(&&*text) || text.chars().all(|letter| letter.is_ascii_digit())
}

/// Applies a key to the text in an editor. Returns whether the key had an effect.
pub(super) fn apply_editing_key(
    editor: &mut super::editor::ChatInputEditor,
    key: TypedKeyWithModifiers,
) -> bool {
    match (key.code, key.ctrl, key.alt) {
        (KeyCode::Char(letter), false, false) => editor.insert_typed_character(letter),
        (KeyCode::Enter, ..) | (KeyCode::Char('j'), true, false) => {
            editor.insert_typed_character('\n')
        }
        (KeyCode::Tab, false, false) => editor.insert_typed_character('\t'),
        (KeyCode::Backspace, false, false) | (KeyCode::Char('h'), true, false) => {
            editor.delete_from_cursor_to(EditorCursorTarget::Left)
        }
        (KeyCode::Backspace, ..) | (KeyCode::Char('w'), true, false) => {
            editor.delete_from_cursor_to(EditorCursorTarget::WordLeft)
        }
        (KeyCode::Delete, ..) | (KeyCode::Char('d'), true, false) => {
            editor.delete_from_cursor_to(EditorCursorTarget::Right)
        }
        (KeyCode::Char('d'), false, true) => {
            editor.delete_from_cursor_to(EditorCursorTarget::WordRight)
        }
        (KeyCode::Char('u'), true, false) => {
            editor.delete_from_cursor_to(EditorCursorTarget::LineStart)
        }
        (KeyCode::Char('k'), true, false) => {
            editor.delete_from_cursor_to(EditorCursorTarget::LineEnd)
        }
        (KeyCode::Char('y'), true, false) => editor.yank_deleted_text(),
        (KeyCode::Char('_' | 'z'), true, false) => editor.undo_edit(),
        (KeyCode::Left, false, false) | (KeyCode::Char('b'), true, false) => {
            editor.move_cursor(EditorCursorTarget::Left)
        }
        (KeyCode::Right, false, false) | (KeyCode::Char('f'), true, false) => {
            editor.move_cursor(EditorCursorTarget::Right)
        }
        (KeyCode::Left, ..) | (KeyCode::Char('b'), false, true) => {
            editor.move_cursor(EditorCursorTarget::WordLeft)
        }
        (KeyCode::Right, ..) | (KeyCode::Char('f'), false, true) => {
            editor.move_cursor(EditorCursorTarget::WordRight)
        }
        (KeyCode::Home, ..) | (KeyCode::Char('a'), true, false) => {
            editor.move_cursor(EditorCursorTarget::LineStart)
        }
        (KeyCode::End, ..) | (KeyCode::Char('e'), true, false) => {
            editor.move_cursor(EditorCursorTarget::LineEnd)
        }
        _ => return false,
    }
    true
}
