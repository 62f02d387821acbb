//! The turn of `rind run --nats`, followed from here while another machine runs it: calls are shown,
//! questions answered, and Ctrl-C interrupts it.

use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::LocalBoxFuture;
use http::{Method, Request, StatusCode};
use rind_lib::text::{clean_line, error_chain};
use rind_nats::call::{CallBody, CallError, SessionCalls};
use rind_serve::body::Bytes;
use rind_serve::questions::{OpenQuestion, QuestionAbout};
use serde_json::{Value, json};

use super::super::approve::{AskedAnswer, OwnQuestion, parse_own};
use super::super::question::{QuestionLine, QuestionScreen, escape_line};
use super::super::render::{self, BOLD, DIM, PLUGIN, WARN};

/// Longest time until it is checked again whether a program runs the turn.
const PAUSE: Duration = Duration::from_secs(1);

/// Longest event that is read, in bytes.
const MAX_EVENT_BYTES: usize = 16 << 20;

/// Longest part of a call that is shown on a line, in bytes.
const SHOWN: usize = 160;

/// A turn that another program runs.
pub(super) struct FollowedTurn {
    pub(super) calls: SessionCalls,
    pub(super) session: String,
    /// Id of its input, by which its beginning is known among the events.
    pub(super) input_id: String,
    /// Whether a person at the terminal answers questions.
    pub(super) has_terminal: bool,
    /// Whether events are printed as lines of JSON.
    pub(super) is_json: bool,
    pub(super) has_begun: Cell<bool>,
}

/// An event with its number.
struct FollowedEvent {
    number: u64,
    json: String,
}

impl FollowedTurn {
    /// Shows the turn, wherever it runs, until its last event.
    pub(super) async fn follow(&self) {
        let mut after = None;
        loop {
            match self.follow_holder(&mut after).await {
                Ok(true) => return,
                Ok(false) | Err(CallError::NoHolder) => {}
                Err(error) => {
                    tracing::debug!(error = error_chain(&error), "the turn is followed again");
                }
            }
            let waited = self.calls.wait_for_holder(&self.session, PAUSE).await;
            if waited.is_err() {
                tokio::time::sleep(PAUSE).await;
            }
        }
    }

    /// Whether the beginning of the turn was seen.
    pub(super) fn has_begun(&self) -> bool {
        self.has_begun.get()
    }

    /// Interrupts the turn. Returns whether it ran.
    pub(super) async fn interrupt(&self) -> Result<bool, CallError> {
        let answer = self.ask(Method::POST, "/interrupt", "{}").await;
        let answer = match answer {
            Err(CallError::NoHolder) => return Ok(false),
            other => other?,
        };
        let interrupted: Value = read_json(answer.into_body()).await?;
        Ok(interrupted["was_running"] == true)
    }

    async fn ask(
        &self,
        method: Method,
        what: &str,
        body: &str,
    ) -> Result<http::Response<CallBody>, CallError> {
        self.ask_path(
            method,
            &format!("/v1/sessions/{}{what}", self.session),
            body,
        )
        .await
    }

