//! Errors of requests, in words for the plugin and for the operator.

use crate::point::handle::HandleError;
use crate::point::trace::AccessOutcome;

/// Kind of error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The URL is invalid, or contains something that is not allowed.
    Url,
    /// The method is not one of those that are sent.
    Method,
    /// A header is refused.
    Header,
    /// Too many headers, or too long ones.
    HeaderSize,
    /// The request holds text that must not leave.
    Content,
    /// The host was not granted.
    Host,
    /// The address may not be reached.
    Address,
    /// A credential cannot be made.
    Credential,
    /// The request budget is spent, or too many requests run.
    Requests,
    /// The body to send is too long, or did not come whole.
    RequestBody,
    /// A redirect leads where it may not, or in a circle.
    Redirect,
    /// The name has no address.
    Resolve,
    /// The connection failed.
    Connect,
    /// The deadline passed.
    Timeout,
    /// The answer is too long.
    ResponseSize,
    /// The answer is broken.
    Response,
}

/// Error of a request. The text names the rule and holds no secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Error {
    /// Kind of error.
    pub kind: ErrorKind,
    /// Message for people.
    pub text: String,
}

impl Error {
    /// An error of this kind.
    pub fn new(kind: ErrorKind, text: impl Into<String>) -> Self {
        Self {
            kind,
            text: text.into(),
        }
    }

    /// Returns the outcome for the access record: refused, or tried and failed.
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
