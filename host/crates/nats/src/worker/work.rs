//! Implements the worker, which fetches a wake message for each free slot and drains when it stops.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_nats::jetstream::{self, consumer};
use futures_util::StreamExt;
use rind_lib::lock::lock_ignoring_poison;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::control::{NatsWorkerStatusHandle, SharedWorkerState, answer_control_requests};
use super::inbox::SessionInboxClient;
use super::queue::{TurnQueueNames, invalid_worker_class_error, is_worker_class_name};
use super::session_work::{WakeMessageHandler, WakeMessageResultCounts};
use super::sweep::store_missing_wake_messages_periodically;
use super::turns::WorkerTurnExecutor;
use crate::{NatsError, NatsSessions};

/// Time without a progress acknowledgement after which a wake is delivered again.
const WAKE_MESSAGE_ACK_TIMEOUT: Duration = Duration::from_secs(20);

/// Timeout of one request to the server for a wake message.
const WAKE_MESSAGE_PULL_TIMEOUT: Duration = Duration::from_secs(5);

/// Pause before a failed request to the servers is repeated.
const REQUEST_RETRY_DELAY: Duration = Duration::from_millis(500);

/// Settings of a worker that runs turns.
#[derive(Clone, Debug)]
pub struct WorkerConfig {
    /// Class of the worker. It runs only inputs that were sent to this class.
    pub class: String,
    /// Name of the worker that operators see.
    pub name: String,
    /// Maximum number of sessions that the worker runs at the same time.
    pub slots: usize,
    /// Number of attempts after which an input becomes a dead letter.
    pub max_attempts: u32,
    /// Time for which running turns may continue after the worker is stopped. After that, the turns
    /// are interrupted, and other workers continue them.
    pub grace: Duration,
    /// Maximum number of wakes of the class that all workers together handle concurrently.
    pub max_in_work: i64,
}

impl WorkerConfig {
    /// Returns the settings of the worker `name` of a class, with defaults for all other values.
    #[must_use]
    pub fn new(class: &str, name: &str) -> Self {
        Self {
            class: class.to_owned(),
            name: name.to_owned(),
            slots: 4,
            max_attempts: 5,
            grace: Duration::from_secs(30),
            max_in_work: 1_000,
        }
    }
}

/// Numbers of turns, sessions and inputs that a worker has handled since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkerActivityCounts {
    /// Number of turns that have ended in the worker.
    pub turns: u64,
    /// Number of sessions that another program has taken over from the worker.
    pub fenced: u64,
    /// Number of inputs that became dead letters in the worker.
    pub dead: u64,
    /// Number of turns that were interrupted because the worker ended or its lease was about to
    /// expire.
    pub interrupted: u64,
    /// Number of sessions that the worker has opened.
    pub claims: u64,
}

/// Worker that runs the turns of the inputs for one class of workers, until it is stopped or
/// drained.
pub struct NatsWorker {
    sessions: NatsSessions,
    inbox: SessionInboxClient,
    config: WorkerConfig,
    turns: Arc<dyn WorkerTurnExecutor>,
    control: Arc<SharedWorkerState>,
}

impl std::fmt::Debug for NatsWorker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("NatsWorker").field(&self.config).finish()
    }
}

impl NatsWorker {
    /// Creates a worker. Blocks.
    ///
    /// # Errors
    /// The class is invalid, or the streams of the queue cannot be created.
    pub fn new(
        sessions: NatsSessions,
        config: WorkerConfig,
        turns: Arc<dyn WorkerTurnExecutor>,
    ) -> Result<Self, NatsError> {
        if !is_worker_class_name(&config.class) {
            return Err(invalid_worker_class_error(&config.class));
        }
        Ok(Self {
            inbox: SessionInboxClient::open(&sessions)?,
            control: Arc::new(SharedWorkerState::new(&config, turns.clone())),
            sessions,
            config,
            turns,
        })
    }

    /// Returns a handle to observe the worker while it runs.
    #[must_use]
    pub fn status_handle(&self) -> NatsWorkerStatusHandle {
        NatsWorkerStatusHandle {
            state: self.control.clone(),
            inbox: self.inbox.clone(),
        }
    }

