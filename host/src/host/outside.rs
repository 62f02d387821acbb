//! Runs tool calls of clients outside a session.

use tokio_util::sync::CancellationToken;

use super::Session;
use crate::agent::{self, OutsideCalls};

impl Session {
    /// Runs tool calls of clients until all clients are dropped or `cancel` is set. Each call
    /// passes schema, hooks, policy, approval and the session file like a call of the model.
    /// Meanwhile no turn can run.
    ///
    /// ```no_run
    /// # async fn example(mut session: rind_lib::Session) -> Result<(), rind_lib::agent::Error> {
    /// use rind_lib::host::OutsideCalls;
    /// use tokio_util::sync::CancellationToken;
    ///
    /// let (calls, client) = OutsideCalls::new(|tool| tool.plugin.is_some());
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
        calls: OutsideCalls,
        cancel: &CancellationToken,
    ) -> Result<(), agent::Error> {
        calls.serve_calls(&mut self.agent, cancel).await
    }
}
