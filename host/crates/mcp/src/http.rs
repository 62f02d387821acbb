//! The transport over HTTP: every request leaves through the host's egress.
//!
//! The egress decides on host, address, redirects, headers, sizes and timeouts, adds secrets last
//! and masks them in answers. An answer is read to its end before it is parsed, so progress of a
//! call over HTTP is seen only with its result.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use http::{HeaderName, HeaderValue};
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, SseError, StreamableHttpClient, StreamableHttpError,
    StreamableHttpPostResponse,
};
use sse_stream::{Sse, SseStream};

use super::login::ServerLogin;
use super::server::HttpServer;
use rind_lib::egress::{self, Body, Egress, Request, Response, Timeouts};
use rind_lib::point::handle::AgentHandle;
use rind_lib::point::trace::Origin;

const SESSION_HEADER: &str = "mcp-session-id";
const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";

/// Sends the messages of one server.
#[derive(Clone)]
pub(crate) struct EgressClient {
    egress: Arc<Egress>,
    login: Option<Arc<ServerLogin>>,
    handle: Arc<dyn AgentHandle>,
}

type HttpError = StreamableHttpError<egress::Error>;

impl EgressClient {
    /// Creates the transport to a server. Requests are recorded with `handle`.
    pub(crate) fn new(server: &HttpServer, handle: &Arc<dyn AgentHandle>) -> Self {
        Self {
            egress: server.egress.open(handle.clone()),
            login: server.login.clone(),
            handle: handle.clone(),
        }
    }

    async fn send(
        &self,
        method: &str,
        uri: &str,
        session: Option<&str>,
        headers: HashMap<HeaderName, HeaderValue>,
        body: Vec<u8>,
    ) -> Result<Response, HttpError> {
        let mut all: Vec<(String, Vec<u8>)> = headers
            .into_iter()
            .map(|(name, value)| (name.to_string(), value.as_bytes().to_vec()))
            .collect();
        if let Some(session) = session {
            all.push((SESSION_HEADER.to_owned(), session.as_bytes().to_vec()));
        }
        if !body.is_empty() {
            all.push((
                "accept".to_owned(),
                format!("{EVENTS}, {JSON}").into_bytes(),
            ));
            all.push(("content-type".to_owned(), JSON.as_bytes().to_vec()));
        }
        let request = || Request {
            method: method.to_owned(),
            url: uri.to_owned(),
            headers: all.clone(),
            body: Body::Whole(body.clone()),
            timeouts: Timeouts::default(),
        };
        let failed = |why| egress::Error::new(egress::ErrorKind::Credential, why);
        let Some(login) = &self.login else {
            let sent = self.egress.send(request(), origin()).await;
            return sent.map_err(StreamableHttpError::Client);
        };
        let token = login.ready_token(&self.handle).await.map_err(failed);
        let token = token.map_err(StreamableHttpError::Client)?;
        let sent = self.egress.send(request(), origin()).await;
        let response = sent.map_err(StreamableHttpError::Client)?;
        if response.status != 401 {
            return Ok(response);
        }
        // The token may have been revoked before its end. The request was not carried out.
        drop(response);
        let renewed = login.renew_refused(&self.handle, &token).await;
        renewed
            .map_err(failed)
            .map_err(StreamableHttpError::Client)?;
        let sent = self.egress.send(request(), origin()).await;
        sent.map_err(StreamableHttpError::Client)
    }
}

/// Origin of the requests, for access records. A single one, because a server is shared by the
/// calls of a session.
pub(crate) fn origin() -> Origin {
    Origin {
        agent: "main".into(),
        turn: 0,
        step: 0,
        point: None,
        call_id: None,
    }
}

impl StreamableHttpClient for EgressClient {
    type Error = egress::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        let body = serde_json::to_vec(&message)?;
        let session = session_id.as_deref();
        let response = self
            .send("POST", &uri, session, custom_headers, body)
            .await?;
        read_answer(response, session.is_some())
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), HttpError> {
        let sent = self
            .send(
                "DELETE",
                &uri,
                Some(&session_id),
                custom_headers,
                Vec::new(),
            )
            .await?;
        match sent.status {
            405 => Err(StreamableHttpError::ServerDoesNotSupportDeleteSession),
            _ => Ok(()),
        }
    }

    /// An open stream would never end, and the egress reads an answer to its end.
    async fn get_stream(
        &self,
        _uri: Arc<str>,
        _session_id: Option<Arc<str>>,
        _last_event_id: Option<String>,
        _auth_header: Option<String>,
        _custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, HttpError> {
        Err(StreamableHttpError::ServerDoesNotSupportSse)
    }
}

/// Reads the answer to a message.
fn read_answer(
    response: Response,
    has_session: bool,
) -> Result<StreamableHttpPostResponse, HttpError> {
    let header = |name: &str| {
        let value = response.headers.get(name)?;
        value.to_str().ok().map(str::to_owned)
    };
    let session = header(SESSION_HEADER);
    let kind = header("content-type").unwrap_or_default();
    let unexpected = |text: String| StreamableHttpError::UnexpectedServerResponse(text.into());
    match response.status {
        401 | 403 => {
            let asked = header("www-authenticate");
            Err(StreamableHttpError::AuthRequired(AuthRequiredError::new(
                asked.unwrap_or_else(|| format!("HTTP {}", response.status)),
            )))
        }
        404 if has_session => Err(StreamableHttpError::SessionExpired),
        202 | 204 => Ok(StreamableHttpPostResponse::Accepted),
        200..=299 if response.body.is_empty() => Ok(StreamableHttpPostResponse::Accepted),
        200..=299 if kind.starts_with(EVENTS) => {
            let body = stream::iter([Ok::<_, std::io::Error>(Bytes::from(response.body))]);
            let events = SseStream::from_bytes_stream(body).boxed();
            Ok(StreamableHttpPostResponse::Sse(events, session))
        }
        200..=299 if kind.starts_with(JSON) => {
            let message: ServerJsonRpcMessage = serde_json::from_slice(&response.body)?;
            Ok(StreamableHttpPostResponse::Json(message, session))
        }
        200..=299 => Err(StreamableHttpError::UnexpectedContentType(Some(kind))),
        // An error of the protocol keeps its words, whatever the status is.
        status => match serde_json::from_slice(&response.body) {
            Ok(ServerJsonRpcMessage::Error(error)) => Ok(StreamableHttpPostResponse::Json(
                ServerJsonRpcMessage::Error(error),
                session,
            )),
            _ => Err(unexpected(format!("HTTP {status}"))),
        },
    }
}
