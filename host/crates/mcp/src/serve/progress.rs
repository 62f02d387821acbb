//! Sends the progress of a call to the client: the status lines of the plugin that runs the call.

use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RequestContext, RoleServer};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};

use super::session::ToolCallProgressLine;

/// Sends the progress of one call to a client that requested it.
pub(super) struct ToolCallProgressSender {
    peer: Peer<RoleServer>,
    /// Progress token of the client's request; `None` if the client requested no progress.
    token: Option<ProgressToken>,
    /// Name of the plugin that runs the tool; `None` if no plugin runs it.
    origin: Option<String>,
    lines: broadcast::Receiver<ToolCallProgressLine>,
    n_told: u32,
}

impl ToolCallProgressSender {
    /// Creates a sender of the progress lines that will arrive from `lines`.
    pub(super) fn new(
        context: &RequestContext<RoleServer>,
        origin: Option<String>,
        lines: broadcast::Receiver<ToolCallProgressLine>,
    ) -> Self {
        Self {
            peer: context.peer.clone(),
            token: context.meta.get_progress_token(),
            origin,
            lines,
            n_told: 0,
        }
    }

    /// Waits for the next progress line and returns it without sending it. The caller sends it,
    /// because a caller may cancel the wait, and a cancelled send could arrive after the next
    /// message.
    pub(super) async fn next_progress_line(&mut self) -> ToolCallProgressLine {
        loop {
            match self.lines.recv().await {
                Ok(line) => return line,
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return std::future::pending().await,
            }
        }
    }

    /// Sends all lines that have arrived. Call this before sending the result, because no progress
    /// may follow it.
    pub(super) async fn send_remaining_lines(&mut self) {
        loop {
            match self.lines.try_recv() {
                Ok(line) => self.send_progress_line(line).await,
                Err(TryRecvError::Lagged(_)) => {}
                Err(TryRecvError::Empty | TryRecvError::Closed) => return,
            }
        }
    }

    /// Sends a progress line to the client if the line comes from the plugin that runs this call,
    /// and the client requested progress.
    pub(super) async fn send_progress_line(&mut self, line: ToolCallProgressLine) {
        let is_own = self.origin.as_ref() == Some(&line.origin) && !line.text.is_empty();
        let Some(token) = self.token.clone().filter(|_| is_own) else {
            return;
        };
        self.n_told += 1;
        let told = ProgressNotificationParam::new(token, f64::from(self.n_told));
        // Ignore the error: the call itself notices that the client is gone.
        let _ = self
            .peer
            .notify_progress(told.with_message(line.text))
            .await;
    }
}
