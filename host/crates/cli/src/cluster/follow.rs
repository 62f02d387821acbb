//! Follows a turn of `rind run --nats` that another machine runs: shows its calls and lets the
//! person answer its questions.

use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;

use futures_util::future::LocalBoxFuture;
use http::StatusCode;
use rind_lib::text::{escape_and_truncate_line, format_error_chain};
use rind_nats::call::SessionRequestError;
use rind_serve::questions::OpenQuestion;
use serde_json::Value;
use tokio::sync::mpsc;

use super::super::approve::{TerminalAnswer, build_terminal_question_screen, parse_answer};
use super::super::render;
use super::question::to_terminal_question_kind;
use super::shared_session::{ClusterSessionClient, FollowedSessionUpdate};

/// Maximum length, in bytes, of a tool call's name and of its arguments, as printed on a line.
const MAX_SHOWN_CALL_TEXT_BYTES: usize = 160;

/// Capacity, in events, of the channel from the connection to the display.
const EVENT_CHANNEL_CAPACITY: usize = 256;

/// A turn that runs in another program and is shown here.
pub(super) struct RemoteTurnDisplay {
    pub(super) session: ClusterSessionClient,
    /// Id of the input with which the followed turn began. It identifies the turn's `turn-start`
    /// event.
    pub(super) input_id: String,
    /// Whether a person at the terminal can answer questions of the turn.
    pub(super) has_terminal: bool,
    /// Whether events are printed as JSON, one per line.
    pub(super) is_json: bool,
    pub(super) has_begun: Cell<bool>,
}

impl RemoteTurnDisplay {
    /// Shows the turn until its last event, even if another program takes over the session.
    pub(super) async fn show_until_end(&self) {
        let (sender, mut news) = mpsc::channel(EVENT_CHANNEL_CAPACITY);
        let follow = self.session.clone().forward_events_across_takeovers(sender);
        tokio::select! {
            () = follow => {}
            () = self.handle_session_updates(&mut news) => {}
        }
    }

    async fn handle_session_updates(&self, news: &mut mpsc::Receiver<FollowedSessionUpdate>) {
        let mut questions: VecDeque<OpenQuestion> = VecDeque::new();
        let mut asking: Option<TerminalQuestionOfFollowedTurn<'_>> = None;
        loop {
            if asking.is_none() {
                asking = questions
                    .pop_front()
                    .map(|own| self.ask_question_at_terminal(own));
            }
            let told = tokio::select! {
                told = news.recv() => told,
                answered = wait_for_response_to_sent_answer(&mut asking) => {
                    let asked = asking.take();
                    let again = asked.filter(|_| !report_rejected_answer(answered));
                    if let Some(again) = again {
                        questions.push_front(again.question);
                    }
                    continue;
                }
            };
            let event = match told {
                Some(FollowedSessionUpdate::Event(event)) => event,
                // Drop the open questions: the program that asked them no longer has the session
                // open.
                Some(FollowedSessionUpdate::Held | FollowedSessionUpdate::Released) => {
                    questions.clear();
                    if asking.take_if(|own| !own.is_given.get()).is_some() {
                        render::print_stderr_line("no longer asked");
                    }
                    continue;
                }
                None => return,
            };
            let is_main = event["agent"] == "main";
            if event["type"] == "turn-start" && is_main && event["input_id"] == *self.input_id {
                self.has_begun.set(true);
            }
            if !self.has_turn_begun() {
                continue;
            }
            if self.is_json {
                render::print_to_stdout(format_args!("{event}\n"));
            }
            self.show_event(&event, &mut questions, &mut asking);
            if event["type"] == "turn-end" && is_main {
                return;
            }
        }
    }

    /// Whether the `turn-start` event of the followed turn has arrived.
    pub(super) fn has_turn_begun(&self) -> bool {
        self.has_begun.get()
    }

