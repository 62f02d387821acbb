//! Shows a question in place of the editor until it is answered.
//!
//! Owns the rows of the question, the time from which keys answer it, and the meaning of a typed
//! line. It must not know the keys. Start from [`OpenQuestion`].

use tokio::time::Instant;

use super::super::approve::{self, AskedAnswer, AskedQuestion, TerminalQuestion};
use super::super::question::{QuestionScreen, UNREAD};
use super::super::render::wrap::wrap_text;
use super::super::render::{DIM, WARN, style_text};
use super::super::terminal::{QUIET, TerminalSize};
use rind_lib::tool::approval::ApprovalAnswer;

/// Row that is shown in place of the possible answers until keys are accepted.
const NOT_YET: &str = "  answers in a moment; keys are ignored until then";

/// Minimum number of rows of a terminal on which a second row is reserved for the typed answer.
const MIN_SPARE_ROWS: usize = 12;

pub(super) struct OpenQuestion {
    asked: TerminalQuestion,
    screen: QuestionScreen,
    hint: Option<&'static str>,
    /// Index of the first row of the open page; `None` if the question itself is shown.
    page: Option<usize>,
    /// Time from which key presses are accepted; `None` until the question is drawn.
    opens: Option<Instant>,
    /// Whether key presses are accepted.
    is_open: bool,
    /// Whether the pages were read to the end, so that the complete question was on the screen.
    is_seen: bool,
}

/// Effect of a typed line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LineEffect {
    /// The line requested another page, so there is no answer yet.
    NotYet,
    /// The line is not an answer.
    Invalid,
    Answered(String),
}

/// Size of the terminal, and the number of rows that the typed answer takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct TerminalRoom {
    pub(super) size: TerminalSize,
    pub(super) n_typed: usize,
}

impl TerminalRoom {
    /// Returns the number of rows that are left after the typed answer and the `n_tail` rows above
    /// it. One row of the terminal stays free.
    fn rows_beside(self, n_tail: usize) -> usize {
        let is_spacious = self.size.rows >= MIN_SPARE_ROWS;
        let n_typed = self.n_typed.max(if is_spacious { 2 } else { 1 });
        self.size.rows.saturating_sub(1 + n_typed + n_tail)
    }
}

impl OpenQuestion {
    pub(super) fn new(asked: TerminalQuestion) -> Self {
        Self {
            screen: approve::question_screen(&asked.question),
            asked,
            hint: None,
            page: None,
            opens: None,
            is_open: false,
            is_seen: false,
        }
    }

    /// Waits until the asker drops the receiver of the answer.
    pub(super) async fn note_withdrawn(&mut self) {
        self.asked.answer.closed().await;
    }

    /// Returns the time at which the question must be redrawn, because keys are accepted from then
    /// on; `None` if they already are or if the question was not drawn yet.
    pub(super) fn opens(&self) -> Option<Instant> {
        self.opens.filter(|_| !self.is_open)
    }

    /// Records that the question is about to be drawn. If the time in `opens` has come, keys are
    /// accepted from now on, and the drawn rows show the possible answers.
    pub(super) fn draws_at(&mut self, now: Instant) {
        self.is_open |= self.opens.is_some_and(|opens| opens <= now);
    }

    pub(super) fn is_drawn(&self) -> bool {
        self.opens.is_some()
    }

    pub(super) fn note_drawn(&mut self, now: Instant) {
        self.opens.get_or_insert(now + QUIET);
    }

    /// Whether a key belongs to the answer. A key that is pressed before keys are accepted was
    /// meant for something else, and restarts the wait.
    pub(super) fn takes_key(&mut self, now: Instant) -> bool {
        if !self.is_open && self.opens.is_some() {
            self.opens = Some(now + QUIET);
        }
        self.is_open
    }

    /// Returns the rows above the typed answer.
    pub(super) fn render_rows(&self, room: TerminalRoom) -> Vec<String> {
        if let Some(from) = self.page {
            let (mut rows, n_more) = self.page_rows(from, room);
            rows.extend(self.page_tail(n_more, room.size));
            return rows;
        }
        let shown = self
            .screen
            .fit_question(room.size.columns, self.n_free(room));
        let tail = self.tail_rows(shown.is_cut, room.size);
        let mut rows = shown.rows;
        if let Some(hint) = self.hint {
            rows.push(style_text(WARN, hint));
        }
        if self.is_open {
            rows.extend(tail);
        } else {
            // Keep the number of rows, so that the screen does not move when the keys become
            // active.
            rows.push(style_text(DIM, NOT_YET));
            rows.extend(tail.iter().skip(1).map(|_| String::new()));
        }
        rows
    }

    /// Returns the rows of the question that stay in the scrollback.
    pub(super) fn kept_rows(&self, size: TerminalSize) -> Vec<String> {
        self.screen.screen_rows(size).0
    }

    /// Returns the number of rows that are left for the question itself.
    fn n_free(&self, room: TerminalRoom) -> usize {
        let n_tail = self.tail_rows(true, room.size).len();
        room.rows_beside(n_tail + usize::from(self.hint.is_some()))
    }

