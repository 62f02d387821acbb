//! HTTP transport for MCP servers: every request goes through the host's egress.
//!
//! The egress checks host, address, redirects, headers, sizes and timeouts, adds secrets last and
//! masks them in answers. Event streams are read as events arrive, because the server may ask a
//! question during a call. A stream that ends before the answer is resumed a limited number of
//! times.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use http::{HeaderMap, HeaderName, HeaderValue};
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, SseError, StreamableHttpClient, StreamableHttpError,
    StreamableHttpPostResponse,
};
use sse_stream::{Sse, SseStream};

use super::login::SharedServerLogin;
use super::server::McpServerUrlAndEgress;
use super::streams::{ConnectionEventStreams, EventStreamOpenAttempt};
use rind_lib::egress::{
    self, EgressRequest, EgressRequestBody, EgressResponseOrStream, EventStreamPurpose,
    PluginRequestTimeouts, PluginSessionEgress,
};
use rind_lib::point::handle::AgentHandle;
use rind_lib::point::trace::Origin;

const SESSION_ID_HEADER: &str = "mcp-session-id";
const JSON_CONTENT_TYPE: &str = "application/json";
const EVENT_STREAM_CONTENT_TYPE: &str = "text/event-stream";
const LAST_EVENT_ID_HEADER: &str = "last-event-id";

/// Delay before an interrupted event stream is resumed.
const EVENT_STREAM_RESUME_DELAY: Duration = Duration::from_millis(200);

/// HTTP transport for the messages of one MCP server, which go through the egress.
#[derive(Clone)]
pub(crate) struct McpEgressHttpTransport {
    egress: Arc<PluginSessionEgress>,
    login: Option<Arc<SharedServerLogin>>,
    handle: Arc<dyn AgentHandle>,
    streams: ConnectionEventStreams,
}

type McpHttpError = StreamableHttpError<egress::Error>;

impl McpEgressHttpTransport {
    /// Creates the transport to a server. Requests are recorded with `handle`.
    pub(crate) fn new(server: &McpServerUrlAndEgress, handle: &Arc<dyn AgentHandle>) -> Self {
        Self {
            egress: server.egress.open_for_session(handle.clone()),
            login: server.login.clone(),
            handle: handle.clone(),
            streams: ConnectionEventStreams::default(),
        }
    }

    /// Returns the state of the server's event streams, which clones share.
    pub(crate) fn server_event_streams(&self) -> ConnectionEventStreams {
        self.streams.clone()
    }

    /// Sends a request. If the server rejects the access token (401), renews the token and sends
    /// the request once more.
    async fn send_with_token_renewal(
        &self,
        request: &McpHttpRequest<'_>,
        stream_use: EventStreamPurpose,
    ) -> Result<EgressResponseOrStream, McpHttpError> {
        let (token, answer) = self.send_request_once(request, stream_use).await?;
        let (Some(login), Some(token)) = (&self.login, token) else {
            return Ok(answer);
        };
        if http_status_code(&answer) != 401 {
            return Ok(answer);
        }
        // The token may have been revoked before it expired. The server rejected the request, so it
        // is safe to repeat.
        drop(answer);
        let renewed = login.renew_rejected_token(&self.handle, &token).await;
        renewed.map_err(to_credential_error)?;
        Ok(self.send_request_once(request, stream_use).await?.1)
    }

    /// Sends a request once. Returns the response, and the access token of the request if the
    /// server has a login.
    async fn send_request_once(
        &self,
        request: &McpHttpRequest<'_>,
        stream_use: EventStreamPurpose,
    ) -> Result<(Option<egress::Secret>, EgressResponseOrStream), McpHttpError> {
        let token = match &self.login {
            Some(login) => {
                let token = login.valid_access_token(&self.handle).await;
                Some(token.map_err(to_credential_error)?)
            }
            None => None,
        };
        let request = request.build_egress_request();
        let sent = self
            .egress
            .open_event_stream(request, access_record_origin(), stream_use);
        let answer = sent.await.map_err(StreamableHttpError::Client)?;
        Ok((token, answer))
    }
}

fn to_credential_error(why: String) -> McpHttpError {
    StreamableHttpError::Client(egress::Error::new(egress::EgressErrorKind::Credential, why))
}

