//! Effects of keys in a chat.

use std::time::Duration;

use tokio::time::Instant;

use super::super::attach;
use super::super::exit_code::ExitStatus;
use super::super::render::{BOLD, DIM, one_line, styled, warning};
use super::super::terminal::QUIET;
use super::ask::Effect;
use super::complete::Menu;
use super::editor::To;
use super::keys::{Code, Input, Key};
use super::live::{Leave, Live};
use super::slash::is_command;
use rind_lib::point::payload::Source;

/// Time in which a second Ctrl-C quits.
const TWICE: Duration = Duration::from_secs(1);

/// Texts that answer a question or page through it, and mean nothing as a message.
const ANSWERS: [&str; 9] = ["y", "yes", "n", "no", "a", "always", "v", "view", "q"];

impl Live {
    pub(super) fn press(&mut self, input: Input) {
        if self.leaving.is_some() {
            return self.keep_typed(input);
        }
        if self.question.is_some() {
            return self.press_in_question(input);
        }
        self.last_key = Instant::now();
        let key = match input {
            Input::Paste(text) => return self.paste(&text),
            Input::Key(key) => key,
        };
        let was_dropped = std::mem::take(&mut self.is_dropped);
        if key == Key::ctrl('c') {
            self.is_dropped = was_dropped;
        }
        match (key.code, key.ctrl, key.alt, key.shift) {
            (Code::Char('c'), true, ..) => self.interrupt(),
            (Code::Char('d'), true, ..) if self.editor.is_empty() => {
                self.leaving = Some(Leave::Quit(ExitStatus::Done));
            }
            // Ignore an Enter meant for a question that has just closed. The text stays; a second
            // Enter sends it.
            (Code::Enter, false, false, false) if self.is_late_answer() => {}
            (Code::Enter, false, false, false) => self.enter(),
            (Code::Tab, false, false, false) if !self.menu.is_empty() => return self.complete(),
            (Code::Tab, false, false, false) if self.worker.is_running() => self.send(true),
            (Code::Up | Code::Down, false, false, false) if !self.menu.is_empty() => {
                return self.menu.go(key.code == Code::Up);
            }
            (Code::Esc, ..) if !self.menu.is_empty() => {
                self.menu = Menu::default();
                return;
            }
            (Code::Char('o'), true, ..) => self.view.open_last(),
            (Code::Char('g'), true, ..) => self.open_editor(),
            (Code::Char('l'), true, ..) => self.screen.forget(),
            (Code::Char('z'), true, ..) => self.suspend(),
            (Code::Esc, ..) => {
                self.stop_turn();
            }
            (Code::Up, false, false, false) | (Code::Char('p'), true, false, false) => self.up(),
            (Code::Down, false, false, false) | (Code::Char('n'), true, false, false) => {
                if !self.editor.go_line(false)
                    && let Some(text) = self.history.newer()
                {
                    self.editor.set(&text);
                }
            }
            _ => {
                edit(&mut self.editor, key);
            }
        }
        self.propose();
    }

    /// Replaces the typed prefix by the chosen completion.
    fn complete(&mut self) {
        if let Some(chosen) = self.menu.chosen() {
            let blank = if chosen.text.ends_with(['/', '=']) {
                ""
            } else {
                " "
            };
            let text = format!("{}{blank}", chosen.text);
            self.editor.complete(chosen.start, &text);
        }
        self.propose();
    }

    /// Keeps the keys typed while the chat was about to end.
    pub(super) fn keep_typed(&mut self, input: Input) {
        match input {
            Input::Paste(text) => self.editor.paste(&text),
            Input::Key(Key {
                code: Code::Char(letter),
                ctrl: false,
                alt: false,
                ..
            }) => self.editor.type_letter(letter),
            Input::Key(Key {
                code: Code::Enter, ..
            }) if !self.editor.is_empty() => self.editor.type_letter('\n'),
            Input::Key(_) => {}
        }
    }

    fn paste(&mut self, text: &str) {
        match attach::of_paste(text) {
            Some(named) => named
                .chars()
                .for_each(|letter| self.editor.type_letter(letter)),
            None => self.editor.paste(text),
        }
        self.propose();
    }

    /// Whether Enter would send a text typed for a question that closed meanwhile.
    fn is_late_answer(&self) -> bool {
        let is_recent = self.closed.is_some_and(|at| at.elapsed() < QUIET);
        is_recent && is_mere_answer(&self.editor.whole())
    }

