//! Sends requests to the program of the cluster that holds the lease of a session, and follows the
//! session's events even if another program takes over the lease.
//!
//! Does not depend on how events are shown. Start from [`ClusterSessionClient`].

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::{BoxStream, Peekable};
use http::{Method, Request, Response, StatusCode};
use rind_lib::text::format_error_chain;
use rind_nats::NatsSessions;
use rind_nats::call::{AnswerBodyStream, SessionRequestError, SessionRequestMessenger};
use rind_serve::body::Bytes;
use rind_serve::questions::OpenQuestion;
use serde_json::{Value, json};
use sse_stream::SseStream;
use tokio::sync::mpsc::Sender;

use super::super::approve::TerminalAnswer;
use super::question::build_answer_request_body;

/// Interval at which to check again whether a program has the session open.
const SESSION_HOLDER_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Timeout for the first event from the program that holds the session, which may never send one.
const FIRST_EVENT_TIMEOUT: Duration = Duration::from_millis(500);

/// Maximum size of an event and of an answer, in bytes.
const MAX_EVENT_OR_ANSWER_BYTES: usize = 16 << 20;

/// Identifies a session of the cluster and sends requests to the program that holds it.
#[derive(Clone)]
pub(crate) struct ClusterSessionClient {
    calls: SessionRequestMessenger,
    pub(crate) id: String,
}

/// Event of a followed session, or a change of the program that has the session open.
#[derive(Debug)]
pub(crate) enum FollowedSessionUpdate {
    /// Notice that a program has the session open.
    Held,
    /// Event of the session, as JSON.
    Event(Value),
    /// The program that held the session no longer holds it.
    Released,
}

impl ClusterSessionClient {
    pub(crate) fn new(sessions: &NatsSessions, id: &str) -> Self {
        Self {
            calls: SessionRequestMessenger::new(sessions),
            id: id.to_owned(),
        }
    }

    /// Follows the events of the session until the receiver is dropped, even if another program
    /// takes over the session.
    pub(crate) async fn forward_events_across_takeovers(self, news: Sender<FollowedSessionUpdate>) {
        let mut after = None;
        while !news.is_closed() {
            match self
                .forward_events_of_current_holder(&mut after, &news)
                .await
            {
                Ok(()) | Err(SessionRequestError::NoHolder) => {}
                Err(error) => {
                    tracing::debug!(
                        error = format_error_chain(&error),
                        "the session is followed again"
                    );
                }
            }
            if self
                .calls
                .wait_until_session_opened(&self.id, SESSION_HOLDER_POLL_INTERVAL)
                .await
                .is_err()
            {
                tokio::time::sleep(SESSION_HOLDER_POLL_INTERVAL).await;
            }
        }
    }

    /// Forwards the events of the program that has the session open, until that program closes it.
    async fn forward_events_of_current_holder(
        &self,
        after: &mut Option<u64>,
        news: &Sender<FollowedSessionUpdate>,
    ) -> Result<(), SessionRequestError> {
        let from = after.map(|number| format!("?after={number}"));
        let path = format!("/events{}", from.unwrap_or_default());
        let answer = self.send_request(Method::GET, &path, Value::Null).await?;
        if answer.status() != StatusCode::OK {
            return Ok(());
        }
        let _ = news.send(FollowedSessionUpdate::Held).await;
        let mut events = parse_event_stream(answer.into_body());
        if after.is_some() && !has_initial_gap_event(&mut events).await {
            // Events up to `after` are not sent again, but questions among them may still be open.
            for question in self.fetch_open_questions().await? {
                let event = json!({ "type": "question", "question": question });
                let _ = news.send(FollowedSessionUpdate::Event(event)).await;
            }
        }
        let followed = forward_events_until_stream_end(&mut events, after, news).await;
        let _ = news.send(FollowedSessionUpdate::Released).await;
        followed
    }

    async fn fetch_open_questions(&self) -> Result<Vec<Value>, SessionRequestError> {
        let path = format!("/v1/questions?session={}", self.id);
        let answer = self
            .send_request_to_holder(Method::GET, &path, Value::Null)
            .await?;
        let open = read_json_response_body(answer.into_body()).await?;
        Ok(open["questions"].as_array().cloned().unwrap_or_default())
    }

    /// Interrupts the running turn. Returns whether there was one.
    ///
    /// # Errors
    /// The holder does not answer.
    pub(crate) async fn interrupt_turn(&self) -> Result<bool, SessionRequestError> {
        match self
            .send_request(Method::POST, "/interrupt", json!({}))
            .await
        {
            Err(SessionRequestError::NoHolder) => Ok(false),
            answer => {
                Ok(read_json_response_body(answer?.into_body()).await?["was_running"] == true)
            }
        }
    }

    /// Sends a text to the running turn. Returns the number of the text in the turn; `None` if no
    /// turn runs.
    ///
    /// # Errors
    /// The program that has the session open does not answer, or refuses the text.
    pub(crate) async fn steer_turn(&self, text: &str) -> Result<Option<u64>, SessionRequestError> {
        let answer = self.send_request(Method::POST, "/steer", json!({ "text": text }));
        match answer.await {
            Err(SessionRequestError::NoHolder) => Ok(None),
            answer => Ok(read_json_response_body(answer?.into_body()).await?["number"].as_u64()),
        }
    }

    /// Sends the user's answer to a question, to the program that has the session open. Returns the
    /// HTTP status of that program's response.
    ///
    /// # Errors
    /// The other program does not answer.
    pub(crate) async fn send_question_answer(
        &self,
        question: &OpenQuestion,
        answer: &TerminalAnswer,
    ) -> Result<StatusCode, SessionRequestError> {
        let path = format!("/v1/questions/{}", question.id);
        let body = build_answer_request_body(&question.about, answer);
        let answer = self.send_request_to_holder(Method::POST, &path, body);
        Ok(answer.await?.status())
    }

