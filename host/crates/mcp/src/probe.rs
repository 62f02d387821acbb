//! Starts a server once, outside a session, to list its tools.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::client::Connection;
use super::end::ClientEnd;
use super::offer::ServerOffer;
use super::server::McpServer;
use rind_lib::point::handle::AgentHandle;
use rind_lib::point::outcome::{Effect, Level};
use rind_lib::point::trace::AccessRecord;

/// Starts a server or connects to it, and returns its offer. The server ends before this returns.
///
/// # Errors
/// Reason, in words that continue "it".
pub async fn probe_server(server: &McpServer) -> Result<ServerOffer, String> {
    // A server that is looked at once cannot change, so no one listens.
    let (changed, _) = mpsc::channel(1);
    let end = ClientEnd {
        changed,
        is_changed: Arc::default(),
        progress: Arc::new(|_| {}),
        questions: None,
    };
    let handle: Arc<dyn AgentHandle> = Arc::new(NoSession);
    Connection::open(server, &handle, &end)
        .await?
        .list_offer()
        .await
}

/// Functions of a session that does not exist.
struct NoSession;

impl AgentHandle for NoSession {
    fn log(&self, plugin: &str, _: Level, text: &str) {
        tracing::debug!(plugin, text);
    }

    fn effect(&self, _: &str, _: Effect) {}

    fn access(&self, record: AccessRecord) {
        tracing::debug!(?record);
    }
}
