//! Runs sessions of a shared store in this program, such as a worker: holds each session while its
//! turns run, and answers the requests about it that other servers forward.
//!
//! The server that forwarded a request has already checked that the person has access. Each request
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

use crate::access::ApiAccess;
use crate::error::ApiError;
use crate::forward::{is_about_session, question_of};
use crate::gate::{GateRefusal, TurnGate};
use crate::live::{LiveSession, LiveSessions};
use crate::loop_board::LoopBoard;
use crate::remote::RemoteState;
use crate::session_task::{SessionWork, TurnOrder};
use crate::workspaces::{OpenWorkspace, WorkspaceHost, Workspaces};
use crate::{ApiState, routes};

/// Reason why a session cannot be opened, or why a turn failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HoldError {
    /// Another program has the session open, or the session is closing.
    Busy,
    /// Another program has continued the session.
    Fenced,
    /// The gate lets no turn begin.
    Refused(GateRefusal),
    /// Any other failure, with its chain of causes.
    Failed(String),
}

/// Sessions that this program holds, and the router that answers requests about them.
#[derive(Clone)]
pub struct SessionHolder {
    state: ApiState,
    router: Router,
}

impl SessionHolder {
    /// Creates the holder of the sessions of one host. A question of a turn waits for an answer for
    /// `answer_time`; then it is answered with no.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn new(host: WorkspaceHost, answer_time: Duration) -> std::io::Result<Self> {
        let loops = LoopBoard::new(host.hooks.clone());
        let workspaces = Workspaces::new(host, Vec::new(), Arc::new(NoFolders));
        let sessions = LiveSessions::new(workspaces)
            .with_answer_time(Some(answer_time))
            .with_held_only();
        let state = ApiState {
            sessions: Arc::new(sessions),
            access: Arc::new(ApiAccess::unreachable()?),
            loops: Arc::new(loops),
            inboxes: LoopInboxes::default(),
            remote: None,
        };
        let router = routes::open_router(state.clone());
        Ok(Self { state, router })
    }

    /// Makes all turns pass this gate before they begin.
    #[must_use]
    pub fn with_gate(self, gate: Arc<dyn TurnGate>) -> Self {
        self.state.sessions.set_gate(gate);
        self
    }

    /// Opens a session, or creates it if it does not exist.
    ///
    /// # Errors
    /// Another program holds it, or it cannot be read or created.
    pub async fn hold(&self, id: &str) -> Result<HeldSession, HoldError> {
        let live = self.state.sessions.hold_session(id).await?;
        Ok(HeldSession { live })
    }

    /// Answers a request about a session. A request about anything else is refused.
    pub fn answer(
        &self,
        session: &str,
        request: Request<Bytes>,
    ) -> BoxFuture<'static, Response<Body>> {
        if !self.may_answer(session, request.method(), request.uri()) {
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

    fn may_answer(&self, session: &str, method: &Method, uri: &http::Uri) -> bool {
        let path = uri.path();
        if let Some(question) = question_of(method, path) {
            let open = self.state.sessions.board().open_questions(Some(session));
            return open.iter().any(|open| open.id == question);
        }
        let own_questions = format!("/v1/questions?session={session}");
        let is_list = method == Method::GET
            && uri
                .path_and_query()
                .is_some_and(|path| *path == *own_questions);
        is_list || is_about_session(method, path) == Some(session)
    }

    /// Returns the states of the sessions that this program holds.
    pub async fn states(&self) -> Vec<RemoteState> {
        let questions = self.state.sessions.board().open_questions(None);
        let open = self.state.sessions.open_sessions().await;
        open.into_iter()
            .map(|(id, live)| RemoteState {
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

/// A session that this program holds.
pub struct HeldSession {
    live: Arc<LiveSession>,
}

impl HeldSession {
    /// Runs a turn for an input after the turns that people ordered before, and returns once its
    /// end is stored. Dropping the future drops the turn as well, and another program can continue
    /// it.
    ///
    /// # Errors
    /// Another program has continued the session, or the turn failed.
    pub async fn run_input(&mut self, id: &str, text: &str) -> Result<(), HoldError> {
        let order = TurnOrder {
            text: text.to_owned(),
            input_id: Some(id.to_owned()),
            is_stored_first: true,
            ..TurnOrder::default()
        };
        let work = SessionWork::Turn(Box::new(order));
        let ordered = self.live.clone().order(work, true)?;
        let release = ReleaseGuard(Some(&self.live));
        let ended = ordered.outcome.await;
        release.disarm();
        match ended {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) if error.is_fenced => Err(HoldError::Fenced),
            Ok(Err(error)) => Err(match error.refusal {
                Some(refusal) => HoldError::Refused(refusal),
                None => HoldError::Failed(error.text),
            }),
            Err(_) if self.live.is_over() => Err(HoldError::Busy),
            Err(_) => Err(HoldError::Failed(
                "the task of the session ended".to_owned(),
            )),
        }
    }

    /// Returns the digest of the set of plugins with which the turn of this input began, if that
    /// turn was interrupted before this program opened the session.
    #[must_use]
    pub fn interrupted_set(&self, input_id: &str) -> Option<&str> {
        let turn = self.live.interrupted()?;
        let is_of_input = turn.input_id.as_deref() == Some(input_id);
        turn.plugins.as_deref().filter(|_| is_of_input)
    }

    /// Returns a handle that sends text to the turn that [`run_input`](Self::run_input) runs.
    #[must_use]
    pub fn teller(&self) -> TurnTeller {
        TurnTeller(self.live.clone())
    }

    /// Whether a turn runs.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.live.is_running()
    }

    /// Waits until no turn runs.
    pub async fn idle(&self) {
        self.live.wait_running(false).await;
    }

    /// Closes the session. A running turn is interrupted.
    pub async fn close(self) {
        self.live.end_session().await;
    }
}

/// Sends text to the running turn of a held session.
pub struct TurnTeller(Arc<LiveSession>);

impl TurnTeller {
    /// Waits until a turn runs, and adds a text to it before its next request to the model.
    pub async fn tell(&self, text: &str) {
        let tell = || self.0.steer_turn(text.to_owned(), Source::Http, false);
        // The turn may end before the text reaches it; then the text goes to the next turn.
        while tell().is_none() && !self.0.is_over() {
            self.0.wait_running(true).await;
        }
    }
}

/// Releases the running turn when the guard is dropped without being disarmed.
struct ReleaseGuard<'a>(Option<&'a LiveSession>);

impl ReleaseGuard<'_> {
    fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for ReleaseGuard<'_> {
    fn drop(&mut self) {
        if let Some(live) = self.0 {
            live.release_turn();
        }
    }
}

impl From<ApiError> for HoldError {
    fn from(error: ApiError) -> Self {
        match error.code {
            "locked" | "exists" | "closing" | "too-many" => Self::Busy,
            "fenced" => Self::Fenced,
            _ => Self::Failed(error.message),
        }
    }
}

/// Refuses every folder: the program has only its own.
struct NoFolders;

impl OpenWorkspace for NoFolders {
    fn open_host(&self, folder: PathBuf) -> BoxFuture<'_, Result<WorkspaceHost, String>> {
        let why = format!("{} is not a folder of this program", folder.display());
        Box::pin(async { Err(why) })
    }
}
