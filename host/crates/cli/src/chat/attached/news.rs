//! Handles the events and state changes that the holder of an attached session sends, and sends
//! texts and answers to the holder.

use http::StatusCode;
use rind_lib::event::{Event, Stamped};
use rind_lib::message::Role;
use rind_lib::text::format_error_chain;
use rind_serve::questions::OpenQuestion;
use serde_json::Value;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::super::super::approve::TerminalQuestion;
use super::super::super::cluster::{
    FollowedSessionUpdate, parse_remote_event, to_terminal_question_kind,
};
use super::super::super::render::{DIM, one_line, style_text, warning_text};
use super::{AttachedChat, WaitingText};

/// Result of a request that the chat sent to the session's holder or to the queue.
pub(super) enum AttachedRequestResult {
    /// Result of sending the input with this id to the queue.
    Sent(String, Result<(), String>),
    /// Result of sending the text with this id to the running turn: the number of the text in the
    /// turn, or `None` if no turn runs.
    Steered(String, Result<Option<u64>, String>),
    Answered(Box<OpenQuestion>, Result<StatusCode, String>),
    Interrupted(Result<bool, String>),
}

impl AttachedChat {
    pub(super) fn handle_news(&mut self, news: FollowedSessionUpdate) {
        match news {
            FollowedSessionUpdate::Held => {
                self.withdraw_all_questions();
                (self.is_held, self.is_new_log) = (true, true);
            }
            FollowedSessionUpdate::Released => {
                self.withdraw_all_questions();
                self.is_held = false;
            }
            FollowedSessionUpdate::Event(event) => {
                let is_first = std::mem::take(&mut self.is_new_log);
                // Skip the gap event with which the event log begins in every program that takes
                // over the session.
                if !(is_first && event["type"] == "gap") {
                    self.handle_event(&event);
                }
            }
        }
    }

    /// Withdraws all questions from the screen, because the program that asked them has ended and
    /// accepts no answers.
    fn withdraw_all_questions(&mut self) {
        for (_, withdraw) in self.open.drain() {
            withdraw.cancel();
        }
        self.asked.clear();
    }

    fn handle_event(&mut self, event: &Value) {
        match event["type"].as_str() {
            Some("question") => {
                if let Ok(question) = serde_json::from_value(event["question"].clone()) {
                    self.ask_question_in_chat(question);
                }
            }
            Some("question-closed") => {
                let withdraw = event["id"].as_str().and_then(|id| self.open.remove(id));
                if let Some(withdraw) = withdraw {
                    withdraw.cancel();
                }
            }
            Some("steering-dropped") => self.show_undelivered_text(event["number"].as_u64()),
            Some("gap") => {
                let words = "… some events came too fast to be shown";
                self.view.say_line(style_text(DIM, words));
            }
            _ => {
                if let Some(told) = parse_remote_event(event) {
                    self.show_event(&told);
                }
            }
        }
    }

    fn show_event(&mut self, told: &Stamped) {
        if told.is_main() {
            match &told.event {
                Event::TurnStart {
                    turn,
                    input,
                    input_id,
                    ..
                } => {
                    self.is_past = *turn <= self.session.n_past;
                    if !self.is_past {
                        self.begin_turn(told, input, input_id.as_deref());
                    }
                    return;
                }
                Event::TurnEnd { .. } => {
                    (self.is_running, self.is_interrupted) = (false, false);
                }
                Event::MessageEnd { message } if message.role == Role::User => {
                    self.remove_taken_texts(&message.joined_text());
                }
                _ => {}
            }
        }
        if !self.is_past {
            self.view.handle_event(told);
        }
    }

    fn begin_turn(&mut self, told: &Stamped, input: &str, id: Option<&str>) {
        (self.is_running, self.is_interrupted) = (true, false);
        self.waiting.retain(|own| Some(own.id.as_str()) != id);
        self.remove_taken_texts(input);
        if id.is_none() || id != self.shown_input.as_deref() {
            self.view.show_user_text(input);
        }
        self.shown_input = id.map(str::to_owned);
        self.view.handle_event(told);
    }

    /// Removes those waiting texts for the running turn that occur in one of its messages, because
    /// the turn has taken them.
    fn remove_taken_texts(&mut self, text: &str) {
        let lines = format!("\n{text}\n");
        let is_taken = |own: &WaitingText| {
            own.steers.is_some() && lines.contains(&format!("\n{}\n", own.text.trim()))
        };
        self.waiting.retain(|own| !is_taken(own));
    }

    /// Removes a text that waited for an interrupted turn and that the turn did not take, and shows
    /// it to the person.
    fn show_undelivered_text(&mut self, number: Option<u64>) {
        let is_it = |own: &WaitingText| own.steers.is_some() && own.steers == number;
        if let Some(at) = self.waiting.iter().position(is_it) {
            let text = self.waiting.remove(at).text;
            self.show_unsent_text(&text, "the turn was interrupted");
        }
    }

    fn show_unsent_text(&mut self, text: &str, why: &str) {
        let words = format!("not sent ({why}): {}", one_line(text, 400));
        self.view.say_line(warning_text(&words));
    }

