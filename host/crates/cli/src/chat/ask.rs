//! Shows a question in place of the input field until it is answered.
//!
//! Owns the rows of the question, and the time from which keys can answer it. Interprets a typed
//! answer. It must not know the keys. Start from [`OpenChatQuestion`].

use tokio::time::Instant;

use super::super::approve::{self, TerminalAnswer, TerminalQuestion, TerminalQuestionKind};
use super::super::question::{QUESTION_NOT_FULLY_SHOWN_REPLY, QuestionScreenContent};
use super::super::render::wrap::wrap_lines_to_columns;
use super::super::render::{DIM_STYLE, WARNING_STYLE, style_text};
use super::super::terminal::{INPUT_SILENCE_BEFORE_ANSWER, TerminalSize};
use rind_lib::tool::approval::ApprovalAnswer;

/// Row that is shown instead of the possible answers as long as keys are ignored.
const KEYS_IGNORED_NOTICE: &str = "  answers in a moment; keys are ignored until then";

/// Minimum number of rows of a terminal for which a second row is reserved for the typed answer.
const MIN_TERMINAL_ROWS_FOR_TWO_ANSWER_ROWS: usize = 12;

pub(super) struct OpenChatQuestion {
    asked: TerminalQuestion,
    screen: QuestionScreenContent,
    hint: Option<&'static str>,
    /// Index of the first row of the open page; `None` if the question itself is shown.
    page: Option<usize>,
    /// Time from which key presses are accepted; `None` until the question is drawn.
    opens: Option<Instant>,
    /// Whether key presses are accepted as an answer to the question.
    is_open: bool,
    /// Whether the complete question was on the screen, because the person read the pages to the
    /// end.
    is_seen: bool,
}

/// Effect of a line that was typed as an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum AnswerLineOutcome {
    /// The line requested another page, so there is no answer yet.
    NotYet,
    /// The line is not a valid answer to the question.
    Invalid,
    Answered(String),
}

/// Size of the terminal, and number of rows that the typed answer needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct QuestionScreenSize {
    pub(super) size: TerminalSize,
    pub(super) n_typed: usize,
}

impl QuestionScreenSize {
    /// Returns the number of rows that are left for the question: the rows of the terminal without
    /// the typed answer, the `n_tail` rows above it, and one row that stays empty.
    fn rows_left_for_question(self, n_tail: usize) -> usize {
        let is_spacious = self.size.rows >= MIN_TERMINAL_ROWS_FOR_TWO_ANSWER_ROWS;
        let n_typed = self.n_typed.max(if is_spacious { 2 } else { 1 });
        self.size.rows.saturating_sub(1 + n_typed + n_tail)
    }
}

impl OpenChatQuestion {
    pub(super) fn new(asked: TerminalQuestion) -> Self {
        Self {
            screen: approve::build_terminal_question_screen(&asked.question),
            asked,
            hint: None,
            page: None,
            opens: None,
            is_open: false,
            is_seen: false,
        }
    }

    /// Waits until the question is withdrawn, which drops the receiver of the answer.
    pub(super) async fn wait_until_withdrawn(&mut self) {
        self.asked.answer.closed().await;
    }

    /// Returns the time at which the question must be redrawn, because keys are accepted from then
    /// on. Returns `None` if keys are already accepted or if the question was not drawn yet.
    pub(super) fn next_redraw_time(&self) -> Option<Instant> {
        self.opens.filter(|_| !self.is_open)
    }

    /// Accepts keys from now on if the question was visible long enough. The next drawing then
    /// shows the possible answers. Must be called before each drawing.
    pub(super) fn enable_keys_if_visible_long_enough(&mut self, now: Instant) {
        self.is_open |= self.opens.is_some_and(|opens| opens <= now);
    }

    pub(super) fn is_question_drawn(&self) -> bool {
        self.opens.is_some()
    }

    pub(super) fn record_question_drawn(&mut self, now: Instant) {
        self.opens.get_or_insert(now + INPUT_SILENCE_BEFORE_ANSWER);
    }

    /// Whether a key press belongs to the answer. A key that is pressed too early was not meant for
    /// the question, and restarts the wait.
    pub(super) fn should_accept_key(&mut self, now: Instant) -> bool {
        if !self.is_open && self.opens.is_some() {
            self.opens = Some(now + INPUT_SILENCE_BEFORE_ANSWER);
        }
        self.is_open
    }

    /// Returns the rows of the question above the answer that is being typed.
    pub(super) fn render_rows(&self, room: QuestionScreenSize) -> Vec<String> {
        if let Some(from) = self.page {
            let (mut rows, n_more) = self.page_and_remaining_rows(from, room);
            rows.extend(self.page_footer_rows(n_more, room.size));
            return rows;
        }
        let shown = self
            .screen
            .truncate_question_to_rows(room.size.columns, self.count_rows_for_question_text(room));
        let tail = self.render_answer_rows(shown.is_cut, room.size);
        let mut rows = shown.rows;
        if let Some(hint) = self.hint {
            rows.push(style_text(WARNING_STYLE, hint));
        }
        if self.is_open {
            rows.extend(tail);
        } else {
            // Draw as many rows as are drawn when keys are accepted, so that the screen does not
            // move then.
            rows.push(style_text(DIM_STYLE, KEYS_IGNORED_NOTICE));
            rows.extend(tail.iter().skip(1).map(|_| String::new()));
        }
        rows
    }

    /// Returns the rows of the question that stay in the scrollback.
    pub(super) fn question_rows_for_scrollback(&self, size: TerminalSize) -> Vec<String> {
        self.screen.fitted_question_rows(size).0
    }

