//! Classification of failed attempts: which error occurred, and whether and when to retry.
//!
//! Owns the interpretation of statuses, error bodies and `Retry-After`. Servers disagree on all
//! three, so the error type follows from the status, the error code and phrases of the message
//! together. It must not send or wait; `http` does. Start from [`http_status_failure`].

use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderValue, RETRY_AFTER};
use serde_json::Value;

use super::assemble::AnswerStreamError;
use super::endpoint::ModelApiEndpoint;
use super::error::Error;
use super::mend::RequestCorrection;

/// Failure of one attempt to send a request.
#[derive(Debug)]
pub(crate) struct RequestAttemptFailure {
    /// Error of the attempt, boxed so that the many `Result`s that carry it stay small.
    pub(crate) error: Box<Error>,
    pub(crate) is_retryable: bool,
    /// Delay before the next attempt that the server asked for.
    pub(crate) retry_after: Option<Duration>,
    /// Whether the connection was closed before any part of an answer arrived. That happens when a
    /// server closes an idle connection just as a request is sent on it; the same request on a new
    /// connection would be answered.
    pub(crate) is_unanswered: bool,
}

impl RequestAttemptFailure {
    /// Creates a failure of an attempt after which a retry cannot succeed.
    pub(crate) fn new_fatal(error: Error) -> Self {
        Self {
            error: Box::new(error),
            is_retryable: false,
            retry_after: None,
            is_unanswered: false,
        }
    }

    /// Creates a failure of an attempt after which a retry may succeed.
    pub(crate) fn new_retryable(error: Error) -> Self {
        Self {
            is_retryable: true,
            ..Self::new_fatal(error)
        }
    }
}

/// Server, model, path and number of an attempt, for the text of its error.
#[derive(Clone, Copy)]
pub(crate) struct RequestAttemptErrorContext<'a> {
    pub(crate) endpoint: &'a ModelApiEndpoint,
    pub(crate) model: &'a str,
    /// Path of the request, relative to the base URL of the API.
    pub(crate) path: &'a str,
    /// Number of the attempt, from 1.
    pub(crate) number: u32,
}

/// Returns the failure for a response whose HTTP status is not 2xx.
pub(crate) fn http_status_failure(
    attempt: RequestAttemptErrorContext<'_>,
    status: u16,
    headers: &HeaderMap,
    body: &str,
) -> RequestAttemptFailure {
    let endpoint = attempt.endpoint;
    let (message, code) = parse_error_body(body);
    let said = endpoint.sanitize_server_text(&message);
    let provider = endpoint.provider.clone();
    let retry_after =
        retry_after(headers, crate::clock::now_ms()).or_else(|| parse_gemini_retry_delay(body));
    let mend = RequestCorrection::from_refusal(status, &message, &code);
    let is_mendable = mend.is_some();
    let error = match status {
        _ if matches!(&*code, "content_filter" | "content_policy_violation") => {
            Error::Refused { provider, said }
        }
        _ if exceeds_context_window(status, &message, &code) => {
            Error::WindowExceeded { provider, said }
        }
        _ if is_mendable => Error::BadRequest {
            provider,
            status,
            said,
            mend,
        },
        400 | 403 if is_region_refusal(&message, &code) => Error::RegionRefused { provider, said },
        401 | 403 if is_html_page(body) => Error::GatewayPage {
            provider,
            status,
            url: endpoint.display_url(),
            url_env: endpoint.url_env.clone(),
            said,
        },
        402 => Error::QuotaSpent {
            provider,
            status,
            said,
        },
        429 if code == "insufficient_quota" => Error::QuotaSpent {
            provider,
            status,
            said,
        },
        300..=399 => {
            // Redirects are not followed, because the API key could be sent to another host.
            let target = headers.get("location").and_then(|to| to.to_str().ok());
            Error::BadSetting {
                provider,
                setting: endpoint.url_env.clone(),
                what: format!(
                    "{} redirects to {}, and redirects are not followed; set the new URL if it is correct",
                    endpoint.display_url(),
                    endpoint.sanitize_server_text(target.unwrap_or_default())
                ),
            }
        }
        401 if endpoint.key.is_none() => Error::MissingKey {
            provider,
            key_env: endpoint.key_env.clone(),
        },
        // Gemini reports an invalid key with status 400.
        400 if endpoint.key.is_some() && message.contains("API key not valid") => {
            Error::RefusedKey {
                provider,
                key_env: endpoint.key_env.clone(),
                status,
                said,
            }
        }
        401 | 403 if endpoint.key.is_some() => Error::RefusedKey {
            provider,
            key_env: endpoint.key_env.clone(),
            status,
            said,
        },
        404 | 405 if !is_error_about_model(&message, &code) => Error::NoSuchApi {
            provider,
            url: endpoint.url_of_path_without_credentials(attempt.path),
            status,
            advice: base_url_advice(attempt),
            said,
        },
        404 => Error::UnknownModel {
            provider,
            model: attempt.model.to_owned(),
            url: endpoint.display_url(),
            url_env: endpoint.url_env.clone(),
            said,
        },
        429 | 503 | 529 => Error::Overloaded {
            provider,
            status,
            attempts: attempt.number,
            retry_after,
            said,
        },
        408 | 409 | 425 | 500..=599 => Error::ServerFailed {
            provider,
            status,
            attempts: attempt.number,
            said,
        },
        _ => Error::BadRequest {
            provider,
            status,
            said,
            mend: None,
        },
    };
    let error = Box::new(error);
    RequestAttemptFailure {
        // Servers also report a spent budget with status 429, but a retry cannot succeed then.
        is_retryable: is_retryable_status(status)
            && !matches!(
                *error,
                Error::QuotaSpent { .. } | Error::WindowExceeded { .. } | Error::BadRequest { .. }
            ),
        error,
        retry_after,
        is_unanswered: false,
    }
}

