//! Forwards a request about a session that another program has open (the session's holder) to that
//! program, after the access check. Lists are combined from all holders.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use futures_util::stream;
use http::{HeaderMap, HeaderValue, Method, header};
use rind_lib::session;
use rind_lib::text::format_error_chain;

use crate::ApiState;
use crate::error::ApiError;
use crate::live::OpenSessionState;
use crate::pages::HtmlPageError;
use crate::questions::OpenQuestion;
use crate::remote::{RemoteSessionClient, RemoteSessionError, RemoteSessionState};
use crate::routes::MAX_REQUEST_BODY_BYTES;
use crate::routes::questions::QuestionList;

/// Maximum time that a reader of events waits until another program opens a session with queued
/// inputs.
const SESSION_OPEN_WAIT_TIMEOUT: Duration = Duration::from_secs(25);

/// Maximum time of a single wait for a holder. After each, this server checks again whether inputs
/// are still queued.
const SESSION_OPEN_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Number of holders that are asked for their questions concurrently.
const MAX_CONCURRENT_QUESTION_FETCHES: usize = 16;

/// Media types of the answers of a session's holder that the server passes on to the client.
const FORWARDED_ANSWER_MEDIA_TYPES: [&str; 3] =
    ["application/json", "text/event-stream", "text/html"];

/// Maximum size in bytes of an answer that is not a stream.
const MAX_UNSTREAMED_ANSWER_BYTES: usize = 128 << 20;

/// Maximum size in bytes of the list of questions of a session.
const MAX_SESSION_QUESTION_LIST_BYTES: usize = 16 << 20;

/// Returns the id of the session in the path of a request that must be answered by the program that
/// has the session open. Returns `None` for requests that only read the store, which any server can
/// answer.
pub(crate) fn session_id_in_request_path<'p>(method: &Method, path: &'p str) -> Option<&'p str> {
    let (is_api, rest) = match path.strip_prefix("/v1/sessions/") {
        Some(rest) => (true, rest),
        None => (false, path.strip_prefix("/sessions/")?),
    };
    let (id, what) = rest.split_once('/').unwrap_or((rest, ""));
    let is_live = matches!(
        (is_api, method, what),
        (_, &Method::GET, "")
            | (true, &Method::GET, "events" | "outputs")
            | (_, &Method::POST, "interrupt" | "continue")
            | (true, &Method::POST, "turns" | "steer")
            | (false, &Method::POST, "say")
    );
    (is_live && session::is_session_id(id)).then_some(id)
}

/// Returns the id of the question in the path of a request that answers a question.
pub(crate) fn question_id_in_request_path<'p>(method: &Method, path: &'p str) -> Option<&'p str> {
    let path = path.strip_prefix("/v1").unwrap_or(path);
    let id = path.strip_prefix("/questions/")?;
    (method == Method::POST && !id.contains('/')).then_some(id)
}

/// Middleware that forwards a request if it is about a session that another program holds.
pub(crate) async fn forward_request(
    State(state): State<ApiState>,
    request: Request,
    next: Next,
) -> Response {
    let Some(remote) = state.remote.clone() else {
        return next.run(request).await;
    };
    let wants_page = !request.uri().path().starts_with("/v1/");
    match forward_to_session_holder(&state, &*remote, request).await {
        Ok(RequestForwardResult::Answered(answer)) => answer,
        Ok(RequestForwardResult::Own(request)) => next.run(request).await,
        Err(error) if wants_page => HtmlPageError(error).into_response(),
        Err(error) => error.into_response(),
    }
}

/// Result of trying to forward a request to the program that holds the session.
enum RequestForwardResult {
    /// The program that holds the session answered the request.
    Answered(Response),
    /// Contains the request, which this server must answer itself.
    Own(Request),
}

