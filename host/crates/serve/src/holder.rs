//! Runs sessions of a shared store in this program, such as a worker. Keeps each session open while
//! its turns run, and answers the requests about the session that other servers forward.
//!
//! The server that forwarded a request has already checked that the user has access. Each request
//! concerns one session and can reach nothing else of this program.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::response::IntoResponse;
use futures_util::future::BoxFuture;
use http::{Method, Request, Response};
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use rind_lib::loops::LoopInboxes;
use rind_lib::point::payload::Source;

use crate::access::ApiAccessSecrets;
use crate::error::ApiError;
use crate::forward::{question_id_in_request_path, session_id_in_request_path};
use crate::gate::{TurnAdmissionController, TurnStartRefusal};
use crate::live::{OpenSession, OpenSessions};
use crate::loop_board::LoopStatusBoard;
use crate::remote::RemoteSessionState;
use crate::session_task::{AnyTurnRequest, SessionTurnRequest};
use crate::workspaces::{WorkspaceHost, WorkspaceHostFactory, WorkspaceHosts};
use crate::{ApiState, routes};

/// Reason why a session cannot be opened, or why a turn failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionOpenOrTurnError {
    /// Another program has the session open, or the session is closing.
    Busy,
    /// Another program has continued the session, so this program can no longer write to it.
    Fenced,
    /// The gate did not allow the turn to begin, for this reason.
    Refused(TurnStartRefusal),
    /// The session or the turn failed in another way. The text contains the chain of causes.
    Failed(String),
}

/// Sessions that this program has open, and the router that answers requests about them.
#[derive(Clone)]
pub struct OpenSessionRegistry {
    state: ApiState,
    router: Router,
}

impl OpenSessionRegistry {
    /// Creates the registry of the open sessions of one host. A question of a turn that is not
    /// answered within `answer_time` is answered with no.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn new(host: WorkspaceHost, answer_time: Duration) -> std::io::Result<Self> {
        let loops = LoopStatusBoard::new(host.hooks.clone());
        let workspaces = WorkspaceHosts::new(host, Vec::new(), Arc::new(FolderRefusingHostFactory));
        let sessions = OpenSessions::new(workspaces)
            .with_question_timeout(Some(answer_time))
            .with_explicit_opening_only();
        let state = ApiState {
            sessions: Arc::new(sessions),
            access: Arc::new(ApiAccessSecrets::with_random_secrets()?),
            loops: Arc::new(loops),
            inboxes: LoopInboxes::default(),
            remote: None,
        };
        let router = routes::router_without_access_check(state.clone());
        Ok(Self { state, router })
    }

    /// Requires the permission of `gate` for each turn before the turn begins.
    #[must_use]
    pub fn with_turn_admission_controller(self, gate: Arc<dyn TurnAdmissionController>) -> Self {
        self.state.sessions.set_turn_admission_controller(gate);
        self
    }

    /// Opens a session, or creates it if it does not exist.
    ///
    /// # Errors
    /// Another program has the session open, or the session cannot be read or created.
    pub async fn open_or_create_session(
        &self,
        id: &str,
    ) -> Result<OpenSessionHandle, SessionOpenOrTurnError> {
        let live = self.state.sessions.get_or_create_session(id).await?;
        Ok(OpenSessionHandle { live })
    }

    /// Answers a request about the session `session`. Refuses a request about anything else.
    pub fn answer_session_request(
        &self,
        session: &str,
        request: Request<Bytes>,
    ) -> BoxFuture<'static, Response<Body>> {
        if !self.is_request_about_session(session, request.method(), request.uri()) {
            let refused = ApiError::forbidden(
                "the program that has the session open answers requests about this session only",
            );
            return Box::pin(async { refused.into_response() });
        }
        let router = TowerToHyperService::new(self.router.clone());
        let answered = router.call(request.map(Body::from));
        Box::pin(async move {
            match answered.await {
                Ok(answer) => answer,
                Err(never) => match never {},
            }
        })
    }

    fn is_request_about_session(&self, session: &str, method: &Method, uri: &http::Uri) -> bool {
        let path = uri.path();
        if let Some(question) = question_id_in_request_path(method, path) {
            let open = self
                .state
                .sessions
                .pending_questions()
                .unanswered_questions(Some(session));
            return open.iter().any(|open| open.id == question);
        }
        let own_questions = format!("/v1/questions?session={session}");
        let is_list = method == Method::GET
            && uri
                .path_and_query()
                .is_some_and(|path| *path == *own_questions);
        is_list || session_id_in_request_path(method, path) == Some(session)
    }

    /// Returns the states of the sessions that this program has open.
    pub async fn session_states(&self) -> Vec<RemoteSessionState> {
        let questions = self
            .state
            .sessions
            .pending_questions()
            .unanswered_questions(None);
        let open = self.state.sessions.list_open_sessions().await;
        open.into_iter()
            .map(|(id, live)| RemoteSessionState {
                questions: questions
                    .iter()
                    .filter(|question| question.session == id)
                    .map(|question| question.id.clone())
                    .collect(),
                quiet_ms: live.quiet_ms,
                id,
            })
            .collect()
    }
}

