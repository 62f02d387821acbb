//! Output of the calls that run now. It is in no event and in no file: hooks judge the result of a
//! call only when it has ended (`rind_lib::tool::live`).

use axum::Json;
use axum::extract::{Path, State};
use rind_lib::tool::live::RunningOutput;
use schemars::JsonSchema;
use serde::Serialize;

use super::in_background;
use crate::ApiState;
use crate::error::ApiError;

/// Number of lines of each output: as many as fit next to the rest of a page.
pub(crate) const N_LINES: usize = 20;

/// Ends of the outputs of running calls.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct OutputList {
    /// Outputs, by agent and id of the call. Empty when the session is not open here.
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
