//! Transport over standard input and output of a server program: one message per line.

use std::borrow::Cow;
use std::sync::{Arc, Mutex};

use rmcp::RoleClient;
use rmcp::model::{ErrorCode, ErrorData, JsonRpcMessage, RequestId};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde::Deserialize;
use serde::de::IgnoredAny;
use tokio::sync::mpsc::Receiver;

use rind_lib::lock::lock_ignoring_poison;
use rind_lib::text::escape_and_truncate_line;
use rind_lib::tool::peer::{
    PeerProcess, PeerProcessEndWatch, PeerProcessStdin, PeerProcessStopper,
};

/// Maximum number of output lines per server process that are not protocol messages. A few such
/// lines are common, for example warnings.
const MAX_NON_PROTOCOL_OUTPUT_LINES: usize = 100;

/// Maximum length of an excerpt of a line that is not a message, in bytes.
const MAX_GARBAGE_LINE_EXCERPT_BYTES: usize = 80;

/// Error code of the error message that replaces an unparsable answer. The protocol does not use
/// this code.
pub(crate) const UNPARSABLE_ANSWER_ERROR_CODE: ErrorCode = ErrorCode(-39_001);

/// Transport over the standard input and output of a server program.
pub(crate) struct ServerStdioTransport {
    input: PeerProcessStdin,
    output: Receiver<Vec<u8>>,
    end: PeerProcessEndWatch,
    garbage: NonMessageLineStats,
    /// Guard that stops the server program when the transport is dropped.
    _stop: PeerProcessStopper,
}

/// Number of output lines that are not messages, and an excerpt of the last one. Clones share the
/// data.
#[derive(Clone, Debug, Default)]
pub(crate) struct NonMessageLineStats(Arc<Mutex<(usize, String)>>);

impl NonMessageLineStats {
    /// Describes the lines of the server that are not messages, because they may explain a failure;
    /// empty if there are none.
    pub(crate) fn describe(&self) -> String {
        let garbage = lock_ignoring_poison(&self.0);
        match &*garbage {
            (0, _) => String::new(),
            (n, last) => format!(
                "; lines of its standard output that are not messages: {n}, such as “{last}”"
            ),
        }
    }

    /// Counts a line that is not a message, and keeps an excerpt of it. Returns the number of such
    /// lines so far.
    fn count_line(&self, line: &[u8]) -> usize {
        let mut garbage = lock_ignoring_poison(&self.0);
        garbage.0 += 1;
        let excerpt = line
            .get(..4 * MAX_GARBAGE_LINE_EXCERPT_BYTES)
            .unwrap_or(line);
        garbage.1 = escape_and_truncate_line(
            &String::from_utf8_lossy(excerpt),
            MAX_GARBAGE_LINE_EXCERPT_BYTES,
        );
        garbage.0
    }
}

impl ServerStdioTransport {
    pub(crate) fn new(peer: PeerProcess) -> Self {
        Self {
            input: peer.input,
            output: peer.output,
            end: peer.end,
            garbage: NonMessageLineStats::default(),
            _stop: peer.stop,
        }
    }

    pub(crate) fn non_message_lines(&self) -> NonMessageLineStats {
        self.garbage.clone()
    }

    /// Counts an output line of the server that is not a message of the protocol. Returns `false`,
    /// and stops the server, if there are too many.
    fn count_non_message_line(&self, line: &[u8]) -> bool {
        let n_lines = self.garbage.count_line(line);
        if n_lines <= MAX_NON_PROTOCOL_OUTPUT_LINES {
            return true;
        }
        self.end
            .stop_process_with_reason(&format!("was stopped{}", self.garbage.describe()));
        false
    }
}

/// Fields that identify an answer of a server. They can be read from an answer that is nested too
/// deeply to be parsed, because ignored values may have any depth.
#[derive(Deserialize)]
struct JsonRpcAnswerEnvelope {
    jsonrpc: String,
    id: RequestId,
    #[serde(default)]
    method: Option<IgnoredAny>,
    #[serde(default)]
    result: Option<IgnoredAny>,
    #[serde(default)]
    error: Option<IgnoredAny>,
}

/// Creates an error message in place of an answer that cannot be parsed. The request then fails at
/// once with the reason instead of timing out.
fn create_unreadable_answer_error(
    line: &[u8],
    why: &serde_json::Error,
) -> Option<RxJsonRpcMessage<RoleClient>> {
    let head: JsonRpcAnswerEnvelope = serde_json::from_slice(line).ok()?;
    let error = ErrorData::new(UNPARSABLE_ANSWER_ERROR_CODE, why.to_string(), None);
    // Require the other fields of an answer, because a log line may have an `id` too.
    let has_outcome = head.result.is_some() || head.error.is_some();
    let is_answer = head.jsonrpc == "2.0" && head.method.is_none() && has_outcome;
    is_answer.then(|| JsonRpcMessage::error(error, Some(head.id)))
}

impl Transport<RoleClient> for ServerStdioTransport {
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
            let why = match serde_json::from_slice(&line) {
                Ok(message) => return Some(message),
                Err(why) => why,
            };
            if !self.count_non_message_line(&line) {
                return None;
            }
            if let Some(answer) = create_unreadable_answer_error(&line, &why) {
                return Some(answer);
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.output.close();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(line: &[u8]) -> Option<String> {
        let why = serde_json::from_slice::<RxJsonRpcMessage<RoleClient>>(line).err()?;
        match create_unreadable_answer_error(line, &why)? {
            JsonRpcMessage::Error(error) => Some(format!("{:?} {}", error.id, error.error.message)),
            _ => None,
        }
    }

    #[test]
    fn an_answer_that_cannot_be_read_fails_its_request() {
        let deep = format!(
            r#"{{"jsonrpc":"2.0","id":7,"result":{}1{}}}"#,
            r#"{"a":"#.repeat(100_000),
            "}".repeat(100_000)
        );
        let text = answer(deep.as_bytes()).unwrap();
        assert!(text.contains("Number(7)"), "{text}");
        assert!(text.contains("recursion limit"), "{text}");
        for line in [
            br#"{"jsonrpc":"2.0","id":"x","result":{"a":"\ud800"}}"#.as_slice(),
            b"{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"result\":{\"a\":\"\xff\"}}",
        ] {
            assert!(answer(line).unwrap().contains("\"x\""));
        }
        // Not answers: a request, a notification, a greeting, the rest of a message.
        for line in [
            br#"{"jsonrpc":"2.0","id":1,"method":7}"#.as_slice(),
            br#"{"jsonrpc":"2.0","method":7}"#,
            b"hello",
            br#"{"id":1,"#,
        ] {
            assert!(answer(line).is_none(), "{line:?}");
        }
    }

    #[test]
    fn lines_that_are_no_messages_are_counted_and_quoted() {
        let garbage = NonMessageLineStats::default();
        assert_eq!(garbage.describe(), "");
        assert_eq!(garbage.count_line(b"hello\x1b[2J"), 1);
        assert_eq!(garbage.count_line(&b"\xef\xbb\xbf{".repeat(1000)), 2);
        let words = garbage.describe();
        assert!(
            words.starts_with("; lines of its standard output that are not messages: 2"),
            "{words}"
        );
        assert!(words.len() < 300 && !words.contains('\u{1b}'), "{words}");
    }
}
