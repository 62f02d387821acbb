//! Handles the keys of a chat.

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
use super::super::render::{BOLD, DIM, one_line, style_text, warning_text};
use super::super::terminal::QUIET;
use super::ask::{LineEffect, OpenQuestion};
use super::complete::CompletionMenu;
use super::editor::EditTarget;
use super::keys::{KeyCode, KeyInput, TypedKey};
use super::live::{ChatExit, LiveChat};
use super::slash::is_command;
use rind_lib::point::payload::Source;

/// Maximum time between two Ctrl-C of which the second quits.
const TWICE: Duration = Duration::from_secs(1);

/// Maximum time between two Ctrl-C on an empty line of which the second quits: long enough to read
/// the hint about it.
pub(super) const QUITS: Duration = Duration::from_secs(2);

/// Words that answer a question or page through it, and that mean nothing as a message.
const ANSWERS: [&str; 9] = ["y", "yes", "n", "no", "a", "always", "v", "view", "q"];

impl LiveChat {
    pub(super) fn press_key(&mut self, input: KeyInput) {
        match input {
            KeyInput::Focus(is_in_front) => return self.notifier.note_focus(is_in_front),
            KeyInput::Background(is_light) => return looks::set_background(is_light),
            KeyInput::Answered => return,
            KeyInput::Key(_) | KeyInput::Paste(_) => {}
        }
        if self.leaving.is_some() {
            return self.keep_typed(input);
        }
        if self.question.is_some() {
            return self.press_in_question(input);
        }
        self.last_key = Instant::now();
        if self.picker.is_some() {
            return self.press_in_picker(&input);
        }
        if recall::press_in_search(self, &input) {
            return;
        }
        let key = match input {
            KeyInput::Paste(text) => return self.paste_text(&text),
            KeyInput::Key(key) => key,
            _ => return,
        };
        let was_dropped = std::mem::take(&mut self.is_dropped);
        if key == TypedKey::ctrl_key('c') {
            self.is_dropped = was_dropped;
        }
        match (key.code, key.ctrl, key.alt, key.shift) {
            (KeyCode::Char('c'), true, ..) => self.interrupt_job(),
            (KeyCode::Char('d'), true, ..) if self.editor.is_empty() => {
                self.leaving = Some(ChatExit::Quit(ExitStatus::Done));
            }
            // Ignore an Enter meant for a question that has just closed. The text stays; a second
            // Enter sends it.
            (KeyCode::Enter, false, false, false) if self.is_late_answer() => {}
            (KeyCode::Enter, false, false, false)
                if self.menu.takes_enter(self.editor.before()) =>
            {
                return self.take_entry();
            }
            (KeyCode::Enter, false, false, false) => self.enter_line(),
            (KeyCode::Tab, false, false, true) => return modes::switch_mode(self),
            (KeyCode::Tab, false, false, false)
                if !self.menu.has_more(self.editor.before()) && self.complete_at_server() =>
            {
                return;
            }
            (KeyCode::Tab, false, false, false) if !self.menu.is_empty() => {
                return self.complete_line();
            }
            (KeyCode::Tab, false, false, false) if self.editor.before().starts_with('!') => {
                return self.complete_shell();
            }
            (KeyCode::Tab, false, false, false) if self.worker.is_running() => self.send_line(true),
            (KeyCode::Up | KeyCode::Down, false, false, false) if !self.menu.is_empty() => {
                return self.menu.move_choice(key.code == KeyCode::Up);
            }
            (KeyCode::Esc, ..) if !self.menu.is_empty() => {
                self.menu = CompletionMenu::default();
                return;
            }
            (KeyCode::Char('r'), true, ..) => {
                self.menu = CompletionMenu::default();
                return recall::search_history(self);
            }
            (KeyCode::Char('o'), true, ..) => return self.pick_call(),
            (KeyCode::Char('g'), true, ..) => external::open_editor(self),
            (KeyCode::Char('v'), true, ..) => clipboard::paste_image(self),
            (KeyCode::Char('l'), true, ..) => self.screen.forget_region(),
            (KeyCode::Char('z'), true, ..) => external::suspend_chat(self),
            (KeyCode::Esc, ..) => {
                self.stop_turn();
            }
            (KeyCode::Up, false, false, false) | (KeyCode::Char('p'), true, false, false) => {
                self.take_older()
            }
            (KeyCode::Down, false, false, false) | (KeyCode::Char('n'), true, false, false) => {
                if !self.editor.go_line(false)
                    && let Some(pieces) = self.history.newer_line()
                {
                    self.editor.set_pieces(&pieces);
                }
            }
            _ => {
                edit_line(&mut self.editor, key);
            }
        }
        self.propose_completions();
    }

