//! Appends to a NATS stream that end either with the message stored or with the writer fenced.
//!
//! After a failed request it is unknown whether the message was stored, because only the answer may
//! have been lost. Then the last message of the subject, read from the stream's leader, decides. If
//! it is this writer's message, the append is done. If nothing changed, the same message is sent
//! again; the compare-and-swap makes this harmless even if the first one arrives late. If it is
//! another writer's message, this writer is fenced.

use std::time::{Duration, Instant};

use async_nats::HeaderMap;
use bytes::Bytes;

use crate::NatsError;
use crate::link::{AppendAnswer, NatsLink};

/// Header with a message id that is unique per append, so that a writer recognizes its own message.
pub(crate) const ID: &str = "Rind-Id";

/// Maximum pause between attempts.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// Reason why a message was not appended.
#[derive(Debug)]
pub(crate) enum AppendFailure {
    /// Another writer stored a message after the expected one.
    Fenced,
    /// No attempt succeeded in time; it is unknown whether the message is stored.
    Failed(NatsError),
}

/// A message to append.
#[derive(Clone, Debug)]
pub(crate) struct NewMessage {
    pub(crate) subject: String,
    pub(crate) headers: HeaderMap,
    pub(crate) payload: Bytes,
}

/// Appends a message to its subject, whose last message must have the sequence `expected`. Returns
/// the new sequence. Retries until the message is stored, another message was stored instead, or
/// `patience` is over.
pub(crate) async fn append_message(
    link: &NatsLink,
    stream: &str,
    message: NewMessage,
    expected: u64,
    patience: Duration,
) -> Result<u64, AppendFailure> {
    let NewMessage {
        subject,
        mut headers,
        payload,
    } = message;
    let id = uuid::Uuid::new_v4().to_string();
    headers.insert(ID, id.as_str());
    let began = Instant::now();
    let mut pause = Duration::from_millis(5);
    loop {
        let answer = link
            .append_at(&subject, expected, headers.clone(), payload.clone())
            .await;
        let mut why = match answer {
            AppendAnswer::Stored(sequence) => return Ok(sequence),
            AppendAnswer::Refused => None,
            AppendAnswer::Unclear(error) => Some(error),
        };
        match link.last(stream, &subject).await {
            Ok(Some(last)) if last.header(ID) == Some(id.as_str()) => return Ok(last.sequence),
            Ok(last) if last.as_ref().map_or(0, |last| last.sequence) == expected => {}
            Ok(_) => return Err(AppendFailure::Fenced),
            Err(error) => {
                why.get_or_insert(error);
            }
        }
        if began.elapsed() >= patience {
            let why = why.unwrap_or_else(|| {
                let text =
                    "the server refuses the append although the expected sequence is the last one";
                NatsError::refused("an append", 0, text)
            });
            return Err(AppendFailure::Failed(why));
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}
