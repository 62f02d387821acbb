//! Turns that workers run in other programs. The input is stored in a queue that survives a stop of
//! this server or of a worker, until a free worker takes it.

use std::sync::Arc;

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use rind_lib::session;

use crate::ApiState;
use crate::error::ApiError;
use crate::remote::RemoteSessionClient;
use crate::routes::turns::{AcceptedTurn, TurnResult};
use crate::session_task::SessionTurnRequest;

/// Input for a turn that is stored in the queue of inputs until a program runs it.
pub(crate) struct QueuedTurnInput {
    session: String,
    input: String,
    remote: Arc<dyn RemoteSessionClient>,
}

impl ApiState {
    /// Returns the connection to the workers that run the turns of this server; `None` if the
    /// server runs them itself.
    pub(crate) fn worker_queue(&self) -> Option<&Arc<dyn RemoteSessionClient>> {
        self.remote.as_ref().filter(|remote| remote.has_queue())
    }

    /// Returns an error if workers run the turns instead of this server.
    pub(crate) fn check_turns_run_locally(&self) -> Result<(), ApiError> {
        match self.worker_queue() {
            None => Ok(()),
            Some(_) => Err(ApiError::conflict(
                "idle",
                "workers run the turns of this server, and none has the session open: send an input, with which its \
                 interrupted turn continues",
            )),
        }
    }
}

/// Queues an input for a session. The session need not exist yet.
pub(crate) async fn enqueue_turn_input(
    remote: &Arc<dyn RemoteSessionClient>,
    session: &str,
    order: SessionTurnRequest,
) -> Result<QueuedTurnInput, ApiError> {
    let is_text =
        order.images.is_empty() && order.answer_schema.is_none() && order.max_cost_usd.is_none();
    if !is_text {
        return Err(ApiError::invalid_request(
            "workers run the turns of this server, and they get only the text: images, `output_schema` and `max_cost_usd` are \
             not supported",
        ));
    }
    let input = order.input_id.unwrap_or_else(rind_lib::clock::new_uuid_v7);
    remote.send_input(session, &input, &order.text).await?;
    Ok(QueuedTurnInput {
        session: session.to_owned(),
        input,
        remote: remote.clone(),
    })
}

/// Returns an error if the request names a folder, because each worker runs turns only in the
/// folder that it was started in.
pub(crate) fn check_no_workspace_requested(workspace: Option<&str>) -> Result<(), ApiError> {
    match workspace {
        None => Ok(()),
        Some(_) => Err(ApiError::invalid_request(
            "workers run the turns of this server, each in the folder that it was started in: `workspace` is not supported",
        )),
    }
}

/// Returns the id for a new session: `id` if it is valid, or a new id if it is `None`. The session
/// is created when its first input is queued.
pub(crate) fn check_or_create_session_id(id: Option<String>) -> Result<String, ApiError> {
    let id = id.unwrap_or_else(rind_lib::clock::new_uuid_v7);
    match session::is_session_id(&id) {
        true => Ok(id),
        false => Err(ApiError::invalid_request(
            "the id of a session has 1 to 96 letters, digits, `-`, `_` and `.`",
        )),
    }
}

impl QueuedTurnInput {
    /// Responds immediately or, if `wait` is set, when the turn has ended, with its outcome.
    pub(crate) async fn respond_with_turn_outcome(self, wait: bool) -> Result<Response, ApiError> {
        if !wait {
            let accepted = AcceptedTurn {
                session: self.session,
                after: 0,
            };
            return Ok((StatusCode::ACCEPTED, Json(accepted)).into_response());
        }
        let ended = self.remote.wait_for_end(&self.session, &self.input).await?;
        let result = TurnResult {
            session: self.session,
            turn: ended.turn,
            output: ended.output,
            summary: ended.summary,
        };
        Ok(Json(result).into_response())
    }
}
