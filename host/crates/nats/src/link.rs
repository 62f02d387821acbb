//! Sends the requests to JetStream that the store needs.
//!
//! Reads of single messages go to the leader of a stream, because replicas may lag behind. The
//! outcome of an append is stored, refused or unclear; only the module `append` may handle the last
//! two.
//! Start from [`NatsConnection`].

use std::time::Duration;

use async_nats::jetstream;
use async_nats::jetstream::message::StreamMessage;
use async_nats::jetstream::stream::{LastRawMessageError, LastRawMessageErrorKind};
use async_nats::{Client, HeaderMap, Request};
use bytes::Bytes;
use futures_util::TryStreamExt;
use serde::Deserialize;

use crate::{NatsError, NatsServerVersion};

/// Timeout for the answer to an append, after which the outcome is unclear.
const APPEND_ACK_TIMEOUT: Duration = Duration::from_secs(2);

/// Header for compare-and-swap: expected sequence of the last message of the subject.
const EXPECTED_LAST_SEQUENCE_HEADER_NAME: &str = "Nats-Expected-Last-Subject-Sequence";

/// Error codes of JetStream for an expected sequence that is not the last one.
const WRONG_LAST_SEQUENCE_ERROR_CODES: [u64; 2] = [10071, 10164];

/// Connection to the servers. Its methods are the requests that the store sends.
#[derive(Clone, Debug)]
pub(crate) struct NatsConnection {
    client: Client,
    context: jetstream::Context,
}

/// Message as it is stored in a JetStream stream.
#[derive(Clone, Debug)]
pub(crate) struct StoredStreamMessage {
    pub(crate) sequence: u64,
    pub(crate) headers: HeaderMap,
    pub(crate) payload: Bytes,
    /// Time at which the server stored the message, in milliseconds since 1970.
    pub(crate) time_ms: i64,
}

impl StoredStreamMessage {
    /// Returns the value of the message's header with this name.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(async_nats::HeaderValue::as_str)
    }

    /// Returns the value of a header as a number; `None` if it is missing or not a number.
    pub(crate) fn numeric_header(&self, name: &str) -> Option<u64> {
        self.header(name)?.parse().ok()
    }
}

/// Outcome of one attempt to append a message to a stream.
#[derive(Debug)]
pub(crate) enum MessageAppendOutcome {
    /// The server stored the message; contains its sequence number in the stream.
    Stored(u64),
    /// The server refused the message: the last message of the subject is not the expected one.
    Refused,
    /// The request failed, and it is unknown whether the message is stored.
    Unclear(NatsError),
}

/// JetStream's answer to a published message, as JSON.
#[derive(Deserialize)]
struct PublishAcknowledgement {
    #[serde(default)]
    seq: u64,
    error: Option<JetStreamErrorDetails>,
}

#[derive(Deserialize)]
struct JetStreamErrorDetails {
    #[serde(default)]
    err_code: u64,
    #[serde(default)]
    description: String,
}

