//! Errors of requests to models: one type for all providers.
//!
//! Owns the texts of the messages: each names the failed operation and the remedy. The module must
//! not decide which errors are retried (`retry` does) nor print anything. Text of a server is
//! stored only as [`SanitizedServerText`], which truncates it and marks it as a quote.
//!
//! Start from [`Error`].

use std::path::PathBuf;
use std::time::Duration;

use super::mend::RequestCorrection;
use super::server_text::SanitizedServerText;

/// Phase of a request that can time out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimedRequestPhase {
    /// Connecting to the provider.
    Connect,
    /// Waiting for the first byte of the answer.
    FirstByte,
    /// Waiting for the next bytes of an answer that has begun.
    NextByte,
    /// Waiting for content of the answer while only pings and comments arrive.
    Pings,
}

impl TimedRequestPhase {
    /// Returns the event that is awaited, and the name of the setting for its timeout.
    fn describe_phase(self) -> [&'static str; 2] {
        match self {
            Self::Connect => ["for the connection", "connect_timeout_ms"],
            Self::FirstByte => ["for the first byte of the answer", "first_byte_timeout_ms"],
            Self::NextByte => ["for more of an answer that had begun", "idle_timeout_ms"],
            Self::Pings => ["while it sent nothing but pings", "ping_timeout_ms"],
        }
    }
}