    /// Returns the number of rows that are left for the text of the question.
    fn count_rows_for_question_text(&self, room: QuestionScreenSize) -> usize {
        let n_tail = self.render_answer_rows(true, room.size).len();
        room.rows_left_for_question(n_tail + usize::from(self.hint.is_some()))
    }

    fn render_answer_rows(&self, is_cut: bool, size: TerminalSize) -> Vec<String> {
        let prompt = self.screen.prompt_text(is_cut && !self.is_seen);
        wrap_text_to_terminal(prompt.trim_end(), size)
    }

    fn page_footer_rows(&self, n_more: usize, size: TerminalSize) -> Vec<String> {
        match n_more {
            0 => wrap_text_to_terminal("  end; Enter returns to the question", size),
            n => {
                let words =
                    format!("  {n} more rows; Enter shows the next, q returns to the question");
                wrap_text_to_terminal(&words, size)
            }
        }
    }

    /// Returns the rows of the page that begins at this row, and the number of rows after the page.
    /// If the screen has no free row, the page is empty.
    fn page_and_remaining_rows(
        &self,
        from: usize,
        room: QuestionScreenSize,
    ) -> (Vec<String>, usize) {
        let rows = self.screen.build_all_rows(room.size);
        let n_tail = self.page_footer_rows(rows.len(), room.size).len();
        let n_page = room.rows_left_for_question(n_tail);
        let from = from.min(rows.len());
        let until = (from + n_page).min(rows.len());
        (
            rows.get(from..until).unwrap_or_default().to_vec(),
            rows.len() - until,
        )
    }

    /// Handles a typed line. If the answer is a no with a reason, calls `steer` with the reason
    /// before it sends the answer, so that the turn gets the reason first.
    pub(super) fn handle_answer_line(
        &mut self,
        line: &str,
        room: QuestionScreenSize,
        steer: impl FnOnce(&str),
    ) -> AnswerLineOutcome {
        let line = line.trim();
        self.hint = None;
        if let Some(from) = self.page {
            let (shown, n_more) = self.page_and_remaining_rows(from, room);
            self.is_seen |= n_more == 0;
            let is_stuck = n_more > 0 && shown.is_empty();
            self.hint = is_stuck.then_some("make the terminal larger to read it");
            let is_over = n_more == 0 || is_stuck || line.eq_ignore_ascii_case("q");
            self.page = (!is_over).then_some(from + shown.len());
            return AnswerLineOutcome::NotYet;
        }
        let shown = self
            .screen
            .truncate_question_to_rows(room.size.columns, self.count_rows_for_question_text(room));
        if self.screen.is_full_view_request(line, shown.is_cut) {
            self.page = Some(0);
            return AnswerLineOutcome::NotYet;
        }
        let Some(answer) = approve::parse_answer(line, &self.asked.question) else {
            self.hint = Some("invalid answer: type one of the letters in brackets, then Enter");
            return AnswerLineOutcome::Invalid;
        };
        if shown.is_cut && !self.is_seen && !answer.is_refusal() {
            self.hint = Some(QUESTION_NOT_FULLY_SHOWN_REPLY);
            return AnswerLineOutcome::Invalid;
        }
        let words = match &answer {
            TerminalAnswer::Call(ApprovalAnswer::Yes) => "yes".to_owned(),
            TerminalAnswer::Call(ApprovalAnswer::Always) => "always in this session".to_owned(),
            TerminalAnswer::Call(ApprovalAnswer::No(why)) if why.is_empty() => "no".to_owned(),
            TerminalAnswer::Call(ApprovalAnswer::No(why)) => {
                steer(why);
                format!("no: {why}")
            }
            TerminalAnswer::Command(word) => (*word).to_owned(),
            TerminalAnswer::Person(answer) => match (&self.asked.question, answer) {
                (TerminalQuestionKind::Person(question), Some(answer)) => {
                    question.kind.format_answer(answer)
                }
                _ => String::new(),
            },
        };
        self.send_answer(answer);
        AnswerLineOutcome::Answered(words)
    }

    /// Returns the id of the tool call that the question is about, if the screen shows the complete
    /// change that the call makes.
    pub(super) fn fully_shown_call_id(&self, room: QuestionScreenSize) -> Option<String> {
        let n_free = self.count_rows_for_question_text(room);
        let shown = self
            .screen
            .truncate_question_to_rows(room.size.columns, n_free);
        match &self.asked.question {
            TerminalQuestionKind::Call(question) if !shown.is_cut && question.change.is_some() => {
                question.call.clone()
            }
            _ => None,
        }
    }

    /// Shows the question again instead of an open page of its text. Returns whether a page was
    /// open.
    pub(super) fn close_question_page(&mut self) -> bool {
        self.page.take().is_some()
    }

    /// Returns the first row of the question, which names its subject.
    pub(super) fn question_headline_row(&self, size: TerminalSize) -> String {
        self.question_rows_for_scrollback(size)
            .into_iter()
            .next()
            .unwrap_or_default()
    }

    /// Answers the question without the person: with a no for the reason `why`, or with the default
    /// of the plugin that asked.
    pub(super) fn send_fallback_answer(mut self, why: &str) {
        let answer = self.asked.question.fallback_answer(why);
        self.send_answer(answer);
    }

    fn send_answer(&mut self, answer: TerminalAnswer) {
        let (nobody, _) = tokio::sync::oneshot::channel();
        let sender = std::mem::replace(&mut self.asked.answer, nobody);
        // Ignore a closed channel: the code that asked the question may have been stopped.
        let _ = sender.send(answer);
    }
}

fn wrap_text_to_terminal(words: &str, size: TerminalSize) -> Vec<String> {
    let words = style_text(DIM_STYLE, words);
    let words = wrap_lines_to_columns(&words, Some(size.columns)).into_owned();
    words.split('\n').map(str::to_owned).collect()
}

#[cfg(test)]
mod tests;
