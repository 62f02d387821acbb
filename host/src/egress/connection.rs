//! An open WebSocket connection of a plugin.
//!
//! Received messages wait in a bounded queue until the plugin reads them. While the queue is full,
//! the task in `socket_task` reads nothing from the server. Dropping a [`WebSocketConnection`]
//! closes it and writes its access record.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use http::HeaderMap;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio_tungstenite::tungstenite::Message;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::SharedPluginEgress;
use super::budget::ConcurrentRequestPermit;
use super::error::{EgressErrorKind, Error};
use super::mask::CredentialMasker;
use super::options::OutgoingRequest;
use super::record::UnwrittenAccessRecord;
use super::socket::SocketPeer;
use super::socket_task::WebSocketTask;
use super::target::RequestTarget;
use crate::lock::lock_ignoring_poison;
use crate::secret::run_blocking_scan;
use crate::text::escape_and_truncate_line;

/// Maximum size of a WebSocket message, in bytes.
pub const MAX_WEBSOCKET_MESSAGE_BYTES: usize = 1 << 20;

/// Maximum number of received messages in the queue of a connection.
pub const MAX_QUEUED_RECEIVED_MESSAGES: usize = 256;

/// Total size of the queued messages, in bytes, from which on the task stops reading from the
/// server.
pub const MAX_QUEUED_RECEIVED_BYTES: usize = 4 << 20;

/// Maximum length of the reason why a connection ended, in bytes.
const MAX_CONNECTION_END_REASON_BYTES: usize = 200;

/// Content of a WebSocket message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WebSocketMessageContent {
    /// Content of a text message.
    Text(String),
    /// Content of a binary message.
    Binary(Vec<u8>),
}

impl WebSocketMessageContent {
    /// Returns the content as bytes; text as UTF-8.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Text(text) => text.as_bytes(),
            Self::Binary(bytes) => bytes,
        }
    }
}

/// Event on a WebSocket connection that a plugin can receive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WebSocketEvent {
    /// The server sent this message.
    Message(WebSocketMessageContent),
    /// The connection has ended, for this reason. No other event follows.
    Closed(String),
}

/// Number of messages, and of bytes in them, that were transferred in one direction.
#[derive(Clone, Copy, Debug, Default)]
struct WebSocketTrafficCounts {
    messages: u64,
    bytes: u64,
}

impl WebSocketTrafficCounts {
    fn count_message(&mut self, bytes: usize) {
        self.messages += 1;
        self.bytes += bytes as u64;
    }
}

/// State of a connection that its task (which reads and writes the WebSocket) and the calls of the
/// plugin share.
#[derive(Debug, Default)]
struct WebSocketState {
    queue: VecDeque<WebSocketMessageContent>,
    queued_bytes: usize,
    received: WebSocketTrafficCounts,
    sent: WebSocketTrafficCounts,
    /// Reason why the connection ended; `None` while it is open.
    ended: Option<String>,
    /// Whether the plugin has received [`WebSocketEvent::Closed`].
    is_told: bool,
}

/// State of a WebSocket connection, with the signals that report its changes.
#[derive(Debug)]
pub(super) struct SharedWebSocketConnection {
    state: Mutex<WebSocketState>,
    /// Notified when the plugin took a message from the queue, so that the task can read again.
    pub(super) room: Notify,
    /// Notified when a message or the end of a connection arrives; shared with other connections.
    arrived: Arc<Notify>,
}

impl SharedWebSocketConnection {
    /// Appends a message from the server to the queue of messages for the plugin.
    pub(super) fn queue_message(&self, frame: WebSocketMessageContent) {
        let n_bytes = frame.as_bytes().len();
        let mut state = lock_ignoring_poison(&self.state);
        state.received.count_message(n_bytes);
        state.queued_bytes += n_bytes;
        state.queue.push_back(frame);
        drop(state);
        self.arrived.notify_one();
    }

    /// Whether another message from the server fits in the queue of messages that the plugin has
    /// not received yet.
    pub(super) fn has_queue_room(&self) -> bool {
        let state = lock_ignoring_poison(&self.state);
        state.queue.len() < MAX_QUEUED_RECEIVED_MESSAGES
            && state.queued_bytes < MAX_QUEUED_RECEIVED_BYTES
    }

    /// Marks the connection as ended for this reason, unless it is already marked.
    pub(super) fn mark_ended(&self, reason: &str) {
        let mut state = lock_ignoring_poison(&self.state);
        state.ended.get_or_insert_with(|| {
            escape_and_truncate_line(reason, MAX_CONNECTION_END_REASON_BYTES)
        });
        drop(state);
        self.arrived.notify_one();
    }
}

/// Handle that tells whether a connection has an event that the plugin can receive.
#[derive(Clone, Debug)]
pub struct WebSocketReadySignal(Arc<SharedWebSocketConnection>);

impl WebSocketReadySignal {
    /// Whether [`WebSocketConnection::receive`] would return without waiting.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        let state = lock_ignoring_poison(&self.0.state);
        !state.queue.is_empty() || (state.ended.is_some() && !state.is_told)
    }
}

/// A message to send, and the channel for the outcome of sending it.
pub(super) type WebSocketMessageToSend = (Message, oneshot::Sender<Result<(), String>>);