/// Error of a request to a model. The message says how to fix it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The caller cancelled the request.
    #[error("cancelled")]
    Cancelled,

    /// The provider requires a key and none is set.
    #[error("no API key for {provider}: set {key_env}, or choose another provider with --provider")]
    MissingKey {
        /// Name of the provider.
        provider: String,
        /// Name of the environment variable that should hold the API key.
        key_env: String,
    },

    /// The server refused the key (401 or 403).
    #[error(
        "{provider} refused the key in {key_env} with status {status}: check the key and what it may be used for; \
         the server said {said}"
    )]
    RefusedKey {
        /// Name of the provider to which the request was sent.
        provider: String,
        /// Name of the environment variable or setting that holds the refused key.
        key_env: String,
        /// HTTP status of the server's answer.
        status: u16,
        /// Error message in the server's answer.
        said: SanitizedServerText,
    },

    /// The server of the provider cannot be reached.
    #[error("cannot reach {provider} at {url}: {cause}; {advice}")]
    Unreachable {
        /// Name of the provider to which the request was sent.
        provider: String,
        /// Base URL of the provider's API, without credentials.
        url: String,
        /// Innermost cause of the error, reported by the operating system or the TLS library.
        cause: String,
        /// Advice on the program to start or the variable to set.
        advice: String,
    },

    /// The server has no model API at this address: it answered 404 or 405, and its error does not
    /// mention the model.
    #[error(
        "{provider} has no model API at {url} (status {status}): {advice}, or choose another model with --model; the server \
         said {said}"
    )]
    NoSuchApi {
        /// Name of the provider to which the request was sent.
        provider: String,
        /// URL of the request, without credentials.
        url: String,
        /// HTTP status of the server's answer.
        status: u16,
        /// Probable correct address, and the variable or setting to change.
        advice: String,
        /// Error message in the server's answer.
        said: SanitizedServerText,
    },

    /// The model is unknown to the server (404).
    #[error(
        "{provider} knows no model `{model}` at {url} (status 404): choose another with --model, or correct {url_env}; \
         the server said {said}"
    )]
    UnknownModel {
        /// Name of the provider to which the request was sent.
        provider: String,
        /// Name of the requested model.
        model: String,
        /// Base URL of the provider's API, without credentials.
        url: String,
        /// Name of the environment variable or setting that holds the base URL.
        url_env: String,
        /// Error message in the server's answer.
        said: SanitizedServerText,
    },

    /// The server rejected the request (400 and other 4xx).
    #[error(
        "{provider} rejected the request with status {status}, the server said {said}: correct the model's parameters, \
         or the hook that changed the request"
    )]
    BadRequest {
        /// Name of the provider to which the request was sent.
        provider: String,
        /// HTTP status of the server's answer.
        status: u16,
        /// Error message in the server's answer.
        said: SanitizedServerText,
        /// Correction with which the request can be sent again, if one is known.
        mend: Option<RequestCorrection>,
    },

    /// The request exceeds the model's window.
    #[error(
        "{provider} refused the request because it is longer than the model's context window, the server said {said}: run /compact, \
         or set agent.compact.threshold_tokens below the window"
    )]
    WindowExceeded {
        /// Name of the provider to which the request was sent.
        provider: String,
        /// Error message in the server's answer.
        said: SanitizedServerText,
    },

    /// The credit or quota of the key is used up (402, or 429 with a code that says so).
    #[error(
        "{provider} refuses further requests because credit or quota is used up (status {status}): add credit there, or \
         choose another model with --model; the server said {said}"
    )]
    QuotaSpent {
        /// Name of the provider to which the request was sent.
        provider: String,
        /// HTTP status of the server's answer.
        status: u16,
        /// Error message in the server's answer.
        said: SanitizedServerText,
    },

    /// The provider does not serve the country or region of the client.
    #[error(
        "{provider} does not serve this country or region: choose another provider with --provider; the server said {said}"
    )]
    RegionRefused {
        /// Name of the provider to which the request was sent.
        provider: String,
        /// Error message in the server's answer.
        said: SanitizedServerText,
    },

    /// A gateway in front of the server answered with a web page.
    #[error(
        "a gateway in front of {provider} answered with a web page (status {status}, titled {said}) and not with an answer of the \
         API: check {url_env}, proxies and firewalls on the way to {url}"
    )]
    GatewayPage {
        /// Name of the provider to which the request was sent.
        provider: String,
        /// HTTP status of the server's answer.
        status: u16,
        /// Base URL of the provider's API, without credentials.
        url: String,
        /// Name of the environment variable or setting that holds the base URL.
        url_env: String,
        /// Title of the HTML page that was received instead of an answer.
        said: SanitizedServerText,
    },

    /// The last attempt failed because the server is overloaded or limits the rate (429, 503, 529).
    #[error(
        "{provider} limits the rate or is overloaded (status {status}, attempt {attempts}): {}; the server said {said}",
        retry_advice(.retry_after)
    )]
    Overloaded {
        /// Name of the provider to which the request was sent.
        provider: String,
        /// HTTP status of the server's answer.
        status: u16,
        /// Number of attempts to send the request.
        attempts: u32,
        /// Delay before the next attempt that the server asked for, if any.
        retry_after: Option<Duration>,
        /// Error message in the server's answer.
        said: SanitizedServerText,
    },

    /// The server failed (408 and other 5xx), also at the last attempt.
    #[error(
        "{provider} failed with status {status} (attempt {attempts}): try again later; the server said {said}"
    )]
    ServerFailed {
        /// Name of the provider to which the request was sent.
        provider: String,
        /// HTTP status of the server's answer.
        status: u16,
        /// Number of attempts to send the request.
        attempts: u32,
        /// Error message in the server's answer.
        said: SanitizedServerText,
    },

    /// A phase of the request exceeded its timeout.
    #[error(
        "{provider} sent no answer: waited {after_ms} ms {}; try again, or raise provider.http.{}",
        .phase.describe_phase()[0],
        .phase.describe_phase()[1]
    )]
    Timeout {
        /// Name of the provider to which the request was sent.
        provider: String,
        /// Phase that timed out.
        phase: TimedRequestPhase,
        /// Time that the client waited, in milliseconds.
        after_ms: u64,
    },

    /// The answer is not in the format of this provider.
    #[error("{provider} sent an answer that cannot be read: {what}, near {excerpt}; {advice}")]
    BadStream {
        /// Name of the provider to which the request was sent.
        provider: String,
        /// Description of the fault in the answer.
        what: String,
        /// Part of the answer that cannot be read.
        excerpt: SanitizedServerText,
        /// Advice to the user on the address to check.
        advice: String,
    },

    /// The answer exceeds the size limit.
    #[error(
        "the answer of {provider} was cut off: it is longer than {max_bytes} bytes; ask for less, or raise \
         provider.http.max_answer_bytes"
    )]
    TooLong {
        /// Name of the provider to which the request was sent.
        provider: String,
        /// Maximum size of an answer, in bytes.
        max_bytes: usize,
    },

    /// The request exceeded the timeout for all its attempts together.
    #[error(
        "{provider} did not finish its answer within {after_ms} ms, all attempts together; ask for less at once, or raise \
         provider.http.total_timeout_ms"
    )]
    TookTooLong {
        /// Name of the provider to which the request was sent.
        provider: String,
        /// Timeout of the request, in milliseconds.
        after_ms: u64,
    },

    /// The connection broke or was closed in the middle of the answer.
    #[error("the answer of {provider} ended early ({cause}): try again")]
    EndedEarly {
        /// Name of the provider to which the request was sent.
        provider: String,
        /// Reason why the connection broke or was closed.
        cause: String,
    },

    /// The provider's content filter refused to answer.
    #[error(
        "{provider} refused to answer, the server said {said}: change the input, or choose another model with --model"
    )]
    Refused {
        /// Name of the provider to which the request was sent.
        provider: String,
        /// Error message in the server's answer.
        said: SanitizedServerText,
    },

    /// No provider has the requested name.
    #[error("unknown provider `{name}`; known: {known}")]
    UnknownProvider {
        /// Name of the requested provider, which is unknown.
        name: String,
        /// Names of the known providers, separated by commas.
        known: String,
    },

    /// The provider has no default model.
    #[error(
        "no model chosen for {provider}: name one with --model, for example `--model {example}`"
    )]
    NoModel {
        /// Name of the provider.
        provider: String,
        /// Example of the name of a model of this provider.
        example: &'static str,
    },

    /// No model is configured, and the program was built without the scripted provider.
    #[cfg(not(feature = "scripted"))]
    #[error(
        "no model to ask ({why}): this program was built without the feature `scripted`; set ANTHROPIC_API_KEY, OPENAI_API_KEY \
         or `provider.base_url`"
    )]
    NoScripts {
        /// Reason why the scripted provider was selected.
        why: String,
    },

    /// A setting, such as a base URL or a key, is not usable.
    #[error("{setting} of {provider} cannot be used: {what}")]
    BadSetting {
        /// Name of the provider.
        provider: String,
        /// Name of the setting or environment variable with the value.
        setting: String,
        /// Description of the problem, without the value of a key.
        what: String,
    },

    /// The HTTP client cannot be created, for example because the system has no root certificates.
    #[error("cannot set up the HTTP client: install the system's root certificates")]
    Client(#[source] reqwest::Error),

    /// The file of a script for the scripted provider cannot be read.
    #[error("cannot read the script {}: check the path", .path.display())]
    ReadScript {
        /// Path of the script file.
        path: PathBuf,
        /// Error of the operating system.
        #[source]
        source: std::io::Error,
    },

    /// A script of the scripted provider is invalid, simulated a failure, or has no reply left.
    #[error("script {script}{what}")]
    Script {
        /// Path of the script, or a description of it.
        script: String,
        /// Description: the position in the script, if it is known, the problem, and the correct
        /// form.
        what: String,
    },
}

