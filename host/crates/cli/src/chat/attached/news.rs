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
use super::super::super::render::{
    DIM_STYLE, format_warning_line, style_text, truncate_to_one_line,
};
use super::{AttachedChat, QueuedInputText};

/// Result of a request that the chat sent to the session's holder or to the queue.
pub(super) enum AttachedChatServerRequestResult {
    /// Result of sending the input with this id to the queue.
    Sent(String, Result<(), String>),
    /// Result of sending the text with this id to the running turn: the number of the text in the
    /// turn, or `None` if no turn runs.
    Steered(String, Result<Option<u64>, String>),
    Answered(Box<OpenQuestion>, Result<StatusCode, String>),
    Interrupted(Result<bool, String>),
}

impl AttachedChat {
    pub(super) fn handle_session_update(&mut self, news: FollowedSessionUpdate) {
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
                    self.enqueue_new_question(question);
                }
            }
            Some("question-closed") => {
                let withdraw = event["id"].as_str().and_then(|id| self.open.remove(id));
                if let Some(withdraw) = withdraw {
                    withdraw.cancel();
                }
            }
            Some("steering-dropped") => {
                self.remove_and_show_undelivered_text(event["number"].as_u64())
            }
            Some("gap") => {
                let words = "… some events came too fast to be shown";
                self.view
                    .add_finished_output_line(style_text(DIM_STYLE, words));
            }
            _ => {
                if let Some(told) = parse_remote_event(event) {
                    self.show_event(&told);
                }
            }
        }
    }

    fn show_event(&mut self, told: &Stamped) {
        if told.is_from_main_agent() {
            match &told.event {
                Event::TurnStart {
                    turn,
                    input,
                    input_id,
                    ..
                } => {
                    self.is_past = *turn <= self.session.n_past;
                    if !self.is_past {
                        self.handle_turn_start(told, input, input_id.as_deref());
                    }
                    return;
                }
                Event::TurnEnd { .. } => {
                    (self.is_running, self.is_interrupted) = (false, false);
                }
                Event::MessageEnd { message } if message.role == Role::User => {
                    self.remove_steering_texts_taken_by_turn(&message.joined_text());
                }
                _ => {}
            }
        }
        if !self.is_past {
            self.view.handle_event(told);
        }
    }

    fn handle_turn_start(&mut self, told: &Stamped, input: &str, id: Option<&str>) {
        (self.is_running, self.is_interrupted) = (true, false);
        self.waiting.retain(|own| Some(own.id.as_str()) != id);
        self.remove_steering_texts_taken_by_turn(input);
        if id.is_none() || id != self.shown_input.as_deref() {
            self.view.show_user_text(input);
        }
        self.shown_input = id.map(str::to_owned);
        self.view.handle_event(told);
    }

    /// Removes those waiting texts for the running turn that occur in one of its messages, because
    /// the turn has taken them.
    fn remove_steering_texts_taken_by_turn(&mut self, text: &str) {
        let lines = format!("\n{text}\n");
        let is_taken = |own: &QueuedInputText| {
            own.steers.is_some() && lines.contains(&format!("\n{}\n", own.text.trim()))
        };
        self.waiting.retain(|own| !is_taken(own));
    }

    /// Removes a text that waited for an interrupted turn and that the turn did not take, and shows
    /// it to the person.
    fn remove_and_show_undelivered_text(&mut self, number: Option<u64>) {
        let is_it = |own: &QueuedInputText| own.steers.is_some() && own.steers == number;
        if let Some(at) = self.waiting.iter().position(is_it) {
            let text = self.waiting.remove(at).text;
            self.show_input_send_failure(&text, "the turn was interrupted");
        }
    }

    fn show_input_send_failure(&mut self, text: &str, why: &str) {
        let words = format!("not sent ({why}): {}", truncate_to_one_line(text, 400));
        self.view
            .add_finished_output_line(format_warning_line(&words));
    }

    /// Asks the person a question, unless the question is already open or waiting in this chat.
    fn enqueue_new_question(&mut self, question: OpenQuestion) {
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
                let _ = teller.send(AttachedChatServerRequestResult::Answered(
                    Box::new(question),
                    told,
                ));
            }
        });
    }

    /// Stores a text as an input of the session, so that a worker runs a turn for it.
    pub(super) fn queue_text_as_session_input(&mut self, text: String) {
        let id = rind_lib::clock::new_uuid_v7();
        self.waiting.push(QueuedInputText {
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
            let _ = teller.send(AttachedChatServerRequestResult::Sent(id, sent));
        });
    }

    /// Passes a text of the user to the running turn.
    pub(super) fn steer_turn(&mut self, text: String) {
        let id = rind_lib::clock::new_uuid_v7();
        self.waiting.push(QueuedInputText {
            id: id.clone(),
            text: text.clone(),
            steers: Some(0),
        });
        let (session, teller) = (self.session.session.clone(), self.teller.clone());
        tokio::spawn(async move {
            let steered = session.steer_turn(&text).await;
            let steered = steered.map_err(|error| format_error_chain(&error));
            let _ = teller.send(AttachedChatServerRequestResult::Steered(id, steered));
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
            let ended = session.interrupt_turn().await;
            let ended = ended.map_err(|error| format_error_chain(&error));
            let _ = teller.send(AttachedChatServerRequestResult::Interrupted(ended));
        });
        true
    }

    pub(super) fn handle_server_request_result(&mut self, done: AttachedChatServerRequestResult) {
        match done {
            AttachedChatServerRequestResult::Sent(_, Ok(())) => {}
            AttachedChatServerRequestResult::Sent(id, Err(why)) => {
                if let Some(text) = self.remove_queued_text_by_id(&id) {
                    self.show_input_send_failure(&text, &why);
                }
            }
            AttachedChatServerRequestResult::Steered(id, Ok(Some(number))) => {
                let own = self.waiting.iter_mut().find(|own| own.id == id);
                if let Some(own) = own {
                    own.steers = Some(number);
                }
            }
            // The turn has ended meanwhile, so send the text as the input of the next turn.
            AttachedChatServerRequestResult::Steered(id, Ok(None)) => {
                if let Some(text) = self.remove_queued_text_by_id(&id) {
                    self.queue_text_as_session_input(text);
                }
            }
            AttachedChatServerRequestResult::Steered(id, Err(why)) => {
                if let Some(text) = self.remove_queued_text_by_id(&id) {
                    self.show_input_send_failure(&text, &why);
                }
            }
            AttachedChatServerRequestResult::Answered(question, told) => {
                self.handle_question_answer_result(*question, told)
            }
            AttachedChatServerRequestResult::Interrupted(Ok(true)) => {}
            AttachedChatServerRequestResult::Interrupted(Ok(false)) => self.is_interrupted = false,
            AttachedChatServerRequestResult::Interrupted(Err(why)) => {
                self.is_interrupted = false;
                let words = format!("the turn was not interrupted: {why}");
                self.view
                    .add_finished_output_line(format_warning_line(&words));
            }
        }
    }

    fn remove_queued_text_by_id(&mut self, id: &str) -> Option<String> {
        let at = self.waiting.iter().position(|own| own.id == id)?;
        Some(self.waiting.remove(at).text)
    }

    /// Reports an answer that the program with the open session did not accept. Asks the question
    /// again, unless that program no longer asks it.
    fn handle_question_answer_result(
        &mut self,
        question: OpenQuestion,
        told: Result<StatusCode, String>,
    ) {
        let why = match told {
            Ok(status) if status.is_success() => return,
            Ok(StatusCode::NOT_FOUND) => {
                return self
                    .view
                    .add_finished_output_line(style_text(DIM_STYLE, "  no longer asked"));
            }
            Ok(status) => format!("HTTP {status}"),
            Err(why) => why,
        };
        let words = format!("your answer to the question was not accepted: {why}");
        self.view
            .add_finished_output_line(format_warning_line(&words));
        // Do not ask again if the question was withdrawn, for example because the holder is gone.
        if self.open.remove(&question.id).is_some() {
            self.enqueue_new_question(question);
        }
    }
}
