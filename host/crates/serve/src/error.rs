//! Converts errors of the API to responses in JSON: `{"error": {"code": …, "message": …}}`.

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use rind_lib::text::format_error_chain;
use schemars::JsonSchema;
use serde::Serialize;

use crate::routes::MAX_REQUEST_BODY_BYTES;

/// Error that is sent as the response to a request.
#[derive(Debug)]
pub(crate) struct ApiError {
    pub(crate) status: StatusCode,
    pub(crate) code: &'static str,
    pub(crate) message: String,
}

/// Body of an answer to a request that failed.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ErrorBody {
    /// Kind and description of the error.
    pub(crate) error: ErrorDetail,
}

/// Description of an error for programs and for people.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ErrorDetail {
    /// Code of the error, which programs can compare.
    pub(crate) code: String,
    /// Description of the failure and of what to do, for people.
    pub(crate) message: String,
}

impl ApiError {
    fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            code,
            message: message.into(),
        }
    }

    pub(crate) fn invalid_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid", message)
    }

    pub(crate) fn unauthorized() -> Self {
        Self::new(
            StatusCode::UNAUTHORIZED,
            "unauthorized",
            "send the token of the server's token file as `Authorization: Bearer TOKEN`; in a browser, open the address \
             that `rind serve` prints",
        )
    }

    pub(crate) fn forbidden(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", message)
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not-found", message)
    }

    pub(crate) fn conflict(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, code, message)
    }

    pub(crate) fn too_many_requests(message: impl Into<String>) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, "too-many", message)
    }

    pub(crate) fn request_body_too_large() -> Self {
        let text = format!(
            "the body has more than {} MiB",
            MAX_REQUEST_BODY_BYTES >> 20
        );
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", text)
    }

    /// Creates the error for a body that is too large to be passed on to another program.
    pub(crate) fn forwarded_body_too_large(message: impl Into<String>) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", message)
    }

    pub(crate) fn method_not_allowed() -> Self {
        Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "no-method",
            "this path does not have that method; /v1/openapi.json lists all requests",
        )
    }

    /// Creates the error for a request that another program should have answered but did not.
    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", message)
    }

    /// Creates an error of the server itself. Its causes are written to the log and sent to the
    /// caller.
    pub(crate) fn internal(error: &dyn std::error::Error) -> Self {
        let text = format_error_chain(error);
        tracing::warn!(error = text, "a request to the API failed");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "failed", text)
    }
}

impl From<rind_lib::session::Error> for ApiError {
    fn from(error: rind_lib::session::Error) -> Self {
        use rind_lib::session::Error;
        let text = error.to_string();
        match error {
            Error::Locked { .. } => Self::conflict("locked", text),
            Error::Exists { .. } => Self::conflict("exists", text),
            Error::Fenced { .. } => Self::conflict("fenced", text),
            Error::NoneYet { .. } | Error::Unknown { .. } | Error::Elsewhere { .. } => {
                Self::not_found(text)
            }
            Error::InvalidId { .. } | Error::Ambiguous { .. } => Self::invalid_request(text),
            other => Self::internal(&other),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let body = ErrorBody {
            error: ErrorDetail {
                code: self.code.to_owned(),
                message: self.message,
            },
        };
        let mut response = (self.status, Json(body)).into_response();
        if self.status == StatusCode::UNAUTHORIZED {
            let scheme = http::HeaderValue::from_static("Bearer");
            response
                .headers_mut()
                .insert(header::WWW_AUTHENTICATE, scheme);
        }
        response
    }
}
