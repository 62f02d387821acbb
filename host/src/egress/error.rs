//! Defines the errors of plugins' network requests, with texts for the plugin and for the operator.

use crate::point::handle::HandleError;
use crate::point::trace::AccessOutcome;

/// Kind of error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The URL is invalid, or contains something that is not allowed.
    Url,
    /// The method is not allowed.
    Method,
    /// A header is invalid, or the plugin may not set it.
    Header,
    /// Too many headers, or one is too long.
    HeaderSize,
    /// The request contains text that must not be sent, such as a secret.
    Content,
    /// The host was not granted.
    Host,
    /// An address of the host is not allowed.
    Address,
    /// A credential cannot be filled in.
    Credential,
    /// The request budget is spent, or too many requests are running.
    Requests,
    /// The request body is too long or incomplete.
    RequestBody,
    /// A redirect leads to a forbidden target, or in a circle.
    Redirect,
    /// The host name has no address.
    Resolve,
    /// The connection failed.
    Connect,
    /// A timeout expired.
    Timeout,
    /// The response is too long.
    ResponseSize,
    /// The response is malformed.
    Response,
}

/// Error of a plugin's network request. The text names the violated rule and contains no secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Error {
    /// Kind of error.
    pub kind: ErrorKind,
    /// Message for display.
    pub text: String,
}

impl Error {
    /// Creates an error of this kind.
    pub fn new(kind: ErrorKind, text: impl Into<String>) -> Self {
        Self {
            kind,
            text: text.into(),
        }
    }

    /// Returns the outcome for the access record: denied, or failed while trying.
    #[must_use]
    pub fn outcome(&self) -> AccessOutcome {
        match self.kind {
            ErrorKind::Resolve
            | ErrorKind::Connect
            | ErrorKind::Timeout
            | ErrorKind::ResponseSize
            | ErrorKind::Response => AccessOutcome::Failed,
            _ => AccessOutcome::Denied,
        }
    }
}

impl From<Error> for HandleError {
    fn from(error: Error) -> Self {
        let text = error.text;
        match error.kind {
            ErrorKind::Url | ErrorKind::Method => Self::InvalidInput(text),
            ErrorKind::Header
            | ErrorKind::Content
            | ErrorKind::Host
            | ErrorKind::Address
            | ErrorKind::Credential
            | ErrorKind::Redirect => Self::Denied(text),
            ErrorKind::HeaderSize
            | ErrorKind::Requests
            | ErrorKind::RequestBody
            | ErrorKind::ResponseSize => Self::Limit(text),
            ErrorKind::Resolve | ErrorKind::Connect | ErrorKind::Timeout | ErrorKind::Response => {
                Self::Failed(text)
            }
        }
    }
}
