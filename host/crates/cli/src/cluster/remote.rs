//! Sends requests about sessions in a NATS store to the programs that have these sessions open, for
//! `rind serve --nats`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use http::{Request, Response};
use rind_lib::text::format_error_chain;
use rind_nats::call::{CallError, SessionRequests};
use rind_nats::worker::TurnInbox;
use rind_nats::{NatsError, NatsSessions};
use rind_serve::body::{Body, Bytes};
use rind_serve::gate::TurnGate;
use rind_serve::remote::{RemoteError, RemoteSessionState, RemoteSessions, RemoteTurnOutcome};

use super::gate::KeylessTurnGate;

/// Time for which the list of open sessions is cached. A request for the list waits for all
/// programs that hold sessions, so a program that was killed delays the list.
const KNOWN: Duration = Duration::from_secs(1);

/// Sends requests to the other programs of a tenant that have sessions of the tenant open.
pub(crate) struct NatsRemoteSessions {
    calls: SessionRequests,
    inbox: TurnInbox,
    sessions: NatsSessions,
    /// Class of the workers that run the turns; `None` if this program runs turns itself.
    class: Option<String>,
    /// Cached list of all open sessions, and the time at which it was requested.
    states: tokio::sync::Mutex<Option<(Instant, Vec<RemoteSessionState>)>>,
}

impl NatsRemoteSessions {
    pub(super) fn new(sessions: NatsSessions, inbox: TurnInbox, class: Option<String>) -> Self {
        Self {
            calls: SessionRequests::new(&sessions),
            inbox,
            sessions,
            class,
            states: tokio::sync::Mutex::default(),
        }
    }
}

impl RemoteSessions for NatsRemoteSessions {
    fn ask<'a>(
        &'a self,
        session: &'a str,
        request: Request<Bytes>,
    ) -> BoxFuture<'a, Result<Response<Body>, RemoteError>> {
        Box::pin(async move {
            let may_change = request.method() != http::Method::GET;
            let answer = self
                .calls
                .ask(session, request)
                .await
                .map_err(to_remote_error)?;
            if may_change {
                *self.states.lock().await = None;
            }
            Ok(answer.map(Body::from_stream))
        })
    }

    fn is_session_held<'a>(&'a self, session: &'a str) -> BoxFuture<'a, Result<bool, RemoteError>> {
        Box::pin(async move {
            self.calls
                .is_session_held(session)
                .await
                .map_err(to_remote_error)
        })
    }

    fn wait_for_holder<'a>(
        &'a self,
        session: &'a str,
        time: Duration,
    ) -> BoxFuture<'a, Result<(), RemoteError>> {
        Box::pin(async move {
            let waited = self.calls.wait_for_holder(session, time).await;
            waited.map_err(|error| to_remote_error(error.into()))
        })
    }

    fn is_waiting<'a>(&'a self, session: &'a str) -> BoxFuture<'a, Result<bool, RemoteError>> {
        Box::pin(async move {
            let waits = self.inbox.has_queued_input(session).await;
            waits.map_err(|error| to_remote_error(error.into()))
        })
    }

    fn has_queue(&self) -> bool {
        self.class.is_some()
    }

    fn send_input<'a>(
        &'a self,
        session: &'a str,
        id: &'a str,
        text: &'a str,
    ) -> BoxFuture<'a, Result<(), RemoteError>> {
        Box::pin(async move {
            let class = self.class.as_deref().unwrap_or("default");
            let sent = self.inbox.send(session, class, id, text).await;
            sent.map_err(|error| to_remote_error(error.into()))
        })
    }

    fn wait_for_end<'a>(
        &'a self,
        session: &'a str,
        id: &'a str,
    ) -> BoxFuture<'a, Result<RemoteTurnOutcome, RemoteError>> {
        Box::pin(async move {
            let ended = self.inbox.wait_for_end(&self.sessions, session, id).await;
            let ended = ended.map_err(|error| to_remote_error(error.into()))?;
            Ok(RemoteTurnOutcome {
                turn: ended.turn,
                output: ended.output,
                summary: serde_json::to_value(&ended.summary).unwrap_or_default(),
            })
        })
    }

    fn gate(&self) -> Option<Arc<dyn TurnGate>> {
        Some(Arc::new(KeylessTurnGate::new(
            &self.sessions,
            self.class.is_some(),
        )))
    }

    fn states(&self) -> BoxFuture<'_, Result<Vec<RemoteSessionState>, RemoteError>> {
        Box::pin(async move {
            // Hold the lock during the request, so that concurrent callers wait for this answer
            // instead of requesting the list again.
            let mut known = self.states.lock().await;
            if let Some((asked, states)) = &*known
                && asked.elapsed() < KNOWN
            {
                return Ok(states.clone());
            }
            let asked = Instant::now();
            let boards = self.calls.request_other_holders_boards().await;
            let boards = boards.map_err(|error| to_remote_error(error.into()))?;
            let told = boards
                .into_iter()
                .map(|board| serde_json::from_value::<Vec<RemoteSessionState>>(board.told));
            // A program of another version may send unknown records: skip them.
            let states: Vec<RemoteSessionState> = told.filter_map(Result::ok).flatten().collect();
            *known = Some((asked, states.clone()));
            Ok(states)
        })
    }
}

fn to_remote_error(error: CallError) -> RemoteError {
    match error {
        CallError::NoHolder => RemoteError::NoHolder,
        CallError::TooLarge => RemoteError::TooLarge(error.to_string()),
        CallError::Silent => RemoteError::Silent(error.to_string()),
        CallError::Nats(NatsError::Config { .. } | NatsError::GivenUp { .. }) => {
            RemoteError::Refused(error.to_string())
        }
        CallError::Nats(NatsError::Refused { .. } | NatsError::OverQuota(_)) => {
            RemoteError::Full(error.to_string())
        }
        other => RemoteError::Failed(format_error_chain(&other)),
    }
}
