//! Messages of which requests and answers are made.

use async_nats::HeaderMap;
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request, Response};

/// Header with the method of a request.
pub(super) const METHOD: &str = "Rind-Method";

/// Header with the path and the query of a request.
pub(super) const PATH: &str = "Rind-Path";

/// Header with the kind of a part of an answer.
pub(super) const PART: &str = "Rind-Part";

/// Header with the id of an answer: several programs may answer one request.
pub(super) const FROM: &str = "Rind-From";

/// Header with the HTTP status of an answer.
pub(super) const STATUS: &str = "Rind-Status";

/// Prefix of headers of HTTP.
const HTTP: &str = "Rind-Http-";

/// Headers of HTTP that a request is passed on with. Tokens and cookies are not among them: they
/// are for the server that checked them.
const OF_REQUEST: [&str; 3] = ["accept", "content-type", "last-event-id"];

/// Headers of HTTP that an answer is passed on with.
const OF_ANSWER: [&str; 2] = ["content-type", "location"];

/// A part of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PartKind {
    /// The answer takes longer.
    Wait,
    /// Status and headers.
    Head,
    /// The next bytes.
    Body,
    /// No further part follows.
    End,
}

impl PartKind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Wait => "wait",
            Self::Head => "head",
            Self::Body => "body",
            Self::End => "end",
        }
    }

    /// Reads the kind of a message.
    pub(super) fn of(headers: &HeaderMap) -> Option<Self> {
        let kinds = [Self::Wait, Self::Head, Self::Body, Self::End];
        let name = headers.get(PART)?.as_str();
        kinds.into_iter().find(|kind| kind.name() == name)
    }
}

/// Returns the headers of the message for a request.
pub(super) fn request_headers(request: &Request<Bytes>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(METHOD, request.method().as_str());
    let path = request.uri().path_and_query();
    headers.insert(PATH, path.map_or("/", |path| path.as_str()));
    add_http(&mut headers, request.headers(), &OF_REQUEST);
    headers
}

/// Reads a request; `None` if the message is no request.
pub(super) fn read_request(headers: &HeaderMap, body: Bytes) -> Option<Request<Bytes>> {
    let mut request = Request::builder()
        .method(headers.get(METHOD)?.as_str())
        .uri(headers.get(PATH)?.as_str())
        .body(body)
        .ok()?;
    // A path alone: the address of another host would be a request to it.
    if request.uri().authority().is_some() || !request.uri().path().starts_with('/') {
        return None;
    }
    read_http(headers, request.headers_mut(), &OF_REQUEST);
    Some(request)
}

/// Returns the headers of the first part of an answer.
pub(super) fn head_headers<B>(answer: &Response<B>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(STATUS, answer.status().as_str());
    add_http(&mut headers, answer.headers(), &OF_ANSWER);
    headers
}

/// Reads the first part of an answer; `None` if the message is no answer.
pub(super) fn read_head<B>(headers: &HeaderMap, body: B) -> Option<Response<B>> {
    let status: u16 = headers.get(STATUS)?.as_str().parse().ok()?;
    let mut answer = Response::builder().status(status).body(body).ok()?;
    read_http(headers, answer.headers_mut(), &OF_ANSWER);
    Some(answer)
}

fn add_http(headers: &mut HeaderMap, from: &http::HeaderMap, names: &[&'static str]) {
    for name in names {
        let value = from.get(*name).and_then(|value| value.to_str().ok());
        if let Some(value) = value {
            headers.insert(format!("{HTTP}{name}"), value);
        }
    }
}

fn read_http(headers: &HeaderMap, to: &mut http::HeaderMap, names: &[&'static str]) {
    for name in names {
        let value = headers.get(format!("{HTTP}{name}"));
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
        let headers = request_headers(&request);
        assert!(!format!("{headers:?}").contains("secret"));
        let read = read_request(&headers, Bytes::new()).unwrap();
        assert_eq!(read.uri(), "/v1/sessions/a/turns?x=1");
        assert_eq!(read.headers()["accept"], "text/event-stream");
        assert_eq!(read.headers().len(), 1);
    }

    #[test]
    fn requests_to_other_hosts_and_answers_without_a_status_are_none() {
        let mut headers = HeaderMap::new();
        headers.insert(METHOD, "GET");
        for path in ["http://other/v1", "other:80", "*", "", "no path"] {
            headers.insert(PATH, path);
            assert!(read_request(&headers, Bytes::new()).is_none(), "{path}");
        }
        for status in ["", "99", "1000", "ok"] {
            headers.insert(STATUS, status);
            assert!(read_head(&headers, ()).is_none(), "{status}");
        }
    }
}
