//! Sends requests about sessions in a NATS store to the programs that have these sessions open, for
//! `rind serve --nats`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use http::{Request, Response};
use rind_lib::text::format_error_chain;
use rind_nats::call::{SessionRequestError, SessionRequestMessenger};
use rind_nats::worker::SessionInboxClient;
use rind_nats::{NatsError, NatsSessions};
use rind_serve::body::{Body, Bytes};
use rind_serve::gate::TurnAdmissionController;
use rind_serve::remote::{
    RemoteSessionClient, RemoteSessionError, RemoteSessionState, RemoteTurnOutcome,
};

use super::gate::UnverifiablePluginSetTurnGate;

/// Time for which the list of open sessions is cached. A request for the list waits for all
/// programs that hold sessions, so a program that was killed delays the list.
const OPEN_SESSIONS_CACHE_TTL: Duration = Duration::from_secs(1);

/// Sends requests to the other programs of a tenant that have sessions of the tenant open.
pub(crate) struct NatsRemoteSessionClient {
    calls: SessionRequestMessenger,
    inbox: SessionInboxClient,
    sessions: NatsSessions,
    /// Class of the workers that run the turns; `None` if this program runs turns itself.
    class: Option<String>,
    /// Cached list of all open sessions, and the time at which it was requested.
    states: tokio::sync::Mutex<Option<(Instant, Vec<RemoteSessionState>)>>,
}

impl NatsRemoteSessionClient {
    pub(super) fn new(
        sessions: NatsSessions,
        inbox: SessionInboxClient,
        class: Option<String>,
    ) -> Self {
        Self {
            calls: SessionRequestMessenger::new(&sessions),
            inbox,
            sessions,
            class,
            states: tokio::sync::Mutex::default(),
        }
    }
}

impl RemoteSessionClient for NatsRemoteSessionClient {
    fn send_request<'a>(
        &'a self,
        session: &'a str,
        request: Request<Bytes>,
    ) -> BoxFuture<'a, Result<Response<Body>, RemoteSessionError>> {
        Box::pin(async move {
            let may_change = request.method() != http::Method::GET;
            let answer = self
                .calls
                .send_session_request(session, request)
                .await
                .map_err(request_error_to_remote_session_error)?;
            if may_change {
                *self.states.lock().await = None;
            }
            Ok(answer.map(Body::from_stream))
        })
    }

    fn is_session_held<'a>(
        &'a self,
        session: &'a str,
    ) -> BoxFuture<'a, Result<bool, RemoteSessionError>> {
        Box::pin(async move {
            self.calls
                .is_session_held(session)
                .await
                .map_err(request_error_to_remote_session_error)
        })
    }

    fn wait_until_session_open<'a>(
        &'a self,
        session: &'a str,
        time: Duration,
    ) -> BoxFuture<'a, Result<(), RemoteSessionError>> {
        Box::pin(async move {
            let waited = self.calls.wait_until_session_opened(session, time).await;
            waited.map_err(|error| request_error_to_remote_session_error(error.into()))
        })
    }

    fn has_queued_inputs<'a>(
        &'a self,
        session: &'a str,
    ) -> BoxFuture<'a, Result<bool, RemoteSessionError>> {
        Box::pin(async move {
            let waits = self.inbox.has_queued_input(session).await;
            waits.map_err(|error| request_error_to_remote_session_error(error.into()))
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
    ) -> BoxFuture<'a, Result<(), RemoteSessionError>> {
        Box::pin(async move {
            let class = self.class.as_deref().unwrap_or("default");
            let sent = self.inbox.send(session, class, id, text).await;
            sent.map_err(|error| request_error_to_remote_session_error(error.into()))
        })
    }

    fn wait_for_end<'a>(
        &'a self,
        session: &'a str,
        id: &'a str,
    ) -> BoxFuture<'a, Result<RemoteTurnOutcome, RemoteSessionError>> {
        Box::pin(async move {
            let ended = self
                .inbox
                .wait_for_turn_end(&self.sessions, session, id)
                .await;
            let ended =
                ended.map_err(|error| request_error_to_remote_session_error(error.into()))?;
            Ok(RemoteTurnOutcome {
                turn: ended.turn,
                output: ended.output,
                summary: serde_json::to_value(&ended.summary).unwrap_or_default(),
            })
        })
    }

    fn turn_admission_controller(&self) -> Option<Arc<dyn TurnAdmissionController>> {
        Some(Arc::new(UnverifiablePluginSetTurnGate::new(
            &self.sessions,
            self.class.is_some(),
        )))
    }

    fn list_open_session_states(
        &self,
    ) -> BoxFuture<'_, Result<Vec<RemoteSessionState>, RemoteSessionError>> {
        Box::pin(async move {
            // Hold the lock during the request, so that concurrent callers wait for this answer
            // instead of requesting the list again.
            let mut known = self.states.lock().await;
            if let Some((asked, states)) = &*known
                && asked.elapsed() < OPEN_SESSIONS_CACHE_TTL
            {
                return Ok(states.clone());
            }
            let asked = Instant::now();
            let boards = self.calls.collect_remote_session_lists().await;
            let boards =
                boards.map_err(|error| request_error_to_remote_session_error(error.into()))?;
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

fn request_error_to_remote_session_error(error: SessionRequestError) -> RemoteSessionError {
    match error {
        SessionRequestError::NoHolder => RemoteSessionError::NoHolder,
        SessionRequestError::TooLarge => RemoteSessionError::TooLarge(error.to_string()),
        SessionRequestError::Silent => RemoteSessionError::Silent(error.to_string()),
        SessionRequestError::Nats(NatsError::Config { .. } | NatsError::GivenUp { .. }) => {
            RemoteSessionError::Refused(error.to_string())
        }
        SessionRequestError::Nats(NatsError::Refused { .. } | NatsError::OverQuota(_)) => {
            RemoteSessionError::Full(error.to_string())
        }
        other => RemoteSessionError::Failed(format_error_chain(&other)),
    }
}
