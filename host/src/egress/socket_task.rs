//! Runs the task of a WebSocket connection, which reads, answers pings and writes.
//!
//! Reading stops while the queue is full, so that a slow plugin costs no memory and TCP slows the
//! server down. If the server breaks a rule, the connection ends, and the reason names the rule.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::{SinkExt as _, StreamExt as _};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::error::{CapacityError, Error as WireError, ProtocolError};
use tokio_util::sync::CancellationToken;

use super::connection::{
    MAX_WEBSOCKET_MESSAGE_BYTES, SharedWebSocketConnection, WebSocketMessageContent,
    WebSocketMessageToSend,
};
use super::mask::CredentialMasker;
use super::socket::Socket;

/// Timeout for passing a message to the server.
const MESSAGE_SEND_TIMEOUT: Duration = Duration::from_secs(10);

/// Timeout for closing a WebSocket connection.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Time without WebSocket frames from the server after which a ping is sent to the server.
const IDLE_TIME_BEFORE_PING: Duration = Duration::from_secs(30);

/// Time without frames from the server after which the connection counts as dead.
const DEAD_CONNECTION_TIMEOUT: Duration = Duration::from_secs(90);

/// Maximum number of WebSocket control frames within [`CONTROL_FRAME_COUNT_PERIOD`].
const MAX_CONTROL_FRAMES_PER_PERIOD: u32 = 500;

/// Period over which the control frames of a WebSocket connection are counted.
const CONTROL_FRAME_COUNT_PERIOD: Duration = Duration::from_secs(10);

/// Number of WebSocket control frames in the current period, and the start of the period.
#[derive(Debug)]
struct WebSocketControlFrameCount {
    since: Instant,
    n: u32,
}

impl Default for WebSocketControlFrameCount {
    fn default() -> Self {
        let since = Instant::now();
        Self { since, n: 0 }
    }
}

impl WebSocketControlFrameCount {
    /// Counts a control frame. Returns true if there were too many in the current period.
    fn count_control_frame(&mut self, now: Instant) -> bool {
        if now.saturating_duration_since(self.since) >= CONTROL_FRAME_COUNT_PERIOD {
            *self = Self { since: now, n: 0 };
        }
        self.n += 1;
        self.n > MAX_CONTROL_FRAMES_PER_PERIOD
    }
}

/// Task that transfers the messages of one WebSocket connection.
pub(super) struct WebSocketTask {
    socket: Socket,
    orders: mpsc::Receiver<WebSocketMessageToSend>,
    shared: Arc<SharedWebSocketConnection>,
    mask: CredentialMasker,
    control: WebSocketControlFrameCount,
}

impl WebSocketTask {
    pub(super) fn new(
        socket: Socket,
        orders: mpsc::Receiver<WebSocketMessageToSend>,
        shared: Arc<SharedWebSocketConnection>,
        mask: CredentialMasker,
    ) -> Self {
        Self {
            socket,
            orders,
            shared,
            mask,
            control: WebSocketControlFrameCount::default(),
        }
    }

    /// Serves the connection until it ends or the plugin drops it, and closes it.
    pub(super) async fn run(mut self, closing: CancellationToken) {
        let reason = tokio::select! {
            biased;
            () = closing.cancelled() => "closed by the plugin".to_owned(),
            reason = self.run_until_closed() => reason,
        };
        // From now on nothing is sent, and frames that the server still sends are not received.
        self.orders.close();
        self.shared.mark_ended(&reason);
        // Errors and the timeout are ignored, because the stream is dropped in any case.
        let _ = timeout(CLOSE_TIMEOUT, self.socket.close(None)).await;
    }