    async fn ask_path(
        &self,
        method: Method,
        path: &str,
        body: &str,
    ) -> Result<http::Response<CallBody>, CallError> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", "application/json")
            .body(Bytes::copy_from_slice(body.as_bytes()))
            .map_err(|_| CallError::Unreadable)?;
        self.calls.ask(&self.session, request).await
    }

    /// Shows the events of one program until it closes the session. Returns whether the turn has
    /// ended.
    async fn follow_holder(&self, after: &mut Option<u64>) -> Result<bool, CallError> {
        let from = after.map(|number| format!("?after={number}"));
        let path = format!("/events{}", from.unwrap_or_default());
        let answer = self.ask(Method::GET, &path, "").await?;
        if answer.status() != StatusCode::OK {
            return Ok(false);
        }
        let mut events = EventLines::new(answer.into_body());
        let mut questions: VecDeque<OpenQuestion> = VecDeque::new();
        let mut asking: Option<AskingPerson<'_>> = None;
        loop {
            if asking.is_none() {
                asking = questions.pop_front().map(|own| self.begin_asking(own));
            }
            let event = tokio::select! {
                event = events.next_event() => event?,
                answered = ended(&mut asking) => {
                    let asked = asking.take();
                    let again = asked.filter(|_| !self.report_answered(answered));
                    if let Some(again) = again {
                        questions.push_front(again.question);
                    }
                    continue;
                }
            };
            let Some(event) = event else {
                return Ok(false);
            };
            *after = Some(event.number);
            let Ok(value) = serde_json::from_str::<Value>(&event.json) else {
                continue;
            };
            let is_main = value["agent"] == "main";
            if value["type"] == "turn-start" && is_main && value["input_id"] == *self.input_id {
                self.has_begun.set(true);
            }
            if !self.has_begun() {
                continue;
            }
            if self.is_json {
                render::print_answer(format_args!("{}\n", event.json));
            }
            self.show_event(&value, &mut questions, &mut asking);
            if value["type"] == "turn-end" && is_main {
                return Ok(true);
            }
        }
    }

    fn show_event(
        &self,
        event: &Value,
        questions: &mut VecDeque<OpenQuestion>,
        asking: &mut Option<AskingPerson<'_>>,
    ) {
        match event["type"].as_str() {
            Some("question") => {
                let question = serde_json::from_value::<OpenQuestion>(event["question"].clone());
                match question {
                    Ok(question) if self.has_terminal => questions.push_back(question),
                    _ => render::print_note(
                        "the turn waits for an answer: give it at `rind serve --nats`",
                    ),
                }
            }
            Some("question-closed") => {
                // A submitted answer reports its own outcome.
                let is_over =
                    |own: &AskingPerson<'_>| event["id"] == *own.question.id && !own.is_given.get();
                if asking.take_if(|own| is_over(own)).is_some() {
                    render::say_line("no longer asked");
                }
                questions.retain(|own| event["id"] != *own.id);
            }
            Some("tool-start") if !self.is_json => {
                let call = &event["call"];
                let name = call["name"].as_str().unwrap_or_default();
                let arguments = clean_line(&call["arguments"].to_string(), SHOWN);
                render::print_note(&format!("{} {arguments}", clean_line(name, SHOWN)));
            }
            _ => {}
        }
    }

    /// Asks the person at the terminal a question, and passes the answer on.
    fn begin_asking(&self, question: OpenQuestion) -> AskingPerson<'_> {
        let is_given = Rc::new(Cell::new(false));
        let (asked, given) = (question.clone(), is_given.clone());
        AskingPerson {
            question,
            is_given,
            answered: Box::pin(async move { self.answer_question(&asked, &given).await }),
        }
    }

    /// Waits for the person's answer, forever where the input ends: another person may answer.
    /// Returns the status of the holder's answer.
    async fn answer_question(
        &self,
        question: &OpenQuestion,
        is_given: &Cell<bool>,
    ) -> Result<StatusCode, CallError> {
        let own = OwnQuestion {
            screen: screen_of(&question.about),
            words: words_of(&question.about),
        };
        let given = own
            .screen
            .ask_approval(|line| parse_own(line, &own.words), AskedAnswer::is_no)
            .await;
        let Some(AskedAnswer::Own(word)) = given else {
            return std::future::pending().await;
        };
        is_given.set(true);
        let path = format!("/v1/questions/{}", question.id);
        let body = json!({ "answer": word }).to_string();
        let answer = self.ask_path(Method::POST, &path, &body).await?;
        Ok(answer.status())
    }

    /// Reports what became of an answer, unless it was accepted. Returns whether the question is
    /// over.
    fn report_answered(&self, answered: Result<StatusCode, CallError>) -> bool {
        match answered {
            Ok(status) if status.is_success() => true,
            Ok(StatusCode::NOT_FOUND) => {
                render::say_line("no longer asked");
                true
            }
            Ok(status) => {
                render::print_warning(&format!("the answer was not accepted: HTTP {status}"));
                false
            }
            Err(error) => {
                render::print_warning(&error_chain(&error));
                false
            }
        }
    }
}

/// A question that the person at the terminal is asked.
struct AskingPerson<'a> {
    question: OpenQuestion,
    /// Whether the person has answered, and the answer is on its way.
    is_given: Rc<Cell<bool>>,
    answered: LocalBoxFuture<'a, Result<StatusCode, CallError>>,
}

/// Waits for the end of a question that is asked, if there is one.
async fn ended(asking: &mut Option<AskingPerson<'_>>) -> Result<StatusCode, CallError> {
    match asking {
        Some(own) => own.answered.as_mut().await,
        None => std::future::pending().await,
    }
}

/// Returns the words that answer a question at this terminal.
fn words_of(about: &QuestionAbout) -> Vec<&'static str> {
    match about {
        QuestionAbout::Approval {
            always: Some(_), ..
        } => vec!["yes", "always", "no"],
        QuestionAbout::Approval { always: None, .. } => vec!["yes", "no"],
        QuestionAbout::Plugin { form, .. } if form == "confirm" => vec!["yes", "no"],
        QuestionAbout::Plugin { .. } => Vec::new(),
    }
}

