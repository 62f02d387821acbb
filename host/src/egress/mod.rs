//! Egress: every HTTP request of every plugin is sent by [`PluginSessionEgress::send`], regardless
//! of the interface that the plugin called, and every WebSocket is opened by
//! [`PluginSessionEgress::open_socket`].
//!
//! This module checks everything about a request (URL, host, address, redirects, headers, sizes,
//! timeouts, counts), adds credentials last, and masks them in the response. It must not know which
//! import or WASI interface made the request, nor where secrets are stored.
//!
//! A request passes through these files in order: `budget`, `target`, `headers`,
//! [`RequestInspectorFn`], `resolve` and `address`, `credential`, `send`, `redirect` (and again
//! from `budget`), `mask`, `record`. A stream of events passes through the same files, and then
//! through `events`. A WebSocket passes through `socket` instead of `send` and `redirect`; after it
//! is open, `connection` and `socket_task` handle it.
//!
//! Start from [`PluginSessionEgress`].

#[doc(hidden)]
pub mod address;
mod budget;
mod connection;
mod credential;
mod error;
mod events;
mod headers;
mod mask;
mod options;
mod record;
mod redirect;
mod resolve;
mod send;
mod socket;
mod socket_task;
mod target;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use http::HeaderMap;
use tokio::sync::Semaphore;

pub use budget::{
    ConcurrentRequestPermit, DEFAULT_MAX_REQUESTS_PER_SESSION, MAX_REQUESTS_PER_SESSION_SETTING,
    MAX_WEBSOCKETS_PER_PLUGIN,
};
pub use connection::{
    MAX_QUEUED_RECEIVED_BYTES, MAX_QUEUED_RECEIVED_MESSAGES, MAX_WEBSOCKET_MESSAGE_BYTES,
    WebSocketConnection, WebSocketEvent, WebSocketMessageContent, WebSocketReadySignal,
};
pub use credential::{CredentialTemplate, EmptySecretStore, Secret, SecretStore};
pub use error::{EgressErrorKind, Error};
pub use events::{EgressResponseOrStream, EventStreamPurpose, EventStreamResponse};
pub use headers::{MAX_REQUEST_HEADER_BYTES, is_forbidden_plugin_header};
pub use options::{
    CannedResponseFn, CannedWebSocketFn, EgressOptions, OutgoingRequest, RequestInspectorFn,
};
pub use resolve::{HostNameResolver, SystemDnsResolver};
pub use socket::WebSocketRequest;

use crate::grant::GrantedCapabilities;
use crate::point::handle::AgentHandle;

/// Maximum size of the body of a plugin's request, in bytes.
pub const MAX_REQUEST_BODY_BYTES: usize = 10 << 20;

/// Maximum size of the decoded body of a response to a plugin's request, in bytes.
pub const MAX_RESPONSE_BODY_BYTES: usize = 10 << 20;

/// HTTP request that a plugin asks the host to send.
pub struct EgressRequest {
    /// HTTP method, such as `GET` or `POST`.
    pub method: String,
    /// Absolute URL to which the request is sent.
    pub url: String,
    /// Names and values of the headers.
    pub headers: Vec<(String, Vec<u8>)>,
    /// Body of the request.
    pub body: EgressRequestBody,
    /// Timeouts of the plugin, which apply where they are shorter than the host's own.
    pub timeouts: PluginRequestTimeouts,
}

/// Body of a plugin's request.
pub enum EgressRequestBody {
    /// Body that is complete when the request is sent.
    Whole(Vec<u8>),
    /// Body that the plugin is still writing. The host waits for it only after the request has been
    /// allowed. The future must end by itself after [`MAX_REQUEST_BODY_BYTES`].
    Later(BoxFuture<'static, Result<Vec<u8>, Error>>),
}

/// Timeouts that a plugin sets for its request. They can only shorten those of the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PluginRequestTimeouts {
    /// Timeout for connecting; at most 10 s. `None` for 10 s.
    pub connect: Option<Duration>,
    /// Timeout from the start of connecting to the response headers.
    pub first_byte: Option<Duration>,
    /// Timeout between two pieces of the response body.
    pub between_bytes: Option<Duration>,
}

/// Complete response to a plugin's request, with the plugin's credentials masked.
#[derive(Debug)]
pub struct EgressResponse {
    /// HTTP status code of the response.
    pub status: u16,
    /// Headers of the response, without those that concern the connection.
    pub headers: HeaderMap,
    /// Body of the response, after decompression.
    pub body: Vec<u8>,
    /// Permit that counts the request as concurrent until the response is dropped.
    pub place: ConcurrentRequestPermit,
}

/// State that the requests of one plugin share, in all sessions.
#[derive(Debug)]
pub struct SharedPluginEgress {
    options: EgressOptions,
    plugin: Arc<str>,
    granted: Arc<GrantedCapabilities>,
    requests: u32,
    at_once: Arc<Semaphore>,
    connections: Arc<Semaphore>,
}

impl SharedPluginEgress {
    /// Creates the egress of a plugin with these grants. A session may send `requests` requests, or
    /// the default number, but never more than [`MAX_REQUESTS_PER_SESSION_SETTING`].
    #[must_use]
    pub fn new(
        options: EgressOptions,
        plugin: Arc<str>,
        granted: Arc<GrantedCapabilities>,
        requests: Option<u32>,
    ) -> Arc<Self> {
        Arc::new(Self {
            options,
            plugin,
            granted,
            requests: requests
                .unwrap_or(DEFAULT_MAX_REQUESTS_PER_SESSION)
                .min(MAX_REQUESTS_PER_SESSION_SETTING),
            at_once: Arc::new(Semaphore::new(budget::MAX_CONCURRENT_REQUESTS_PER_PLUGIN)),
            connections: Arc::new(Semaphore::new(MAX_WEBSOCKETS_PER_PLUGIN)),
        })
    }

    /// Opens the egress for one session; every request is reported to `handle`.
    #[must_use]
    pub fn open_for_session(
        self: &Arc<Self>,
        handle: Arc<dyn AgentHandle>,
    ) -> Arc<PluginSessionEgress> {
        Arc::new(PluginSessionEgress {
            budget: budget::PluginRequestBudget::new(self.requests),
            shared: self.clone(),
            handle,
        })
    }
}

/// Egress of one plugin in one session.
///
/// Created by [`SharedPluginEgress::open_for_session`] and used by every interface through which
/// the plugin can send requests. No other code may send a request for a plugin.
pub struct PluginSessionEgress {
    shared: Arc<SharedPluginEgress>,
    handle: Arc<dyn AgentHandle>,
    budget: budget::PluginRequestBudget,
}

impl PluginSessionEgress {
    /// Resets the number of requests that the plugin may still send in the session.
    pub(crate) fn reset_request_budget(&self) {
        self.budget.reset_budget();
    }
}

impl_partial_debug!(PluginSessionEgress, self, plugin = self.shared.plugin);