    /// Runs until `stop` is cancelled or an operator drains the worker. Then fetches no further
    /// wake, waits for running turns at most for the grace time, and interrupts the remaining
    /// turns.
    ///
    /// # Errors
    /// The queue cannot be opened.
    pub async fn run(self, stop: CancellationToken) -> Result<WorkerActivityCounts, NatsError> {
        let consumer = self.get_wake_consumer().await?;
        let ended = CancellationToken::new();
        let _end_all = ended.clone().drop_guard();
        let control =
            answer_control_requests(self.inbox.clone(), self.control.clone(), stop.clone());
        spawn_until_cancelled(control, ended.clone());
        spawn_until_cancelled(
            store_missing_wake_messages_periodically(self.inbox.clone()),
            ended,
        );
        let now = CancellationToken::new();
        let slots = Arc::new(Semaphore::new(self.config.slots.max(1)));
        loop {
            let Ok(slot) = slots.clone().acquire_owned().await else {
                break;
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = self.turns.wait_until_ready() => {}
            }
            let wake = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                wake = receive_wake_message(&consumer) => wake,
            };
            let wake = match wake {
                Ok(Some(wake)) => wake,
                Ok(None) => continue,
                Err(error) => {
                    tracing::debug!(%error, "no wake came");
                    tokio::time::sleep(REQUEST_RETRY_DELAY).await;
                    continue;
                }
            };
            let work = WakeMessageHandler {
                sessions: self.sessions.clone(),
                inbox: self.inbox.clone(),
                turns: self.turns.clone(),
                max_attempts: self.config.max_attempts.max(1),
                class: self.config.class.clone(),
                stop: stop.clone(),
                now: now.clone(),
                beat: WAKE_MESSAGE_ACK_TIMEOUT / 4,
            };
            let control = self.control.clone();
            control.n_busy.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(async move {
                let outcome = work.handle_wake_message(wake).await;
                control.count_wake_outcome(&outcome);
                control.n_busy.fetch_sub(1, Ordering::SeqCst);
                drop(slot);
            });
        }
        self.wait_for_running_turns(&slots, &now).await;
        Ok(self.control.worker_report())
    }

    /// Waits until running turns have ended. After the grace time, interrupts the remaining turns.
    async fn wait_for_running_turns(&self, slots: &Arc<Semaphore>, now: &CancellationToken) {
        let all = u32::try_from(self.config.slots.max(1)).unwrap_or(u32::MAX);
        let idle = slots.acquire_many(all);
        if tokio::time::timeout(self.config.grace, idle).await.is_err() {
            now.cancel();
            let idle = slots.acquire_many(all);
            let _ = tokio::time::timeout(Duration::from_secs(15), idle).await;
        }
    }

    async fn get_wake_consumer(&self) -> Result<jetstream::consumer::PullConsumer, NatsError> {
        const WHAT: &str = "the consumer of a class";
        let name = TurnQueueNames::wake_consumer_name(&self.config.class);
        let context = self.inbox.parts.link.jetstream_context();
        let stream = context
            .get_stream_no_info(self.inbox.names.stream_name("WAKE"))
            .await
            .map_err(|error| NatsError::nats_request_error(WHAT, error))?;
        let config = consumer::pull::Config {
            durable_name: Some(name.clone()),
            filter_subject: self.inbox.names.wake_subjects_filter(&self.config.class),
            ack_policy: consumer::AckPolicy::Explicit,
            ack_wait: WAKE_MESSAGE_ACK_TIMEOUT,
            max_deliver: -1,
            max_ack_pending: self.config.max_in_work,
            ..consumer::pull::Config::default()
        };
        let began = std::time::Instant::now();
        loop {
            match stream.create_consumer(config.clone()).await {
                Ok(consumer) => return Ok(consumer),
                Err(error) if began.elapsed() >= self.inbox.parts.patience => {
                    return Err(NatsError::nats_request_error(WHAT, error));
                }
                Err(_) => tokio::time::sleep(REQUEST_RETRY_DELAY).await,
            }
        }
    }
}

fn spawn_until_cancelled(
    task: impl Future<Output = ()> + Send + 'static,
    ended: CancellationToken,
) {
    tokio::spawn(async move {
        tokio::select! {
            () = ended.cancelled() => {}
            () = task => {}
        }
    });
}

/// Returns the next wake message; `None` if none arrives within the timeout.
async fn receive_wake_message(
    consumer: &jetstream::consumer::PullConsumer,
) -> Result<Option<jetstream::Message>, async_nats::Error> {
    let batch = consumer
        .batch()
        .max_messages(1)
        .expires(WAKE_MESSAGE_PULL_TIMEOUT)
        .messages();
    let mut batch = tokio::time::timeout(WAKE_MESSAGE_PULL_TIMEOUT, batch).await??;
    match tokio::time::timeout(WAKE_MESSAGE_PULL_TIMEOUT * 2, batch.next()).await? {
        Some(message) => message.map(Some),
        None => Ok(None),
    }
}

impl SharedWorkerState {
    fn count_wake_outcome(&self, outcome: &WakeMessageResultCounts) {
        let mut report = lock_ignoring_poison(&self.report);
        report.turns += outcome.n_turns;
        report.dead += outcome.n_dead;
        report.fenced += u64::from(outcome.is_fenced);
        report.interrupted += u64::from(outcome.is_interrupted);
        report.claims += u64::from(outcome.is_claimed);
    }

    fn worker_report(&self) -> WorkerActivityCounts {
        *lock_ignoring_poison(&self.report)
    }
}
