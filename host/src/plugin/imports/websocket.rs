//! `rind:plugin/websocket`: WebSocket connections of a loop. The rules for connections are in
//! [`crate::egress`].
//!
//! A connection belongs to the run that opened it, and is closed when the run ends.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::Notify;

use super::super::bindings::rind::plugin::websocket;
use super::super::host::HostState;
use crate::egress::{
    WebSocketConnection, WebSocketEvent, WebSocketMessageContent, WebSocketReadySignal,
    WebSocketRequest,
};
use crate::point::deadline::wait_with_paused_deadline;
use crate::point::handle::HostFunctionError;

/// Name of the contract's interface that this module implements.
const WEBSOCKET_INTERFACE_NAME: &str = "websocket";

/// WebSocket connections that one run of a loop has opened.
#[derive(Debug, Default)]
pub(super) struct LoopRunWebSockets {
    open: BTreeMap<u32, Arc<WebSocketConnection>>,
    last: u32,
    /// Notifies waiting tasks when data arrives on any of the connections.
    arrived: Arc<Notify>,
}

impl LoopRunWebSockets {
    /// Returns signals that become ready when a connection has received data.
    pub(super) fn data_waiter(&self) -> WebSocketDataWaiter {
        let signals = self.open.iter();
        WebSocketDataWaiter {
            signals: signals
                .map(|(number, open)| (*number, open.ready_signal()))
                .collect(),
            arrived: self.arrived.clone(),
        }
    }

    fn add_open_connection(&mut self, connection: WebSocketConnection) -> u32 {
        self.last = self.last.saturating_add(1);
        self.open.insert(self.last, Arc::new(connection));
        self.last
    }
}

/// Signals of the connections that a run of a loop has open. They end the loop's wait when data has
/// arrived.
#[derive(Default)]
pub(super) struct WebSocketDataWaiter {
    signals: Vec<(u32, WebSocketReadySignal)>,
    arrived: Arc<Notify>,
}

impl WebSocketDataWaiter {
    /// Waits until a connection has received data, and returns the number of the connection.
    pub(super) async fn wait_for_ready_socket(&self) -> u32 {
        loop {
            let mut ready = self.signals.iter();
            if let Some((number, _)) = ready.find(|(_, signal)| signal.is_ready()) {
                return *number;
            }
            // `Notify` stores a notification that was sent before this call, so none is missed.
            self.arrived.notified().await;
        }
    }
}

/// Returns an open connection of the run by its number.
fn find_open_connection(
    host: &HostState,
    number: u32,
) -> Result<Arc<WebSocketConnection>, HostFunctionError> {
    host.current_loop_handle(WEBSOCKET_INTERFACE_NAME)?;
    let run = host.call.run.as_ref();
    let open = run.and_then(|run| run.sockets.open.get(&number));
    open.cloned()
        .ok_or_else(|| unknown_connection_error(number))
}

fn close_socket(host: &mut HostState, number: u32) {
    if let Some(run) = &mut host.call.run {
        run.sockets.open.remove(&number);
    }
}

fn unknown_connection_error(number: u32) -> HostFunctionError {
    HostFunctionError::NotFound(format!(
        "this run has no open connection {number}; the connection was closed or never opened"
    ))
}

impl websocket::Host for HostState {
    async fn open(&mut self, request: websocket::ConnectRequest) -> Result<u32, HostFunctionError> {
        self.current_loop_handle(WEBSOCKET_INTERFACE_NAME)?
            .check_session_limit()?;
        let (Some(egress), Some(run)) = (self.backing.egress.clone(), &self.call.run) else {
            let text = "no host was granted to the plugin";
            return Err(HostFunctionError::Denied(text.to_owned()));
        };
        let arrived = run.sockets.arrived.clone();
        let headers = request.headers.into_iter();
        let request = WebSocketRequest {
            url: request.url,
            headers: headers
                .map(|header| (header.name, header.value.into_bytes()))
                .collect(),
            protocols: request.protocols,
        };
        let opening = egress.open_socket(request, self.call.caller.action_origin(), arrived);
        let connection = wait_with_paused_deadline(opening).await?;
        let run = self.call.run.as_mut();
        run.map(|run| run.sockets.add_open_connection(connection))
            .ok_or_else(|| HostFunctionError::Failed("the run of the loop has ended".to_owned()))
    }

    async fn send(
        &mut self,
        number: u32,
        frame: websocket::Frame,
    ) -> Result<(), HostFunctionError> {
        let connection = find_open_connection(self, number)?;
        let frame = match frame {
            websocket::Frame::Text(text) => WebSocketMessageContent::Text(text),
            websocket::Frame::Binary(bytes) => WebSocketMessageContent::Binary(bytes),
        };
        match wait_with_paused_deadline(connection.send(frame)).await? {
            true => Ok(()),
            false => Err(unknown_connection_error(number)),
        }
    }

    async fn receive(
        &mut self,
        number: u32,
    ) -> Result<Option<websocket::ConnectionEvent>, HostFunctionError> {
        let event = find_open_connection(self, number)?.receive();
        Ok(event.map(|event| match event {
            WebSocketEvent::Message(WebSocketMessageContent::Text(text)) => {
                websocket::ConnectionEvent::Message(websocket::Frame::Text(text))
            }
            WebSocketEvent::Message(WebSocketMessageContent::Binary(bytes)) => {
                websocket::ConnectionEvent::Message(websocket::Frame::Binary(bytes))
            }
            WebSocketEvent::Closed(reason) => {
                close_socket(self, number);
                websocket::ConnectionEvent::Closed(reason)
            }
        }))
    }

    async fn close(&mut self, number: u32) -> Result<(), HostFunctionError> {
        self.current_loop_handle(WEBSOCKET_INTERFACE_NAME)?;
        close_socket(self, number);
        Ok(())
    }
}