    /// Asks the person a question, unless the question is already open or waiting in this chat.
    fn ask_question_in_chat(&mut self, question: OpenQuestion) {
        if self.open.contains_key(&question.id) {
            return;
        }
        let (answer, mut answered) = oneshot::channel();
        let withdraw = CancellationToken::new();
        self.open.insert(question.id.clone(), withdraw.clone());
        self.asked.push_back(TerminalQuestion {
            question: to_terminal_question_kind(question.about.clone()),
            answer,
        });
        let (session, teller) = (self.session.session.clone(), self.teller.clone());
        tokio::spawn(async move {
            let given = tokio::select! {
                given = &mut answered => given.ok(),
                () = withdraw.cancelled() => None,
            };
            if let Some(given) = given {
                let told = session.send_question_answer(&question, &given).await;
                let told = told.map_err(|error| format_error_chain(&error));
                let _ = teller.send(AttachedRequestResult::Answered(Box::new(question), told));
            }
        });
    }

    /// Stores a text as an input of the session, so that a worker runs a turn for it.
    pub(super) fn send_text(&mut self, text: String) {
        let id = rind_lib::clock::new_id();
        self.waiting.push(WaitingText {
            id: id.clone(),
            text: text.clone(),
            steers: None,
        });
        let (attached, teller) = (self.session.clone(), self.teller.clone());
        tokio::spawn(async move {
            let sent = attached
                .inbox
                .send(&attached.session.id, &attached.class, &id, &text);
            let sent = sent.await.map_err(|error| format_error_chain(&error));
            let _ = teller.send(AttachedRequestResult::Sent(id, sent));
        });
    }

    /// Passes a text to the running turn.
    pub(super) fn steer_turn(&mut self, text: String) {
        let id = rind_lib::clock::new_id();
        self.waiting.push(WaitingText {
            id: id.clone(),
            text: text.clone(),
            steers: Some(0),
        });
        let (session, teller) = (self.session.session.clone(), self.teller.clone());
        tokio::spawn(async move {
            let steered = session.steer(&text).await;
            let steered = steered.map_err(|error| format_error_chain(&error));
            let _ = teller.send(AttachedRequestResult::Steered(id, steered));
        });
    }

    /// Interrupts the running turn. Returns false if no turn runs or if the turn was already
    /// interrupted.
    pub(super) fn stop_turn(&mut self) -> bool {
        if !self.is_running || !self.is_held || self.is_interrupted {
            return false;
        }
        self.is_interrupted = true;
        let (session, teller) = (self.session.session.clone(), self.teller.clone());
        tokio::spawn(async move {
            let ended = session.interrupt().await;
            let ended = ended.map_err(|error| format_error_chain(&error));
            let _ = teller.send(AttachedRequestResult::Interrupted(ended));
        });
        true
    }

    pub(super) fn handle_request_result(&mut self, done: AttachedRequestResult) {
        match done {
            AttachedRequestResult::Sent(_, Ok(())) => {}
            AttachedRequestResult::Sent(id, Err(why)) => {
                if let Some(text) = self.remove_waiting_text(&id) {
                    self.show_unsent_text(&text, &why);
                }
            }
            AttachedRequestResult::Steered(id, Ok(Some(number))) => {
                let own = self.waiting.iter_mut().find(|own| own.id == id);
                if let Some(own) = own {
                    own.steers = Some(number);
                }
            }
            // The turn has ended meanwhile, so send the text as the input of the next turn.
            AttachedRequestResult::Steered(id, Ok(None)) => {
                if let Some(text) = self.remove_waiting_text(&id) {
                    self.send_text(text);
                }
            }
            AttachedRequestResult::Steered(id, Err(why)) => {
                if let Some(text) = self.remove_waiting_text(&id) {
                    self.show_unsent_text(&text, &why);
                }
            }
            AttachedRequestResult::Answered(question, told) => {
                self.handle_answer_result(*question, told)
            }
            AttachedRequestResult::Interrupted(Ok(true)) => {}
            AttachedRequestResult::Interrupted(Ok(false)) => self.is_interrupted = false,
            AttachedRequestResult::Interrupted(Err(why)) => {
                self.is_interrupted = false;
                let words = format!("the turn was not interrupted: {why}");
                self.view.say_line(warning_text(&words));
            }
        }
    }

    fn remove_waiting_text(&mut self, id: &str) -> Option<String> {
        let at = self.waiting.iter().position(|own| own.id == id)?;
        Some(self.waiting.remove(at).text)
    }

    /// Reports an answer that the program with the open session did not accept. Asks the question
    /// again, unless that program no longer asks it.
    fn handle_answer_result(&mut self, question: OpenQuestion, told: Result<StatusCode, String>) {
        let why = match told {
            Ok(status) if status.is_success() => return,
            Ok(StatusCode::NOT_FOUND) => {
                return self.view.say_line(style_text(DIM, "  no longer asked"));
            }
            Ok(status) => format!("HTTP {status}"),
            Err(why) => why,
        };
        let words = format!("your answer to the question was not accepted: {why}");
        self.view.say_line(warning_text(&words));
        // Do not ask again if the question was withdrawn, for example because the holder is gone.
        if self.open.remove(&question.id).is_some() {
            self.ask_question_in_chat(question);
        }
    }
}
