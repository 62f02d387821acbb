//! Egress: every HTTP request of every plugin is sent by [`Egress::send`], regardless of the
//! interface that the plugin called, and every WebSocket is opened by [`Egress::open_socket`].
//!
//! This module checks everything about a request (URL, host, address, redirects, headers, sizes,
//! timeouts, counts), adds credentials last, and masks them in the response. It must not know which
//! import or WASI interface made the request, nor where secrets are stored.
//!
//! A request passes through these files in order: `budget`, `target`, `headers`, [`Inspect`],
//! `resolve` and `address`, `credential`, `send`, `redirect` (and again from `budget`), `mask`,
//! `record`. A stream of events passes through the same files, and then through `events`. A
//! WebSocket passes through `socket` instead of `send` and `redirect`; after it is open,
//! `connection` and `socket_task` handle it.
//!
//! Start from [`Egress`].

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

pub use budget::{DEFAULT_REQUESTS, MAX_CONNECTIONS, MAX_REQUESTS, RequestSlot};
pub use connection::{
    MAX_FRAME_BYTES, MAX_QUEUED, MAX_QUEUED_BYTES, SocketConnection, SocketEvent, SocketFrame,
    SocketSignal,
};
pub use credential::{CredentialTemplate, NoSecrets, Secret, Secrets};
pub use error::{Error, ErrorKind};
pub use events::{Answer, EventResponse, EventStreamPurpose};
pub use headers::{MAX_HEADER_BYTES, is_refused};
pub use options::{Canned, CannedSocket, EgressOptions, Inspect, OutgoingRequest};
pub use resolve::{Resolve, SystemResolver};
pub use socket::SocketRequest;

use crate::grant::Granted;
use crate::point::handle::AgentHandle;

/// Maximum size of a request body, in bytes.
pub const MAX_REQUEST_BYTES: usize = 10 << 20;

/// Maximum size of the decoded body of a response to a plugin's request, in bytes.
pub const MAX_RESPONSE_BYTES: usize = 10 << 20;

/// Request of a plugin.
pub struct Request {
    /// `GET`, `POST`, …
    pub method: String,
    /// Absolute URL.
    pub url: String,
    /// Names and values.
    pub headers: Vec<(String, Vec<u8>)>,
    /// Body of the request.
    pub body: Body,
    /// Timeouts, if shorter than the host's own.
    pub timeouts: RequestTimeouts,
}

/// Body of a request.
pub enum Body {
    /// The complete body.
    Whole(Vec<u8>),
    /// Body that the plugin is still writing. The host waits for it only after the request has been
    /// allowed. The future must end by itself after [`MAX_REQUEST_BYTES`].
    Later(BoxFuture<'static, Result<Vec<u8>, Error>>),
}

/// Timeouts that a plugin sets for its request. They can only shorten those of the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestTimeouts {
    /// Timeout for connecting; at most 10 s.
    pub connect: Option<Duration>,
    /// Timeout from the start of connecting to the response headers.
    pub first_byte: Option<Duration>,
    /// Timeout between two pieces of the response body.
    pub between_bytes: Option<Duration>,
}

/// A complete response, with the plugin's credentials masked.
#[derive(Debug)]
pub struct Response {
    /// Status code.
    pub status: u16,
    /// Headers, without connection headers.
    pub headers: HeaderMap,
    /// The body after decoding.
    pub body: Vec<u8>,
    /// Permit that counts the request as concurrent until the response is dropped.
    pub place: RequestSlot,
}

/// State that the requests of one plugin share, in all sessions.
#[derive(Debug)]
pub struct PluginEgress {
    options: EgressOptions,
    plugin: Arc<str>,
    granted: Arc<Granted>,
    requests: u32,
    at_once: Arc<Semaphore>,
    connections: Arc<Semaphore>,
}

impl PluginEgress {
    /// Creates the egress of a plugin with these grants. A session may send `requests` requests, or
    /// the default number, but never more than [`MAX_REQUESTS`].
    #[must_use]
    pub fn new(
        options: EgressOptions,
        plugin: Arc<str>,
        granted: Arc<Granted>,
        requests: Option<u32>,
    ) -> Arc<Self> {
        Arc::new(Self {
            options,
            plugin,
            granted,
            requests: requests.unwrap_or(DEFAULT_REQUESTS).min(MAX_REQUESTS),
            at_once: Arc::new(Semaphore::new(budget::MAX_PLUGIN_REQUESTS)),
            connections: Arc::new(Semaphore::new(MAX_CONNECTIONS)),
        })
    }

    /// Opens the egress for one session; every request is reported to `handle`.
    #[must_use]
    pub fn open(self: &Arc<Self>, handle: Arc<dyn AgentHandle>) -> Arc<Egress> {
        Arc::new(Egress {
            budget: budget::RequestBudget::new(self.requests),
            shared: self.clone(),
            handle,
        })
    }
}

/// Egress of one plugin in one session.
///
/// Created by [`PluginEgress::open`] and used by every interface through which the plugin can send
/// requests. No other code may send a request for a plugin.
pub struct Egress {
    shared: Arc<PluginEgress>,
    handle: Arc<dyn AgentHandle>,
    budget: budget::RequestBudget,
}

impl Egress {
    /// Resets the number of requests that the plugin may still send in the session.
    pub(crate) fn reset_request_budget(&self) {
        self.budget.reset_budget();
    }
}

impl_partial_debug!(Egress, self, plugin = self.shared.plugin);
