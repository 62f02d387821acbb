//! Checks the method and headers that a plugin sends, and filters the headers of a response.
//!
//! The host controls framing, connection and proxy headers, and the headers of credentials; a
//! plugin may set the others. Start from `check_plugin_request_headers`.

use reqwest::Method;
use reqwest::header::{CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue};

use super::error::{EgressErrorKind, Error};
use crate::text::escape_and_truncate_line;

/// Maximum number of headers in a plugin's request.
const MAX_REQUEST_HEADERS: usize = 100;

/// Maximum length of a request header, name and value together, in bytes.
pub const MAX_REQUEST_HEADER_BYTES: usize = 16 << 10;

/// Maximum total size of the headers of a request or response, in bytes.
pub(super) const MAX_TOTAL_HEADER_BYTES: usize = 64 << 10;

const ALLOWED_REQUEST_METHODS: [&str; 7] =
    ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

/// Headers that control framing or the connection, or that the host negotiates itself.
const REFUSED_HEADERS: [&str; 12] = [
    "accept-encoding",
    "connection",
    "content-length",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "te",
    "trailer",
    "trailers",
    "transfer-encoding",
    "upgrade",
];

/// Prefixes of refused headers: proxies are configured by the host, and `sec-` headers are reserved
/// for browsers.
const REFUSED_HEADER_PREFIXES: [&str; 2] = ["proxy-", "sec-"];

/// Headers that identify the sender. They are dropped on a redirect to another origin.
const SENDER_IDENTITY_HEADERS: [&str; 2] = ["authorization", "cookie"];

/// Headers that describe the body. They are dropped when a redirect drops the body.
const BODY_HEADERS: [&str; 5] = [
    "content-encoding",
    "content-language",
    "content-location",
    "content-type",
    "content-md5",
];

/// Whether no plugin may set this header (its name in lower case).
#[must_use]
pub fn is_forbidden_plugin_header(name: &str) -> bool {
    REFUSED_HEADERS.contains(&name) || REFUSED_HEADER_PREFIXES.iter().any(|p| name.starts_with(p))
}

pub(super) fn parse_method(name: &str) -> Result<Method, Error> {
    let known = ALLOWED_REQUEST_METHODS
        .contains(&name)
        .then(|| name.parse().ok())
        .flatten();
    known.ok_or_else(|| {
        let text = format!(
            "`{}` is not a method that can be sent; the allowed methods are {}",
            escape_and_truncate_line(name, 32),
            ALLOWED_REQUEST_METHODS.join(", ")
        );
        Error::new(EgressErrorKind::Method, text)
    })
}

/// Checks the headers that a plugin sets. `is_own` tells whether a credential of the plugin sets
/// the header, which the plugin then may not set.
pub(super) fn check_plugin_request_headers(
    headers: Vec<(String, Vec<u8>)>,
    is_own: impl Fn(&str) -> bool,
) -> Result<HeaderMap, Error> {
    let too_many = |what: String| Err(Error::new(EgressErrorKind::HeaderSize, what));
    let refuse = |what: String| Err(Error::new(EgressErrorKind::Header, what));
    if headers.len() > MAX_REQUEST_HEADERS {
        return too_many(format!(
            "the request has {} headers, at most {MAX_REQUEST_HEADERS} can be sent",
            headers.len()
        ));
    }
    let mut checked = HeaderMap::new();
    let mut total = 0;
    for (name, value) in headers {
        let shown = escape_and_truncate_line(&name, 64);
        let bytes = name.len() + value.len();
        total += bytes;
        if bytes > MAX_REQUEST_HEADER_BYTES {
            return too_many(format!(
                "the header `{shown}` has {bytes} bytes, at most {MAX_REQUEST_HEADER_BYTES} can be sent"
            ));
        }
        if total > MAX_TOTAL_HEADER_BYTES {
            return too_many(format!(
                "the headers have more than {MAX_TOTAL_HEADER_BYTES} bytes together"
            ));
        }
        let Ok(name) = HeaderName::from_bytes(name.as_bytes()) else {
            return refuse(format!("`{shown}` is not the name of a header"));
        };
        if is_forbidden_plugin_header(name.as_str()) {
            return refuse(format!(
                "the plugin may not set the header `{shown}`, because the host sets it"
            ));
        }
        if is_own(name.as_str()) {
            return refuse(format!(
                "the header `{shown}` is set by a credential of the plugin's manifest"
            ));
        }
        let Ok(value) = HeaderValue::from_bytes(&value) else {
            return refuse(format!("the value of the header `{shown}` is invalid"));
        };
        if checked.try_append(name, value).is_err() {
            return too_many(format!("more than {MAX_REQUEST_HEADERS} headers"));
        }
    }
    Ok(checked)
}