async fn forward_to_session_holder(
    state: &ApiState,
    remote: &dyn RemoteSessionClient,
    request: Request,
) -> Result<RequestForwardResult, ApiError> {
    // The request's body is not `Sync`, so no reference to the request may be kept across an
    // `await`.
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let Some(session) = find_remotely_held_session(state, remote, &method, &path).await? else {
        return Ok(RequestForwardResult::Own(request));
    };
    if state.sessions.find_open_session(&session).await.is_some() {
        return Ok(RequestForwardResult::Own(request));
    }
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, MAX_REQUEST_BODY_BYTES).await;
    let body = body.map_err(|_| ApiError::request_body_too_large())?;
    let is_stream = parts.uri.path().ends_with("/events");
    let until = Instant::now() + SESSION_OPEN_WAIT_TIMEOUT;
    loop {
        let mut passed = Request::new(body.clone());
        *passed.method_mut() = parts.method.clone();
        *passed.uri_mut() = parts.uri.clone();
        *passed.headers_mut() = select_forwarded_headers(&parts.headers);
        match remote.send_request(&session, passed).await {
            Ok(answer) => {
                let answer =
                    buffer_response_unless_streamed(remove_unsafe_answer_headers(answer)).await?;
                return Ok(RequestForwardResult::Answered(answer));
            }
            Err(RemoteSessionError::NoHolder) => {}
            // The size limit applies only to forwarded requests. If no program has the session
            // open, this server answers the request itself.
            Err(RemoteSessionError::TooLarge(_)) if !remote.is_session_held(&session).await? => {}
            // The program that has the session open does not answer. Answer from the store, which
            // contains the same data as that program.
            Err(RemoteSessionError::Silent(_)) if parts.method == Method::GET && !is_stream => {}
            Err(error) => return Err(error.into()),
        }
        // A request for a stream of events waits until another program opens the session, so that a
        // page continues with the events of that program.
        if !is_stream || Instant::now() >= until || !remote.has_queued_inputs(&session).await? {
            let own = Request::from_parts(parts, Body::from(body));
            return Ok(RequestForwardResult::Own(own));
        }
        remote
            .wait_until_session_open(&session, SESSION_OPEN_POLL_INTERVAL)
            .await?;
    }
}

/// Returns the id of the session if the program that has the session open must answer a request;
/// `None` if this server must answer it.
async fn find_remotely_held_session(
    state: &ApiState,
    remote: &dyn RemoteSessionClient,
    method: &Method,
    path: &str,
) -> Result<Option<String>, ApiError> {
    let Some(question) = question_id_in_request_path(method, path) else {
        // An input for a new turn is put into the queue instead of being forwarded, so that it is
        // not lost if the holder dies.
        let is_for_queue = remote.has_queue() && path.ends_with("/turns");
        let session = session_id_in_request_path(method, path).filter(|_| !is_for_queue);
        return Ok(session.map(str::to_owned));
    };
    let own = state
        .sessions
        .pending_questions()
        .unanswered_questions(None);
    if own.iter().any(|own| own.id == question) {
        return Ok(None);
    }
    let states = remote.list_open_session_states().await?;
    let of_session = states.into_iter().find(|session| {
        let mut questions = session.questions.iter();
        session::is_session_id(&session.id) && questions.any(|id| id == question)
    });
    Ok(of_session.map(|session| session.id))
}

/// Returns the headers that the holder needs. Tokens and cookies are meant for this server only,
/// and are dropped.
fn select_forwarded_headers(headers: &HeaderMap) -> HeaderMap {
    let mut passed = HeaderMap::new();
    for name in ["accept", "content-type", "last-event-id"] {
        if let Some(value) = headers.get(name) {
            passed.insert(http::HeaderName::from_static(name), value.clone());
        }
    }
    passed
}

/// Reads an answer to its end, unless it is a stream of events. Returns an error if the holder dies
/// before the answer is complete.
async fn buffer_response_unless_streamed(answer: Response) -> Result<Response, ApiError> {
    let kind = answer.headers().get(header::CONTENT_TYPE);
    if kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream")) {
        return Ok(answer);
    }
    let (parts, body) = answer.into_parts();
    let body = to_bytes(body, MAX_UNSTREAMED_ANSWER_BYTES).await.map_err(|error| {
        let why = format_error_chain(&error);
        ApiError::unavailable(format!(
            "the answer of the program that has the session open broke off ({why}); the request may have been carried out"
        ))
    })?;
    Ok(Response::from_parts(parts, Body::from(body)))
}

/// Removes all headers of a forwarded answer except a few safe ones, because the program that has
/// the session open may be faulty and its answer must not control the browser.
fn remove_unsafe_answer_headers(mut answer: Response) -> Response {
    let given = std::mem::take(answer.headers_mut());
    let text = |name| {
        given
            .get(name)
            .and_then(|value: &HeaderValue| value.to_str().ok())
    };
    // Do not forward media types that a page could load as a script. A layer of the router adds the
    // pages' content security policy to every answer.
    let kind = text(header::CONTENT_TYPE).and_then(|kind| kind.split(';').next());
    let is_shown = kind.is_some_and(|kind| FORWARDED_ANSWER_MEDIA_TYPES.contains(&kind));
    let is_own_path = text(header::LOCATION).is_some_and(|path| {
        path.starts_with('/') && !path.starts_with("//") && !path.contains('\\')
    });
    for (name, is_kept) in [
        (header::CONTENT_TYPE, is_shown),
        (header::LOCATION, is_own_path),
    ] {
        if let Some(value) = given.get(&name).filter(|_| is_kept) {
            answer.headers_mut().insert(name, value.clone());
        }
    }
    answer
}

