//! Routes of the API. Each module handles one kind of resource.

pub(crate) mod costs;
pub(crate) mod events;
pub(crate) mod loops;
pub(crate) mod outputs;
pub(crate) mod plugins;
pub(crate) mod questions;
pub(crate) mod sessions;
pub(crate) mod turns;

use std::fmt;
use std::marker::PhantomData;

use axum::extract::DefaultBodyLimit;
use axum::extract::rejection::JsonRejection;
use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::middleware;
use axum::routing::{get, post};
use axum::{Json, Router};
use http::request::Parts;
use http::{HeaderValue, header};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, DeserializeOwned, Deserializer, MapAccess, Visitor};

use crate::error::ApiError;
use crate::{ApiState, access, forward, openapi, pages};

/// Maximum size of a request's body in bytes: enough for a text with some images.
pub(crate) const MAX_REQUEST_BODY_BYTES: usize = 32 << 20;

/// Content security policy of the pages: no external resources, no inline code (CSP level 3).
const PAGE_CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
                           form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Returns the router of the HTTP server. It checks the access of a request before anything else.
pub(crate) fn access_checked_router(state: ApiState) -> Router {
    let access = middleware::from_fn_with_state(state.access.clone(), access::check_access);
    let forward = middleware::from_fn_with_state(state.clone(), forward::forward_request);
    router_without_access_check(state)
        .layer(forward)
        .layer(access)
        .layer(middleware::map_response(add_security_headers))
}

/// Returns the router for all requests. It does not check access, which callers must already have
/// done.
pub(crate) fn router_without_access_check(state: ApiState) -> Router {
    let api = Router::new()
        .route("/openapi.json", get(openapi::get_openapi))
        .route(
            "/sessions",
            get(sessions::get_sessions).post(sessions::create_session),
        )
        .route("/workspaces", get(sessions::list_workspaces))
        .route("/sessions/{id}", get(sessions::get_session))
        .route("/sessions/{id}/close", post(sessions::close_session))
        .route("/sessions/{id}/turns", post(turns::start_turn))
        .route("/sessions/{id}/continue", post(turns::continue_turn))
        .route("/sessions/{id}/steer", post(turns::steer_turn))
        .route("/sessions/{id}/interrupt", post(turns::interrupt_turn))
        .route("/sessions/{id}/events", get(events::stream_session_events))
        .route("/sessions/{id}/outputs", get(outputs::get_running_outputs))
        .route("/questions", get(questions::get_questions))
        .route("/questions/{id}", post(questions::post_question_answer))
        .route("/plugins", get(plugins::get_plugins))
        .route("/costs", get(costs::get_costs))
        .route("/loops", get(loops::get_plugin_loops))
        .route("/loops/{id}/events", post(loops::send_loop_event))
        .route("/loops/{id}/messages", post(loops::send_loop_message))
        .fallback(unknown_path_error);
    Router::new()
        .nest("/v1", api)
        .merge(pages::router())
        .fallback(unknown_path_error)
        .method_not_allowed_fallback(method_not_allowed_error)
        .layer(DefaultBodyLimit::max(MAX_REQUEST_BODY_BYTES))
        .with_state(state)
}

async fn add_security_headers(mut response: axum::response::Response) -> axum::response::Response {
    let headers = response.headers_mut();
    for (name, value) in [
        (
            header::CONTENT_SECURITY_POLICY,
            PAGE_CONTENT_SECURITY_POLICY,
        ),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        // The policy is not `no-referrer`, because browsers would then send forms with the origin
        // `null`.
        (header::REFERRER_POLICY, "same-origin"),
        (header::CACHE_CONTROL, "no-store"),
    ] {
        headers
            .entry(name)
            .or_insert(HeaderValue::from_static(value));
    }
    response
}

async fn unknown_path_error() -> ApiError {
    ApiError::not_found("unknown path; /v1/openapi.json lists all paths")
}

async fn method_not_allowed_error() -> ApiError {
    ApiError::method_not_allowed()
}

/// Extracts a JSON object from the body of a request. Responds with an error of the API if the
/// object is invalid.
pub(crate) struct JsonBodyExtractor<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for JsonBodyExtractor<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        match Json::<JsonObjectOnlyWrapper<T>>::from_request(request, state).await {
            Ok(Json(JsonObjectOnlyWrapper(body))) => Ok(Self(body)),
            Err(JsonRejection::BytesRejection(error))
                if error.status() == http::StatusCode::PAYLOAD_TOO_LARGE =>
            {
                Err(ApiError::request_body_too_large())
            }
            Err(error) => Err(ApiError::invalid_request(error.body_text())),
        }
    }
}

/// Wrapper that is deserialized only from a JSON object. By itself, serde also accepts an array for
/// a struct.
struct JsonObjectOnlyWrapper<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for JsonObjectOnlyWrapper<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(JsonObjectVisitor(PhantomData))
    }
}

struct JsonObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for JsonObjectVisitor<T> {
    type Value = JsonObjectOnlyWrapper<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<JsonObjectOnlyWrapper<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(fields)).map(JsonObjectOnlyWrapper)
    }
}

/// Extracts the query of a request. Responds with an error of the API if the query is invalid.
pub(crate) struct RequestQueryExtractor<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for RequestQueryExtractor<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        match Query::<T>::from_request_parts(parts, state).await {
            Ok(Query(query)) => Ok(Self(query)),
            Err(error) => Err(ApiError::invalid_request(error.body_text())),
        }
    }
}

/// Runs a function that reads files on a blocking thread.
pub(crate) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| ApiError::internal(&error))?
}
