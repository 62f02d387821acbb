//! Routes for the loops of plugins: their states, and messages to them.

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use http::StatusCode;
use rind_lib::loops::LoopInboxError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::JsonBodyExtractor;
use crate::ApiState;
use crate::error::ApiError;
use crate::loop_board::LoopRow;

/// Sender that a loop sees in a message that arrives over the API.
const HTTP_MESSAGE_SENDER_NAME: &str = "http";

/// Message to the loop of a plugin.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewMessage {
    /// Text of the message, at most 64 KiB.
    pub(crate) text: String,
}

/// Loops of plugins that the server runs.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct LoopList {
    /// Loops, sorted by the names of their plugins.
    pub(crate) loops: Vec<LoopRow>,
}

pub(crate) async fn get_plugin_loops(State(state): State<ApiState>) -> Json<LoopList> {
    let loops = state.loops.build_loop_rows();
    Json(LoopList { loops })
}

pub(crate) async fn send_loop_message(
    State(state): State<ApiState>,
    Path(plugin): Path<String>,
    JsonBodyExtractor(message): JsonBodyExtractor<NewMessage>,
) -> Result<StatusCode, ApiError> {
    state
        .inboxes
        .send_message(&plugin, HTTP_MESSAGE_SENDER_NAME, message.text)?;
    Ok(StatusCode::ACCEPTED)
}

/// Sends the request body, of any media type, to a loop as text. Meant for programs that cannot
/// choose the JSON that they send, such as webhooks.
pub(crate) async fn send_loop_event(
    State(state): State<ApiState>,
    Path(plugin): Path<String>,
    body: Bytes,
) -> Result<StatusCode, ApiError> {
    let text = String::from_utf8(body.into());
    let text = text.map_err(|_| ApiError::invalid_request("an event is text in UTF-8"))?;
    state
        .inboxes
        .send_message(&plugin, HTTP_MESSAGE_SENDER_NAME, text)?;
    Ok(StatusCode::ACCEPTED)
}

impl From<LoopInboxError> for ApiError {
    fn from(error: LoopInboxError) -> Self {
        match &error {
            LoopInboxError::Unknown { .. } => Self::not_found(error.to_string()),
            LoopInboxError::Full { .. } => Self::too_many_requests(error.to_string()),
            _ => Self::invalid_request(error.to_string()),
        }
    }
}
