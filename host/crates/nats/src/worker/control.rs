//! Answers control messages to a running worker, which request its state or order it to drain.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use rind_lib::lock::lock_ignoring_poison;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::inbox::SessionInboxClient;
use super::turns::{WorkerTurnExecutor, WorkerTurnExecutorState};
use super::work::{WorkerActivityCounts, WorkerConfig};
use crate::NatsError;

/// State of a worker, which it reports on request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerStatus {
    /// Name of the worker, which operators see.
    pub name: String,
    /// Class of the worker; it runs only inputs for this class.
    pub class: String,
    /// Maximum number of sessions that the worker runs at the same time.
    pub slots: usize,
    /// Number of sessions that the worker runs now.
    pub busy: usize,
    /// Whether the worker accepts no new work, because it is being drained or stopped.
    pub is_draining: bool,
    /// Number of turns that ended since the worker started.
    pub turns: u64,
    /// Number of sessions that other workers have taken over from this worker since it started.
    pub fenced: u64,
    /// Number of inputs that became dead letters in this worker since it started.
    pub dead: u64,
    /// Number of sessions that the worker has opened since it started.
    #[serde(default)]
    pub claims: u64,
    /// Number and digest of the plugin set with which new turns run, if the worker uses plugin
    /// sets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plugins: Option<String>,
    /// Reason why the worker begins no turns; `None` if it can begin turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
}

/// Handle with which this program observes a worker that runs in it.
#[derive(Clone, Debug)]
pub struct NatsWorkerStatusHandle {
    pub(crate) state: Arc<SharedWorkerState>,
    pub(crate) inbox: SessionInboxClient,
}

impl NatsWorkerStatusHandle {
    /// Returns the current state of the worker.
    #[must_use]
    pub fn status(&self) -> WorkerStatus {
        self.state.status(false)
    }

    /// Returns the age of the oldest wake message for the worker's class, in milliseconds; 0 if
    /// there is none.
    ///
    /// # Errors
    /// The servers do not answer.
    pub async fn oldest_wake_message_age(&self) -> Result<u64, NatsError> {
        self.inbox.oldest_wake_message_age(&self.state.class).await
    }
}

/// State that all tasks of one worker share.
pub(crate) struct SharedWorkerState {
    name: String,
    class: String,
    slots: usize,
    turns: Arc<dyn WorkerTurnExecutor>,
    pub(crate) n_busy: AtomicUsize,
    pub(crate) report: Mutex<WorkerActivityCounts>,
}

/// Timeout for sending the last answer of a worker to the servers.
const LAST_ANSWER_SEND_TIMEOUT: Duration = Duration::from_secs(2);

/// Control message to workers. `drain` is the name of a worker, a class, or `*` for all workers
/// that must drain. If it is `None`, the message only requests the workers' state.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct ControlMessage {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) drain: Option<String>,
}

impl std::fmt::Debug for SharedWorkerState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("SharedWorkerState")
            .field(&self.name)
            .finish()
    }
}

impl SharedWorkerState {
    pub(crate) fn new(config: &WorkerConfig, turns: Arc<dyn WorkerTurnExecutor>) -> Self {
        Self {
            turns,
            name: config.name.clone(),
            class: config.class.clone(),
            slots: config.slots,
            n_busy: AtomicUsize::new(0),
            report: Mutex::default(),
        }
    }

    fn is_worker_addressed_by(&self, wanted: &str) -> bool {
        wanted == "*" || wanted == self.name || wanted == self.class
    }

    fn status(&self, is_draining: bool) -> WorkerStatus {
        let report = *lock_ignoring_poison(&self.report);
        let WorkerTurnExecutorState { plugins, fault } = self.turns.state();
        WorkerStatus {
            plugins,
            fault,
            name: self.name.clone(),
            class: self.class.clone(),
            slots: self.slots,
            busy: self.n_busy.load(Ordering::SeqCst),
            is_draining,
            turns: report.turns,
            fenced: report.fenced,
            dead: report.dead,
            claims: report.claims,
        }
    }
}

/// Answers control messages and follows orders to drain, until the task is cancelled.
pub(crate) async fn answer_control_requests(
    inbox: SessionInboxClient,
    state: Arc<SharedWorkerState>,
    stop: CancellationToken,
) {
    let client = inbox.parts.link.client();
    let mut orders = match client.subscribe(inbox.names.control_subject()).await {
        Ok(orders) => orders,
        Err(error) => {
            tracing::warn!(%error, "this worker cannot be queried or drained by other programs");
            return std::future::pending().await;
        }
    };
    while let Some(message) = orders.next().await {
        let order: ControlMessage = serde_json::from_slice(&message.payload).unwrap_or_default();
        let is_asked = order
            .drain
            .as_deref()
            .is_none_or(|wanted| state.is_worker_addressed_by(wanted));
        if !is_asked {
            continue;
        }
        let is_drained = order.drain.is_some();
        let status = serde_json::to_vec(&state.status(is_drained || stop.is_cancelled()));
        if let (Some(reply), Ok(status)) = (message.reply, status) {
            let _ = client.publish(reply, Bytes::from(status)).await;
        }
        if is_drained {
            // Send the answer before the worker is stopped: a worker without work ends as soon as
            // `stop` is cancelled.
            let _ = tokio::time::timeout(LAST_ANSWER_SEND_TIMEOUT, client.flush()).await;
            stop.cancel();
        }
    }
}
