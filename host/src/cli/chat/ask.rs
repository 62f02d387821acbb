//! A question that stands in place of the editor until it is answered.
//!
//! It says what is shown and what a typed line means; it must not know the keys. Start from [`OpenQuestion`].

use super::super::approve::{self, AnswerSender, Asked, AskedAnswer, AskedQuestion};
use super::super::question::Screen;
use super::super::render::wrap::wrap;
use super::super::render::{DIM, WARN, styled};
use super::super::terminal::Size;
use crate::tool::approval::ApprovalAnswer;

/// Rows that are needed beside the question: the answers in up to two rows, what is typed, and a free one.
const ROWS_BESIDE: usize = 4;

pub(super) struct OpenQuestion {
    asked: Asked,
    screen: Screen,
    hint: Option<&'static str>,
    /// Page of all rows that is shown in place of the question.
    page: Option<usize>,
}

/// Effect of a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// None: it was no answer, or asked for another page.
    NotYet,
    /// An answer, in words for the scrollback.
    Answered(String),
}

impl OpenQuestion {
    pub(super) fn new(asked: Asked) -> Self {
        Self {
            screen: approve::screen(&asked.question),
            asked,
            hint: None,
            page: None,
        }
    }

    /// Returns when nobody waits for the answer any more.
    pub(super) async fn withdrawn(&mut self) {
        self.asked.answer.closed().await;
    }

    /// Returns the rows above what is typed.
    pub(super) fn rows(&self, size: Size) -> Vec<String> {
        let size = within(size);
        let (mut rows, prompt) = match self.page {
            None => {
                let (rows, is_cut) = self.screen.rows(size);
                (rows, self.screen.prompt(is_cut))
            }
            Some(page) => {
                let (rows, n_more) = self.page_rows(page, size);
                let prompt = match n_more {
                    0 => "  end; Enter returns to the question".to_owned(),
                    n => {
                        format!("  {n} more rows; Enter shows the next, q returns to the question")
                    }
                };
                (rows, prompt)
            }
        };
        if let Some(hint) = self.hint {
            rows.push(styled(WARN, hint));
        }
        let prompt = styled(DIM, prompt.trim_end());
        let prompt = wrap(&prompt, Some(size.columns)).into_owned();
        rows.extend(prompt.split('\n').map(str::to_owned));
        rows
    }

    /// Returns the question as it goes into the scrollback.
    pub(super) fn kept(&self, size: Size) -> Vec<String> {
        self.screen.rows(within(size)).0
    }

    fn page_rows(&self, page: usize, size: Size) -> (Vec<String>, usize) {
        let rows = self.screen.all_rows(size);
        let n_page = size.rows.max(1);
        let from = (page * n_page).min(rows.len());
        let until = (from + n_page).min(rows.len());
        (
            rows.get(from..until).unwrap_or_default().to_vec(),
            rows.len() - until,
        )
    }

    /// Takes a line. Before a no with a reason is sent, `steer` has the reason: nothing runs between the two.
    pub(super) fn answer(&mut self, line: &str, size: Size, steer: impl FnOnce(&str)) -> Effect {
        let line = line.trim();
        self.hint = None;
        if let Some(page) = self.page {
            let (_, n_more) = self.page_rows(page, within(size));
            let is_over = n_more == 0 || line.eq_ignore_ascii_case("q");
            self.page = (!is_over).then_some(page + 1);
            return Effect::NotYet;
        }
        if matches!(line.to_lowercase().as_str(), "v" | "view") {
            self.page = Some(0);
            return Effect::NotYet;
        }
        let Some(answer) = approve::parse(line, &self.asked.question) else {
            self.hint = Some("invalid answer: type one of the letters in brackets, then Enter");
            return Effect::NotYet;
        };
        let words = match &answer {
            AskedAnswer::Call(ApprovalAnswer::Yes) => "yes".to_owned(),
            AskedAnswer::Call(ApprovalAnswer::Always) => "always in this session".to_owned(),
            AskedAnswer::Call(ApprovalAnswer::No(why)) if why.is_empty() => "no".to_owned(),
            AskedAnswer::Call(ApprovalAnswer::No(why)) => {
                steer(why);
                format!("no: {why}")
            }
            AskedAnswer::Person(answer) => match (&self.asked.question, answer) {
                (AskedQuestion::Person(question), Some(answer)) => question.kind.shown(answer),
                _ => String::new(),
            },
        };
        self.send(answer);
        Effect::Answered(words)
    }

    /// Says no, for somebody who leaves.
    pub(super) fn refuse(mut self) {
        let answer = self.asked.question.unanswered("the chat was closed");
        self.send(answer);
    }

    fn send(&mut self, answer: AskedAnswer) {
        let (nobody, _) = tokio::sync::oneshot::channel();
        let nobody = AnswerSender::Call(nobody);
        let sender = std::mem::replace(&mut self.asked.answer, nobody);
        // Who asked may be gone by now.
        sender.send(answer);
    }
}

/// The part of the screen that a question has.
fn within(size: Size) -> Size {
    Size {
        rows: size.rows.saturating_sub(ROWS_BESIDE).max(3),
        ..size
    }
}
