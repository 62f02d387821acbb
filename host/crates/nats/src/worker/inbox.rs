//! Stores inputs in the inboxes of sessions. Each input is stored durably before a wake message
//! notifies the workers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_nats::HeaderMap;
use bytes::Bytes;
use rind_lib::session::{self, SessionAddress};

use super::queue::{
    TurnQueueNames, create_queue, invalid_worker_class_error, is_worker_class_name,
};
use crate::link::{MessageAppendOutcome, StoredStreamMessage};
use crate::sessions::SharedNatsStoreState;
use crate::{NatsError, NatsSessions, TenantQuotaClient};

/// NATS header with the id of an input.
const INPUT_ID_HEADER_NAME: &str = "Rind-Input";

/// Header with the class of workers that may run an input.
const WORKER_CLASS_HEADER_NAME: &str = "Rind-Class";

/// Maximum length of the text of an input, in bytes.
const MAX_INPUT_TEXT_BYTES: usize = 512 << 10;

/// Input in the inbox of a session, where it stays until its turn has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuedInput {
    /// Id that the sender chose. A session runs only one turn for each id.
    pub id: String,
    /// Text of the input, which the model gets.
    pub text: String,
    /// Class of workers that may run the input.
    pub class: String,
    pub(crate) sequence: u64,
}

/// Client for the inboxes of sessions: sends inputs, and reads queued inputs.
#[derive(Clone)]
pub struct SessionInboxClient {
    pub(crate) parts: Arc<SharedNatsStoreState>,
    pub(crate) names: TurnQueueNames,
}

impl std::fmt::Debug for SessionInboxClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("SessionInboxClient")
            .field(&self.parts.name)
            .finish()
    }
}

impl SessionInboxClient {
    /// Opens the inboxes of a store's sessions, and creates missing streams of the queue. Blocks.
    ///
    /// # Errors
    /// The streams cannot be created.
    pub fn open(sessions: &NatsSessions) -> Result<Self, NatsError> {
        let parts = sessions.shared_store_state().clone();
        let names = TurnQueueNames::new(parts.streams.names.tenant());
        let (own, own_names) = (parts.clone(), names.clone());
        parts
            .runtime
            .block_on(async move { create_queue(&own, &own_names).await })?;
        Ok(Self { parts, names })
    }

    /// Stores an input for a session, which need not exist yet, and wakes a worker of the class.
    /// Once this returns, the input is stored durably. Sending an input again with the same id has
    /// no effect.
    ///
    /// # Errors
    /// The session's id, the input's id or the class is invalid, the text is too long, too many
    /// inputs are queued, a quota of the tenant is used up, or the servers do not answer.
    pub async fn send(
        &self,
        session: &str,
        class: &str,
        id: &str,
        text: &str,
    ) -> Result<(), NatsError> {
        let at = root_session_address(session)?;
        if !is_worker_class_name(class) {
            return Err(invalid_worker_class_error(class));
        }
        if text.len() > MAX_INPUT_TEXT_BYTES || id.is_empty() || !session::is_session_id(id) {
            return Err(NatsError::Config {
                what: format!(
                    "the input `{}`",
                    rind_lib::text::escape_and_truncate_line(id, 96)
                ),
                why: format!(
                    "the text of an input may have at most {MAX_INPUT_TEXT_BYTES} bytes, and its id must have 1 to 96 letters, digits, `-`, `_` and `.`"
                ),
            });
        }
        self.quotas().count_input_against_quotas().await?;
        let mut headers = HeaderMap::new();
        headers.insert(INPUT_ID_HEADER_NAME, id);
        headers.insert(WORKER_CLASS_HEADER_NAME, class);
        let payload = Bytes::copy_from_slice(text.as_bytes());
        self.publish_with_retries(self.names.session_subject("IN", &at), headers, payload)
            .await?;
        self.send_session_wake(&at, class).await
    }

    /// Returns a client for the quotas of the tenant.
    #[must_use]
    pub fn quotas(&self) -> TenantQuotaClient {
        TenantQuotaClient::from_store_state(self.parts.clone())
    }

