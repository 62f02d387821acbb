//! Link to the client: sends notifications, responses and requests, and receives the client's
//! responses to those requests.
//!
//! Start from [`AcpClientHandle`].

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, OnceLock};

use rind_lib::lock::lock_ignoring_poison;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::oneshot;

use crate::lines::ClientOutputLineQueue;
use crate::rpc::{json_notification_line, json_request_line, json_response_line};
use crate::wire::{
    CancelRequestNotification, ClientCapabilities, Notice, NoticeSeverity, RequestId,
    SessionNotification, SessionUpdate, WireError,
};

/// Capabilities of the client that Rind uses.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AcpClientCapabilities {
    /// Whether the client can show forms in which the person answers questions.
    pub(crate) has_forms: bool,
    /// Whether the client shows notices outside the conversation.
    pub(crate) has_notices: bool,
}

impl AcpClientCapabilities {
    pub(crate) fn from_capabilities(capabilities: &ClientCapabilities) -> Self {
        let elicitation = capabilities.elicitation.as_ref();
        let session = capabilities.session.as_ref();
        Self {
            has_forms: elicitation.is_some_and(|own| own.form.is_some()),
            has_notices: session.is_some_and(|own| own.notices.is_some()),
        }
    }
}

type PendingResponseSender = oneshot::Sender<Result<Value, Value>>;

/// Handle of the client: the queue of output lines, and the requests that wait for the client's
/// responses.
pub(crate) struct AcpClientHandle {
    outbox: ClientOutputLineQueue,
    pending: Mutex<HashMap<i64, PendingResponseSender>>,
    last_id: AtomicI64,
    abilities: OnceLock<AcpClientCapabilities>,
}

impl AcpClientHandle {
    pub(crate) fn new(outbox: ClientOutputLineQueue) -> Self {
        Self {
            outbox,
            pending: Mutex::default(),
            last_id: AtomicI64::new(0),
            abilities: OnceLock::new(),
        }
    }

    /// Stores the capabilities that the client declared. If the client has declared capabilities
    /// before, keeps the earlier ones and returns `false`.
    pub(crate) fn set_abilities(&self, abilities: AcpClientCapabilities) -> bool {
        self.abilities.set(abilities).is_ok()
    }

    /// Returns the client's capabilities, or `None` before the client has declared them.
    pub(crate) fn client_abilities(&self) -> Option<AcpClientCapabilities> {
        self.abilities.get().copied()
    }

    /// Sends the client a notification about a change in a session, for example new text.
    pub(crate) fn send_update(&self, session: &str, update: SessionUpdate) {
        let told = SessionNotification::new(session.to_owned(), update);
        self.outbox
            .queue_line(json_notification_line("session/update", &told));
    }

    /// Sends a notice. Returns `false`, and sends nothing, if the client shows no notices.
    pub(crate) fn send_notice(
        &self,
        session: &str,
        severity: NoticeSeverity,
        text: String,
    ) -> bool {
        let is_shown = self.client_abilities().is_some_and(|own| own.has_notices);
        if is_shown {
            let notice = Notice::new(severity, text);
            self.send_update(session, SessionUpdate::Notice(notice));
        }
        is_shown
    }

    /// Sends the response to a request of the client.
    pub(crate) fn respond(&self, id: &RequestId, outcome: &Result<Value, WireError>) {
        self.outbox.queue_line(json_response_line(id, outcome));
    }

    /// Sends a request and waits for its response, without a timeout. If the future is dropped
    /// before the response arrives, the client is notified that the request is cancelled.
    ///
    /// # Errors
    /// The client returned an error or an invalid response, or the connection ended.
    pub(crate) async fn send_request<T: DeserializeOwned>(
        &self,
        method: &str,
        params: &impl Serialize,
    ) -> Result<T, String> {
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let (sender, response) = oneshot::channel();
        lock_ignoring_poison(&self.pending).insert(id, sender);
        let _open = PendingRequestGuard { link: self, id };
        self.outbox
            .queue_line(json_request_line(id, method, params));
        match response.await {
            Ok(Ok(result)) => serde_json::from_value(result).map_err(|error| {
                format!("the client's response to `{method}` is invalid: {error}")
            }),
            Ok(Err(error)) => {
                let said = error.get("message").and_then(Value::as_str);
                let said =
                    rind_lib::text::escape_and_truncate_line(said.unwrap_or("no reason"), 200);
                Err(format!(
                    "the client answered `{method}` with an error: {said}"
                ))
            }
            Err(_) => Err(format!(
                "the connection to the client ended before the client answered `{method}`"
            )),
        }
    }

    /// Passes the client's response to the request that waits for it. A response to a request that
    /// is not waiting, such as a second response, is dropped.
    pub(crate) fn complete_request(&self, id: &RequestId, outcome: Result<Value, Value>) {
        let waiting = match id {
            RequestId::Number(id) => lock_ignoring_poison(&self.pending).remove(id),
            _ => None,
        };
        match waiting {
            Some(waiting) => drop(waiting.send(outcome)),
            None => tracing::debug!(%id, "the client answered a request that is not open"),
        }
    }
}

/// Guard of a request that waits for the client's response. If the guard is dropped before the
/// response has arrived, the client is notified that the request is cancelled.
struct PendingRequestGuard<'a> {
    link: &'a AcpClientHandle,
    id: i64,
}

impl Drop for PendingRequestGuard<'_> {
    fn drop(&mut self) {
        if lock_ignoring_poison(&self.link.pending)
            .remove(&self.id)
            .is_some()
        {
            let told = CancelRequestNotification::new(self.id);
            let line = json_notification_line("$/cancel_request", &told);
            self.link.outbox.queue_line(line);
        }
    }
}