    fn show_event(
        &self,
        event: &Value,
        questions: &mut VecDeque<OpenQuestion>,
        asking: &mut Option<TerminalQuestionOfFollowedTurn<'_>>,
    ) {
        match event["type"].as_str() {
            Some("question") => {
                let question = serde_json::from_value::<OpenQuestion>(event["question"].clone());
                let is_known = |id: &str| {
                    let mut all = questions
                        .iter()
                        .chain(asking.as_ref().map(|own| &own.question));
                    all.any(|own| own.id == id)
                };
                match question {
                    // A question may be sent again after a reconnect.
                    Ok(question) if is_known(&question.id) => {}
                    Ok(question) if self.has_terminal => questions.push_back(question),
                    _ => render::print_note(
                        "the turn waits for an answer: give it at `rind serve --nats` or `rind chat --nats`",
                    ),
                }
            }
            Some("question-closed") => {
                // Keep a question whose answer has been sent: `report_rejected_answer` reports its
                // outcome.
                let is_over = |own: &TerminalQuestionOfFollowedTurn<'_>| {
                    event["id"] == *own.question.id && !own.is_given.get()
                };
                if asking.take_if(|own| is_over(own)).is_some() {
                    render::print_stderr_line("no longer asked");
                }
                questions.retain(|own| event["id"] != *own.id);
            }
            Some("tool-start") if !self.is_json => {
                let call = &event["call"];
                let name = call["name"].as_str().unwrap_or_default();
                let arguments = escape_and_truncate_line(
                    &call["arguments"].to_string(),
                    MAX_SHOWN_CALL_TEXT_BYTES,
                );
                render::print_note(&format!(
                    "{} {arguments}",
                    escape_and_truncate_line(name, MAX_SHOWN_CALL_TEXT_BYTES)
                ));
            }
            _ => {}
        }
    }

    /// Asks the person at the terminal a question, and sends the answer to the program that runs
    /// the turn.
    fn ask_question_at_terminal(
        &self,
        question: OpenQuestion,
    ) -> TerminalQuestionOfFollowedTurn<'_> {
        let is_given = Rc::new(Cell::new(false));
        let (asked, given) = (question.clone(), is_given.clone());
        TerminalQuestionOfFollowedTurn {
            question,
            is_given,
            answered: Box::pin(async move { self.answer_question(asked, &given).await }),
        }
    }

    /// Reads the answer from the terminal, sends it to the program that runs the turn and returns
    /// the HTTP status of the response. Never returns after the end of input, because another
    /// person may answer.
    async fn answer_question(
        &self,
        question: OpenQuestion,
        is_given: &Cell<bool>,
    ) -> Result<StatusCode, SessionRequestError> {
        let asked = to_terminal_question_kind(question.about.clone());
        let given = build_terminal_question_screen(&asked)
            .ask_approval(
                |line| parse_answer(line, &asked),
                TerminalAnswer::is_refusal,
            )
            .await;
        let Some(given) = given else {
            return std::future::pending().await;
        };
        is_given.set(true);
        self.session.send_question_answer(&question, &given).await
    }
}

/// Prints why a person's answer to a question was not accepted. Returns whether the question is
/// closed.
fn report_rejected_answer(answered: Result<StatusCode, SessionRequestError>) -> bool {
    match answered {
        Ok(status) if status.is_success() => true,
        Ok(StatusCode::NOT_FOUND) => {
            render::print_stderr_line("no longer asked");
            true
        }
        Ok(status) => {
            render::print_warning(&format!(
                "your answer to the question was not accepted: HTTP {status}"
            ));
            false
        }
        Err(error) => {
            render::print_warning(&format_error_chain(&error));
            false
        }
    }
}

/// Question of the followed turn that is shown at the terminal.
struct TerminalQuestionOfFollowedTurn<'a> {
    question: OpenQuestion,
    /// Whether the person has typed the answer, which is sent next.
    is_given: Rc<Cell<bool>>,
    answered: LocalBoxFuture<'a, Result<StatusCode, SessionRequestError>>,
}

/// Waits for the holder's response to the answer of the current question. Never returns if no
/// question is shown.
async fn wait_for_response_to_sent_answer(
    asking: &mut Option<TerminalQuestionOfFollowedTurn<'_>>,
) -> Result<StatusCode, SessionRequestError> {
    match asking {
        Some(own) => own.answered.as_mut().await,
        None => std::future::pending().await,
    }
}
