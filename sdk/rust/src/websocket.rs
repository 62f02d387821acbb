//! Opens WebSocket connections of a loop to the hosts that the plugin was granted.

pub use crate::bindings::rind::plugin::websocket::{ConnectRequest, ConnectionEvent, Frame};
use crate::types::Error;

#[cfg(target_family = "wasm")]
use crate::bindings::rind::plugin::websocket as host;
#[cfg(not(target_family = "wasm"))]
use crate::testing::websocket as host;

/// Opens a connection and returns its number, which is valid in this run of the loop.
///
/// # Errors
/// The plugin was not granted access to the host, the server refuses the connection, or a limit was
/// reached.
pub fn open(request: &ConnectRequest) -> Result<u32, Error> {
    host::open(request)
}

/// Sends a text.
///
/// # Errors
/// The connection has ended, the text is too long or contains a secret, or the server does not
/// accept it in time.
pub fn send_text(connection: u32, text: impl Into<String>) -> Result<(), Error> {
    host::send(connection, &Frame::Text(text.into()))
}

/// Sends bytes.
///
/// # Errors
/// As for [`send_text`].
pub fn send_binary(connection: u32, bytes: impl Into<Vec<u8>>) -> Result<(), Error> {
    host::send(connection, &Frame::Binary(bytes.into()))
}

/// Returns the next event on a connection, if there is one; does not wait. Wait for an event with
/// [`waiting::wait`](crate::waiting::wait) and
/// [`message`](crate::waiting::WakeConditions::message).
///
/// # Errors
/// The end of the connection was already returned.
pub fn receive(connection: u32) -> Result<Option<ConnectionEvent>, Error> {
    host::receive(connection)
}

/// Closes a connection; messages that were not received yet are lost.
///
/// # Errors
/// The caller is a hook, a tool or a command.
pub fn close(connection: u32) -> Result<(), Error> {
    host::close(connection)
}

impl ConnectRequest {
    /// Creates a request for a connection to a URL, such as `wss://relay.example`.
    #[must_use]
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            headers: Vec::new(),
            protocols: Vec::new(),
        }
    }
}
