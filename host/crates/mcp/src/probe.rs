//! Starts a server once, outside a session, to list its tools.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::client::{Connection, OpenFailure};
use super::end::ClientEnd;
use super::offer::ServerOffer;
use super::server::McpServer;
use rind_lib::point::handle::AgentHandle;
use rind_lib::point::outcome::{Effect, Level};
use rind_lib::point::trace::AccessRecord;

/// Starts or connects to a server, and returns its offer. The connection is closed afterwards.
///
/// # Errors
/// Reason, phrased to follow "it".
pub async fn probe_server(server: &McpServer) -> Result<ServerOffer, ProbeFailure> {
    // The connection is too short for changes to matter, so the receiver is dropped.
    let (changed, _) = mpsc::channel(1);
    let end = ClientEnd {
        changed,
        is_changed: Arc::default(),
        progress: Arc::new(|_| {}),
        questions: None,
    };
    let handle: Arc<dyn AgentHandle> = Arc::new(NoSession);
    let opened = Connection::open(server, &handle, &end).await;
    let opened = opened.map_err(|failure| ProbeFailure {
        wants_login: matches!(failure, OpenFailure::Unauthorized(_)),
        why: failure.into_phrase(),
    })?;
    let listed = opened.list_offer().await;
    listed.map_err(|why| ProbeFailure {
        wants_login: false,
        why,
    })
}

/// Failure to list the offer of a server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct ProbeFailure {
    /// Whether the server requires a login.
    pub wants_login: bool,
    /// Reason, phrased to follow "it".
    pub why: String,
}

/// Handle for use outside a session: log lines and access records go to `tracing`, effects are
/// dropped.
pub(crate) struct NoSession;

impl AgentHandle for NoSession {
    fn log(&self, plugin: &str, _: Level, text: &str) {
        tracing::debug!(plugin, text);
    }

    fn effect(&self, _: &str, _: Effect) {}

    fn access(&self, record: AccessRecord) {
        tracing::debug!(?record);
    }
}