    /// Replaces the typed prefix by the chosen completion.
    fn complete_line(&mut self) {
        if let Some(chosen) = self.menu.chosen() {
            let blank = if chosen.text.ends_with(['/', '=', ':']) {
                ""
            } else {
                " "
            };
            let text = format!("{}{blank}", chosen.text);
            self.editor.complete_word(chosen.start, &text);
        }
        self.propose_completions();
    }

    /// Proposes files for the last word of a shell command, or completes the word if only one fits.
    fn complete_shell(&mut self) {
        self.menu = CompletionMenu::of_shell(self.editor.before(), &self.setup.paths.workspace);
        if self.menu.has_one() {
            self.complete_line();
        }
    }

    /// Completes the text with the marked entry. If the result is a complete built-in command, runs
    /// it at once.
    fn take_entry(&mut self) {
        self.complete_line();
        let line = self.editor.whole();
        let line = line.trim_end();
        let commands = self.worker.commands();
        let is_whole = is_command(line)
            && commands
                .parse_call(line)
                .is_ok_and(|call| commands.is_built_in(&call));
        if is_whole {
            self.menu = CompletionMenu::default();
            self.enter_line();
            self.propose_completions();
        }
    }

    /// Adds keys to the text that are typed while the chat is about to end, so that they are not
    /// lost.
    pub(super) fn keep_typed(&mut self, input: KeyInput) {
        match input {
            KeyInput::Paste(text) => self.editor.paste_text(&text),
            KeyInput::Key(TypedKey {
                code: KeyCode::Char(letter),
                ctrl: false,
                alt: false,
                ..
            }) => self.editor.type_letter(letter),
            KeyInput::Key(TypedKey {
                code: KeyCode::Enter,
                ..
            }) if !self.editor.is_empty() => self.editor.type_letter('\n'),
            _ => {}
        }
    }

    fn paste_text(&mut self, text: &str) {
        match attach::of_paste(text) {
            Some(named) => named
                .chars()
                .for_each(|letter| self.editor.type_letter(letter)),
            None => self.editor.paste_text(text),
        }
        self.propose_completions();
    }

    /// Whether an Enter was probably meant for a question that has just closed: the text is a mere
    /// answer.
    fn is_late_answer(&self) -> bool {
        let is_recent = self.closed.is_some_and(|at| at.elapsed() < QUIET);
        is_recent && is_mere_answer(&self.editor.whole())
    }

    fn press_in_question(&mut self, input: KeyInput) {
        let now = Instant::now();
        let is_taken = self
            .question
            .as_mut()
            .is_some_and(|open| open.takes_key(now));
        let key = match input {
            // A paste is text to write, not an answer.
            KeyInput::Paste(text) => return self.paste_text(&text),
            KeyInput::Key(key) => key,
            _ => return,
        };
        match (key.code, key.ctrl) {
            (KeyCode::Char('c'), true) => self.interrupt_job(),
            // Esc on a page of details first returns to the question.
            (KeyCode::Esc, _) if self.question.as_mut().is_some_and(OpenQuestion::close_page) => {}
            (KeyCode::Esc, _) => self.decline_question(),
            _ if !is_taken => {}
            (KeyCode::Char('d'), true) if self.answer.is_empty() => self.decline_question(),
            (KeyCode::Enter, _) => self.answer_question(),
            _ => {
                edit_line(&mut self.answer, key);
            }
        }
    }

