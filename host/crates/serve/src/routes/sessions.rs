//! Routes that list, create, show and close sessions.

use axum::Json;
use axum::extract::{Path, State};
use http::StatusCode;
use rind_lib::session::{SessionSummary, SessionView};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{JsonBodyExtractor, RequestQueryExtractor, run_blocking};
use crate::ApiState;
use crate::error::ApiError;
use crate::forward::remote_session_states;
use crate::live::OpenSessionState;
use crate::queued::{check_no_workspace_requested, check_or_create_session_id};

/// Number of sessions in a list if the request sets no limit.
const DEFAULT_SESSION_LIST_LIMIT: usize = 50;

/// Maximum number of sessions that one request can list.
const MAX_SESSION_LIST_LIMIT: usize = 1000;

/// Query that selects the sessions to list.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct ListQuery {
    /// Maximum number of sessions in the list, at most 1000; default 50.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1000))]
    limit: Option<usize>,
    /// Id of the last session of the previous list; this list continues after it.
    #[serde(default)]
    after: Option<String>,
}

/// Part of the list of all sessions, the last written first.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SessionList {
    /// Sessions of this part of the list, the last written first.
    pub(crate) sessions: Vec<SessionRow>,
    /// Id to pass as `after` for the next ones; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// Entry for a session in the list of sessions.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SessionRow {
    /// Id of the session.
    pub(crate) id: String,
    /// Title of the session, or the first line of its first input if it has none.
    pub(crate) title: String,
    /// Time at which the session was created, in milliseconds since 1970.
    pub(crate) created: i64,
    /// Time at which the session was last written, in milliseconds since 1970.
    pub(crate) updated: i64,
    /// Folder in which the agent works.
    pub(crate) workspace: String,
    /// Name of the model with which the session started.
    pub(crate) model: String,
    /// Number of turns of the session.
    pub(crate) turns: u64,
    /// Cost in US dollars of the requests with a known price.
    pub(crate) cost_usd: f64,
    /// State of the last turn in the file: `empty`, `finished`, `open` (it runs or was interrupted)
    /// or `waiting` (for an answer).
    pub(crate) state: String,
    /// Whether the session is open in this server, or in another program to which the server
    /// forwards requests.
    pub(crate) is_open: bool,
    /// Whether a turn of the session is running.
    pub(crate) is_running: bool,
    /// Whether the running turn waits for an answer to a question.
    pub(crate) is_waiting: bool,
    /// Milliseconds since the last event of the running turn; absent if no turn is known to be
    /// running. A turn without events for a long time is stalled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) quiet_ms: Option<u64>,
}

/// Properties of the session to create.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewSession {
    /// Id for the session: 1 to 96 letters, digits, `-`, `_` and `.`; not `last`, and `.` cannot
    /// come first. Default: a new id.
    #[serde(default)]
    #[schemars(regex(pattern = r"^(?!last$)[A-Za-z0-9_-][A-Za-z0-9._-]{0,95}$"))]
    id: Option<String>,
    /// Folder that the session works in, one of those that `/workspaces` lists. Default: the folder
    /// in which the server was started.
    #[serde(default)]
    workspace: Option<String>,
}

/// Folders in which sessions may work.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct WorkspaceList {
    /// Paths; the first is the folder in which the server was started.
    workspaces: Vec<String>,
}

/// Session that the request created.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct MadeSession {
    /// Id of the created session.
    id: String,
}

/// Result of closing a session.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Closed {
    /// Whether the session was open in this server before the request.
    was_open: bool,
}

pub(crate) async fn get_sessions(
    State(state): State<ApiState>,
    RequestQueryExtractor(query): RequestQueryExtractor<ListQuery>,
) -> Result<Json<SessionList>, ApiError> {
    let limit = query.limit.unwrap_or(DEFAULT_SESSION_LIST_LIMIT);
    if !(1..=MAX_SESSION_LIST_LIMIT).contains(&limit) {
        let text = format!("`limit` must be a number from 1 to {MAX_SESSION_LIST_LIMIT}");
        return Err(ApiError::invalid_request(text));
    }
    Ok(Json(list_sessions(&state, limit, query.after).await?))
}

