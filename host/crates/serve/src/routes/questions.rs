//! Routes for the questions of all sessions, and for answers to them.

use axum::Json;
use axum::extract::{Path, State};
use http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{JsonBodyExtractor, RequestQueryExtractor};
use crate::ApiState;
use crate::error::ApiError;
use crate::forward::list_open_questions;
use crate::questions::{AnswerBody, OpenQuestion, QuestionAnswerError};

/// Query that selects the questions to list.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct QuestionQuery {
    /// Id of the session whose questions are listed; without it, those of all sessions.
    #[serde(default)]
    session: Option<String>,
}

/// Questions that wait, the oldest first.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct QuestionList {
    /// Requests for approval and questions of plugins, the oldest first.
    pub(crate) questions: Vec<OpenQuestion>,
}

pub(crate) async fn get_questions(
    State(state): State<ApiState>,
    RequestQueryExtractor(query): RequestQueryExtractor<QuestionQuery>,
) -> Result<Json<QuestionList>, ApiError> {
    let questions = list_open_questions(&state, query.session.as_deref()).await?;
    Ok(Json(QuestionList { questions }))
}

pub(crate) async fn post_question_answer(
    State(state): State<ApiState>,
    Path(id): Path<String>,
    JsonBodyExtractor(body): JsonBodyExtractor<AnswerBody>,
) -> Result<StatusCode, ApiError> {
    state
        .sessions
        .pending_questions()
        .answer_question(&id, &body)?;
    Ok(StatusCode::NO_CONTENT)
}

impl From<QuestionAnswerError> for ApiError {
    fn from(error: QuestionAnswerError) -> Self {
        match &error {
            QuestionAnswerError::Unknown(_) => Self::not_found(error.to_string()),
            QuestionAnswerError::Unfit(_) => Self::invalid_request(error.to_string()),
        }
    }
}
