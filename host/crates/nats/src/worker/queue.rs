//! Defines the names and configurations of the streams that form the queue of turns.

use std::time::Duration;

use async_nats::jetstream::stream;
use rind_lib::session::SessionAddress;

use crate::NatsError;
use crate::names::session_id_to_subject_token;
use crate::sessions::SharedNatsStoreState;
use crate::setup::ensure_stream_exists;

/// Maximum number of queued inputs of one session. Further inputs are refused.
const MAX_QUEUED_INPUTS_PER_SESSION: i64 = 1_000;

/// Names of the streams and subjects that form the queue of a tenant.
#[derive(Clone, Debug)]
pub(crate) struct TurnQueueNames {
    tenant: String,
}

impl TurnQueueNames {
    pub(crate) fn new(tenant: &str) -> Self {
        Self {
            tenant: tenant.to_owned(),
        }
    }

    /// Returns the name of a stream. `kind` is `IN` for inputs, `WAKE` for wake messages, `TRY` for
    /// attempts to run inputs, or `DEAD` for dead letters.
    pub(crate) fn stream_name(&self, kind: &str) -> String {
        format!("RIND-{}-{kind}", self.tenant)
    }

    /// Returns the subject of a session in the stream of this kind. `kind` must not be `WAKE`; see
    /// [`Self::wake_message_subject`].
    pub(crate) fn session_subject(&self, kind: &str, session: &SessionAddress) -> String {
        let token = session_id_to_subject_token(session.root_session_id());
        format!("{}.{token}", self.prefix(kind))
    }

    /// Returns the subject of the messages that report to the workers of a class that this session
    /// has inputs (wake messages).
    pub(crate) fn wake_message_subject(&self, class: &str, session: &SessionAddress) -> String {
        format!(
            "{}.{class}.{}",
            self.prefix("WAKE"),
            session_id_to_subject_token(session.root_session_id())
        )
    }

    /// Returns the subject filter that matches the wake messages of a worker class.
    pub(crate) fn wake_subjects_filter(&self, class: &str) -> String {
        format!("{}.{class}.*", self.prefix("WAKE"))
    }

    /// Returns the name of the consumer that delivers the wake messages for a class to its workers.
    pub(crate) fn wake_consumer_name(class: &str) -> String {
        format!("class-{class}")
    }

    /// Returns the subject for control messages to all workers of the tenant.
    pub(crate) fn control_subject(&self) -> String {
        self.prefix("CONTROL")
    }

    fn prefix(&self, kind: &str) -> String {
        format!("rind.{}.{}", self.tenant, kind.to_lowercase())
    }
}

/// Whether a text is a valid name of a worker class, which is a token of a NATS subject.
pub(crate) fn is_worker_class_name(text: &str) -> bool {
    let is_in_class = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=32).contains(&text.len()) && text.bytes().all(is_in_class)
}

/// Returns the error for an invalid name of a class.
pub(crate) fn invalid_worker_class_error(class: &str) -> NatsError {
    NatsError::Config {
        what: format!(
            "the class `{}`",
            rind_lib::text::escape_and_truncate_line(class, 40)
        ),
        why: "a class of workers has 1 to 32 lower-case letters, digits and `-`".to_owned(),
    }
}

/// Creates the streams of the queue that do not exist yet.
pub(crate) async fn create_queue(
    parts: &SharedNatsStoreState,
    names: &TurnQueueNames,
) -> Result<(), NatsError> {
    for config in build_queue_stream_configs(names, parts.streams.replicas) {
        ensure_stream_exists(&parts.link, config, parts.patience).await?;
    }
    Ok(())
}

fn build_queue_stream_configs(names: &TurnQueueNames, replicas: usize) -> [stream::Config; 4] {
    let base = |kind: &str| stream::Config {
        name: names.stream_name(kind),
        subjects: vec![format!("{}.>", names.prefix(kind))],
        discard: stream::DiscardPolicy::New,
        num_replicas: replicas,
        duplicate_window: Duration::from_secs(1),
        ..stream::Config::default()
    };
    let inputs = stream::Config {
        max_messages_per_subject: MAX_QUEUED_INPUTS_PER_SESSION,
        discard_new_per_subject: true,
        ..base("IN")
    };
    // Keep one wake message per session and class: the worker that gets it runs all queued inputs.
    let wakes = stream::Config {
        retention: stream::RetentionPolicy::WorkQueue,
        discard: stream::DiscardPolicy::Old,
        max_messages_per_subject: 1,
        ..base("WAKE")
    };
    let attempts = stream::Config {
        max_messages_per_subject: 1,
        ..base("TRY")
    };
    [inputs, wakes, attempts, base("DEAD")]
}
