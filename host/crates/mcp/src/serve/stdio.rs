//! Implements the MCP server over standard input and output: one message per line, and no other
//! output.

use std::borrow::Cow;
use std::io::{BufRead, BufReader, Read, Write};
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{ErrorData, RequestId, ServerJsonRpcMessage};
use rmcp::service::{RxJsonRpcMessage, ServerInitializeError, ServiceExt, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::OwnMcpServerConfig;
use super::handler::McpServerRequestHandler;
use super::session::McpServerSharedState;
use rind_lib::text::escape_and_truncate_line;

/// Maximum length of a client's message, in bytes.
const MAX_CLIENT_MESSAGE_BYTES: usize = 16 << 20;

/// Maximum number of input lines that are read before they are handled.
const MAX_READ_AHEAD_LINES: usize = 16;

/// Maximum number of outgoing messages that wait to be written.
const MAX_QUEUED_OUTGOING_MESSAGES: usize = 64;

/// Timeout for writing the queued messages when the server ends.
const SHUTDOWN_WRITE_TIMEOUT: Duration = Duration::from_secs(2);

/// Maximum number of error answers to lines that are not messages. Without a limit, a client that
/// echoes these answers would cause an endless loop.
const MAX_INVALID_LINE_ERROR_ANSWERS: usize = 100;

/// Line that the client sent, or a mark in place of a line that was too long.
enum ClientInputLine {
    Whole(Vec<u8>),
    TooLong,
}

/// Serves one client over a pair of streams until the client closes its end or `cancel` is
/// cancelled. Reading and writing use separate threads, because both may block forever.
///
/// # Errors
/// The client violates the protocol at the start, or a thread cannot be started; the error is a
/// sentence.
pub async fn serve_stdio_client(
    serving: OwnMcpServerConfig,
    input: impl Read + Send + 'static,
    output: impl Write + Send + 'static,
    cancel: &CancellationToken,
) -> Result<(), String> {
    let (sender, lines) = mpsc::channel(MAX_READ_AHEAD_LINES);
    let (writer, written) = mpsc::channel(MAX_QUEUED_OUTGOING_MESSAGES);
    let (done, drained) = oneshot::channel();
    let failed = |error: std::io::Error| format!("a thread cannot be started: {error}");
    std::thread::Builder::new()
        .name("mcp-input".to_owned())
        .spawn(move || read_client_lines(input, &sender))
        .map_err(failed)?;
    std::thread::Builder::new()
        .name("mcp-output".to_owned())
        .spawn(move || write_message_lines(output, written, done))
        .map_err(failed)?;
    let state = McpServerSharedState::new(serving, cancel.child_token());
    let transport = StdioLineTransport {
        lines,
        writer,
        has_begun: false,
        n_complaints: 0,
    };
    let end = McpServerRequestHandler::for_connection(state.clone());
    let served = end.serve_with_ct(transport, cancel.child_token()).await;
    let outcome = match served {
        Ok(running) => {
            // A failure of the task itself is logged by the library.
            let _ = running.waiting().await;
            Ok(())
        }
        Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => {
            Ok(())
        }
        Err(error) => Err(format!(
            "the client did not begin the connection as the MCP protocol requires: {}",
            escape_and_truncate_line(&error.to_string(), 300)
        )),
    };
    state.close_all_sessions().await;
    // Wait for queued answers only for a limited time: the client may no longer read.
    let _ = tokio::time::timeout(SHUTDOWN_WRITE_TIMEOUT, drained).await;
    outcome
}

/// Reads lines until the end of the input, an error, or the receiver is dropped.
fn read_client_lines(input: impl Read, sender: &mpsc::Sender<ClientInputLine>) {
    let mut input = BufReader::new(input);
    let (mut line, mut is_too_long) = (Vec::new(), false);
    loop {
        let (used, is_end) = match input.fill_buf() {
            Ok([]) | Err(_) => return,
            Ok(read) => {
                let newline = read.iter().position(|byte| *byte == b'\n');
                let used = newline.map_or(read.len(), |at| at + 1);
                is_too_long |= line.len() + used > MAX_CLIENT_MESSAGE_BYTES;
                match is_too_long {
                    true => line = Vec::new(),
                    false => line.extend_from_slice(read.get(..used).unwrap_or_default()),
                }
                (used, newline.is_some())
            }
        };
        input.consume(used);
        if is_end {
            let whole = std::mem::take(&mut line);
            let read = match std::mem::take(&mut is_too_long) {
                true => ClientInputLine::TooLong,
                false => ClientInputLine::Whole(whole),
            };
            if sender.blocking_send(read).is_err() {
                return;
            }
        }
    }
}

/// Writes messages until all senders are dropped or writing fails.
fn write_message_lines(
    mut output: impl Write,
    mut written: mpsc::Receiver<Vec<u8>>,
    done: oneshot::Sender<()>,
) {
    while let Some(mut line) = written.blocking_recv() {
        line.push(b'\n');
        if output
            .write_all(&line)
            .and_then(|()| output.flush())
            .is_err()
        {
            break;
        }
    }
    let _ = done.send(());
}

/// Transport that exchanges messages with one client, each as one line.
struct StdioLineTransport {
    lines: mpsc::Receiver<ClientInputLine>,
    writer: mpsc::Sender<Vec<u8>>,
    /// Whether a request has arrived. Notifications before the first request are ignored.
    has_begun: bool,
    n_complaints: usize,
}

impl StdioLineTransport {
    /// Parses a line. A line that is not a message is answered with an error.
    async fn parse_message_line(&mut self, line: &[u8]) -> Option<RxJsonRpcMessage<RoleServer>> {
        match serde_json::from_slice(line) {
            Ok(message) => {
                self.has_begun |= matches!(message, RxJsonRpcMessage::<RoleServer>::Request(_));
                self.has_begun.then_some(message)
            }
            Err(error) => {
                let (id, fault) = create_invalid_line_error(line, &error);
                self.send_error(id, fault).await;
                None
            }
        }
    }

    async fn send_error(&mut self, id: Option<RequestId>, fault: ErrorData) {
        self.n_complaints += 1;
        if self.n_complaints > MAX_INVALID_LINE_ERROR_ANSWERS {
            return;
        }
        tracing::debug!(message = %fault.message, "a line of the client is no message");
        if let Ok(bytes) = serde_json::to_vec(&ServerJsonRpcMessage::error(fault, id)) {
            // Ignore the error: reading the next line reports that the client is gone.
            let _ = self.writer.send(bytes).await;
        }
    }
}

/// Returns the error for a line that is not a message, and the request's id if the line has one.
fn create_invalid_line_error(
    line: &[u8],
    error: &serde_json::Error,
) -> (Option<RequestId>, ErrorData) {
    let value = match serde_json::from_slice::<Value>(line) {
        Ok(value) => value,
        Err(why) => {
            return (
                None,
                ErrorData::parse_error(format!("no JSON: {why}"), None),
            );
        }
    };
    if value.is_array() {
        let text = "batches are not part of the protocol; send each message in a line of its own";
        return (None, ErrorData::invalid_request(text, None));
    }
    let id = value.get("id").cloned();
    let id = id.and_then(|id| serde_json::from_value(id).ok());
    let error = escape_and_truncate_line(&error.to_string(), 200);
    let text = format!("this is not a request of the MCP protocol: {error}");
    (id, ErrorData::invalid_request(text, None))
}

impl Transport<RoleServer> for StdioLineTransport {
    type Error = std::io::Error;

    fn name() -> Cow<'static, str> {
        "stdio".into()
    }

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let writer = self.writer.clone();
        async move {
            let bytes = serde_json::to_vec(&item)?;
            let gone = |_| std::io::Error::from(std::io::ErrorKind::BrokenPipe);
            writer.send(bytes).await.map_err(gone)
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            match self.lines.recv().await? {
                ClientInputLine::TooLong => {
                    let text = format!(
                        "a message has at most {} MiB",
                        MAX_CLIENT_MESSAGE_BYTES >> 20
                    );
                    self.send_error(None, ErrorData::invalid_request(text, None))
                        .await;
                }
                ClientInputLine::Whole(line) if line.trim_ascii().is_empty() => {}
                ClientInputLine::Whole(line) => {
                    if let Some(message) = self.parse_message_line(&line).await {
                        return Some(message);
                    }
                }
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.lines.close();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Vec<Option<usize>> {
        let (sender, mut lines) = mpsc::channel(16);
        read_client_lines(bytes, &sender);
        drop(sender);
        let mut read = Vec::new();
        while let Ok(line) = lines.try_recv() {
            read.push(match line {
                ClientInputLine::Whole(line) => Some(line.len()),
                ClientInputLine::TooLong => None,
            });
        }
        read
    }

    #[test]
    fn lines_are_bounded_and_one_that_is_too_long_does_not_end_the_connection() {
        let mut bytes = b"abc\n".to_vec();
        bytes.extend(vec![b'x'; MAX_CLIENT_MESSAGE_BYTES + 10]);
        bytes.extend(b"\nde\nno end");
        assert_eq!(read(&bytes), [Some(4), None, Some(3)]);
    }

    #[test]
    fn a_line_that_is_no_message_is_answered_with_its_id_where_it_has_one() {
        let fault = |line: &str| {
            let error = serde_json::from_str::<RxJsonRpcMessage<RoleServer>>(line).unwrap_err();
            let (id, fault) = create_invalid_line_error(line.as_bytes(), &error);
            (id.map(|id| id.to_string()), fault.code.0)
        };
        assert_eq!(fault("{"), (None, -32700));
        assert_eq!(fault("[]").1, -32600);
        assert_eq!(fault("{\"id\": 7}"), (Some("7".to_owned()), -32600));
    }
}
