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
pub(crate) const MAX_BODY_BYTES: usize = 32 << 20;

/// Content security policy of the pages: no external resources, no inline code (CSP level 3).
const PAGE_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
                           form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Returns the router of all requests, which checks access first.
pub(crate) fn router(state: ApiState) -> Router {
    let access = middleware::from_fn_with_state(state.access.clone(), access::check_access);
    let forward = middleware::from_fn_with_state(state.clone(), forward::forward_request);
    open_router(state)
        .layer(forward)
        .layer(access)
        .layer(middleware::map_response(add_headers))
}

/// Returns the router of all requests without the check of access, for callers that have checked
/// it.
pub(crate) fn open_router(state: ApiState) -> Router {
    let api = Router::new()
        .route("/openapi.json", get(openapi::get_openapi))
        .route("/sessions", get(sessions::list).post(sessions::create))
        .route("/workspaces", get(sessions::list_workspaces))
        .route("/sessions/{id}", get(sessions::show))
        .route("/sessions/{id}/close", post(sessions::close))
        .route("/sessions/{id}/turns", post(turns::start))
        .route("/sessions/{id}/continue", post(turns::go_on))
        .route("/sessions/{id}/steer", post(turns::steer))
        .route("/sessions/{id}/interrupt", post(turns::interrupt))
        .route("/sessions/{id}/events", get(events::follow))
        .route("/sessions/{id}/outputs", get(outputs::list))
        .route("/questions", get(questions::list))
        .route("/questions/{id}", post(questions::answer))
        .route("/plugins", get(plugins::list))
        .route("/costs", get(costs::list))
        .route("/loops", get(loops::list))
        .route("/loops/{id}/events", post(loops::send_event))
        .route("/loops/{id}/messages", post(loops::send))
        .fallback(no_route);
    Router::new()
        .nest("/v1", api)
        .merge(pages::router())
        .fallback(no_route)
        .method_not_allowed_fallback(no_method)
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .with_state(state)
}

async fn add_headers(mut response: axum::response::Response) -> axum::response::Response {
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, PAGE_POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        // Not `no-referrer`: with it, browsers would send forms with the origin `null`.
        (header::REFERRER_POLICY, "same-origin"),
        (header::CACHE_CONTROL, "no-store"),
    ] {
        headers
            .entry(name)
            .or_insert(HeaderValue::from_static(value));
    }
    response
}

async fn no_route() -> ApiError {
    ApiError::not_found("unknown path; /v1/openapi.json lists all paths")
}

async fn no_method() -> ApiError {
    ApiError::no_method()
}

/// Extracts a JSON object from the body. If the object is invalid, the answer is an error of the
/// API.
pub(crate) struct JsonBody<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for JsonBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        match Json::<OnlyObject<T>>::from_request(request, state).await {
            Ok(Json(OnlyObject(body))) => Ok(Self(body)),
            Err(JsonRejection::BytesRejection(error))
                if error.status() == http::StatusCode::PAYLOAD_TOO_LARGE =>
            {
                Err(ApiError::too_large())
            }
            Err(error) => Err(ApiError::invalid(error.body_text())),
        }
    }
}

/// Deserializes a value from an object only: serde also accepts an array for a struct.
struct OnlyObject<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OnlyObject<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ObjectVisitor(PhantomData))
    }
}

struct ObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
    type Value = OnlyObject<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<OnlyObject<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(fields)).map(OnlyObject)
    }
}

/// Extracts the query of a request. If the query is invalid, the answer is an error of the API.
pub(crate) struct RequestQuery<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for RequestQuery<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        match Query::<T>::from_request_parts(parts, state).await {
            Ok(Query(query)) => Ok(Self(query)),
            Err(error) => Err(ApiError::invalid(error.body_text())),
        }
    }
}

/// Runs work that reads files on a thread for blocking work.
pub(crate) async fn in_background<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| ApiError::internal(&error))?
}
