//! The server over Streamable HTTP, in both eras of the protocol: it answers requests that have passed
//! the check of their token.
//!
//! It must not know who may connect: the listener checks token, `Host` and `Origin`.

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

use super::McpServing;
use super::asked::PendingCalls;
use super::handler::ServerEnd;
use super::session::ServingState;

/// Path of the server.
const PATH: &str = "/mcp";

/// Maximum number of connections of the older protocol, and requests of the newer one, at once. A
/// connection that is idle for five minutes ends.
const MAX_OPEN: usize = 256;

/// Header with the method of a request of the newer protocol.
const METHOD_HEADER: &str = "mcp-method";

/// Largest body of a request, in bytes.
const MAX_BODY_BYTES: usize = 16 << 20;

/// The server over HTTP. Cheap to clone.
#[derive(Clone)]
pub struct McpHttp {
    state: Arc<ServingState>,
    service: StreamableHttpService<ServerEnd, LocalSessionManager>,
}

impl McpHttp {
    /// Creates the server, which ends when `cancel` is set.
    #[must_use]
    pub fn new(serving: McpServing, cancel: &CancellationToken) -> Self {
        let state = ServingState::new(serving, cancel.child_token());
        let (shared, pending) = (state.clone(), PendingCalls::default());
        let places = Arc::new(Semaphore::new(MAX_OPEN));
        let open = move || {
            let full = |_| std::io::Error::other("too many clients are connected");
            let place = places.clone().try_acquire_owned().map_err(full)?;
            Ok(ServerEnd::of_request(
                shared.clone(),
                pending.clone(),
                place,
            ))
        };
        let config = StreamableHttpServerConfig::default()
            // The listener has already checked the `Host` header, including the port.
            .disable_allowed_hosts()
            .with_max_request_body_bytes(MAX_BODY_BYTES)
            .with_cancellation_token(cancel.child_token());
        let service =
            StreamableHttpService::new(open, Arc::new(LocalSessionManager::default()), config);
        Self { state, service }
    }

    /// Returns the path of the server.
    #[must_use]
    pub fn path() -> &'static str {
        PATH
    }

    /// Answers a request to the path.
    pub async fn answer_request<B>(
        &self,
        request: http::Request<B>,
    ) -> http::Response<BoxBody<Bytes, Infallible>>
    where
        B: http_body::Body + Send + 'static,
        B::Data: Send + 'static,
        B::Error: Display,
    {
        // Headers of a call are checked against the schema of its tool, before the call begins.
        if request.headers().contains_key(METHOD_HEADER) {
            self.state.learn_tools().await;
        }
        self.service.handle(request).await
    }

    /// Ends all sessions and waits for them.
    pub async fn close(self) {
        self.state.close_all().await;
    }
}
