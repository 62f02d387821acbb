//! Routes that start, steer, interrupt and continue turns.

use axum::Json;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, StatusCode, header};
use rind_lib::agent::{AnswerSchema, TurnOutcome};
use rind_lib::message::PromptImageAttachment;
use rind_lib::point::payload::Source;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{JsonBodyExtractor, events, run_blocking};
use crate::ApiState;
use crate::error::ApiError;
use crate::live::RequestedTurn;
use crate::queued::enqueue_turn_input;
use crate::session_task::SessionTurnRequest;

/// Maximum number of images in the input of a turn.
const MAX_IMAGES_PER_INPUT: usize = 16;

/// Maximum length in bytes of the id that a client gives an input.
const MAX_INPUT_ID_BYTES: usize = 256;

/// Input that begins a turn, with options for the turn.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewTurn {
    /// Text of the input, with at least one character that is not blank.
    #[schemars(regex(pattern = r"\S"))]
    pub(crate) text: String,
    /// Images for the model, in base64: PNG, JPEG, GIF or WebP; at most 16.
    #[serde(default)]
    #[schemars(length(max = 16))]
    pub(crate) images: Vec<String>,
    /// Id of the input, chosen by the caller. A session runs an input with an id once: a second
    /// request with the id returns the outcome of the turn, or continues the turn if it was
    /// interrupted.
    #[serde(default)]
    #[schemars(length(min = 1, max = 256))]
    pub(crate) input_id: Option<String>,
    /// JSON Schema that the final answer of the turn must match; absent if any text is allowed.
    #[serde(default)]
    #[schemars(with = "Option<Map<String, Value>>")]
    pub(crate) output_schema: Option<Value>,
    /// Maximum cost of the turn in US dollars: the turn ends before a request that could exceed it.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub(crate) max_cost_usd: Option<f64>,
    /// Whether the input waits until the running turn has ended; otherwise it is refused while a
    /// turn runs.
    #[serde(default)]
    pub(crate) queue: bool,
    /// Whether the response waits for the end of the turn and contains the outcome.
    #[serde(default)]
    pub(crate) wait: bool,
}

/// Options for continuing an interrupted turn.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GoOn {
    /// Whether the response waits for the end of the turn and contains the outcome.
    #[serde(default)]
    wait: bool,
}

/// Text that is added to the running turn.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SteerBody {
    /// Text for the model, with at least one character that is not blank.
    #[schemars(regex(pattern = r"\S"))]
    pub(crate) text: String,
    /// Whether the text waits until the turn is about to end; otherwise the model reads it at its
    /// next step.
    #[serde(default)]
    pub(crate) follow_up: bool,
}

/// Turn that the server accepted and that may not have begun yet.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct AcceptedTurn {
    /// Id of the session in which the turn runs.
    pub(crate) session: String,
    /// Number of the last event before the turn: pass it as `after` to follow the turn. 0 if workers
    /// run the turns.
    pub(crate) after: u64,
}

/// Outcome of a turn that has ended.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct TurnResult {
    /// Id of the session in which the turn ran.
    pub(crate) session: String,
    /// Number of the turn within its session.
    pub(crate) turn: u32,
    /// Output of the turn, to be shown to the user.
    pub(crate) output: String,
    /// Reason for the end, steps, calls, tokens and cost, as in the event `turn-end`.
    pub(crate) summary: Value,
}

/// Text that was accepted and waits to be added to the running turn.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Steered {
    /// Number of the text, with which the event `steering-taken` refers to it.
    number: u64,
}

/// Result of a request to interrupt the running turn.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Interrupted {
    /// Whether a turn was running when the request arrived.
    was_running: bool,
}

pub(crate) async fn start_turn(
    State(state): State<ApiState>,
    Path(id): Path<String>,
    headers: HeaderMap,
    JsonBodyExtractor(new): JsonBodyExtractor<NewTurn>,
) -> Result<Response, ApiError> {
    let (wait, queue) = (new.wait, new.queue);
    let order = run_blocking(move || parse_new_turn(new)).await?;
    if let Some(remote) = state.worker_queue() {
        if accepts_event_stream(&headers) {
            return Err(ApiError::invalid_request(
                "workers run the turns of this server, and the events of a turn that waits in the queue are not streamed in \
                 this answer: leave out `Accept: text/event-stream`, and follow `/v1/sessions/ID/events`",
            ));
        }
        return enqueue_turn_input(remote, &id, order)
            .await?
            .respond_with_turn_outcome(wait)
            .await;
    }
    state.sessions.check_turn_admission().await?;
    let ordered = state.sessions.request_turn(&id, order, queue).await?;
    respond_to_turn_request(&id, ordered, wait, &headers).await
}

pub(crate) async fn continue_turn(
    State(state): State<ApiState>,
    Path(id): Path<String>,
    headers: HeaderMap,
    JsonBodyExtractor(body): JsonBodyExtractor<GoOn>,
) -> Result<Response, ApiError> {
    state.check_turns_run_locally()?;
    let ordered = state.sessions.request_turn_continuation(&id).await?;
    respond_to_turn_request(&id, ordered, body.wait, &headers).await
}