impl NatsConnection {
    pub(crate) fn new(client: Client) -> Self {
        let context = jetstream::ContextBuilder::new()
            .timeout(Duration::from_secs(5))
            .build(client.clone());
        Self { client, context }
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn jetstream_context(&self) -> &jetstream::Context {
        &self.context
    }

    /// Publishes a message that must directly follow the message with the sequence `expected` in
    /// its subject; 0 if it must be the first message.
    pub(crate) async fn append_after_sequence(
        &self,
        subject: &str,
        expected: u64,
        mut headers: HeaderMap,
        payload: Bytes,
    ) -> MessageAppendOutcome {
        headers.insert(EXPECTED_LAST_SEQUENCE_HEADER_NAME, expected.to_string());
        self.publish(subject, headers, payload).await
    }

    /// Publishes a message and waits for the acknowledgement of its stream.
    pub(crate) async fn publish(
        &self,
        subject: &str,
        headers: HeaderMap,
        payload: Bytes,
    ) -> MessageAppendOutcome {
        const WHAT: &str = "an append";
        // Check the version at each append: servers of a cluster may differ in version, and the
        // client reconnects to any of them.
        let version = self.client.server_info().version;
        if !NatsServerVersion::parse(&version).is_some_and(NatsServerVersion::is_supported) {
            return MessageAppendOutcome::Unclear(NatsError::OldServer {
                server: "of the connection".to_owned(),
                found: rind_lib::text::escape_and_truncate_line(&version, 40),
            });
        }
        let request = Request::new()
            .headers(headers)
            .payload(payload)
            .timeout(Some(APPEND_ACK_TIMEOUT));
        let answer = match self.client.send_request(subject.to_owned(), request).await {
            Ok(answer) => answer,
            Err(source) => {
                return MessageAppendOutcome::Unclear(NatsError::nats_request_error(WHAT, source));
            }
        };
        match serde_json::from_slice::<PublishAcknowledgement>(&answer.payload) {
            Ok(PublishAcknowledgement {
                error: Some(error), ..
            }) if WRONG_LAST_SEQUENCE_ERROR_CODES.contains(&error.err_code) => {
                MessageAppendOutcome::Refused
            }
            Ok(PublishAcknowledgement {
                error: Some(error), ..
            }) => MessageAppendOutcome::Unclear(NatsError::from_jetstream_refusal(
                WHAT,
                error.err_code,
                &error.description,
            )),
            Ok(PublishAcknowledgement { seq, .. }) if seq > 0 => MessageAppendOutcome::Stored(seq),
            Ok(_) => MessageAppendOutcome::Unclear(NatsError::from_jetstream_refusal(
                WHAT,
                0,
                "an answer without a sequence",
            )),
            Err(source) => {
                MessageAppendOutcome::Unclear(NatsError::nats_request_error(WHAT, source))
            }
        }
    }

    /// Returns the last message of a subject, read from the leader of the stream.
    pub(crate) async fn last_message(
        &self,
        stream: &str,
        subject: &str,
    ) -> Result<Option<StoredStreamMessage>, NatsError> {
        const WHAT: &str = "reading the last message of a subject";
        let handle = self.stream_handle(stream, WHAT).await?;
        stored_message_from_answer(WHAT, handle.get_last_raw_message_by_subject(subject).await)
    }

    /// Returns the first message of a subject whose sequence is at least `from`, read from the
    /// leader of the stream.
    pub(crate) async fn first_message_from_sequence(
        &self,
        stream: &str,
        subject: &str,
        from: u64,
    ) -> Result<Option<StoredStreamMessage>, NatsError> {
        const WHAT: &str = "reading the next message of a subject";
        let handle = self.stream_handle(stream, WHAT).await?;
        stored_message_from_answer(
            WHAT,
            handle.get_first_raw_message_by_subject(subject, from).await,
        )
    }

    /// Returns the subjects of a stream that match a filter, read from the leader of the stream.
    pub(crate) async fn list_subjects(
        &self,
        stream: &str,
        filter: &str,
    ) -> Result<Vec<String>, NatsError> {
        const WHAT: &str = "a list of subjects";
        let failed =
            |error: jetstream::stream::InfoError| NatsError::nats_request_error(WHAT, error);
        let handle = self.stream_handle(stream, WHAT).await?;
        let listed = handle.info_with_subjects(filter).await.map_err(failed)?;
        let listed = listed.map_ok(|(subject, _)| subject);
        listed.try_collect().await.map_err(failed)
    }

    /// Removes all messages of a stream whose subject matches `filter`.
    pub(crate) async fn purge_messages(&self, stream: &str, filter: &str) -> Result<(), NatsError> {
        const WHAT: &str = "a removal";
        let handle = self.stream_handle(stream, WHAT).await?;
        let purged = handle.purge().filter(filter).await;
        purged
            .map(drop)
            .map_err(|error| NatsError::nats_request_error(WHAT, error))
    }

    /// Removes the messages of a subject whose sequence number in the stream is less than
    /// `sequence`.
    pub(crate) async fn purge_subject_before(
        &self,
        stream: &str,
        subject: &str,
        sequence: u64,
    ) -> Result<(), NatsError> {
        const WHAT: &str = "a removal";
        let handle = self.stream_handle(stream, WHAT).await?;
        let purged = handle.purge().filter(subject).sequence(sequence).await;
        purged
            .map(drop)
            .map_err(|error| NatsError::nats_request_error(WHAT, error))
    }

    async fn stream_handle(
        &self,
        name: &str,
        what: &str,
    ) -> Result<jetstream::stream::Stream<()>, NatsError> {
        let stream = self.context.get_stream_no_info(name).await;
        stream.map_err(|error| NatsError::nats_request_error(what, error))
    }
}

/// Converts the answer to a read request; `None` if the message does not exist.
fn stored_message_from_answer(
    what: &str,
    answer: Result<StreamMessage, LastRawMessageError>,
) -> Result<Option<StoredStreamMessage>, NatsError> {
    match answer {
        Ok(message) => Ok(Some(StoredStreamMessage {
            sequence: message.sequence,
            headers: message.headers,
            payload: message.payload,
            time_ms: i64::try_from(message.time.unix_timestamp_nanos() / 1_000_000)
                .unwrap_or(i64::MAX),
        })),
        Err(error) => match error.kind() {
            LastRawMessageErrorKind::NoMessageFound => Ok(None),
            LastRawMessageErrorKind::JetStream(answer) => Err(NatsError::from_jetstream_refusal(
                what,
                answer.error_code().0,
                &answer.to_string(),
            )),
            _ => Err(NatsError::nats_request_error(what, error)),
        },
    }
}