fn screen_of(about: &QuestionAbout) -> QuestionScreen {
    let head = QuestionLine::new("").styled_words(WARN.bold(), "? ");
    match about {
        QuestionAbout::Approval {
            tool,
            effect_class,
            plugin,
            by,
            may,
            arguments,
            reasons,
            always,
            no_always,
        } => {
            let head = match by {
                Some(by) => head
                    .own_words("plugin ")
                    .their_words(PLUGIN, by)
                    .own_words(" calls "),
                None => head,
            };
            let head = head.their_words(BOLD, tool);
            let head = match plugin {
                Some(plugin) => head.own_words(" of plugin ").their_words(PLUGIN, plugin),
                None => head,
            };
            let head = head
                .own_words(match by {
                    Some(_) => ", which wants to run on another machine (",
                    None => " wants to run on another machine (",
                })
                .their_words(DIM, effect_class)
                .own_words(")");
            let lines = arguments.iter().map(|line| {
                QuestionLine::new(format!("  {}", known_mark(&line.mark)))
                    .own_words(&escape_line(&line.text))
            });
            let may = (!may.is_empty())
                .then(|| QuestionLine::new("  may: ").their_words(DIM, &may.join("; ")));
            let reasons = reasons.iter().map(|own| {
                QuestionLine::new("  ")
                    .their_words(PLUGIN, &own.plugin)
                    .own_words(" asks: ")
                    .their_words(DIM, &own.reason)
            });
            let covers = always.iter().map(|covers| {
                QuestionLine::new("  ")
                    .own_words("always covers ")
                    .their_words(BOLD, covers)
            });
            let not_covered = no_always.iter();
            let not_covered = not_covered.map(|why| QuestionLine::new("  ").their_words(DIM, why));
            QuestionScreen {
                parts: vec![
                    vec![head],
                    lines.collect(),
                    may.into_iter().collect(),
                    reasons.collect(),
                ],
                covers: covers.chain(not_covered).collect(),
                keys: match always {
                    Some(_) => "[y]es, [a]lways in this session, or [n]o".to_owned(),
                    None => "[y]es, or [n]o".to_owned(),
                },
                ..QuestionScreen::default()
            }
        }
        QuestionAbout::Plugin {
            plugin, text, form, ..
        } => QuestionScreen {
            parts: vec![vec![
                head.own_words("plugin ")
                    .their_words(PLUGIN, plugin)
                    .own_words(" asks: ")
                    .their_words(BOLD, text),
            ]],
            keys: match form.as_str() {
                "confirm" => "[y]es, or [n]o".to_owned(),
                _ => "answer it at `rind serve --nats`".to_owned(),
            },
            ..QuestionScreen::default()
        },
    }
}

/// Returns the mark of a line, or a mark of its own for one that this program does not know: a blank
/// one would let the text imitate the question.
fn known_mark(mark: &str) -> &str {
    let is_shown = mark
        .bytes()
        .all(|byte| byte == b' ' || byte.is_ascii_graphic());
    let is_short = mark.len() <= 4 && mark.trim().len() == 1;
    if is_short && is_shown { mark } else { "| " }
}

/// Reads the events of a stream of server-sent events.
struct EventLines {
    body: CallBody,
    /// Bytes that are no whole event yet.
    buffer: Vec<u8>,
}

impl EventLines {
    fn new(body: CallBody) -> Self {
        Self {
            body,
            buffer: Vec::new(),
        }
    }

    /// Returns the next event; `None` at the end. Nothing is lost when the future is dropped.
    async fn next_event(&mut self) -> Result<Option<FollowedEvent>, CallError> {
        loop {
            while let Some(end) = find_end(&self.buffer) {
                let block: Vec<u8> = self.buffer.drain(..end + 2).collect();
                if let Some(event) = parse_event(&String::from_utf8_lossy(&block)) {
                    return Ok(Some(event));
                }
            }
            match self.body.next().await {
                None => return Ok(None),
                Some(part) => self.buffer.extend_from_slice(&part?),
            }
            if self.buffer.len() > MAX_EVENT_BYTES {
                return Err(CallError::Unreadable);
            }
        }
    }
}

fn find_end(buffer: &[u8]) -> Option<usize> {
    buffer.windows(2).position(|pair| pair == b"\n\n")
}

fn parse_event(block: &str) -> Option<FollowedEvent> {
    let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name));
    Some(FollowedEvent {
        number: field("id: ")?.parse().ok()?,
        json: field("data: ")?.to_owned(),
    })
}

async fn read_json(mut body: CallBody) -> Result<Value, CallError> {
    let mut bytes = Vec::new();
    while let Some(part) = body.next().await {
        bytes.extend_from_slice(&part?);
        if bytes.len() > MAX_EVENT_BYTES {
            return Err(CallError::Unreadable);
        }
    }
    serde_json::from_slice(&bytes).map_err(|_| CallError::Unreadable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn events_are_read_however_they_are_cut() {
        let text = "id: 7\nevent: a\ndata: {\"x\":\"\u{e9}\"}\n\n: comment\n\nid: 8\ndata: {}\n\n";
        for size in [1, 3, text.len()] {
            let parts = text.as_bytes().chunks(size);
            let parts: Vec<_> = parts.map(|part| Ok(Bytes::copy_from_slice(part))).collect();
            let mut events = EventLines::new(futures_util::stream::iter(parts).boxed());
            let first = events.next_event().await.unwrap().unwrap();
            assert_eq!((first.number, &*first.json), (7, "{\"x\":\"\u{e9}\"}"));
            assert_eq!(events.next_event().await.unwrap().unwrap().number, 8);
            assert!(events.next_event().await.unwrap().is_none());
        }
    }

    #[test]
    fn a_mark_that_would_imitate_the_question_is_replaced() {
        assert_eq!(known_mark("$ "), "$ ");
        for mark in ["", "  ", "\u{1b}", "\u{1b} ", "yes: no", "\u{2588} "] {
            assert_eq!(known_mark(mark), "| ", "{mark}");
        }
    }
}