/// A session that this program has open.
pub struct OpenSessionHandle {
    live: Arc<OpenSession>,
}

impl OpenSessionHandle {
    /// Runs a turn for an input, after the turns that users requested earlier. Returns once the end
    /// of the turn is stored. Dropping the future also drops the turn, and another program can then
    /// continue it.
    ///
    /// # Errors
    /// Another program has continued the session, or the turn failed.
    pub async fn run_turn_for_input(
        &mut self,
        id: &str,
        text: &str,
    ) -> Result<(), SessionOpenOrTurnError> {
        let order = SessionTurnRequest {
            text: text.to_owned(),
            input_id: Some(id.to_owned()),
            is_stored_first: true,
            ..SessionTurnRequest::default()
        };
        let work = AnyTurnRequest::Turn(Box::new(order));
        let ordered = self.live.clone().enqueue_session_work(work, true)?;
        let release = AbandonTurnGuard(Some(&self.live));
        let ended = ordered.outcome.await;
        release.disarm();
        match ended {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) if error.is_fenced => Err(SessionOpenOrTurnError::Fenced),
            Ok(Err(error)) => Err(match error.refusal {
                Some(refusal) => SessionOpenOrTurnError::Refused(refusal),
                None => SessionOpenOrTurnError::Failed(error.text),
            }),
            Err(_) if self.live.has_stopped_accepting_turns() => Err(SessionOpenOrTurnError::Busy),
            Err(_) => Err(SessionOpenOrTurnError::Failed(
                "the task of the session ended".to_owned(),
            )),
        }
    }

    /// Returns the digest of the plugin set with which the turn of the input `input_id` began, if
    /// that turn was interrupted before this program opened the session.
    #[must_use]
    pub fn plugin_set_digest_of_interrupted_turn(&self, input_id: &str) -> Option<&str> {
        let turn = self.live.turn_interrupted_before_opening()?;
        let is_of_input = turn.input_id.as_deref() == Some(input_id);
        turn.plugins.as_deref().filter(|_| is_of_input)
    }

    /// Returns a handle that sends text to the turn that
    /// [`run_turn_for_input`](Self::run_turn_for_input) runs.
    #[must_use]
    pub fn steering_sender(&self) -> TurnSteeringSender {
        TurnSteeringSender(self.live.clone())
    }

    /// Whether the session is running a turn.
    #[must_use]
    pub fn is_turn_running(&self) -> bool {
        self.live.has_running_turn()
    }

    /// Waits until the session runs no turn.
    pub async fn wait_until_idle(&self) {
        self.live.wait_until_turn_state(false).await;
    }

    /// Closes the session. A running turn is interrupted.
    pub async fn close(self) {
        self.live.interrupt_and_close().await;
    }
}

/// Sends texts to the running turn of a session that this program has open.
pub struct TurnSteeringSender(Arc<OpenSession>);

impl TurnSteeringSender {
    /// Waits until a turn runs, and adds `text` to it before its next request to the model.
    pub async fn send_text_to_turn(&self, text: &str) {
        let tell = || self.0.steer_turn(text.to_owned(), Source::Http, false);
        // A turn may end before it gets the text; in this case, wait for the next turn.
        while tell().is_none() && !self.0.has_stopped_accepting_turns() {
            self.0.wait_until_turn_state(true).await;
        }
    }
}

/// Abandons the running turn and closes the session when the guard is dropped without being
/// disarmed.
struct AbandonTurnGuard<'a>(Option<&'a OpenSession>);

impl AbandonTurnGuard<'_> {
    fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for AbandonTurnGuard<'_> {
    fn drop(&mut self) {
        if let Some(live) = self.0 {
            live.abandon_turn_and_close();
        }
    }
}

impl From<ApiError> for SessionOpenOrTurnError {
    fn from(error: ApiError) -> Self {
        match error.code {
            "locked" | "exists" | "closing" | "too-many" => Self::Busy,
            "fenced" => Self::Fenced,
            _ => Self::Failed(error.message),
        }
    }
}

/// Refuses every folder, because the program works only in its own folder.
struct FolderRefusingHostFactory;

impl WorkspaceHostFactory for FolderRefusingHostFactory {
    fn open_host(&self, folder: PathBuf) -> BoxFuture<'_, Result<WorkspaceHost, String>> {
        let why = format!(
            "this program works only in its own workspace, not in {}",
            folder.display()
        );
        Box::pin(async { Err(why) })
    }
}
