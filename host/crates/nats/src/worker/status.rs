//! Collects the state of all workers of a tenant, and orders workers to drain.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use serde::Serialize;

use super::control::{ControlMessage, WorkerStatus};
use super::inbox::SessionInboxClient;
use super::queue::TurnQueueNames;
use crate::setup::SESSION_LINES_STREAM_NAME_PART;
use crate::{NatsError, QuotaReport};

/// Time for which the answers of workers to a request for their state are collected.
const WORKER_ANSWERS_COLLECTION_TIME: Duration = Duration::from_millis(700);

/// State of the sessions and workers of one tenant.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClusterStatus {
    /// Number of stored sessions, without those of subagents.
    pub sessions: usize,
    /// Number of leases in the bucket. Subagents have leases too, and a released lease counts until
    /// its key expires.
    pub claimed: usize,
    /// Number of sessions with inputs that are queued or being run.
    pub waiting: usize,
    /// Number of sessions that have dead letters.
    pub dead: usize,
    /// Number of wake messages for each class of workers. Omits classes without wake messages.
    pub queues: Vec<QueueLength>,
    /// State of the workers that answered in time, sorted by name.
    pub workers: Vec<WorkerStatus>,
    /// Quotas of the tenant and their usage; absent if none were declared or if they cannot be
    /// read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quotas: Option<QuotaReport>,
    /// Reason why the quotas cannot be read. No turn begins in this case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quota_fault: Option<String>,
}

/// Length of the queue of wake messages for one worker class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct QueueLength {
    /// Name of the worker class.
    pub class: String,
    /// Number of sessions with a wake message for this class, including sessions whose turn a
    /// worker is running.
    pub wakes: usize,
    /// Age of the oldest wake message in milliseconds. A worker may already be handling this
    /// message.
    pub oldest_ms: u64,
}

impl SessionInboxClient {
    /// Collects the state of the tenant's sessions and workers.
    ///
    /// # Errors
    /// The servers do not answer.
    pub async fn cluster_status(&self) -> Result<ClusterStatus, NatsError> {
        let (link, names) = (&self.parts.link, &self.parts.streams.names);
        let mut sessions = 0;
        for partition in 0..names.n_partitions() {
            let stream = names.stream_name(SESSION_LINES_STREAM_NAME_PART, partition);
            sessions += link
                .list_subjects(&stream, &names.log_subjects_filter_of_partition(partition))
                .await?
                .len();
        }
        let leases = names.lease_stream();
        let mut classes: BTreeMap<String, usize> = BTreeMap::new();
        for wake in link
            .list_subjects(&self.names.stream_name("WAKE"), ">")
            .await?
        {
            if let Some(class) = wake.rsplit('.').nth(1) {
                *classes.entry(class.to_owned()).or_default() += 1;
            }
        }
        let mut queues = Vec::new();
        for (class, wakes) in classes {
            let oldest_ms = self.oldest_wake_message_age(&class).await?;
            queues.push(QueueLength {
                class,
                wakes,
                oldest_ms,
            });
        }
        let (quotas, quota_fault) = match self.quotas().read_quota_report().await {
            Ok(report) => (report, None),
            Err(error) => (None, Some(rind_lib::text::format_error_chain(&error))),
        };
        Ok(ClusterStatus {
            quotas,
            quota_fault,
            sessions,
            claimed: link.list_subjects(&leases, ">").await?.len(),
            waiting: link
                .list_subjects(&self.names.stream_name("IN"), ">")
                .await?
                .len(),
            dead: link
                .list_subjects(&self.names.stream_name("DEAD"), ">")
                .await?
                .len(),
            queues,
            workers: self.send_control_message(ControlMessage::default()).await?,
        })
    }

    /// Returns the age of the oldest wake message for a class of workers, in milliseconds; 0 if
    /// there is none. A worker may already be handling that message.
    pub(crate) async fn oldest_wake_message_age(&self, class: &str) -> Result<u64, NatsError> {
        let (stream, wakes) = (
            self.names.stream_name("WAKE"),
            self.names.wake_subjects_filter(class),
        );
        let first = self
            .parts
            .link
            .first_message_from_sequence(&stream, &wakes, 1)
            .await?;
        let stored = first.map_or(i64::MAX, |first| first.time_ms);
        let waited = rind_lib::clock::now_ms().saturating_sub(stored);
        Ok(u64::try_from(waited).unwrap_or(0))
    }

    /// Returns the number of wake messages (each reports that a session has inputs) that were not
    /// delivered to a worker of the class yet.
    pub(crate) async fn count_undelivered_wakes(&self, class: &str) -> Result<u64, NatsError> {
        const WHAT: &str = "the length of a queue";
        let context = self.parts.link.jetstream_context();
        let stream = context
            .get_stream_no_info(self.names.stream_name("WAKE"))
            .await
            .map_err(|error| NatsError::nats_request_error(WHAT, error))?;
        let consumer = stream
            .consumer_info(TurnQueueNames::wake_consumer_name(class))
            .await;
        let consumer = consumer.map_err(|error| NatsError::nats_request_error(WHAT, error))?;
        Ok(consumer.num_pending)
    }

    /// Orders workers to take no new work and to end. `wanted` is the name of a worker, a class, or
    /// `*` for all. Returns the workers that answered.
    ///
    /// # Errors
    /// The servers do not answer.
    pub async fn drain_workers(&self, wanted: &str) -> Result<Vec<WorkerStatus>, NatsError> {
        self.send_control_message(ControlMessage {
            drain: Some(wanted.to_owned()),
        })
        .await
    }

    async fn send_control_message(
        &self,
        order: ControlMessage,
    ) -> Result<Vec<WorkerStatus>, NatsError> {
        const WHAT: &str = "a question to workers";
        let client = self.parts.link.client();
        let inbox = client.new_inbox();
        let failed = |error: async_nats::Error| NatsError::nats_request_error(WHAT, error);
        let mut answers = client
            .subscribe(inbox.clone())
            .await
            .map_err(|error| failed(error.into()))?;
        let order = serde_json::to_vec(&order).map_err(|error| failed(error.into()))?;
        client
            .publish_with_reply(self.names.control_subject(), inbox, Bytes::from(order))
            .await
            .map_err(|error| failed(error.into()))?;
        let mut workers = Vec::new();
        let until = tokio::time::Instant::now() + WORKER_ANSWERS_COLLECTION_TIME;
        while let Ok(Some(answer)) = tokio::time::timeout_at(until, answers.next()).await {
            workers.extend(serde_json::from_slice::<WorkerStatus>(&answer.payload).ok());
        }
        workers.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(workers)
    }
}
