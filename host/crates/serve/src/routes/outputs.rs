//! Route for the output of running tool calls. Events and files do not contain this output, because
//! hooks check the result of a call only after the call has ended (`rind_lib::tool::live`).

use axum::Json;
use axum::extract::{Path, State};
use rind_lib::tool::live::RunningOutput;
use schemars::JsonSchema;
use serde::Serialize;

use super::run_blocking;
use crate::ApiState;
use crate::error::ApiError;

/// Maximum number of lines that are returned of the end of each output. This many fit on a page
/// together with its other content.
pub(crate) const MAX_OUTPUT_TAIL_LINES: usize = 20;

/// Last lines of the outputs of the tool calls that are running in a session.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct OutputList {
    /// Outputs, in order of agent and call id. Empty when the session is not open in this server.
    outputs: Vec<RunningOutput>,
}

pub(crate) async fn get_running_outputs(
    State(state): State<ApiState>,
    Path(id): Path<String>,
) -> Result<Json<OutputList>, ApiError> {
    let outputs = match state.sessions.find_open_session(&id).await {
        Some(live) => live.running_call_outputs(MAX_OUTPUT_TAIL_LINES),
        None => {
            let store = state.sessions.session_store().clone();
            run_blocking(move || Ok(store.check_session_exists(&id)?)).await?;
            Vec::new()
        }
    };
    Ok(Json(OutputList { outputs }))
}