    /// Stores a wake message for a session, which notifies the workers of a class.
    pub(crate) async fn send_session_wake(
        &self,
        at: &SessionAddress,
        class: &str,
    ) -> Result<(), NatsError> {
        let subject = self.names.wake_message_subject(class, at);
        self.publish_with_retries(subject, HeaderMap::new(), Bytes::new())
            .await
    }

    /// Stores a message in a stream of the queue. Retries until the timeout `patience` expires. A
    /// retry may store the message twice, which is harmless for all kinds of messages in the queue.
    pub(crate) async fn publish_with_retries(
        &self,
        subject: String,
        headers: HeaderMap,
        payload: Bytes,
    ) -> Result<(), NatsError> {
        /// Error code of JetStream for a subject or stream that is full.
        const FULL: u64 = 10077;
        let began = Instant::now();
        loop {
            let sent = self
                .parts
                .link
                .publish(&subject, headers.clone(), payload.clone());
            let error = match sent.await {
                MessageAppendOutcome::Stored(_) => return Ok(()),
                MessageAppendOutcome::Refused => {
                    NatsError::from_jetstream_refusal("an input", 0, "it was refused")
                }
                MessageAppendOutcome::Unclear(error) => error,
            };
            let is_full = matches!(&error, NatsError::Refused { code, .. } if *code == FULL);
            if is_full || began.elapsed() >= self.parts.patience {
                return Err(error);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Whether a session has queued inputs, including one whose turn runs.
    ///
    /// # Errors
    /// The session's id is invalid, or the servers do not answer.
    pub async fn has_queued_input(&self, session: &str) -> Result<bool, NatsError> {
        let first = self
            .first_queued_input(&root_session_address(session)?)
            .await?;
        Ok(first.is_some())
    }

    /// Returns the input that waits longest in the inbox of a session.
    pub(crate) async fn first_queued_input(
        &self,
        at: &SessionAddress,
    ) -> Result<Option<QueuedInput>, NatsError> {
        let subject = self.names.session_subject("IN", at);
        let first = self
            .parts
            .link
            .first_message_from_sequence(&self.names.stream_name("IN"), &subject, 1)
            .await?;
        Ok(first.map(|message| parse_input(&message)))
    }

    /// Removes the inputs of a session up to and including `input`, whose turn has ended. Also
    /// removes the recorded attempts to run it.
    pub(crate) async fn remove_inputs_through(
        &self,
        at: &SessionAddress,
        input: &QueuedInput,
    ) -> Result<(), NatsError> {
        let subject = self.names.session_subject("IN", at);
        let link = &self.parts.link;
        let stream = self.names.stream_name("IN");
        link.purge_subject_before(&stream, &subject, input.sequence + 1)
            .await?;
        let attempts = self.names.session_subject("TRY", at);
        link.purge_messages(&self.names.stream_name("TRY"), &attempts)
            .await
    }
}

/// Parses a queued input. Any client that may publish can set the headers, so defaults replace
/// invalid values.
fn parse_input(message: &StoredStreamMessage) -> QueuedInput {
    let id = message
        .header(INPUT_ID_HEADER_NAME)
        .filter(|id| session::is_session_id(id));
    let class = message
        .header(WORKER_CLASS_HEADER_NAME)
        .filter(|class| is_worker_class_name(class));
    QueuedInput {
        id: id.map_or_else(|| format!("input-{}", message.sequence), str::to_owned),
        text: String::from_utf8_lossy(&message.payload).into_owned(),
        class: class.unwrap_or("default").to_owned(),
        sequence: message.sequence,
    }
}

/// Parses the address of a session, which must not be a subagent.
pub(crate) fn root_session_address(session: &str) -> Result<SessionAddress, NatsError> {
    let at = SessionAddress::parse(session).filter(|at| at.as_str() == at.root_session_id());
    at.ok_or_else(|| NatsError::Config {
        what: format!(
            "`{}`",
            rind_lib::text::escape_and_truncate_line(session, 96)
        ),
        why: "it is not a session id: letters, digits, `-`, `_` and `.`".to_owned(),
    })
}
