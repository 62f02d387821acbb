//! Starts a server once, outside a session, to list its tools.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::client::{McpServerConnectError, McpServerConnection};
use super::end::McpClientHandler;
use super::offer::ServerToolsAndPrompts;
use super::server::McpServerConnectionSpec;
use rind_lib::point::handle::AgentHandle;
use rind_lib::point::outcome::{Effect, Level};
use rind_lib::point::trace::AccessRecord;

/// Starts a server or connects to it, returns its tools and prompts, and closes the connection.
///
/// # Errors
/// Reason, phrased to follow "the server".
pub async fn fetch_server_offer(
    server: &McpServerConnectionSpec,
) -> Result<ServerToolsAndPrompts, ServerProbeError> {
    // Drop the receiver of change announcements: the connection is closed after the listing.
    let (changed, _) = mpsc::channel(1);
    let end = McpClientHandler {
        changed,
        is_changed: Arc::default(),
        progress: Arc::new(|_| {}),
        questions: None,
    };
    let handle: Arc<dyn AgentHandle> = Arc::new(SessionlessAgentHandle);
    let opened = McpServerConnection::open(server, &handle, &end).await;
    let opened = opened.map_err(|failure| ServerProbeError {
        wants_login: matches!(failure, McpServerConnectError::Unauthorized(_)),
        why: failure.into_reason_phrase(),
    })?;
    let listed = opened.list_tools_and_prompts().await;
    listed.map_err(|why| ServerProbeError {
        wants_login: false,
        why,
    })
}

/// Failure to list the tools and prompts of a server outside a session.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct ServerProbeError {
    /// Whether the server requires a login.
    pub wants_login: bool,
    /// Reason of the failure, as the predicate of a sentence that begins with "the server".
    pub why: String,
}

/// Agent handle for connections outside a session. It writes log lines and access records to
/// `tracing` and drops effects.
pub(crate) struct SessionlessAgentHandle;

impl AgentHandle for SessionlessAgentHandle {
    fn write_log_line(&self, plugin: &str, _: Level, text: &str) {
        tracing::debug!(plugin, text);
    }

    fn apply_effect(&self, _: &str, _: Effect) {}

    fn record_access(&self, record: AccessRecord) {
        tracing::debug!(?record);
    }
}