/// Length in bytes of the prefix of a server's message that is searched for phrases about the
/// context window. After it, some servers quote the request, which may mention context windows as
/// well.
const MAX_SEARCHED_ERROR_MESSAGE_BYTES: usize = 400;

/// Whether a refusal means that the request exceeds the context window. Every server words this
/// differently.
fn exceeds_context_window(status: u16, message: &str, code: &str) -> bool {
    if matches!(
        code,
        "context_length_exceeded" | "exceed_context_size_error" | "request_too_large"
    ) {
        return true;
    }
    let own = message.floor_char_boundary(MAX_SEARCHED_ERROR_MESSAGE_BYTES);
    let said = message.get(..own).unwrap_or_default().to_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| said.contains(word));
    status == 413
        || matches!(status, 400 | 422 | 429 | 500)
            && has(&[
                "maximum context length",
                "context length exceeded",
                "context_length_exceeded",
                "exceeds the context",
                "exceed the context",
                "exceeds the available context",
                "exceed context limit",
                "exceeds context",
                "context window",
                "context size",
                "prompt is too long",
                "prompt too long",
                "input is too long",
                "input token count",
                "input tokens exceed",
                "too many input tokens",
                "maximum prompt length",
                "reduce the length of the messages",
                "request too large for",
            ])
}

/// Whether a request was refused because of the country or region of the client.
fn is_region_refusal(message: &str, code: &str) -> bool {
    let said = message.to_lowercase();
    code == "unsupported_country_region_territory"
        || said.contains("country, region")
        || said.contains("location is not supported")
        || said.contains("not available in your")
}

/// Whether a response body is an HTML page.
fn is_html_page(body: &str) -> bool {
    body.trim_start().starts_with('<')
}

/// Returns the title of a web page, or its first words without tags.
fn html_page_title(page: &str) -> String {
    let between = |start: &str, end: &str| {
        let lower = page.to_ascii_lowercase();
        let from = lower.find(start)? + start.len();
        let length = lower.get(from..)?.find(end)?;
        page.get(from..from + length)
    };
    if let Some(title) = between("<title>", "</title>").filter(|title| !title.trim().is_empty()) {
        return title.trim().to_owned();
    }
    let (mut words, mut in_tag) = (String::new(), false);
    for c in page.chars() {
        match c {
            '<' => in_tag = true,
            '>' => {
                in_tag = false;
                words.push(' ');
            }
            c if !in_tag => words.push(c),
            _ => {}
        }
    }
    words.trim().to_owned()
}

