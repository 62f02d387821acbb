//! Sessions of the host that serve clients: opened with the first request that needs one, closed when
//! the client is gone.

use std::sync::Arc;
use std::time::Duration;

use rind_lib::Session;
use rind_lib::event::Event;
use rind_lib::host::{OutsideCalls, OutsideClient};
use rind_lib::text::{clean_line, error_chain};
use tokio::sync::{OnceCell, broadcast};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::McpServing;

/// Time in which sessions must have closed when the server ends. The others are dropped.
const GRACE: Duration = Duration::from_secs(8);

/// Most lines about progress that wait for a slow client.
const MAX_PROGRESS: usize = 16;

/// Longest line about progress, in bytes.
const MAX_PROGRESS_BYTES: usize = 200;

/// A line about the progress of a call, and the plugin that it is from.
#[derive(Clone, Debug)]
pub(super) struct ProgressLine {
    pub(super) origin: String,
    pub(super) text: String,
}

/// An open session.
#[derive(Clone)]
pub(super) struct ServedSession {
    pub(super) client: OutsideClient,
    pub(super) progress: broadcast::Sender<ProgressLine>,
}

/// State of a server that its connections share.
pub(super) struct ServingState {
    pub(super) serving: McpServing,
    /// Session of the clients without a connection.
    pub(super) shared: OnceCell<ServedSession>,
    tasks: TaskTracker,
    /// Token that ends all sessions.
    cancel: CancellationToken,
}

impl ServingState {
    pub(super) fn new(serving: McpServing, cancel: CancellationToken) -> Arc<Self> {
        Arc::new(Self {
            serving,
            shared: OnceCell::new(),
            tasks: TaskTracker::new(),
            cancel,
        })
    }

    /// Opens a session. It closes when the last clone of the result is dropped.
    ///
    /// # Errors
    /// Reason, as a sentence.
    pub(super) async fn open_session(&self) -> Result<ServedSession, String> {
        let open = self.serving.open.clone();
        let opened = tokio::task::spawn_blocking(move || open()).await;
        let session = opened.map_err(|error| error.to_string())??;
        let is_offered = self.serving.is_offered.clone();
        let (calls, client) = OutsideCalls::new(move |spec| is_offered(spec));
        let (progress, _) = broadcast::channel(MAX_PROGRESS);
        let told = progress.clone();
        session.observe(move |stamped| {
            if let Event::Status { plugin, text } = &stamped.event {
                // There may be no listener.
                let _ = told.send(ProgressLine {
                    origin: plugin.clone(),
                    text: clean_line(text, MAX_PROGRESS_BYTES),
                });
            }
        });
        self.tasks
            .spawn(run_session(session, calls, self.cancel.child_token()));
        Ok(ServedSession { client, progress })
    }

    /// Ends all sessions and waits for them.
    pub(super) async fn close_all(&self) {
        self.cancel.cancel();
        self.tasks.close();
        if tokio::time::timeout(GRACE, self.tasks.wait())
            .await
            .is_err()
        {
            tracing::warn!("sessions of MCP clients did not end in time");
        }
    }
}

/// Serves calls until the clients are gone, and closes the session. One without a call is removed:
/// clients start servers only to list their tools.
async fn run_session(mut session: Session, calls: OutsideCalls, cancel: CancellationToken) {
    let id = session.id().clone();
    let store = session.host().store().clone();
    if let Err(error) = session.serve_calls(calls, &cancel).await {
        tracing::error!(
            session = &*id,
            error = error_chain(&error),
            "calls cannot be served any more"
        );
    }
    let is_unused = session.turn_number() == 0;
    if let Err(error) = session.close().await {
        tracing::error!(
            session = &*id,
            error = error_chain(&error),
            "the session did not close in good order"
        );
    }
    if is_unused {
        let removed = tokio::task::spawn_blocking(move || store.remove(&id)).await;
        if let Ok(Err(error)) = removed {
            tracing::debug!(%error, "a session without calls was not removed");
        }
    }
}
