//! Appends that end in one of two ways: the message is stored, or the session belongs to another.
//!
//! Every failure of a request is unclear: the message may be stored although the answer was lost.
//! The leader's last message of the subject decides. If it is ours, the append is done. If nothing
//! changed, the same message is sent again, which the compare-and-swap makes harmless even if the
//! first one arrives late. If it is another's, this writer is fenced.

use std::time::{Duration, Instant};

use async_nats::HeaderMap;
use bytes::Bytes;

use crate::NatsError;
use crate::link::{AppendAnswer, NatsLink};

/// Header with the id of the message, by which a writer recognizes its own messages.
pub(crate) const ID: &str = "Rind-Id";

/// Longest pause before a message is sent again.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// The reason for which nothing more can be appended.
#[derive(Debug)]
pub(crate) enum AppendFailure {
    /// The stream has another message after the expected one.
    Fenced,
    /// The servers did not take the message in time; it is unknown whether it is stored.
    Failed(NatsError),
}

/// A message to append.
#[derive(Clone, Debug)]
pub(crate) struct NewMessage {
    pub(crate) subject: String,
    pub(crate) headers: HeaderMap,
    pub(crate) payload: Bytes,
}

/// Appends a message after the message `expected` of its subject and returns its sequence. Retries
/// until the message is stored, another message takes its place, or `patience` is over.
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