/// Responds to a request for a turn: with a stream of events up to the end of the turn if the
/// caller accepts a stream, with the outcome at the end of the turn if `wait` is set, and otherwise
/// immediately.
async fn respond_to_turn_request(
    id: &str,
    ordered: RequestedTurn,
    wait: bool,
    headers: &HeaderMap,
) -> Result<Response, ApiError> {
    if accepts_event_stream(headers) {
        return Ok(events::stream_turn_events(ordered).into_response());
    }
    if !wait {
        let accepted = AcceptedTurn {
            session: id.to_owned(),
            after: ordered.after,
        };
        return Ok((StatusCode::ACCEPTED, Json(accepted)).into_response());
    }
    match ordered.outcome.await {
        Ok(Ok(outcome)) => Ok(Json(build_turn_result(id, outcome)?).into_response()),
        Ok(Err(error)) => Err(match error.refusal {
            Some(refusal) => refusal.into(),
            None => ApiError::conflict("turn-failed", error.text),
        }),
        Err(_) => Err(ApiError::conflict(
            "closed",
            "the session was closed before the turn",
        )),
    }
}

fn build_turn_result(id: &str, outcome: TurnOutcome) -> Result<TurnResult, ApiError> {
    let summary = serde_json::to_value(&outcome.summary);
    Ok(TurnResult {
        session: id.to_owned(),
        turn: outcome.turn,
        output: outcome.output,
        summary: summary.map_err(|error| ApiError::internal(&error))?,
    })
}

fn accepts_event_stream(headers: &HeaderMap) -> bool {
    let accept = headers
        .get(header::ACCEPT)
        .and_then(|value| value.to_str().ok());
    accept.is_some_and(|accept| accept.contains("text/event-stream"))
}

/// Checks an input, and decodes its images. Returns it as a request for a turn.
pub(crate) fn parse_new_turn(new: NewTurn) -> Result<SessionTurnRequest, ApiError> {
    let images: Vec<_> = new
        .images
        .iter()
        .map(|image| STANDARD.decode(image).map_err(|error| error.to_string()))
        .collect();
    validate_new_turn_input(new, images)
}

/// Checks an input whose images are already decoded. Returns it as a request for a turn.
pub(crate) fn validate_new_turn_input(
    new: NewTurn,
    images: Vec<Result<Vec<u8>, String>>,
) -> Result<SessionTurnRequest, ApiError> {
    if new.text.trim().is_empty() {
        return Err(ApiError::invalid_request("the input is empty"));
    }
    if images.len() > MAX_IMAGES_PER_INPUT {
        return Err(ApiError::invalid_request(format!(
            "an input may have at most {MAX_IMAGES_PER_INPUT} images"
        )));
    }
    if let Some(id) = &new.input_id
        && (id.is_empty() || id.len() > MAX_INPUT_ID_BYTES)
    {
        return Err(ApiError::invalid_request(format!(
            "`input_id` must have 1 to {MAX_INPUT_ID_BYTES} bytes"
        )));
    }
    if let Some(usd) = new.max_cost_usd
        && !(usd.is_finite() && usd >= 0.0)
    {
        return Err(ApiError::invalid_request(
            "`max_cost_usd` must be a number of at least 0",
        ));
    }
    let images = images.into_iter().enumerate().map(|(at, bytes)| {
        let image = bytes.and_then(PromptImageAttachment::image);
        image.map_err(|why| ApiError::invalid_request(format!("image {}: {why}", at + 1)))
    });
    let answer_schema = new.output_schema.as_ref().map(AnswerSchema::compile);
    let answer_schema = answer_schema.transpose();
    let answer_schema = answer_schema
        .map_err(|why| ApiError::invalid_request(format!("`output_schema`: {why}")))?;
    Ok(SessionTurnRequest {
        images: images.collect::<Result<_, _>>()?,
        text: new.text,
        input_id: new.input_id,
        answer_schema,
        max_cost_usd: new.max_cost_usd,
        is_stored_first: false,
    })
}

pub(crate) async fn steer_turn(
    State(state): State<ApiState>,
    Path(id): Path<String>,
    JsonBodyExtractor(body): JsonBodyExtractor<SteerBody>,
) -> Result<Json<Steered>, ApiError> {
    if body.text.trim().is_empty() {
        return Err(ApiError::invalid_request("the text is empty"));
    }
    let live = state.sessions.find_open_session(&id).await;
    let number = live.and_then(|live| live.steer_turn(body.text, Source::Http, body.follow_up));
    match number {
        Some(number) => Ok(Json(Steered { number })),
        None => Err(ApiError::conflict(
            "idle",
            "no turn of the session runs in this server; start one with the text",
        )),
    }
}

pub(crate) async fn interrupt_turn(
    State(state): State<ApiState>,
    Path(id): Path<String>,
) -> Json<Interrupted> {
    let live = state.sessions.find_open_session(&id).await;
    let was_running = live.is_some_and(|live| live.interrupt_turn());
    Json(Interrupted { was_running })
}
