//! Appends messages to a NATS stream. An append ends when the message is stored, or fails as fenced
//! when another writer has stored a message.
//!
//! After a failed request, it is unknown whether the message was stored, because possibly only the
//! answer was lost. Then the subject's last message is read from the stream's leader. If it is this
//! writer's message, the append is done. If the subject did not change, the message is sent again;
//! the compare-and-swap makes this harmless even if the first message arrives late. If it is
//! another writer's message, this writer is fenced.

use std::time::{Duration, Instant};

use async_nats::HeaderMap;
use bytes::Bytes;

use crate::NatsError;
use crate::link::{MessageAppendOutcome, NatsConnection};

/// Header with a message id that is unique per append, so that a writer recognizes its own message.
pub(crate) const MESSAGE_ID_HEADER_NAME: &str = "Rind-Id";

/// Maximum pause between two attempts to append a message.
const MAX_APPEND_RETRY_DELAY: Duration = Duration::from_millis(500);

/// Reason why a message was not appended to a stream.
#[derive(Debug)]
pub(crate) enum StreamAppendError {
    /// Another writer stored a message after the expected one, so this message was not appended.
    Fenced,
    /// No attempt succeeded in time; it is unknown whether the message is stored.
    Failed(NatsError),
}

/// Message that is to be appended to a stream of the NATS servers.
#[derive(Clone, Debug)]
pub(crate) struct StreamMessageToAppend {
    pub(crate) subject: String,
    pub(crate) headers: HeaderMap,
    pub(crate) payload: Bytes,
}

/// Appends a message to its subject, whose last message must have the sequence `expected`. Returns
/// the new sequence. Retries until the message is stored, another writer's message is stored, or
/// the timeout `patience` expires.
pub(crate) async fn append_message(
    link: &NatsConnection,
    stream: &str,
    message: StreamMessageToAppend,
    expected: u64,
    patience: Duration,
) -> Result<u64, StreamAppendError> {
    let StreamMessageToAppend {
        subject,
        mut headers,
        payload,
    } = message;
    let id = uuid::Uuid::new_v4().to_string();
    headers.insert(MESSAGE_ID_HEADER_NAME, id.as_str());
    let began = Instant::now();
    let mut pause = Duration::from_millis(5);
    loop {
        let answer = link
            .append_after_sequence(&subject, expected, headers.clone(), payload.clone())
            .await;
        let mut why = match answer {
            MessageAppendOutcome::Stored(sequence) => return Ok(sequence),
            MessageAppendOutcome::Refused => None,
            MessageAppendOutcome::Unclear(error) => Some(error),
        };
        match link.last_message(stream, &subject).await {
            Ok(Some(last)) if last.header(MESSAGE_ID_HEADER_NAME) == Some(id.as_str()) => {
                return Ok(last.sequence);
            }
            Ok(last) if last.as_ref().map_or(0, |last| last.sequence) == expected => {}
            Ok(_) => return Err(StreamAppendError::Fenced),
            Err(error) => {
                why.get_or_insert(error);
            }
        }
        if began.elapsed() >= patience {
            let why = why.unwrap_or_else(|| {
                let text =
                    "the server refuses the append although the expected sequence is the last one";
                NatsError::from_jetstream_refusal("an append", 0, text)
            });
            return Err(StreamAppendError::Failed(why));
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(MAX_APPEND_RETRY_DELAY);
    }
}
