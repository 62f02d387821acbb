//! Implements the MCP server over Streamable HTTP, for the older and the newer protocol.
//!
//! This module must not know which clients may connect: the listener checks token, `Host` and
//! `Origin` before it forwards a request.

use std::convert::Infallible;
use std::fmt::Display;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use rmcp::transport::StreamableHttpServerConfig;
use rmcp::transport::streamable_http_server::StreamableHttpService;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::OwnMcpServerConfig;
use super::asked::SuspendedToolCalls;
use super::handler::McpServerRequestHandler;
use super::session::McpServerSharedState;

/// Path of the MCP server in its URL.
const MCP_ENDPOINT_PATH: &str = "/mcp";

/// Maximum number of open connections (older protocol) and requests (newer protocol) together. A
/// connection ends after five minutes without a request.
const MAX_OPEN_CONNECTIONS_AND_REQUESTS: usize = 256;

/// Header with the method of a request. Only clients with the newer protocol send it.
const MCP_METHOD_HEADER_NAME: &str = "mcp-method";

/// Maximum size of the body of a client's request, in bytes.
const MAX_REQUEST_BODY_BYTES: usize = 16 << 20;

/// Rind's MCP server over HTTP. Clones share their state.
#[derive(Clone)]
pub struct McpHttpServer {
    state: Arc<McpServerSharedState>,
    service: StreamableHttpService<McpServerRequestHandler, LocalSessionManager>,
}

impl McpHttpServer {
    /// Creates the HTTP server, which ends when `cancel` is cancelled.
    #[must_use]
    pub fn new(serving: OwnMcpServerConfig, cancel: &CancellationToken) -> Self {
        let state = McpServerSharedState::new(serving, cancel.child_token());
        let (shared, pending) = (state.clone(), SuspendedToolCalls::default());
        let places = Arc::new(Semaphore::new(MAX_OPEN_CONNECTIONS_AND_REQUESTS));
        let open = move || {
            let full = |_| std::io::Error::other("too many clients are connected");
            let place = places.clone().try_acquire_owned().map_err(full)?;
            Ok(McpServerRequestHandler::for_request(
                shared.clone(),
                pending.clone(),
                place,
            ))
        };
        let config = StreamableHttpServerConfig::default()
            // The listener has already checked the `Host` header, including the port.
            .disable_allowed_hosts()
            .with_max_request_body_bytes(MAX_REQUEST_BODY_BYTES)
            .with_cancellation_token(cancel.child_token());
        let service =
            StreamableHttpService::new(open, Arc::new(LocalSessionManager::default()), config);
        Self { state, service }
    }

    /// Returns the path of the MCP server in its URL.
    #[must_use]
    pub fn url_path() -> &'static str {
        MCP_ENDPOINT_PATH
    }

    /// Answers a client's HTTP request to [`url_path`](Self::url_path).
    pub async fn answer_request<B>(
        &self,
        request: http::Request<B>,
    ) -> http::Response<BoxBody<Bytes, Infallible>>
    where
        B: http_body::Body + Send + 'static,
        B::Data: Send + 'static,
        B::Error: Display,
    {
        // Load the tools first, because the transport checks the headers of a call against the
        // tool's schema before the call begins.
        if request.headers().contains_key(MCP_METHOD_HEADER_NAME) {
            self.state.wait_for_session_tool_list().await;
        }
        self.service.handle(request).await
    }

    /// Closes all sessions and waits until they have ended.
    pub async fn close(self) {
        self.state.close_all_sessions().await;
    }
}