/// Returns at most `limit` sessions that follow the session `after` in the list; from the start of
/// the list if it is `None`.
pub(crate) async fn list_sessions(
    state: &ApiState,
    limit: usize,
    after: Option<String>,
) -> Result<SessionList, ApiError> {
    let store = state.sessions.session_store().clone();
    let heads = run_blocking(move || Ok(store.list_session_summaries()?.rows)).await?;
    let from = match after {
        None => 0,
        Some(after) => match heads.iter().position(|head| head.id == after) {
            Some(at) => at + 1,
            None => {
                return Err(ApiError::not_found(format!(
                    "there is no session `{after}`, which `after` names"
                )));
            }
        },
    };
    let mut open = remote_session_states(state).await?;
    open.extend(state.sessions.list_open_sessions().await);
    let has_more = heads.len() > from + limit;
    let listed = heads.into_iter().skip(from).take(limit);
    let sessions: Vec<SessionRow> = listed
        .map(|head| build_api_session_row(head, |id| open.get(id).copied()))
        .collect();
    let last = sessions.last().map(|row| row.id.clone());
    Ok(SessionList {
        sessions,
        next: last.filter(|_| has_more),
    })
}

fn build_api_session_row(
    head: SessionSummary,
    live: impl Fn(&str) -> Option<OpenSessionState>,
) -> SessionRow {
    let live = live(&head.id);
    let quiet_ms = live.and_then(|live| live.quiet_ms);
    SessionRow {
        id: head.id,
        title: head.title,
        created: head.created,
        updated: head.updated,
        workspace: head.workspace,
        model: head.model,
        turns: head.turns,
        cost_usd: head.cost_usd,
        state: head.state.to_string(),
        is_open: live.is_some(),
        is_running: quiet_ms.is_some(),
        is_waiting: live.is_some_and(|live| live.is_waiting),
        quiet_ms,
    }
}

pub(crate) async fn list_workspaces(State(state): State<ApiState>) -> Json<WorkspaceList> {
    let workspaces = state.sessions.workspaces().folders();
    Json(WorkspaceList { workspaces })
}

pub(crate) async fn create_session(
    State(state): State<ApiState>,
    JsonBodyExtractor(new): JsonBodyExtractor<NewSession>,
) -> Result<(StatusCode, Json<MadeSession>), ApiError> {
    let id = match state.worker_queue() {
        Some(_) => {
            check_no_workspace_requested(new.workspace.as_deref())?;
            let id = check_or_create_session_id(new.id)?;
            let (store, wanted) = (state.sessions.session_store().clone(), id.clone());
            run_blocking(move || match store.check_session_exists(&wanted) {
                Ok(_) => Err(ApiError::conflict(
                    "exists",
                    format!("the session {wanted} exists already: send it an input, or choose another id"),
                )),
                Err(rind_lib::session::Error::Unknown { .. }) => Ok(()),
                Err(error) => Err(error.into()),
            })
            .await?;
            id
        }
        None => state.sessions.create_session(new.id, new.workspace).await?,
    };
    Ok((StatusCode::CREATED, Json(MadeSession { id })))
}

pub(crate) async fn get_session(
    State(state): State<ApiState>,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let view = read_session_view(&state, &id).await?;
    let mut shown = serde_json::to_value(&view).map_err(|error| ApiError::internal(&error))?;
    if let Value::Object(fields) = &mut shown {
        let live = state.sessions.find_open_session(&id).await;
        let is_running = live.as_ref().is_some_and(|live| live.has_running_turn());
        fields.insert("is_open".to_owned(), live.is_some().into());
        fields.insert("is_running".to_owned(), is_running.into());
        let questions = state
            .sessions
            .pending_questions()
            .unanswered_questions(Some(&id));
        let questions =
            serde_json::to_value(questions).map_err(|error| ApiError::internal(&error))?;
        fields.insert("questions".to_owned(), questions);
    }
    Ok(Json(shown))
}

/// Reads a session from its file without locking it.
pub(crate) async fn read_session_view(state: &ApiState, id: &str) -> Result<SessionView, ApiError> {
    let (store, id) = (state.sessions.session_store().clone(), id.to_owned());
    run_blocking(move || {
        let reading = store.read_entries_with_line_numbers(&id)?;
        Ok(SessionView::new(&id, &reading))
    })
    .await
}

/// Reads an entry of a session as JSON text. `line` is the line number of the entry in the
/// session's file.
pub(crate) async fn read_session_entry_json(
    state: &ApiState,
    id: &str,
    line: u64,
) -> Result<String, ApiError> {
    let (store, id) = (state.sessions.session_store().clone(), id.to_owned());
    run_blocking(move || {
        let reading = store.read_entries_with_line_numbers(&id)?;
        let entry = reading.entries.iter().find(|own| own.line == line);
        let missing = || ApiError::not_found("the session has no entry on this line");
        let entry = entry.ok_or_else(missing)?;
        serde_json::to_string_pretty(&entry.entry).map_err(|error| ApiError::internal(&error))
    })
    .await
}

pub(crate) async fn close_session(
    State(state): State<ApiState>,
    Path(id): Path<String>,
) -> Json<Closed> {
    let was_open = state.sessions.close_session(&id).await;
    Json(Closed { was_open })
}