    fn tail_rows(&self, is_cut: bool, size: TerminalSize) -> Vec<String> {
        let prompt = self.screen.prompt_text(is_cut && !self.is_seen);
        wrap_words(prompt.trim_end(), size)
    }

    fn page_tail(&self, n_more: usize, size: TerminalSize) -> Vec<String> {
        match n_more {
            0 => wrap_words("  end; Enter returns to the question", size),
            n => {
                let words =
                    format!("  {n} more rows; Enter shows the next, q returns to the question");
                wrap_words(&words, size)
            }
        }
    }

    /// Returns the rows of the page that begins at this row, and the number of rows after the page.
    /// If the screen has no free row, the page is empty.
    fn page_rows(&self, from: usize, room: TerminalRoom) -> (Vec<String>, usize) {
        let rows = self.screen.all_rows(room.size);
        let n_tail = self.page_tail(rows.len(), room.size).len();
        let n_page = room.rows_beside(n_tail);
        let from = from.min(rows.len());
        let until = (from + n_page).min(rows.len());
        (
            rows.get(from..until).unwrap_or_default().to_vec(),
            rows.len() - until,
        )
    }

    /// Handles a typed line. If the answer is a no with a reason, calls `steer` with the reason
    /// before the answer is sent, so that nothing runs in between.
    pub(super) fn answer_line(
        &mut self,
        line: &str,
        room: TerminalRoom,
        steer: impl FnOnce(&str),
    ) -> LineEffect {
        let line = line.trim();
        self.hint = None;
        if let Some(from) = self.page {
            let (shown, n_more) = self.page_rows(from, room);
            self.is_seen |= n_more == 0;
            let is_stuck = n_more > 0 && shown.is_empty();
            self.hint = is_stuck.then_some("make the terminal larger to read it");
            let is_over = n_more == 0 || is_stuck || line.eq_ignore_ascii_case("q");
            self.page = (!is_over).then_some(from + shown.len());
            return LineEffect::NotYet;
        }
        let shown = self
            .screen
            .fit_question(room.size.columns, self.n_free(room));
        if self.screen.is_view(line, shown.is_cut) {
            self.page = Some(0);
            return LineEffect::NotYet;
        }
        let Some(answer) = approve::parse_answer(line, &self.asked.question) else {
            self.hint = Some("invalid answer: type one of the letters in brackets, then Enter");
            return LineEffect::Invalid;
        };
        if shown.is_cut && !self.is_seen && !answer.is_no() {
            self.hint = Some(UNREAD);
            return LineEffect::Invalid;
        }
        let words = match &answer {
            AskedAnswer::Call(ApprovalAnswer::Yes) => "yes".to_owned(),
            AskedAnswer::Call(ApprovalAnswer::Always) => "always in this session".to_owned(),
            AskedAnswer::Call(ApprovalAnswer::No(why)) if why.is_empty() => "no".to_owned(),
            AskedAnswer::Call(ApprovalAnswer::No(why)) => {
                steer(why);
                format!("no: {why}")
            }
            AskedAnswer::Command(word) => (*word).to_owned(),
            AskedAnswer::Person(answer) => match (&self.asked.question, answer) {
                (AskedQuestion::Person(question), Some(answer)) => question.kind.shown(answer),
                _ => String::new(),
            },
        };
        self.send_answer(answer);
        LineEffect::Answered(words)
    }

    /// Returns the id of the call that the question is about, if the screen shows the complete
    /// change that the call makes.
    pub(super) fn shown_call(&self, room: TerminalRoom) -> Option<String> {
        let n_free = self.n_free(room);
        let shown = self.screen.fit_question(room.size.columns, n_free);
        match &self.asked.question {
            AskedQuestion::Call(question) if !shown.is_cut && question.change.is_some() => {
                question.call.clone()
            }
            _ => None,
        }
    }

    /// Closes the open page. Returns whether one was open.
    pub(super) fn close_page(&mut self) -> bool {
        self.page.take().is_some()
    }

    /// Returns the first row of the question, which names its subject.
    pub(super) fn head_row(&self, size: TerminalSize) -> String {
        self.kept_rows(size).into_iter().next().unwrap_or_default()
    }

    /// Answers in place of a person who leaves the question: with a no for the reason `why`, or
    /// with a plugin's default.
    pub(super) fn refuse_question(mut self, why: &str) {
        let answer = self.asked.question.unanswered_reply(why);
        self.send_answer(answer);
    }

    fn send_answer(&mut self, answer: AskedAnswer) {
        let (nobody, _) = tokio::sync::oneshot::channel();
        let sender = std::mem::replace(&mut self.asked.answer, nobody);
        // Ignore a closed channel: the asker may be gone by now.
        let _ = sender.send(answer);
    }
}

fn wrap_words(words: &str, size: TerminalSize) -> Vec<String> {
    let words = style_text(DIM, words);
    let words = wrap_text(&words, Some(size.columns)).into_owned();
    words.split('\n').map(str::to_owned).collect()
}

#[cfg(test)]
mod tests;
