//! The transport over standard input and output: one message in each line.

use std::borrow::Cow;

use rmcp::RoleClient;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::sync::mpsc::Receiver;

use rind_lib::text::clean_line;
use rind_lib::tool::peer::{PeerEnd, PeerInput, PeerProcess, PeerStop};

/// Maximum number of lines of one process that are not messages. A few are common, such as
/// greetings and warnings.
const MAX_GARBAGE_LINES: usize = 100;

/// Longest excerpt of such a line, in bytes.
const MAX_EXCERPT_BYTES: usize = 80;

/// Standard input and output of a server.
pub(crate) struct PipeTransport {
    input: PeerInput,
    output: Receiver<Vec<u8>>,
    end: PeerEnd,
    n_garbage: usize,
    /// Stops the server with the transport.
    _stop: PeerStop,
}

impl PipeTransport {
    pub(crate) fn new(peer: PeerProcess) -> Self {
        Self {
            input: peer.input,
            output: peer.output,
            end: peer.end,
            n_garbage: 0,
            _stop: peer.stop,
        }
    }

    /// Counts a line that is not a message. Returns whether the limit is not reached yet.
    fn count_garbage(&mut self, line: &[u8]) -> bool {
        self.n_garbage += 1;
        if self.n_garbage <= MAX_GARBAGE_LINES {
            return true;
        }
        let excerpt = clean_line(&String::from_utf8_lossy(line), MAX_EXCERPT_BYTES);
        self.end.stop(&format!(
            "was stopped: more than {MAX_GARBAGE_LINES} lines of its standard output are no messages, such as “{excerpt}”"
        ));
        false
    }
}

impl Transport<RoleClient> for PipeTransport {
    type Error = std::io::Error;

    fn name() -> Cow<'static, str> {
        "stdio".into()
    }

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let input = self.input.clone();
        async move { input.write_line(serde_json::to_vec(&item)?).await }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let line = self.output.recv().await?;
            if line.trim_ascii().is_empty() {
                continue;
            }
            match serde_json::from_slice(&line) {
                Ok(message) => return Some(message),
                Err(_) if self.count_garbage(&line) => {}
                Err(_) => return None,
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.output.close();
        Ok(())
    }
}
