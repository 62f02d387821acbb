//! Defines the errors of plugins' network requests, with texts for the plugin and for the operator.

use crate::point::handle::HostFunctionError;
use crate::point::trace::AccessOutcome;

/// Kind of reason for which a plugin's request failed or was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EgressErrorKind {
    /// The URL is invalid, or contains something that is not allowed.
    Url,
    /// The HTTP method of the request is not allowed.
    Method,
    /// A header is invalid, or the plugin may not set it.
    Header,
    /// The request has too many headers, or one is too long.
    HeaderSize,
    /// The request contains text that must not be sent, such as a secret.
    Content,
    /// The plugin was not granted requests to this host.
    Host,
    /// The host has an IP address to which requests are not allowed.
    Address,
    /// A credential cannot be inserted, for example because its secret is missing.
    Credential,
    /// The request budget is spent, or too many requests are running.
    Requests,
    /// The request body is too long, or the plugin did not complete it.
    RequestBody,
    /// A redirect leads to a forbidden target, or in a circle.
    Redirect,
    /// The host name could not be resolved to an address.
    Resolve,
    /// The connection to the host failed.
    Connect,
    /// A timeout for connecting or for the response expired.
    Timeout,
    /// The response is longer than the maximum.
    ResponseSize,
    /// The response is not valid HTTP or cannot be decoded.
    Response,
}

/// Error of a plugin's network request. The text names the violated rule and contains no secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Error {
    /// Kind of reason for which the request failed or was refused.
    pub kind: EgressErrorKind,
    /// Description of the error, for display.
    pub text: String,
}

impl Error {
    /// Creates an error of this kind with this description.
    pub fn new(kind: EgressErrorKind, text: impl Into<String>) -> Self {
        Self {
            kind,
            text: text.into(),
        }
    }

    /// Returns the outcome for the access record: denied, or failed while trying.
    #[must_use]
    pub fn to_access_outcome(&self) -> AccessOutcome {
        match self.kind {
            EgressErrorKind::Resolve
            | EgressErrorKind::Connect
            | EgressErrorKind::Timeout
            | EgressErrorKind::ResponseSize
            | EgressErrorKind::Response => AccessOutcome::Failed,
            _ => AccessOutcome::Denied,
        }
    }
}

impl From<Error> for HostFunctionError {
    fn from(error: Error) -> Self {
        let text = error.text;
        match error.kind {
            EgressErrorKind::Url | EgressErrorKind::Method => Self::InvalidInput(text),
            EgressErrorKind::Header
            | EgressErrorKind::Content
            | EgressErrorKind::Host
            | EgressErrorKind::Address
            | EgressErrorKind::Credential
            | EgressErrorKind::Redirect => Self::Denied(text),
            EgressErrorKind::HeaderSize
            | EgressErrorKind::Requests
            | EgressErrorKind::RequestBody
            | EgressErrorKind::ResponseSize => Self::Limit(text),
            EgressErrorKind::Resolve
            | EgressErrorKind::Connect
            | EgressErrorKind::Timeout
            | EgressErrorKind::Response => Self::Failed(text),
        }
    }
}
