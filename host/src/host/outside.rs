//! Runs tool calls that a program other than the model requests, for example an MCP client.

use tokio_util::sync::CancellationToken;

use super::Session;
use crate::agent::{self, ClientToolCallReceiver};

impl Session {
    /// Runs tool calls of clients until all clients are dropped or `cancel` is set. Each call
    /// passes the schema check, hooks, policy and approval and is recorded in the session file,
    /// like a call of the model. Meanwhile no turn can run.
    ///
    /// ```no_run
    /// # async fn example(mut session: rind_lib::Session) -> Result<(), rind_lib::agent::Error> {
    /// use rind_lib::host::ClientToolCallReceiver;
    /// use tokio_util::sync::CancellationToken;
    ///
    /// let (calls, client) = ClientToolCallReceiver::new(|tool| tool.plugin.is_some());
    /// let ended = CancellationToken::new();
    /// // `client.begin_call` hands calls over, from any number of tasks.
    /// session.serve_calls(calls, &ended).await
    /// # }
    /// ```
    ///
    /// # Errors
    /// The session cannot be written.
    pub async fn serve_calls(
        &mut self,
        calls: ClientToolCallReceiver,
        cancel: &CancellationToken,
    ) -> Result<(), agent::Error> {
        calls.serve_calls(&mut self.agent, cancel).await
    }
}