    fn answer_question(&mut self) {
        let room = self.room();
        let line = self.answer.whole();
        let is_turn = self.worker.is_turn();
        let Some(question) = &mut self.question else {
            return;
        };
        let kept = question.kept_rows(room.size);
        let shown_call = question.shown_call(room);
        let steering = &self.steering;
        // Steer, so that parallel calls do not run before the model has read the reason. A plugin's
        // command has no model to steer.
        let steer = |why: &str| {
            if is_turn {
                steering.steer(why, Source::Terminal);
            }
        };
        match question.answer_line(&line, room, steer) {
            LineEffect::NotYet => self.answer.clear_text(),
            // Keep an invalid answer in the undo history, so that it can be corrected.
            LineEffect::Invalid => self.answer.discard_text(),
            LineEffect::Answered(words) => {
                self.answer.clear_text();
                self.close_question();
                kept.into_iter().for_each(|row| self.view.say_line(row));
                if let Some(call) = shown_call {
                    self.view.note_shown(call);
                }
                let words = one_line(&words, 400);
                self.view
                    .say_line(style_text(BOLD, format_args!("  {words}")));
            }
        }
    }

    /// Handles Esc and Ctrl-D in a question: answers with no, and ends the turn or the command that
    /// asks.
    fn decline_question(&mut self) {
        let size = self.screen.size();
        let Some(question) = self.question.take() else {
            return;
        };
        let kept = question.kept_rows(size);
        kept.into_iter().for_each(|row| self.view.say_line(row));
        self.view.say_line(style_text(BOLD, "  no"));
        // Stop the turn before answering, because the answer would let it send another request to
        // the model.
        self.stop_turn();
        question.refuse_question("the user ended the turn");
        self.close_question();
    }

    /// Closes the question. Moves an unfinished answer into the editor.
    pub(super) fn close_question(&mut self) {
        self.question = None;
        self.closed = Some(Instant::now());
        let begun = self.answer.pieces();
        if !is_mere_answer(&self.answer.take_text()) {
            self.editor.insert_before(&begun);
            self.propose_completions();
        }
    }

    pub(super) fn enter_line(&mut self) {
        let text = self.editor.whole();
        let line = text.trim();
        if is_command(line) && !text.starts_with(' ') {
            let line = line.to_owned();
            // A command that cannot run stays in the editor, to be corrected.
            if slash::run_command(self, &line) {
                self.editor.clear_text();
                self.history.add_line(&line);
            }
            return;
        }
        if line == "/" && text.starts_with('/') {
            let words = "type the name of a command after the slash; /help lists the commands";
            return self.view.say_line(warning_text(words));
        }
        if line.starts_with('!') && !text.starts_with(' ') {
            match self.shell.run_line(line) {
                Ok(()) => {
                    self.history.add_line(line);
                    self.editor.clear_text();
                }
                Err(why) => self.view.say_line(warning_text(&why)),
            }
            return;
        }
        // A backslash at the end of a line continues it, as in a shell.
        if self.editor.before() == text && text.ends_with('\\') {
            edit_line(&mut self.editor, TypedKey::plain_key(KeyCode::Backspace));
            return self.editor.type_letter('\n');
        }
        self.send_line(false);
    }

    /// Handles Ctrl-C: ends the turn or command, clears the text, or quits.
    fn interrupt_job(&mut self) {
        let is_second = self.interrupted.is_some_and(|at| at.elapsed() < TWICE);
        if self.worker.is_running() {
            if is_second || !self.stop_turn() {
                self.leaving = Some(ChatExit::Quit(ExitStatus::Interrupted));
            }
        } else if self.shell.interrupt() {
            self.interrupted = Some(Instant::now());
        } else if self.editor.is_empty() && !is_second && !self.is_quitting() {
            self.quitting = Some(Instant::now());
        } else if self.editor.is_empty() || is_second {
            if is_second && std::mem::take(&mut self.is_dropped) {
                // Restore the dropped text, so that it is visible at the end.
                self.editor.undo_edit();
            }
            self.leaving = Some(ChatExit::Quit(ExitStatus::Done));
        } else {
            self.is_dropped = !self.history.add_pieces(&self.editor.pieces());
            self.editor.discard_text();
            if self.is_dropped {
                let words = "the text is cleared and not kept in the history; Ctrl-_ restores it";
                self.view.say_line(style_text(DIM, words));
            }
            self.interrupted = Some(Instant::now());
        }
    }