fn retry_advice(retry_after: &Option<Duration>) -> String {
    match retry_after {
        Some(wait) => format!("it asks to wait {} s", wait.as_secs_f64().ceil()),
        None => "wait, or choose another model with --model".to_owned(),
    }
}

impl Error {
    /// Returns the excerpt in an error about an unreadable answer. The excerpt is text of the model
    /// that no hook has checked.
    pub(crate) fn unreadable_answer_excerpt_mut(&mut self) -> Option<&mut SanitizedServerText> {
        match self {
            Self::BadStream { excerpt, .. } => Some(excerpt),
            _ => None,
        }
    }

    /// Returns the correction with which the request can be sent again; `None` if the error
    /// suggests none.
    pub(crate) fn suggested_request_correction(&self) -> Option<&RequestCorrection> {
        match self {
            Self::BadRequest { mend, .. } => mend.as_ref(),
            _ => None,
        }
    }

    /// Whether the request may have been billed: the server may have accepted it, but no complete
    /// answer arrived.
    #[must_use]
    pub fn may_have_been_billed(&self) -> bool {
        match self {
            Self::Timeout { phase, .. } => !matches!(phase, TimedRequestPhase::Connect),
            Self::Cancelled
            | Self::BadStream { .. }
            | Self::EndedEarly { .. }
            | Self::TooLong { .. }
            | Self::TookTooLong { .. } => true,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_small_enough_to_be_returned_by_value() {
        assert!(size_of::<Error>() < 128, "{}", size_of::<Error>());
    }

    #[test]
    fn messages_say_what_to_do() {
        let error = Error::Overloaded {
            provider: "anthropic".to_owned(),
            status: 429,
            attempts: 1,
            retry_after: Some(Duration::from_millis(90_500)),
            said: SanitizedServerText::new("slow down"),
        };
        assert_eq!(
            error.to_string(),
            "anthropic limits the rate or is overloaded (status 429, attempt 1): it asks to wait 91 s; the server said \
             \"slow down\""
        );
    }
}