/// Whether a request with this status is retried: timeouts, lock conflicts, too early (RFC 8470),
/// rate limits, and failures of servers and gateways. Cloudflare and overloaded model servers use
/// 520 to 529.
fn is_retryable_status(status: u16) -> bool {
    matches!(status, 408 | 409 | 425 | 429 | 500 | 502..=504 | 520..=529)
}

/// Converts a fault in the stream of an answer to a failure of the attempt to send the request.
pub(crate) fn request_failure_from_stream_error(
    attempt: RequestAttemptErrorContext<'_>,
    fault: AnswerStreamError,
) -> RequestAttemptFailure {
    let endpoint = attempt.endpoint;
    let provider = endpoint.provider.clone();
    match fault {
        AnswerStreamError::Bad { what, excerpt } => {
            RequestAttemptFailure::new_fatal(Error::BadStream {
                provider,
                what,
                excerpt: endpoint.sanitize_server_text(&excerpt),
                advice: base_url_advice(attempt),
            })
        }
        AnswerStreamError::TooLong { max_bytes } => {
            RequestAttemptFailure::new_fatal(Error::TooLong {
                provider,
                max_bytes,
            })
        }
        AnswerStreamError::EndedEarly => RequestAttemptFailure::new_retryable(Error::EndedEarly {
            provider,
            cause: "the connection was closed".to_owned(),
        }),
        AnswerStreamError::Server { status, message } => {
            http_status_failure(attempt, status, &HeaderMap::new(), &message)
        }
    }
}

/// Whether an error message of a server is about the model. If so, the base URL is correct: it is
/// that of a model API.
fn is_error_about_model(message: &str, code: &str) -> bool {
    code.contains("model") || message.to_lowercase().contains("model")
}

/// Returns advice for a base URL that is probably not the URL of a model API. The usual mistake is
/// a missing or extra version in its path.
fn base_url_advice(attempt: RequestAttemptErrorContext<'_>) -> String {
    let RequestAttemptErrorContext { endpoint, path, .. } = attempt;
    let base = endpoint.display_url();
    let has_version = |path: &str| path.split('/').any(is_version_segment);
    let meant = match (has_version(endpoint.url.path()), has_version(path)) {
        (false, false) => Some(format!("{base}/v1")),
        (true, true) => base.rsplit_once('/').map(|(base, _)| base.to_owned()),
        _ => None,
    };
    let url_env = &endpoint.url_env;
    match meant {
        Some(meant) => format!("set {url_env} to {meant}, which is probably meant"),
        None => {
            format!(
                "check that {url_env} has the URL of an API that speaks the configured protocol (`wire`)"
            )
        }
    }
}

/// Whether a path segment is a version, such as `v1`.
fn is_version_segment(segment: &str) -> bool {
    let digits = segment.strip_prefix('v').unwrap_or_default();
    digits.starts_with(|c: char| c.is_ascii_digit())
}

/// Reads the message and the code of an error body, in any of the forms that servers use.
fn parse_error_body(body: &str) -> (String, String) {
    let Ok(value) = serde_json::from_str::<Value>(body) else {
        let said = if is_html_page(body) {
            html_page_title(body)
        } else {
            body.to_owned()
        };
        return (said, String::new());
    };
    let value = match &value {
        Value::Array(items) => items.first().unwrap_or(&value),
        value => value,
    };
    let error = value.get("error").unwrap_or(value);
    let first = |names: [&str; 2]| names.iter().find_map(|name| error.get(*name)?.as_str());
    let message = first(["message", "detail"]).or(error.as_str());
    let code = first(["code", "type"]).unwrap_or_default();
    (message.unwrap_or(body).to_owned(), code.to_owned())
}