    /// Whether a Ctrl-C on an empty line came so recently that another one quits.
    pub(super) fn is_quitting(&self) -> bool {
        self.quitting.is_some_and(|at| at.elapsed() < QUITS)
    }

    /// Interrupts the running turn or command. Returns false if nothing runs or if it was already
    /// interrupted.
    fn stop_turn(&mut self) -> bool {
        let is_new = self.worker.interrupt();
        if is_new {
            self.interrupted = Some(Instant::now());
            self.withdraw_all();
        }
        is_new
    }

    /// Moves the cursor a line up, moves the last queued text back into the editor, or goes to an
    /// older text of the history.
    fn take_older(&mut self) {
        if self.editor.go_line(true) {
            return;
        }
        if self.editor.is_empty() && self.withdraw_last() {
            return;
        }
        let now = self.editor.pieces();
        if let Some(pieces) = self.history.older_line(&now) {
            self.editor.set_pieces(&pieces);
        }
    }
}

/// Whether a text is at most an answer: one of [`ANSWERS`], a number, or empty.
pub(super) fn is_mere_answer(text: &str) -> bool {
    let text = text.trim().to_lowercase();
    ANSWERS.contains(&&*text) || text.chars().all(|letter| letter.is_ascii_digit())
}

/// Applies a key to a text. Returns whether it had an effect.
pub(super) fn edit_line(editor: &mut super::editor::LineEditor, key: TypedKey) -> bool {
    match (key.code, key.ctrl, key.alt) {
        (KeyCode::Char(letter), false, false) => editor.type_letter(letter),
        (KeyCode::Enter, ..) | (KeyCode::Char('j'), true, false) => editor.type_letter('\n'),
        (KeyCode::Tab, false, false) => editor.type_letter('\t'),
        (KeyCode::Backspace, false, false) | (KeyCode::Char('h'), true, false) => {
            editor.delete_range(EditTarget::Left)
        }
        (KeyCode::Backspace, ..) | (KeyCode::Char('w'), true, false) => {
            editor.delete_range(EditTarget::WordLeft)
        }
        (KeyCode::Delete, ..) | (KeyCode::Char('d'), true, false) => {
            editor.delete_range(EditTarget::Right)
        }
        (KeyCode::Char('d'), false, true) => editor.delete_range(EditTarget::WordRight),
        (KeyCode::Char('u'), true, false) => editor.delete_range(EditTarget::LineStart),
        (KeyCode::Char('k'), true, false) => editor.delete_range(EditTarget::LineEnd),
        (KeyCode::Char('y'), true, false) => editor.yank_text(),
        (KeyCode::Char('_' | 'z'), true, false) => editor.undo_edit(),
        (KeyCode::Left, false, false) | (KeyCode::Char('b'), true, false) => {
            editor.move_cursor(EditTarget::Left)
        }
        (KeyCode::Right, false, false) | (KeyCode::Char('f'), true, false) => {
            editor.move_cursor(EditTarget::Right)
        }
        (KeyCode::Left, ..) | (KeyCode::Char('b'), false, true) => {
            editor.move_cursor(EditTarget::WordLeft)
        }
        (KeyCode::Right, ..) | (KeyCode::Char('f'), false, true) => {
            editor.move_cursor(EditTarget::WordRight)
        }
        (KeyCode::Home, ..) | (KeyCode::Char('a'), true, false) => {
            editor.move_cursor(EditTarget::LineStart)
        }
        (KeyCode::End, ..) | (KeyCode::Char('e'), true, false) => {
            editor.move_cursor(EditTarget::LineEnd)
        }
        _ => return false,
    }
    true
}