/// HTTP request that carries a message of the MCP protocol.
struct McpHttpRequest<'a> {
    method: &'a str,
    uri: &'a str,
    session: Option<&'a str>,
    headers: HashMap<HeaderName, HeaderValue>,
    body: Vec<u8>,
}

impl McpHttpRequest<'_> {
    fn build_egress_request(&self) -> EgressRequest {
        let mut all: Vec<(String, Vec<u8>)> = self
            .headers
            .iter()
            .map(|(name, value)| (name.to_string(), value.as_bytes().to_vec()))
            .collect();
        if let Some(session) = self.session {
            all.push((SESSION_ID_HEADER.to_owned(), session.as_bytes().to_vec()));
        }
        if !self.body.is_empty() {
            all.push((
                "accept".to_owned(),
                format!("{EVENT_STREAM_CONTENT_TYPE}, {JSON_CONTENT_TYPE}").into_bytes(),
            ));
            all.push((
                "content-type".to_owned(),
                JSON_CONTENT_TYPE.as_bytes().to_vec(),
            ));
        }
        EgressRequest {
            method: self.method.to_owned(),
            url: self.uri.to_owned(),
            headers: all,
            body: EgressRequestBody::Whole(self.body.clone()),
            timeouts: PluginRequestTimeouts::default(),
        }
    }
}

/// Returns the origin for access records: always the main agent, because all calls of a session
/// share one server.
pub(crate) fn access_record_origin() -> Origin {
    Origin {
        agent: "main".into(),
        turn: 0,
        step: 0,
        point: None,
        call_id: None,
    }
}

impl StreamableHttpClient for McpEgressHttpTransport {
    type Error = egress::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, McpHttpError> {
        let body = serde_json::to_vec(&message)?;
        let session = session_id.as_deref();
        let request = McpHttpRequest {
            method: "POST",
            uri: &uri,
            session,
            headers: custom_headers,
            body,
        };
        let response = self
            .send_with_token_renewal(&request, EventStreamPurpose::Answer)
            .await?;
        Ok(match parse_http_answer(response, session.is_some())? {
            StreamableHttpPostResponse::Sse(events, session) => StreamableHttpPostResponse::Sse(
                self.streams.record_event_ids_for_resume(events, 0),
                session,
            ),
            other => other,
        })
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), McpHttpError> {
        let request = McpHttpRequest {
            method: "DELETE",
            uri: &uri,
            session: Some(&session_id),
            headers: custom_headers,
            body: Vec::new(),
        };
        let sent = self
            .send_with_token_renewal(&request, EventStreamPurpose::Answer)
            .await?;
        match http_status_code(&sent) {
            405 => Err(StreamableHttpError::ServerDoesNotSupportDeleteSession),
            _ => Ok(()),
        }
    }

    /// Opens the event stream for messages that the server sends unasked, or resumes a stream that
    /// ended.
    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        _auth_header: Option<String>,
        mut custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, McpHttpError> {
        let none = || StreamableHttpError::ServerDoesNotSupportSse;
        let next = self
            .streams
            .classify_stream_to_open(last_event_id.as_deref());
        let EventStreamOpenAttempt {
            stream_use,
            n_before,
        } = next.ok_or_else(none)?;
        if n_before > 0 {
            tokio::time::sleep(EVENT_STREAM_RESUME_DELAY).await;
        }
        if let Some(last) = &last_event_id {
            let last = HeaderValue::from_str(last).map_err(|_| none())?;
            custom_headers.insert(HeaderName::from_static(LAST_EVENT_ID_HEADER), last);
        }
        custom_headers.insert(
            http::header::ACCEPT,
            HeaderValue::from_static(EVENT_STREAM_CONTENT_TYPE),
        );
        let request = McpHttpRequest {
            method: "GET",
            uri: &uri,
            session: session_id.as_deref(),
            headers: custom_headers,
            body: Vec::new(),
        };
        let answer = match self.send_with_token_renewal(&request, stream_use).await {
            Ok(answer) => answer,
            // Return the error, so that the protocol's library tries again to resume the stream.
            Err(error) if n_before > 0 => {
                tracing::info!("a stream of the MCP server is not opened: {error}");
                return Err(error);
            }
            Err(error) => {
                tracing::warn!(
                    "the MCP server cannot send messages of its own, because its event stream was not opened: {error}"
                );
                return Err(none());
            }
        };
        let status = http_status_code(&answer);
        match (answer, stream_use) {
            (EgressResponseOrStream::Events(events), EventStreamPurpose::Standing)
                if status == 200 =>
            {
                Ok(SseStream::from_bytes_stream(events.lines).boxed())
            }
            (EgressResponseOrStream::Events(events), EventStreamPurpose::Answer)
                if status == 200 =>
            {
                let events = SseStream::from_bytes_stream(events.lines).boxed();
                Ok(self.streams.record_event_ids_for_resume(events, n_before))
            }
            (_, EventStreamPurpose::Answer) => {
                let why = format!("does not resume the stream of its answer: HTTP {status}");
                self.streams.record_resume_fault(why);
                match status {
                    404 => Err(StreamableHttpError::SessionExpired),
                    _ => Err(none()),
                }
            }
            // Only warn: a server works without the standing stream, which carries the messages
            // that answer no request.
            (_, EventStreamPurpose::Standing) => {
                if !matches!(status, 404 | 405) {
                    tracing::warn!(
                        "the MCP server cannot send messages of its own: it refused the event stream with HTTP {status}"
                    );
                }
                match status == 404 && last_event_id.is_some() {
                    true => Err(StreamableHttpError::SessionExpired),
                    false => Err(none()),
                }
            }
        }
    }
}