    /// Serves the WebSocket connection until it ends. Returns the reason for its end.
    async fn run_until_closed(&mut self) -> String {
        let mut heard = Instant::now();
        let mut pinged = heard;
        loop {
            let has_room = self.shared.has_queue_room();
            // The host does not read while the queue is full, so this time does not count as
            // silence of the server.
            if !has_room {
                heard = Instant::now();
            }
            let silent = heard.elapsed();
            if silent >= DEAD_CONNECTION_TIMEOUT {
                return format!("the server sent nothing for {DEAD_CONNECTION_TIMEOUT:?}");
            }
            // Only frames from the server delay the next ping: messages that the plugin sends do
            // not show that the server is alive.
            let until_ping = IDLE_TIME_BEFORE_PING.saturating_sub(heard.max(pinged).elapsed());
            tokio::select! {
                order = self.orders.recv() => {
                    let Some((message, done)) = order else {
                        return "closed by the plugin".to_owned();
                    };
                    if let Err(why) = self.send_message(message).await {
                        let _ = done.send(Err(why.clone()));
                        return why;
                    }
                    let _ = done.send(Ok(()));
                }
                message = self.socket.next(), if has_room => {
                    heard = Instant::now();
                    if let Err(why) = self.handle_frame(message) {
                        return why;
                    }
                }
                () = self.shared.room.notified(), if !has_room => {}
                () = tokio::time::sleep(until_ping), if has_room => {
                    pinged = Instant::now();
                    if let Err(why) = self.send_message(Message::Ping(bytes::Bytes::new())).await {
                        return why;
                    }
                }
            }
        }
    }

    async fn send_message(&mut self, message: Message) -> Result<(), String> {
        match timeout(MESSAGE_SEND_TIMEOUT, self.socket.send(message)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(connection_end_reason(&error)),
            Err(_) => Err(format!(
                "the server did not accept a message within {MESSAGE_SEND_TIMEOUT:?}"
            )),
        }
    }

    /// Handles one received WebSocket frame. An error means that the connection must end, and
    /// contains the reason.
    fn handle_frame(&mut self, came: Option<Result<Message, WireError>>) -> Result<(), String> {
        let frame = match came {
            None => return Err("the server closed the connection".to_owned()),
            Some(Err(error)) => return Err(connection_end_reason(&error)),
            Some(Ok(Message::Close(why))) => {
                return Err(match why {
                    Some(why) => format!(
                        "the server closed the connection: {} {}",
                        u16::from(why.code),
                        self.mask.mask_text(why.reason.as_str())
                    ),
                    None => "the server closed the connection".to_owned(),
                });
            }
            Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {
                return match self.control.count_control_frame(Instant::now()) {
                    true => Err(format!(
                        "the server sent more than {MAX_CONTROL_FRAMES_PER_PERIOD} pings or pongs within {CONTROL_FRAME_COUNT_PERIOD:?}"
                    )),
                    false => Ok(()),
                };
            }
            Some(Ok(Message::Text(text))) => {
                WebSocketMessageContent::Text(self.mask.mask_text(text.as_str()))
            }
            Some(Ok(Message::Binary(bytes))) => WebSocketMessageContent::Binary(
                self.mask
                    .mask_bytes(&bytes)
                    .unwrap_or_else(|| bytes.to_vec()),
            ),
        };
        self.shared.queue_message(frame);
        Ok(())
    }
}

/// Returns the reason why the connection ended, for the error of the WebSocket library.
fn connection_end_reason(error: &WireError) -> String {
    match error {
        WireError::ConnectionClosed | WireError::AlreadyClosed => {
            "the server closed the connection".to_owned()
        }
        WireError::Capacity(CapacityError::MessageTooLong { .. }) => {
            format!("the server sent a message of more than {MAX_WEBSOCKET_MESSAGE_BYTES} bytes")
        }
        WireError::Protocol(ProtocolError::ResetWithoutClosingHandshake) => {
            "the server broke the connection off".to_owned()
        }
        WireError::Io(error) => format!("the connection broke off: {error}"),
        other => format!("the server violated the WebSocket protocol: {other}"),
    }
}