    /// Whether a program has the session open.
    ///
    /// # Errors
    /// The servers cannot be reached, or that program does not answer.
    pub(crate) async fn is_session_held(&self) -> Result<bool, SessionRequestError> {
        self.calls.is_session_held(&self.id).await
    }

    async fn send_request(
        &self,
        method: Method,
        what: &str,
        body: Value,
    ) -> Result<Response<AnswerBodyStream>, SessionRequestError> {
        let path = format!("/v1/sessions/{}{what}", self.id);
        self.send_request_to_holder(method, &path, body).await
    }

    async fn send_request_to_holder(
        &self,
        method: Method,
        path: &str,
        body: Value,
    ) -> Result<Response<AnswerBodyStream>, SessionRequestError> {
        let body = match body {
            Value::Null => String::new(),
            body => body.to_string(),
        };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", "application/json")
            .body(Bytes::from(body))
            .map_err(|_| SessionRequestError::Unreadable)?;
        self.calls.send_session_request(&self.id, request).await
    }
}

/// Events from a session's holder as JSON text, each with its number.
type NumberedEventStream = Peekable<BoxStream<'static, Result<(u64, String), SessionRequestError>>>;

/// Parses a stream of server-sent events. Skips events without a number or data.
fn parse_event_stream(body: AnswerBodyStream) -> NumberedEventStream {
    // Bytes since the last complete event. The limit prevents an endless event from exhausting the
    // memory.
    let n_open = Arc::new(AtomicUsize::new(0));
    let counted = n_open.clone();
    let parts = body.map(move |part| {
        let part = part?;
        match counted.fetch_add(part.len(), Ordering::Relaxed) + part.len() {
            0..=MAX_EVENT_OR_ANSWER_BYTES => Ok(part),
            _ => Err(SessionRequestError::Unreadable),
        }
    });
    let events = SseStream::from_bytes_stream(parts.boxed());
    let numbered = events.filter_map(move |event| {
        n_open.store(0, Ordering::Relaxed);
        let read = match event {
            Ok(event) => {
                let number = event.id.as_deref().and_then(|id| id.parse().ok());
                number.zip(event.data).map(Ok)
            }
            Err(_) => Some(Err(SessionRequestError::Unreadable)),
        };
        std::future::ready(read)
    });
    numbered.boxed().peekable()
}

/// Whether the events come from another program than before, which has become the session's holder.
/// The log of a new holder begins with a `gap` event.
async fn has_initial_gap_event(events: &mut NumberedEventStream) -> bool {
    let first = tokio::time::timeout(FIRST_EVENT_TIMEOUT, Pin::new(events).peek()).await;
    matches!(first, Ok(Some(Ok((_, data)))) if data.contains("\"type\":\"gap\""))
}

/// Forwards the events of the session to the receiver until the stream of events ends.
async fn forward_events_until_stream_end(
    events: &mut NumberedEventStream,
    after: &mut Option<u64>,
    news: &Sender<FollowedSessionUpdate>,
) -> Result<(), SessionRequestError> {
    while let Some(event) = events.next().await {
        let (number, data) = event?;
        *after = Some(number);
        if let Ok(event) = serde_json::from_str(&data)
            && news
                .send(FollowedSessionUpdate::Event(event))
                .await
                .is_err()
        {
            return Ok(());
        }
    }
    Ok(())
}

async fn read_json_response_body(mut body: AnswerBodyStream) -> Result<Value, SessionRequestError> {
    let mut bytes = Vec::new();
    while let Some(part) = body.next().await {
        bytes.extend_from_slice(&part?);
        if bytes.len() > MAX_EVENT_OR_ANSWER_BYTES {
            return Err(SessionRequestError::Unreadable);
        }
    }
    serde_json::from_slice(&bytes).map_err(|_| SessionRequestError::Unreadable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn events_are_read_however_they_are_cut_and_the_next_is_asked_for_by_number() {
        let text = "id: 7\nevent: a\ndata: {\"x\":\"\u{e9}\"}\n\n: comment\n\nid: 8\ndata: {}\n\n";
        for size in [1, 3, text.len()] {
            let parts = text.as_bytes().chunks(size);
            let parts: Vec<_> = parts.map(|part| Ok(Bytes::copy_from_slice(part))).collect();
            let (news, mut told) = tokio::sync::mpsc::channel(8);
            let mut after = None;
            let body = futures_util::stream::iter(parts).boxed();
            forward_events_until_stream_end(&mut parse_event_stream(body), &mut after, &news)
                .await
                .unwrap();
            drop(news);
            let mut events = Vec::new();
            while let Some(FollowedSessionUpdate::Event(event)) = told.recv().await {
                events.push(event);
            }
            assert_eq!(events, [json!({"x": "\u{e9}"}), json!({})], "{size}");
            assert_eq!(after, Some(8));
        }
    }

    #[tokio::test]
    async fn an_event_without_end_is_given_up() {
        let part = Bytes::from(vec![b'x'; 1 << 20]);
        let body = futures_util::stream::repeat_with(move || Ok(part.clone())).boxed();
        let (news, _told) = tokio::sync::mpsc::channel(8);
        let ended =
            forward_events_until_stream_end(&mut parse_event_stream(body), &mut None, &news).await;
        assert!(matches!(ended, Err(SessionRequestError::Unreadable)));
    }
}