fn http_status_code(answer: &EgressResponseOrStream) -> u16 {
    match answer {
        EgressResponseOrStream::Whole(response) => response.status,
        EgressResponseOrStream::Events(events) => events.status,
    }
}

/// Converts the answer to an HTTP request into a message of the protocol.
fn parse_http_answer(
    answer: EgressResponseOrStream,
    has_session: bool,
) -> Result<StreamableHttpPostResponse, McpHttpError> {
    let response = match answer {
        EgressResponseOrStream::Events(events) if matches!(events.status, 200..=299) => {
            let session = get_header_text(&events.headers, SESSION_ID_HEADER);
            let events = SseStream::from_bytes_stream(events.lines).boxed();
            return Ok(StreamableHttpPostResponse::Sse(events, session));
        }
        EgressResponseOrStream::Events(events) => {
            return Err(http_status_error(
                events.status,
                &events.headers,
                has_session,
            ));
        }
        EgressResponseOrStream::Whole(response) => response,
    };
    let session = get_header_text(&response.headers, SESSION_ID_HEADER);
    let kind = get_header_text(&response.headers, "content-type").unwrap_or_default();
    match response.status {
        202 | 204 => Ok(StreamableHttpPostResponse::Accepted),
        200..=299 if response.body.is_empty() => Ok(StreamableHttpPostResponse::Accepted),
        200..=299 if kind.starts_with(JSON_CONTENT_TYPE) => {
            let message: ServerJsonRpcMessage = serde_json::from_slice(&response.body)?;
            Ok(StreamableHttpPostResponse::Json(message, session))
        }
        200..=299 => Err(StreamableHttpError::UnexpectedContentType(Some(kind))),
        status @ (401 | 403) => Err(http_status_error(status, &response.headers, has_session)),
        404 if has_session => Err(StreamableHttpError::SessionExpired),
        // Forward an error message of the protocol unchanged for any HTTP status.
        status => match serde_json::from_slice(&response.body) {
            Ok(ServerJsonRpcMessage::Error(error)) => Ok(StreamableHttpPostResponse::Json(
                ServerJsonRpcMessage::Error(error),
                session,
            )),
            _ => Err(http_status_error(status, &response.headers, has_session)),
        },
    }
}

/// Converts an unsuccessful HTTP answer without a message of the protocol into an error.
fn http_status_error(status: u16, headers: &HeaderMap, has_session: bool) -> McpHttpError {
    match status {
        401 | 403 => {
            let asked = get_header_text(headers, "www-authenticate");
            StreamableHttpError::AuthRequired(AuthRequiredError::new(
                asked.unwrap_or_else(|| format!("HTTP {status}")),
            ))
        }
        404 if has_session => StreamableHttpError::SessionExpired,
        _ => StreamableHttpError::UnexpectedServerResponse(format!("HTTP {status}").into()),
    }
}

fn get_header_text(headers: &HeaderMap, name: &str) -> Option<String> {
    let value = headers.get(name)?;
    value.to_str().ok().map(str::to_owned)
}
