//! Requests through `wasi:http`, as a library for WASI would send them.

use rind_sdk::serde_json::Value;
use wasip2::http::outgoing_handler::handle;
use wasip2::http::types::{
    Fields, FutureIncomingResponse, IncomingBody, Method, OutgoingBody, OutgoingRequest, Scheme,
};
use wasip2::io::streams::StreamError;

use super::fetch::shown;

/// Longest piece that is written at once.
const PIECE: usize = 4096;

/// Begins a request and writes its body.
pub(super) fn begin(
    method: &str,
    url: &str,
    headers: &[(String, String)],
    body: &[u8],
) -> Result<FutureIncomingResponse, String> {
    let fields = Fields::new();
    for (name, value) in headers {
        fields
            .append(name, value.as_bytes())
            .map_err(|error| format!("header {name}: {error:?}"))?;
    }
    let request = OutgoingRequest::new(fields);
    let (scheme, rest) = url.split_once("://").ok_or("no scheme")?;
    let (authority, path) = match rest.split_once('/') {
        Some((authority, path)) => (authority, format!("/{path}")),
        None => (rest, "/".to_owned()),
    };
    let scheme = match scheme {
        "http" => Scheme::Http,
        "https" => Scheme::Https,
        other => Scheme::Other(other.to_owned()),
    };
    let method = match method {
        "GET" => Method::Get,
        "HEAD" => Method::Head,
        "POST" => Method::Post,
        other => Method::Other(other.to_owned()),
    };
    request.set_method(&method).map_err(|()| "no method")?;
    request
        .set_scheme(Some(&scheme))
        .map_err(|()| "no scheme")?;
    request
        .set_authority(Some(authority))
        .map_err(|()| "no authority")?;
    request
        .set_path_with_query(Some(&path))
        .map_err(|()| "no path")?;
    let writing = if body.is_empty() {
        None
    } else {
        Some(request.body().map_err(|()| "no body")?)
    };
    let answer = handle(request, None).map_err(|code| format!("{code:?}"))?;
    if let Some(writing) = writing {
        // What goes wrong here shows in the answer, too.
        let _ = write(writing, body);
    }
    Ok(answer)
}

fn write(body: OutgoingBody, bytes: &[u8]) -> Result<(), String> {
    let stream = body.write().map_err(|()| "no stream")?;
    for piece in bytes.chunks(PIECE) {
        stream
            .blocking_write_and_flush(piece)
            .map_err(|error| format!("{error:?}"))?;
    }
    drop(stream);
    OutgoingBody::finish(body, None).map_err(|code| format!("{code:?}"))
}

/// Waits for the answer and reads it.
pub(super) fn end(answer: FutureIncomingResponse) -> Result<Value, String> {
    answer.subscribe().block();
    let answer = answer.get().ok_or("no answer")?;
    let answer = answer
        .map_err(|()| "taken before")?
        .map_err(|code| format!("{code:?}"))?;
    let headers: Vec<String> = answer
        .headers()
        .entries()
        .iter()
        .map(|(name, value)| format!("{name}: {}", String::from_utf8_lossy(value)))
        .collect();
    let body = answer.consume().map_err(|()| "no body")?;
    let bytes = read(&body)?;
    Ok(shown(answer.status(), &headers, &bytes))
}

fn read(body: &IncomingBody) -> Result<Vec<u8>, String> {
    let stream = body.stream().map_err(|()| "no stream")?;
    let mut bytes = Vec::new();
    loop {
        match stream.blocking_read(1 << 20) {
            Ok(piece) => bytes.extend(piece),
            Err(StreamError::Closed) => return Ok(bytes),
            Err(error) => return Err(format!("{error:?}")),
        }
    }
}

/// Sends a request and waits for all of the answer.
pub(super) fn send(
    method: &str,
    url: &str,
    headers: &[(String, String)],
    body: &[u8],
) -> Result<Value, String> {
    end(begin(method, url, headers, body)?)
}