/// Removes the headers that must not be sent to another origin: those that identify the sender, and
/// those for which `is_own` is true because a credential sets them.
pub(super) fn remove_identity_headers(headers: &mut HeaderMap, is_own: impl Fn(&str) -> bool) {
    let names: Vec<HeaderName> = headers.keys().cloned().collect();
    for name in names {
        if SENDER_IDENTITY_HEADERS.contains(&name.as_str()) || is_own(name.as_str()) {
            headers.remove(name);
        }
    }
}

pub(super) fn remove_body_headers(headers: &mut HeaderMap) {
    for name in BODY_HEADERS {
        headers.remove(name);
    }
}

/// Whether the headers of a response are larger than [`MAX_TOTAL_HEADER_BYTES`] together.
pub(super) fn exceeds_header_limit(headers: &HeaderMap) -> bool {
    let bytes = |(name, value): (&HeaderName, &HeaderValue)| name.as_str().len() + value.len();
    headers.iter().map(bytes).sum::<usize>() > MAX_TOTAL_HEADER_BYTES
}

/// Returns those headers of a response that are passed to the plugin. Connection headers are
/// dropped, and `content-length` is kept only if it is the length of the body, or if the response
/// is to HEAD.
pub(super) fn filter_response_headers_for_plugin(
    headers: &HeaderMap,
    method: &Method,
    length: usize,
    is_secret: impl Fn(&str) -> bool,
) -> HeaderMap {
    let mut kept = HeaderMap::new();
    for (name, value) in headers {
        let is_length = name == CONTENT_LENGTH;
        let is_true = value.to_str().is_ok_and(|text| text == length.to_string());
        let is_kept = if is_length {
            is_true || method == Method::HEAD
        } else {
            !is_forbidden_plugin_header(name.as_str()) && !is_secret(name.as_str())
        };
        if is_kept {
            // Adding a header cannot fail, because `headers` is a map of the same type with at
            // least as many headers.
            let _ = kept.try_append(name.clone(), value.clone());
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(name: &str, value: &[u8]) -> Result<HeaderMap, Error> {
        check_plugin_request_headers(vec![(name.to_owned(), value.to_vec())], |name| {
            name == "x-key"
        })
    }

    #[test]
    fn headers_of_the_host_and_of_credentials_are_refused_by_name() {
        for name in [
            "Host",
            "content-length",
            "Transfer-Encoding",
            "connection",
            "keep-alive",
            "TE",
            "trailer",
            "upgrade",
            "Expect",
            "proxy-authorization",
            "Proxy-Anything",
            "accept-encoding",
            "sec-fetch-site",
            "X-Key",
            "a b",
            "a\r\nb",
            ":authority",
            "",
        ] {
            let error = one(name, b"x").unwrap_err();
            assert_eq!(error.kind, EgressErrorKind::Header, "{name}: {error}");
        }
        for value in ["a\r\nx-other: b", "a\nb", "a\0b"] {
            assert!(one("x-a", value.as_bytes()).is_err(), "{value:?}");
        }
        for name in ["authorization", "cookie", "accept", "User-Agent", "x-keys"] {
            assert_eq!(one(name, b"x").unwrap().len(), 1, "{name}");
        }
    }

    #[test]
    fn headers_have_limits_each_and_together() {
        let many = |n: usize, bytes: usize| {
            let all = (0..n).map(|i| (format!("x-{i:03}"), vec![b'a'; bytes - 5]));
            check_plugin_request_headers(all.collect(), |_| false).map(|map| map.len())
        };
        assert_eq!(many(100, 600).unwrap(), 100);
        assert_eq!(many(4, 16 << 10).unwrap(), 4);
        for (n, bytes) in [(101, 10), (1, (16 << 10) + 1), (5, 16 << 10)] {
            let error = many(n, bytes).unwrap_err();
            assert_eq!(error.kind, EgressErrorKind::HeaderSize, "{error}");
        }
    }

    #[test]
    fn only_known_methods_are_sent_as_they_are_written() {
        for name in ALLOWED_REQUEST_METHODS {
            assert_eq!(parse_method(name).unwrap().as_str(), name);
        }
        for name in [
            "get",
            "CONNECT",
            "TRACE",
            "PROPFIND",
            "GET / HTTP/1.1\r\n",
            "",
        ] {
            assert_eq!(
                parse_method(name).unwrap_err().kind,
                EgressErrorKind::Method,
                "{name}"
            );
        }
    }

    #[test]
    fn an_answer_speaks_of_the_body_that_is_handed_on() {
        let mut headers = HeaderMap::new();
        for (name, value) in [("content-length", "7"), ("connection", "close"), ("x", "y")] {
            headers.insert(
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            );
        }
        let names = |method: Method, length| {
            let kept = filter_response_headers_for_plugin(&headers, &method, length, |_| false);
            kept.keys().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(names(Method::GET, 7), ["content-length", "x"]);
        assert_eq!(names(Method::GET, 8), ["x"]);
        assert_eq!(names(Method::HEAD, 0), ["content-length", "x"]);
    }
}
