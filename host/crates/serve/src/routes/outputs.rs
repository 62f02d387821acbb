//! Route for the output of the calls that run now. No event and no file contains this output,
//! because hooks judge the result of a call only when the call has ended (`rind_lib::tool::live`).

use axum::Json;
use axum::extract::{Path, State};
use rind_lib::tool::live::RunningOutput;
use schemars::JsonSchema;
use serde::Serialize;

use super::in_background;
use crate::ApiState;
use crate::error::ApiError;

/// Number of the last lines that are returned of each output: as many as fit on a page with
/// everything else.
pub(crate) const N_LINES: usize = 20;

/// Ends of the outputs of running calls.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct OutputList {
    /// Outputs, in order of agent and call id. Empty when the session is not open in this server.
    outputs: Vec<RunningOutput>,
}

pub(crate) async fn list(
    State(state): State<ApiState>,
    Path(id): Path<String>,
) -> Result<Json<OutputList>, ApiError> {
    let outputs = match state.sessions.opened(&id).await {
        Some(live) => live.running_outputs(N_LINES),
        None => {
            let store = state.sessions.store().clone();
            in_background(move || Ok(store.check_exists(&id)?)).await?;
            Vec::new()
        }
    };
    Ok(Json(OutputList { outputs }))
}