/// Returns the states of the sessions that other programs hold, by session id.
pub(crate) async fn remote_session_states(
    state: &ApiState,
) -> Result<BTreeMap<String, OpenSessionState>, ApiError> {
    let Some(remote) = &state.remote else {
        return Ok(BTreeMap::new());
    };
    let states = remote.list_open_session_states().await?.into_iter();
    let states = states.map(|session: RemoteSessionState| {
        let live = OpenSessionState {
            quiet_ms: session.quiet_ms,
            is_waiting: !session.questions.is_empty(),
        };
        (session.id, live)
    });
    Ok(states.collect())
}

/// Returns the open questions of all sessions, or only of `session`, including those of sessions
/// that other programs have open.
pub(crate) async fn list_open_questions(
    state: &ApiState,
    session: Option<&str>,
) -> Result<Vec<OpenQuestion>, ApiError> {
    let mut questions = state
        .sessions
        .pending_questions()
        .unanswered_questions(session);
    let Some(remote) = &state.remote else {
        return Ok(questions);
    };
    let states = remote.list_open_session_states().await?;
    let asked = states.into_iter().filter(|own| {
        let is_wanted = session.is_none_or(|id| id == own.id);
        is_wanted && !own.questions.is_empty() && session::is_session_id(&own.id)
    });
    let gathered: Vec<Vec<OpenQuestion>> = stream::iter(asked)
        .map(|own| fetch_questions_from_holder(remote.clone(), own.id))
        .buffer_unordered(MAX_CONCURRENT_QUESTION_FETCHES)
        .collect()
        .await;
    questions.extend(gathered.into_iter().flatten());
    questions.sort_by(|a, b| (a.asked, &a.id).cmp(&(b.asked, &b.id)));
    Ok(questions)
}

/// Returns the questions of a session that another program holds. Returns an empty list if the
/// program does not answer, for example because it has released the session meanwhile.
async fn fetch_questions_from_holder(
    remote: Arc<dyn RemoteSessionClient>,
    session: String,
) -> Vec<OpenQuestion> {
    let read = async {
        let mut request = Request::new(Bytes::new());
        *request.uri_mut() = format!("/v1/questions?session={session}").parse().ok()?;
        let answer = remote.send_request(&session, request).await.ok()?;
        let body = to_bytes(answer.into_body(), MAX_SESSION_QUESTION_LIST_BYTES)
            .await
            .ok()?;
        serde_json::from_slice::<QuestionList>(&body).ok()
    };
    let Some(list) = read.await else {
        tracing::debug!(
            session,
            "a program did not list the questions of its session"
        );
        return Vec::new();
    };
    let own = list.questions.into_iter();
    own.filter(|question| question.session == session).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_requests_about_one_live_session_are_passed_on() {
        for (method, path, id) in [
            (Method::GET, "/v1/sessions/a", Some("a")),
            (Method::GET, "/v1/sessions/a/events", Some("a")),
            (Method::POST, "/v1/sessions/a/turns", Some("a")),
            (Method::POST, "/sessions/a/say", Some("a")),
            (Method::GET, "/sessions/a", Some("a")),
            (Method::POST, "/v1/sessions/a/close", None),
            (Method::GET, "/sessions/a/entries/4", None),
            (Method::GET, "/v1/sessions", None),
            (Method::GET, "/v1/sessions/", None),
            (Method::GET, "/v1/sessions/a%2Fb", None),
            (Method::GET, "/v1/sessions/*", None),
            (Method::GET, "/v1/plugins", None),
        ] {
            assert_eq!(
                session_id_in_request_path(&method, path),
                id,
                "{method} {path}"
            );
        }
        assert_eq!(
            question_id_in_request_path(&Method::POST, "/v1/questions/q"),
            Some("q")
        );
        assert_eq!(
            question_id_in_request_path(&Method::POST, "/questions/q"),
            Some("q")
        );
        assert_eq!(
            question_id_in_request_path(&Method::GET, "/questions/q"),
            None
        );
        assert_eq!(
            question_id_in_request_path(&Method::POST, "/questions/q/x"),
            None
        );
    }

    #[test]
    fn an_answer_cannot_lead_elsewhere_or_allow_scripts() {
        let answer = http::Response::builder()
            .header("location", "//elsewhere")
            .header("content-security-policy", "script-src *")
            .header("content-type", "text/javascript")
            .header("set-cookie", "rind=x")
            .body(Body::empty())
            .unwrap();
        assert!(remove_unsafe_answer_headers(answer).headers().is_empty());
        let answer = http::Response::builder()
            .header("location", "/sessions/a")
            .header("content-type", "text/html; charset=utf-8")
            .body(Body::empty())
            .unwrap();
        assert_eq!(remove_unsafe_answer_headers(answer).headers().len(), 2);
    }
}
