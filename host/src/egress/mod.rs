//! The way out: every HTTP request of every plugin leaves through [`Egress::send`], whatever interface the plugin called.
//!
//! Owns all that decides about a request (URL, host, address, redirects, headers, sizes, times, counts), puts credentials in
//! last, and takes them out of what comes back. It must not know who asks for a plugin's request (an import, a WASI
//! interface) nor where secrets are kept. A request goes through these files in this order: `budget`, `target`, `headers`,
//! [`Inspect`], `resolve` and `address`, `credential`, `send`, `redirect` (and again from `budget`), `mask`, `record`.
//!
//! Start from [`Egress`].

#[doc(hidden)]
pub mod address;
mod budget;
mod credential;
mod error;
mod headers;
mod mask;
mod options;
mod record;
mod redirect;
mod resolve;
mod send;
mod target;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use http::HeaderMap;
use tokio::sync::Semaphore;

pub use budget::{DEFAULT_REQUESTS, MAX_REQUESTS, RequestSlot};
pub use credential::{NoSecrets, Secret, Secrets, Template};
pub use error::{Error, ErrorKind};
pub use headers::{MAX_HEADER_BYTES, is_refused};
pub use options::{Canned, EgressOptions, Inspect, Outgoing};
pub use resolve::{Resolve, SystemResolver};

use crate::grant::Granted;
use crate::point::handle::AgentHandle;

/// Longest body of a request, in bytes.
pub const MAX_REQUEST_BYTES: usize = 10 << 20;

/// Longest body of an answer after decoding, in bytes.
pub const MAX_RESPONSE_BYTES: usize = 10 << 20;

/// Request of a plugin.
pub struct Request {
    /// `GET`, `POST`, …
    pub method: String,
    /// The whole URL.
    pub url: String,
    /// Names and values.
    pub headers: Vec<(String, Vec<u8>)>,
    /// Body of the request.
    pub body: Body,
    /// Shorter times than the host's own.
    pub timeouts: Timeouts,
}

/// The body of a request.
pub enum Body {
    /// All of it.
    Whole(Vec<u8>),
    /// Body that is still being written. Waited for once the request is known to be allowed; it must come to an end by itself
    /// after [`MAX_REQUEST_BYTES`].
    Later(BoxFuture<'static, Result<Vec<u8>, Error>>),
}

/// Times that a plugin sets for its request. They only shorten the host's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timeouts {
    /// Time until there is a connection; at most 10 s.
    pub connect: Option<Duration>,
    /// Time from there to the headers of the answer.
    pub first_byte: Option<Duration>,
    /// Time between two pieces of the answer.
    pub between_bytes: Option<Duration>,
}

/// An answer, whole, without the plugin's credentials in it.
#[derive(Debug)]
pub struct Response {
    /// Status code.
    pub status: u16,
    /// Headers, without those of the connection.
    pub headers: HeaderMap,
    /// The body after decoding.
    pub body: Vec<u8>,
    /// Slot that the answer occupies for as long as it is kept.
    pub place: RequestSlot,
}

/// State that the requests of one plugin share in all sessions.
#[derive(Debug)]
pub struct PluginEgress {
    options: EgressOptions,
    plugin: Arc<str>,
    granted: Arc<Granted>,
    requests: u32,
    at_once: Arc<Semaphore>,
}

impl PluginEgress {
    /// The way out for a plugin with these grants, with `requests` in each session, at most [`MAX_REQUESTS`].
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
            at_once: Arc::new(Semaphore::new(budget::AT_ONCE)),
        })
    }

    /// Opens the egress of one session, which reports every request to `handle`.
    #[must_use]
    pub fn open(self: &Arc<Self>, handle: Arc<dyn AgentHandle>) -> Arc<Egress> {
        Arc::new(Egress {
            budget: budget::Budget::new(self.requests),
            shared: self.clone(),
            handle,
        })
    }
}

/// The way out for one plugin in one session.
pub struct Egress {
    shared: Arc<PluginEgress>,
    handle: Arc<dyn AgentHandle>,
    budget: budget::Budget,
}

impl Egress {
    /// Counts the requests of the session from the beginning again.
    pub(crate) fn renew_requests(&self) {
        self.budget.renew();
    }
}

debug_some!(Egress, self, plugin = self.shared.plugin);