/// Reads the delay from `retry-after-ms` (OpenAI, Azure), or from `Retry-After` as seconds or as an
/// HTTP date (RFC 9110, section 10.2.3) relative to `now_ms`.
fn retry_after(headers: &HeaderMap, now_ms: i64) -> Option<Duration> {
    let text = |value: &HeaderValue| Some(value.to_str().ok()?.trim().to_owned());
    let ms = headers.get("retry-after-ms").and_then(text);
    if let Some(ms) = ms.and_then(|ms| ms.parse::<f64>().ok()) {
        return Duration::try_from_secs_f64(ms / 1_000.0).ok();
    }
    let value = headers.get(RETRY_AFTER).and_then(text)?;
    if let Ok(seconds) = value.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let at = jiff::fmt::rfc2822::parse(&value).ok()?;
    let wait_ms = at.timestamp().as_millisecond().saturating_sub(now_ms);
    let wait_ms = u64::try_from(wait_ms).unwrap_or_default();
    Some(Duration::from_millis(wait_ms))
}

/// Reads the delay in the details of a Gemini error: `google.rpc.RetryInfo`, such as `"3.5s"`.
fn parse_gemini_retry_delay(body: &str) -> Option<Duration> {
    let body: Value = serde_json::from_str(body).ok()?;
    let body = body.get(0).unwrap_or(&body);
    let details = body.pointer("/error/details")?.as_array()?;
    let delay = details
        .iter()
        .find_map(|detail| detail.get("retryDelay")?.as_str())?;
    let seconds = delay.strip_suffix('s')?.parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt<'a>(
        endpoint: &'a ModelApiEndpoint,
        path: &'a str,
    ) -> RequestAttemptErrorContext<'a> {
        RequestAttemptErrorContext {
            endpoint,
            model: "m",
            path,
            number: 1,
        }
    }

    #[test]
    fn every_status_has_its_error_and_says_whether_it_may_pass() {
        let quota = r#"{"error":{"message":"spent","code":"insufficient_quota"}}"#;
        let filter = r#"{"error":{"message":"no","code":"content_filter"}}"#;
        let repeated = format!("unknown role; input: {} context window", "x ".repeat(200));
        let unknown = r#"{"error":{"message":"no `m`","code":"model_not_found"}}"#;
        let table: &[(u16, Option<&str>, &str, &str, bool)] = &[
            (400, None, "x", "BadRequest", false),
            (400, None, filter, "Refused", false),
            (401, None, "x", "MissingKey", false),
            (401, Some("k"), "x", "RefusedKey", false),
            (403, Some("k"), "x", "RefusedKey", false),
            (403, None, "x", "BadRequest", false),
            (402, Some("k"), "x", "QuotaSpent", false),
            (
                400,
                Some("k"),
                "API key not valid. Please pass a valid API key.",
                "RefusedKey",
                false,
            ),
            (
                403,
                Some("k"),
                "<html><title>Blocked</title>",
                "GatewayPage",
                false,
            ),
            (
                400,
                None,
                "Your messages exceed the context window",
                "WindowExceeded",
                false,
            ),
            (
                400,
                None,
                r#"{"error":{"message":"x","code":"context_length_exceeded"}}"#,
                "WindowExceeded",
                false,
            ),
            (400, None, &repeated, "BadRequest", false),
            (
                500,
                None,
                "Jinja Exception: roles must alternate",
                "BadRequest",
                false,
            ),
            (
                403,
                Some("k"),
                "Country, region, or territory not supported",
                "RegionRefused",
                false,
            ),
            (404, None, "x", "NoSuchApi", false),
            (405, None, "x", "NoSuchApi", false),
            (404, None, unknown, "UnknownModel", false),
            (404, None, "model `m` not found", "UnknownModel", false),
            (408, None, "x", "ServerFailed", true),
            (409, None, "x", "ServerFailed", true),
            (425, None, "x", "ServerFailed", true),
            (520, None, "x", "ServerFailed", true),
            (524, None, "x", "ServerFailed", true),
            (413, None, "x", "WindowExceeded", false),
            (429, None, "x", "Overloaded", true),
            (429, None, quota, "QuotaSpent", false),
            (500, None, "x", "ServerFailed", true),
            (501, None, "x", "ServerFailed", false),
            (502, None, "x", "ServerFailed", true),
            (503, None, "x", "Overloaded", true),
            (504, None, "x", "ServerFailed", true),
            (529, None, "x", "Overloaded", true),
            (308, None, "x", "BadSetting", false),
        ];
        for (status, key, body, name, is_retryable) in table {
            let endpoint = ModelApiEndpoint::for_test("http://h/v1", *key);
            let attempt = attempt(&endpoint, "chat/completions");
            let failure = http_status_failure(attempt, *status, &HeaderMap::new(), body);
            let shown = format!("{:?}", failure.error);
            assert!(shown.starts_with(name), "{status}: {shown}");
            assert_eq!(failure.is_retryable, *is_retryable, "{status}");
        }
    }

    #[test]
    fn the_version_that_is_missing_in_an_address_or_twice_in_it_is_named() {
        let (without, with) = ("chat/completions", "v1/messages");
        for (base, path, expected) in [
            ("http://h:1", without, "to http://h:1/v1, which"),
            ("http://h/api/", without, "to http://h/api/v1, which"),
            ("https://h/v1", with, "to https://h, which"),
            (
                "https://h/v1",
                without,
                "check that OPENAI_BASE_URL has the URL of",
            ),
            (
                "https://h",
                with,
                "check that OPENAI_BASE_URL has the URL of",
            ),
        ] {
            let endpoint = ModelApiEndpoint::for_test(base, None);
            let advice = base_url_advice(attempt(&endpoint, path));
            assert!(advice.contains(expected), "{base}: {advice}");
        }
    }

    #[test]
    fn error_bodies_are_read_in_every_shape() {
        let typed = r#"{"type":"error","error":{"type":"t","message":"m"}}"#;
        for (body, message, code) in [
            ("<html>oops</html>", "oops", ""),
            (
                "<html><head><TITLE>Just a moment</TITLE><style>b{}</style>",
                "Just a moment",
                "",
            ),
            (r#"{"error":{"message":"m","code":"c"}}"#, "m", "c"),
            (typed, "m", "t"),
            (r#"{"error":"m"}"#, "m", ""),
            (r#"{"message":"m","code":7}"#, "m", ""),
            (r#"{"detail":"m"}"#, "m", ""),
            (r#"[{"error":{"message":"m"}}]"#, "m", ""),
            (r#"{"other":1}"#, r#"{"other":1}"#, ""),
            (r#""m""#, "m", ""),
        ] {
            let expected = (message.to_owned(), code.to_owned());
            assert_eq!(parse_error_body(body), expected, "{body}");
        }
    }

    #[test]
    fn retry_after_is_read_as_seconds_and_as_a_date() {
        let now_ms = 1_445_412_420_000; // Wed, 21 Oct 2015 07:27:00 GMT
        for (value, expected_ms) in [
            ("2", Some(2_000)),
            ("0.5", Some(500)),
            ("Wed, 21 Oct 2015 07:28:00 GMT", Some(60_000)),
            ("Wed, 21 Oct 2015 07:00:00 GMT", Some(0)),
            ("-1", None),
            ("soon", None),
        ] {
            let headers = HeaderMap::from_iter([(RETRY_AFTER, value.parse().unwrap())]);
            let expected = expected_ms.map(Duration::from_millis);
            assert_eq!(retry_after(&headers, now_ms), expected, "{value}");
        }
        let both = [("retry-after-ms", "1500"), ("retry-after", "9")];
        let both = both.map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
        let wait = Some(Duration::from_millis(1500));
        assert_eq!(retry_after(&HeaderMap::from_iter(both), now_ms), wait);
        assert_eq!(retry_after(&HeaderMap::new(), now_ms), None);
        let body =
            r#"[{"error": {"code": 429, "details": [{"@type": "x"}, {"retryDelay": "1.5s"}]}}]"#;
        assert_eq!(parse_gemini_retry_delay(body), wait);
        assert_eq!(parse_gemini_retry_delay("{}"), None);
    }
}
