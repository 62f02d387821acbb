//! Streams the events of a session as server-sent events (HTML Living Standard, section 9.2). The
//! `id` of each is the event's number, so that a browser that reconnects continues after the last
//! event it received.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, State};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::Stream;
use futures_util::stream;
use http::{HeaderMap, StatusCode};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::sync::{oneshot, watch};

use super::{RequestQueryExtractor, run_blocking};
use crate::ApiState;
use crate::error::ApiError;
use crate::event_log::{EventLogReadResult, NumberedSessionEvent, SessionEventLog};
use crate::live::RequestedTurn;
use crate::session_task::TurnEndResult;

/// Maximum number of events that are read from the log at once.
const MAX_EVENTS_PER_LOG_READ: usize = 64;

/// Largest number that an event may have: many JSON parsers read numbers as floating point (RFC
/// 8259, section 6), which is exact only up to this value.
const MAX_EVENT_NUMBER: u64 = (1 << 53) - 1;

/// Interval at which a comment is sent if the stream has no events, so that a broken connection is
/// noticed.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);

/// Position in the event stream of a session from which a client continues.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct FollowQuery {
    /// Number of the last event that was read. Without it, and without the header `Last-Event-ID`,
    /// all events that are kept come first.
    #[serde(default)]
    #[schemars(range(max = MAX_EVENT_NUMBER))]
    after: Option<u64>,
}

pub(crate) async fn stream_session_events(
    State(state): State<ApiState>,
    Path(id): Path<String>,
    RequestQueryExtractor(query): RequestQueryExtractor<FollowQuery>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    if query.after.is_some_and(|after| after > MAX_EVENT_NUMBER) {
        return Err(ApiError::invalid_request(format!(
            "`after` must be the number of an event, at most {MAX_EVENT_NUMBER}"
        )));
    }
    let Some(live) = state.sessions.find_open_session(&id).await else {
        // If the session exists but is not open, answer with 204, at which a browser does not
        // reconnect. If it does not exist, answer with an error.
        let store = state.sessions.session_store().clone();
        run_blocking(move || Ok(store.check_session_exists(&id)?)).await?;
        return Ok(StatusCode::NO_CONTENT.into_response());
    };
    let last_id = headers
        .get("last-event-id")
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.parse().ok());
    let events = live.event_log().clone();
    let after = last_id.or(query.after);
    let reader = SessionEventReader::new(
        events.clone(),
        after.unwrap_or(events.event_number_before_first_kept()),
        None,
    );
    Ok(sse_response(reader).into_response())
}

/// Streams the events of a requested turn until the turn ends.
pub(crate) fn stream_turn_events(ordered: RequestedTurn) -> impl IntoResponse {
    let RequestedTurn {
        live,
        after,
        outcome,
    } = ordered;
    sse_response(SessionEventReader::new(
        live.event_log().clone(),
        after,
        Some(outcome),
    ))
}

fn sse_response(reader: SessionEventReader) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let events = stream::unfold(reader, |mut reader| async move {
        let event = reader.next_event().await?;
        Some((Ok(event), reader))
    });
    Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE_INTERVAL))
}

/// Reader that yields the events of a session in order.
struct SessionEventReader {
    log: Arc<SessionEventLog>,
    news: watch::Receiver<u64>,
    after: u64,
    ready: std::vec::IntoIter<NumberedSessionEvent>,
    /// Channel for the outcome of a turn, with which the stream ends; `None` if the stream does not
    /// end with a turn.
    outcome: Option<oneshot::Receiver<TurnEndResult>>,
    is_at_end: bool,
}

impl SessionEventReader {
    fn new(
        log: Arc<SessionEventLog>,
        after: u64,
        outcome: Option<oneshot::Receiver<TurnEndResult>>,
    ) -> Self {
        Self {
            news: log.watch_last_event_number(),
            log,
            after,
            ready: Vec::new().into_iter(),
            outcome,
            is_at_end: false,
        }
    }

    /// Returns the next event, as soon as there is one; `None` at the end of the stream.
    async fn next_event(&mut self) -> Option<Event> {
        loop {
            if let Some(next) = self.ready.next() {
                self.after = next.number;
                return Some(
                    Event::default()
                        .id(next.number.to_string())
                        .event(&*next.kind)
                        .data(&*next.json),
                );
            }
            self.news.borrow_and_update();
            match self
                .log
                .list_events_after(self.after, MAX_EVENTS_PER_LOG_READ)
            {
                EventLogReadResult::Events(events) if !events.is_empty() => {
                    self.ready = events.into_iter()
                }
                EventLogReadResult::Events(_) if self.is_at_end => return None,
                EventLogReadResult::Events(_) => self.wait_for_events().await,
                EventLogReadResult::Gap(number) => {
                    self.after = number;
                    let data = format!("{{\"type\":\"gap\",\"after\":{number}}}");
                    return Some(
                        Event::default()
                            .id(number.to_string())
                            .event("gap")
                            .data(data),
                    );
                }
                EventLogReadResult::Closed => return None,
            }
        }
    }

    /// Waits for more events or for the outcome of the turn. When the outcome arrives, all events
    /// of the turn are in the log.
    async fn wait_for_events(&mut self) {
        let Some(outcome) = &mut self.outcome else {
            let _ = self.news.changed().await;
            return;
        };
        tokio::select! {
            changed = self.news.changed() => drop(changed),
            _ = outcome => {
                self.outcome = None;
                self.is_at_end = true;
            }
        }
    }
}
