//! Encodes HTTP requests and answers as NATS messages, and decodes them.

use async_nats::HeaderMap;
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request, Response};

/// NATS header with the HTTP method of a request.
pub(super) const HTTP_METHOD_NATS_HEADER: &str = "Rind-Method";

/// NATS header with the path and query of a request's URL.
pub(super) const HTTP_PATH_NATS_HEADER: &str = "Rind-Path";

/// NATS header with the kind of the part of an answer, such as `Head`.
pub(super) const ANSWER_PART_KIND_NATS_HEADER: &str = "Rind-Part";

/// Header with the id of an answer. Several programs may answer one request.
pub(super) const ANSWER_ID_NATS_HEADER: &str = "Rind-From";

/// NATS header with the HTTP status of an answer.
pub(super) const HTTP_STATUS_NATS_HEADER: &str = "Rind-Status";

/// Prefix of the NATS headers that carry the HTTP headers of a request or an answer.
const FORWARDED_HTTP_HEADER_PREFIX: &str = "Rind-Http-";

/// HTTP headers of a request that are forwarded to the program that holds the session. Tokens and
/// cookies are not forwarded: the server that received the request has checked them.
const FORWARDED_REQUEST_HEADERS: [&str; 3] = ["accept", "content-type", "last-event-id"];

/// HTTP headers of an answer that are forwarded to the caller.
const FORWARDED_ANSWER_HEADERS: [&str; 2] = ["content-type", "location"];

/// Kind of a message that carries a part of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnswerPartKind {
    /// The answer is still being prepared. Sent periodically, so that the caller continues to wait.
    Wait,
    /// HTTP status and headers of the answer.
    Head,
    /// Next bytes of the answer's body.
    Body,
    /// End of the answer: all parts were sent.
    End,
}

impl AnswerPartKind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Wait => "wait",
            Self::Head => "head",
            Self::Body => "body",
            Self::End => "end",
        }
    }

    /// Reads the kind of a part; `None` if it is missing or unknown.
    pub(super) fn from_headers(headers: &HeaderMap) -> Option<Self> {
        let kinds = [Self::Wait, Self::Head, Self::Body, Self::End];
        let name = headers.get(ANSWER_PART_KIND_NATS_HEADER)?.as_str();
        kinds.into_iter().find(|kind| kind.name() == name)
    }
}

/// Encodes a request, without its body, as headers of a message.
pub(super) fn encode_request_headers(request: &Request<Bytes>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(HTTP_METHOD_NATS_HEADER, request.method().as_str());
    let path = request.uri().path_and_query();
    headers.insert(
        HTTP_PATH_NATS_HEADER,
        path.map_or("/", |path| path.as_str()),
    );
    encode_http_headers(&mut headers, request.headers(), &FORWARDED_REQUEST_HEADERS);
    headers
}

/// Decodes a request; `None` if the message is not a valid request.
pub(super) fn decode_request(headers: &HeaderMap, body: Bytes) -> Option<Request<Bytes>> {
    let mut request = Request::builder()
        .method(headers.get(HTTP_METHOD_NATS_HEADER)?.as_str())
        .uri(headers.get(HTTP_PATH_NATS_HEADER)?.as_str())
        .body(body)
        .ok()?;
    // Reject a URI with a host, which could direct the request to another host.
    if request.uri().authority().is_some() || !request.uri().path().starts_with('/') {
        return None;
    }
    decode_http_headers(headers, request.headers_mut(), &FORWARDED_REQUEST_HEADERS);
    Some(request)
}

/// Encodes the status and headers of an answer as headers of a message.
pub(super) fn encode_answer_headers<B>(answer: &Response<B>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(HTTP_STATUS_NATS_HEADER, answer.status().as_str());
    encode_http_headers(&mut headers, answer.headers(), &FORWARDED_ANSWER_HEADERS);
    headers
}

/// Decodes the status and headers of an answer; `None` if they are missing or invalid.
pub(super) fn decode_answer_head<B>(headers: &HeaderMap, body: B) -> Option<Response<B>> {
    let status: u16 = headers
        .get(HTTP_STATUS_NATS_HEADER)?
        .as_str()
        .parse()
        .ok()?;
    let mut answer = Response::builder().status(status).body(body).ok()?;
    decode_http_headers(headers, answer.headers_mut(), &FORWARDED_ANSWER_HEADERS);
    Some(answer)
}

fn encode_http_headers(headers: &mut HeaderMap, from: &http::HeaderMap, names: &[&'static str]) {
    for name in names {
        let value = from.get(*name).and_then(|value| value.to_str().ok());
        if let Some(value) = value {
            headers.insert(format!("{FORWARDED_HTTP_HEADER_PREFIX}{name}"), value);
        }
    }
}

fn decode_http_headers(headers: &HeaderMap, to: &mut http::HeaderMap, names: &[&'static str]) {
    for name in names {
        let value = headers.get(format!("{FORWARDED_HTTP_HEADER_PREFIX}{name}"));
        let value = value.and_then(|value| HeaderValue::from_str(value.as_str()).ok());
        if let Some(value) = value {
            to.insert(HeaderName::from_static(name), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_keeps_what_it_needs_and_no_secret() {
        let request = Request::builder()
            .method("POST")
            .uri("/v1/sessions/a/turns?x=1")
            .header("authorization", "Bearer secret")
            .header("cookie", "rind=secret")
            .header("accept", "text/event-stream")
            .body(Bytes::from_static(b"{}"))
            .unwrap();
        let headers = encode_request_headers(&request);
        assert!(!format!("{headers:?}").contains("secret"));
        let read = decode_request(&headers, Bytes::new()).unwrap();
        assert_eq!(read.uri(), "/v1/sessions/a/turns?x=1");
        assert_eq!(read.headers()["accept"], "text/event-stream");
        assert_eq!(read.headers().len(), 1);
    }

    #[test]
    fn requests_to_other_hosts_and_answers_without_a_status_are_none() {
        let mut headers = HeaderMap::new();
        headers.insert(HTTP_METHOD_NATS_HEADER, "GET");
        for path in ["http://other/v1", "other:80", "*", "", "no path"] {
            headers.insert(HTTP_PATH_NATS_HEADER, path);
            assert!(decode_request(&headers, Bytes::new()).is_none(), "{path}");
        }
        for status in ["", "99", "1000", "ok"] {
            headers.insert(HTTP_STATUS_NATS_HEADER, status);
            assert!(decode_answer_head(&headers, ()).is_none(), "{status}");
        }
    }
}
