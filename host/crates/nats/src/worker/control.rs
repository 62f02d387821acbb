//! Control messages to running workers: requests for their state, and orders to drain.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use rind_lib::lock::lock;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::inbox::TurnInbox;
use super::turns::{TurnsState, WorkerTurns};
use super::work::{WorkerConfig, WorkerReport};
use crate::NatsError;

/// State of a worker, as the worker reports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerStatus {
    /// Name of the worker.
    pub name: String,
    /// Class of the inputs that it runs.
    pub class: String,
    /// Maximum number of sessions that the worker runs at once.
    pub slots: usize,
    /// Number of slots that run a session.
    pub busy: usize,
    /// Whether the worker takes no new work.
    pub is_draining: bool,
    /// Number of turns that ended since the worker started.
    pub turns: u64,
    /// Number of sessions that other workers took over since this worker started.
    pub fenced: u64,
    /// Number of inputs that became dead letters in this worker since it started.
    pub dead: u64,
    /// Number of sessions that the worker opened since it started.
    #[serde(default)]
    pub claims: u64,
    /// Digest of the set of plugins with which new turns run, if the worker uses sets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plugins: Option<String>,
    /// Reason why the worker begins no turns; `None` if it can begin turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
}

/// Handle to observe a running worker of this program.
#[derive(Clone, Debug)]
pub struct WorkerWatch {
    pub(crate) state: Arc<ControlState>,
    pub(crate) inbox: TurnInbox,
}

impl WorkerWatch {
    /// Returns the state of the worker.
    #[must_use]
    pub fn status(&self) -> WorkerStatus {
        self.state.status(false)
    }

    /// Returns the milliseconds since the oldest wake of the worker's class was stored; 0 without a
    /// wake.
    ///
    /// # Errors
    /// The servers do not answer.
    pub async fn queue_age(&self) -> Result<u64, NatsError> {
        self.inbox.queue_age(&self.state.class).await
    }
}

/// State that the tasks of a worker share.
pub(crate) struct ControlState {
    name: String,
    class: String,
    slots: usize,
    turns: Arc<dyn WorkerTurns>,
    pub(crate) n_busy: AtomicUsize,
    pub(crate) report: Mutex<WorkerReport>,
}

/// Maximum time to flush the last answer of a worker to the servers.
const LAST_ANSWER: Duration = Duration::from_secs(2);

/// A control message to workers. `drain` is the name of a worker, a class, or `*` for all; without
/// it, the message only requests their state.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct ControlOrder {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) drain: Option<String>,
}

impl std::fmt::Debug for ControlState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ControlState").field(&self.name).finish()
    }
}

impl ControlState {
    pub(crate) fn new(config: &WorkerConfig, turns: Arc<dyn WorkerTurns>) -> Self {
        Self {
            turns,
            name: config.name.clone(),
            class: config.class.clone(),
            slots: config.slots,
            n_busy: AtomicUsize::new(0),
            report: Mutex::default(),
        }
    }

    fn is_named(&self, wanted: &str) -> bool {
        wanted == "*" || wanted == self.name || wanted == self.class
    }

    fn status(&self, is_draining: bool) -> WorkerStatus {
        let report = *lock(&self.report);
        let TurnsState { plugins, fault } = self.turns.state();
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
pub(crate) async fn answer_control(
    inbox: TurnInbox,
    state: Arc<ControlState>,
    stop: CancellationToken,
) {
    let client = inbox.parts.link.client();
    let mut orders = match client.subscribe(inbox.names.control()).await {
        Ok(orders) => orders,
        Err(error) => {
            tracing::warn!(%error, "this worker cannot be queried or drained by other programs");
            return std::future::pending().await;
        }
    };
    while let Some(message) = orders.next().await {
        let order: ControlOrder = serde_json::from_slice(&message.payload).unwrap_or_default();
        let is_asked = order
            .drain
            .as_deref()
            .is_none_or(|wanted| state.is_named(wanted));
        if !is_asked {
            continue;
        }
        let is_drained = order.drain.is_some();
        let status = serde_json::to_vec(&state.status(is_drained || stop.is_cancelled()));
        if let (Some(reply), Ok(status)) = (message.reply, status) {
            let _ = client.publish(reply, Bytes::from(status)).await;
        }
        if is_drained {
            // A worker without work ends at once, so flush the answer before.
            let _ = tokio::time::timeout(LAST_ANSWER, client.flush()).await;
            stop.cancel();
        }
    }
}