/// Open connection of a plugin. Closed when it is dropped.
pub struct WebSocketConnection {
    shared: Arc<SharedWebSocketConnection>,
    /// Queue of messages that the connection's task sends; `None` for a connection of a test with
    /// fixed messages, which has no task.
    orders: Option<mpsc::Sender<WebSocketMessageToSend>>,
    egress: Arc<SharedPluginEgress>,
    target: RequestTarget,
    record: UnwrittenAccessRecord,
    _slot: ConcurrentRequestPermit,
    _closing: DropGuard,
}

impl_partial_debug!(WebSocketConnection, self, plugin = self.egress.plugin);

impl WebSocketConnection {
    pub(super) fn start(
        line: SocketPeer,
        slot: ConcurrentRequestPermit,
        mask: CredentialMasker,
        record: UnwrittenAccessRecord,
        arrived: Arc<Notify>,
        egress: Arc<SharedPluginEgress>,
        target: RequestTarget,
    ) -> Self {
        let shared = Arc::new(SharedWebSocketConnection {
            state: Mutex::default(),
            room: Notify::new(),
            arrived,
        });
        let closing = CancellationToken::new();
        let orders = match line {
            SocketPeer::Socket(socket) => {
                let (orders, received) = mpsc::channel(1);
                let task = WebSocketTask::new(*socket, received, shared.clone(), mask);
                tokio::spawn(task.run(closing.clone()));
                Some(orders)
            }
            SocketPeer::Canned(messages) => {
                for message in messages {
                    shared.queue_message(WebSocketMessageContent::Text(message));
                }
                None
            }
        };
        Self {
            shared,
            orders,
            egress,
            target,
            record,
            _slot: slot,
            _closing: closing.drop_guard(),
        }
    }

    /// Returns a handle that shows whether there is an event to receive.
    #[must_use]
    pub fn ready_signal(&self) -> WebSocketReadySignal {
        WebSocketReadySignal(self.shared.clone())
    }

    /// Whether the plugin has received [`WebSocketEvent::Closed`], so that no event is left.
    #[must_use]
    pub fn is_over(&self) -> bool {
        lock_ignoring_poison(&self.shared.state).is_told
    }

    /// Returns the next event and removes it; `None` if there is none yet. `Closed` is returned
    /// once, after all messages.
    #[must_use]
    pub fn receive(&self) -> Option<WebSocketEvent> {
        let mut state = lock_ignoring_poison(&self.shared.state);
        if let Some(frame) = state.queue.pop_front() {
            state.queued_bytes = state.queued_bytes.saturating_sub(frame.as_bytes().len());
            drop(state);
            self.shared.room.notify_one();
            return Some(WebSocketEvent::Message(frame));
        }
        let reason = state.ended.clone().filter(|_| !state.is_told)?;
        state.is_told = true;
        Some(WebSocketEvent::Closed(reason))
    }

    /// Sends a message. `Ok(false)` if the connection has ended.
    ///
    /// # Errors
    /// The message is too long or contains a secret, or the server does not accept it.
    pub async fn send(&self, frame: WebSocketMessageContent) -> Result<bool, Error> {
        let n_bytes = frame.as_bytes().len();
        if n_bytes > MAX_WEBSOCKET_MESSAGE_BYTES {
            let text = format!(
                "the message has {n_bytes} bytes, at most {MAX_WEBSOCKET_MESSAGE_BYTES} can be sent"
            );
            return Err(Error::new(EgressErrorKind::RequestBody, text));
        }
        if let Some(inspect) = &self.egress.options.inspect {
            let outgoing = OutgoingRequest {
                plugin: &self.egress.plugin,
                method: "SEND",
                url: self.target.url.as_str(),
                headers: &HeaderMap::new(),
                body: frame.as_bytes(),
            };
            run_blocking_scan(n_bytes, || inspect(&outgoing))
                .map_err(|why| Error::new(EgressErrorKind::Content, why))?;
        }
        if lock_ignoring_poison(&self.shared.state).ended.is_some() {
            return Ok(false);
        }
        let Some(orders) = &self.orders else {
            lock_ignoring_poison(&self.shared.state)
                .sent
                .count_message(n_bytes);
            return Ok(true);
        };
        let message = match frame {
            WebSocketMessageContent::Text(text) => Message::text(text),
            WebSocketMessageContent::Binary(bytes) => Message::binary(bytes),
        };
        let (done, outcome) = oneshot::channel();
        // If the task has ended, sending to it fails, and so does waiting for the outcome.
        if orders.send((message, done)).await.is_err() {
            return Ok(false);
        }
        match outcome.await {
            Ok(Ok(())) => {
                lock_ignoring_poison(&self.shared.state)
                    .sent
                    .count_message(n_bytes);
                Ok(true)
            }
            Ok(Err(why)) => Err(Error::new(EgressErrorKind::Response, why)),
            Err(_) => Ok(false),
        }
    }
}

impl Drop for WebSocketConnection {
    fn drop(&mut self) {
        let state = lock_ignoring_poison(&self.shared.state);
        let WebSocketTrafficCounts { messages, bytes } = state.received;
        let sent = state.sent;
        let reason = state.ended.as_deref().unwrap_or("closed by the plugin");
        self.record.write_completed_with_remark(format!(
            "received {messages} messages, {bytes} bytes; sent {} messages, {} bytes; {reason}",
            sent.messages, sent.bytes
        ));
    }
}