    fn press_in_question(&mut self, input: Input) {
        let now = Instant::now();
        let is_taken = self
            .question
            .as_mut()
            .is_some_and(|open| open.takes_key(now));
        let key = match input {
            // A paste is text to write, not an answer.
            Input::Paste(text) => return self.paste(&text),
            Input::Key(key) => key,
        };
        match (key.code, key.ctrl) {
            (Code::Char('c'), true) => self.interrupt(),
            _ if !is_taken => {}
            (Code::Enter, _) => self.answer_question(),
            _ => {
                edit(&mut self.answer, key);
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
        let kept = question.kept(room.size);
        let steering = &self.steering;
        // Steer, so that parallel calls do not run before the model has read the reason. A plugin's
        // command has no model to steer.
        let steer = |why: &str| {
            if is_turn {
                steering.steer(why, Source::Terminal);
            }
        };
        match question.answer(&line, room, steer) {
            Effect::NotYet => self.answer.clear(),
            // Keep an invalid answer in the undo history, so that it can be corrected.
            Effect::Invalid => self.answer.discard(),
            Effect::Answered(words) => {
                self.answer.clear();
                self.close_question();
                kept.into_iter().for_each(|row| self.view.say(row));
                let words = one_line(&words, 400);
                self.view.say(styled(BOLD, format_args!("  {words}")));
            }
        }
    }

    /// Closes the question. An unfinished answer goes into the editor.
    pub(super) fn close_question(&mut self) {
        self.question = None;
        self.closed = Some(Instant::now());
        let begun = self.answer.pieces();
        if !is_mere_answer(&self.answer.take()) {
            self.editor.put_first(&begun);
            self.propose();
        }
    }

    pub(super) fn enter(&mut self) {
        let text = self.editor.whole();
        let line = text.trim();
        if is_command(line) && !text.starts_with(' ') {
            let line = line.to_owned();
            // A command that cannot run stays in the editor, to be corrected.
            if self.command(&line) {
                self.editor.clear();
                self.history.add(&line);
            }
            return;
        }
        if line.starts_with('!') && !text.starts_with(' ') {
            match self.shell.run(line) {
                Ok(()) => {
                    self.history.add(line);
                    self.editor.clear();
                }
                Err(why) => self.view.say(warning(&why)),
            }
            return;
        }
        // A backslash at the end of a line continues it, as in a shell.
        if self.editor.before() == text && text.ends_with('\\') {
            edit(&mut self.editor, Key::plain(Code::Backspace));
            return self.editor.type_letter('\n');
        }
        self.send(false);
    }

    /// Ctrl-C: ends the turn, clears the line, or quits.
    fn interrupt(&mut self) {
        let is_second = self.interrupted.is_some_and(|at| at.elapsed() < TWICE);
        if self.worker.is_running() {
            if is_second || !self.stop_turn() {
                self.leaving = Some(Leave::Quit(ExitStatus::Interrupted));
            }
        } else if self.shell.interrupt() {
            self.interrupted = Some(Instant::now());
        } else if self.editor.is_empty() || is_second {
            if is_second && std::mem::take(&mut self.is_dropped) {
                // Restore the dropped text, so that it is visible at the end.
                self.editor.undo();
            }
            self.leaving = Some(Leave::Quit(ExitStatus::Done));
        } else {
            self.is_dropped = !self.history.add(&self.editor.whole());
            self.editor.discard();
            if self.is_dropped {
                let words = "cleared, and not kept in the history: Ctrl-_ brings it back";
                self.view.say(styled(DIM, words));
            }
            self.interrupted = Some(Instant::now());
        }
    }

    /// Interrupts the turn. Returns whether a turn ran that was not already interrupted.
    fn stop_turn(&mut self) -> bool {
        let is_new = self.worker.interrupt();
        if is_new {
            self.interrupted = Some(Instant::now());
            self.take_back_all();
        }
        is_new
    }

    /// Moves a line up, takes back the last waiting text, or goes back in the history.
    fn up(&mut self) {
        if self.editor.go_line(true) {
            return;
        }
        if self.editor.is_empty() && self.take_back_last() {
            return;
        }
        let now = self.editor.whole();
        if let Some(text) = self.history.older(&now) {
            self.editor.set(&text);
        }
    }
}

/// Whether a text could only be an answer: one of the words, a number, or empty.
fn is_mere_answer(text: &str) -> bool {
    let text = text.trim().to_lowercase();
    ANSWERS.contains(&&*text) || text.chars().all(|letter| letter.is_ascii_digit())
}

/// Applies a key to a text. Returns whether it had an effect.
fn edit(editor: &mut super::editor::Editor, key: Key) -> bool {
    match (key.code, key.ctrl, key.alt) {
        (Code::Char(letter), false, false) => editor.type_letter(letter),
        (Code::Enter, ..) | (Code::Char('j'), true, false) => editor.type_letter('\n'),
        (Code::Tab, false, false) => editor.type_letter('\t'),
        (Code::Backspace, false, false) | (Code::Char('h'), true, false) => editor.delete(To::Left),
        (Code::Backspace, ..) | (Code::Char('w'), true, false) => editor.delete(To::WordLeft),
        (Code::Delete, ..) | (Code::Char('d'), true, false) => editor.delete(To::Right),
        (Code::Char('d'), false, true) => editor.delete(To::WordRight),
        (Code::Char('u'), true, false) => editor.delete(To::LineStart),
        (Code::Char('k'), true, false) => editor.delete(To::LineEnd),
        (Code::Char('y'), true, false) => editor.yank(),
        (Code::Char('_' | 'z'), true, false) => editor.undo(),
        (Code::Left, false, false) | (Code::Char('b'), true, false) => editor.go(To::Left),
        (Code::Right, false, false) | (Code::Char('f'), true, false) => editor.go(To::Right),
        (Code::Left, ..) | (Code::Char('b'), false, true) => editor.go(To::WordLeft),
        (Code::Right, ..) | (Code::Char('f'), false, true) => editor.go(To::WordRight),
        (Code::Home, ..) | (Code::Char('a'), true, false) => editor.go(To::LineStart),
        (Code::End, ..) | (Code::Char('e'), true, false) => editor.go(To::LineEnd),
        _ => return false,
    }
    true
}
