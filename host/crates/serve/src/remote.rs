//! Accesses sessions that other programs have open (hold), if several programs share a store.
//!
//! The server shows all sessions of the store. If another program holds a session, that program has
//! the session's events, questions and turns, and answers the requests about it.
//! [`RemoteSessionClient`] hides how requests reach that program.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use futures_util::future::BoxFuture;
use http::{Request, Response};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::ApiError;
use crate::gate::TurnAdmissionController;

/// State of a session that another program has open, as that program reports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteSessionState {
    /// Id of the session that the other program has open.
    pub id: String,
    /// Milliseconds since the last event of the running turn; `None` when none runs.
    #[serde(default)]
    pub quiet_ms: Option<u64>,
    /// Ids of the session's questions that wait for an answer.
    #[serde(default)]
    pub questions: Vec<String>,
}

/// Reason why there is no answer from the program that holds a session.
#[derive(Debug, thiserror::Error)]
pub enum RemoteSessionError {
    /// No program has the session open.
    #[error("no program has the session open")]
    NoHolder,
    /// The request is too large to be forwarded.
    #[error("{0}")]
    TooLarge(String),
    /// The request was refused: it is invalid, or not supported in this form.
    #[error("{0}")]
    Refused(String),
    /// Too many requests or inputs are already waiting for the other program.
    #[error("{0}")]
    Full(String),
    /// The program that has the session open does not answer. It may have carried out the request.
    #[error("{0}")]
    Silent(String),
    /// Failure of any other kind. The program that holds the session may have carried out the
    /// request.
    #[error("{0}")]
    Failed(String),
}

/// Outcome of a turn that another program ran.
#[derive(Clone, Debug)]
pub struct RemoteTurnOutcome {
    /// Number of the turn within its session.
    pub turn: u32,
    /// Output of the turn, to be shown to the user.
    pub output: String,
    /// Stop reason, steps, calls, tokens and cost of the turn, as JSON.
    pub summary: Value,
}

/// Connection to the programs that have sessions open. Several requests may use it concurrently.
pub trait RemoteSessionClient: Send + Sync {
    /// Sends a request to the holder of a session and returns the holder's response.
    fn send_request<'a>(
        &'a self,
        session: &'a str,
        request: Request<Bytes>,
    ) -> BoxFuture<'a, Result<Response<Body>, RemoteSessionError>>;

    /// Whether a program has the session open.
    fn is_session_held<'a>(
        &'a self,
        session: &'a str,
    ) -> BoxFuture<'a, Result<bool, RemoteSessionError>>;

    /// Waits until a program has the session open, at most for the given time.
    fn wait_until_session_open<'a>(
        &'a self,
        session: &'a str,
        time: Duration,
    ) -> BoxFuture<'a, Result<(), RemoteSessionError>>;

    /// Whether inputs of a session are queued for a program that will run them.
    fn has_queued_inputs<'a>(
        &'a self,
        session: &'a str,
    ) -> BoxFuture<'a, Result<bool, RemoteSessionError>>;

    /// Whether all turns are run by workers, which take the inputs from a queue; this server then
    /// runs no turns.
    fn has_queue(&self) -> bool;

    /// Queues an input for a session. An input whose id was queued before has no effect.
    fn send_input<'a>(
        &'a self,
        session: &'a str,
        id: &'a str,
        text: &'a str,
    ) -> BoxFuture<'a, Result<(), RemoteSessionError>>;

    /// Waits for the end of the turn that an input begins. The turn continues if the future is
    /// dropped.
    fn wait_for_end<'a>(
        &'a self,
        session: &'a str,
        id: &'a str,
    ) -> BoxFuture<'a, Result<RemoteTurnOutcome, RemoteSessionError>>;

    /// Returns the gate that each turn in this program must pass before it begins; `None` if turns
    /// need no permission.
    fn turn_admission_controller(&self) -> Option<Arc<dyn TurnAdmissionController>> {
        None
    }

    /// Returns the states of all sessions that other programs have open.
    fn list_open_session_states(
        &self,
    ) -> BoxFuture<'_, Result<Vec<RemoteSessionState>, RemoteSessionError>>;
}

impl From<RemoteSessionError> for ApiError {
    fn from(error: RemoteSessionError) -> Self {
        let text = error.to_string();
        match error {
            RemoteSessionError::NoHolder => Self::conflict("idle", text),
            RemoteSessionError::TooLarge(_) => Self::forwarded_body_too_large(text),
            RemoteSessionError::Refused(_) => Self::invalid_request(text),
            RemoteSessionError::Full(_) => Self::too_many_requests(text),
            RemoteSessionError::Silent(_) | RemoteSessionError::Failed(_) => {
                Self::unavailable(text)
            }
        }
    }
}
