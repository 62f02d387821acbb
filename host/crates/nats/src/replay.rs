//! Reads a session: fetches its messages in order and joins their payloads.
//!
//! Any replica may return a batch of messages, and a replica may lag behind. So the leader reports
//! the last message, and reading continues until a replica has returned that message. Every message
//! contains its offset in the session, so that missing and repeated messages are detected.

use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::StreamExt;
use serde::Serialize;

use crate::NatsError;
use crate::link::{NatsConnection, StoredStreamMessage};

/// Header with the offset in the session at which the payload begins.
pub(crate) const SESSION_OFFSET_HEADER_NAME: &str = "Rind-At";

/// Header of the message with which a writer takes the session over. The message truncates the
/// session to its offset: bytes of earlier messages from that offset on are discarded.
pub(crate) const SESSION_TAKEOVER_HEADER_NAME: &str = "Rind-Taken";

/// Header of an empty message; its value is the name of a snapshot. The snapshot contains the
/// session's files as they were after all lines that precede this message.
pub(crate) const SNAPSHOT_NAME_HEADER: &str = "Rind-Snapshot";

/// Maximum number of messages that one request to the servers returns.
const MAX_MESSAGES_PER_BATCH: u64 = 512;

/// Timeout for a replica to catch up with the leader.
const REPLICA_CATCH_UP_TIMEOUT: Duration = Duration::from_secs(20);

/// Time without a message after which a batch is considered complete. Missing messages are then
/// requested again.
const BATCH_SILENCE_TIMEOUT: Duration = Duration::from_secs(3);

#[derive(Serialize)]
struct MessageBatchRequest<'a> {
    batch: u64,
    seq: u64,
    next_by_subj: &'a str,
}

/// Bytes of a session, from an offset to its end.
#[derive(Debug, Default)]
pub(crate) struct StoredSessionBytes {
    /// Byte offset in the session at which `bytes` begins.
    pub(crate) start: u64,
    pub(crate) bytes: Vec<u8>,
    /// Offset in the session, and sequence number in the stream, of each message that has a
    /// payload.
    pub(crate) places: Vec<(u64, u64)>,
    /// Name of the last snapshot of the files, and the length of the session in bytes when it was
    /// recorded.
    pub(crate) snapshot: Option<(String, u64)>,
}

impl StoredSessionBytes {
    /// Creates an empty value for a session that is read from the offset `start`.
    pub(crate) fn new_at_offset(start: u64) -> Self {
        Self {
            start,
            ..Self::default()
        }
    }

    /// Returns the length of the session in bytes, which is the offset after `bytes`.
    pub(crate) fn end_offset(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    /// Checks that the message's offset is the current end of the session, and appends its payload.
    /// A message with the header `SESSION_TAKEOVER_HEADER_NAME` may have an earlier offset: it
    /// replaces the bytes from there.
    fn append_message_payload(
        &mut self,
        message: &StoredStreamMessage,
        subject: &str,
    ) -> Result<(), NatsError> {
        let damaged = |why: String| NatsError::Damaged {
            what: format!("the session of {subject}"),
            why,
        };
        let at = message.numeric_header(SESSION_OFFSET_HEADER_NAME);
        let at =
            at.ok_or_else(|| damaged(format!("message {} has no offset", message.sequence)))?;
        if at != self.end_offset() {
            let kept = at.checked_sub(self.start).map(usize::try_from);
            match kept {
                Some(Ok(kept))
                    if at < self.end_offset()
                        && message.header(SESSION_TAKEOVER_HEADER_NAME).is_some() =>
                {
                    self.bytes.truncate(kept);
                    self.places.retain(|(offset, _)| *offset < at);
                }
                _ => {
                    return Err(damaged(format!(
                        "message {} begins at byte {at}, but should begin at byte {}; restore the stream from a backup",
                        message.sequence,
                        self.end_offset()
                    )));
                }
            }
        }
        if let Some(name) = message.header(SNAPSHOT_NAME_HEADER) {
            self.snapshot = Some((name.to_owned(), at));
        }
        if !message.payload.is_empty() {
            self.places.push((at, message.sequence));
            self.bytes.extend_from_slice(&message.payload);
        }
        Ok(())
    }
}

/// Reads the messages of a subject from sequence `from` through `last`, and adds them to `into`.
pub(crate) async fn read_subject_messages(
    link: &NatsConnection,
    stream: &str,
    subject: &str,
    (from, last): (u64, u64),
    into: &mut StoredSessionBytes,
) -> Result<(), NatsError> {
    let began = Instant::now();
    let mut next = from;
    while next <= last {
        let before = next;
        for message in read_message_batch(link, stream, subject, next).await? {
            if message.sequence > last {
                return Ok(());
            }
            if message.sequence < next {
                continue;
            }
            next = message.sequence + 1;
            into.append_message_payload(&message, subject)?;
        }
        if next == before {
            if began.elapsed() > REPLICA_CATCH_UP_TIMEOUT {
                return Err(NatsError::Damaged {
                    what: format!("the session of {subject}"),
                    why: format!(
                        "message {last} of its stream is missing; it may have been removed during the reading"
                    ),
                });
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    Ok(())
}

/// Requests a batch of messages, and returns them in the order of arrival.
async fn read_message_batch(
    link: &NatsConnection,
    stream: &str,
    subject: &str,
    from: u64,
) -> Result<Vec<StoredStreamMessage>, NatsError> {
    const FAILED_REQUEST_DESCRIPTION: &str = "reading a session";
    let client = link.client();
    let inbox = client.new_inbox();
    let mut answers = client
        .subscribe(inbox.clone())
        .await
        .map_err(|error| NatsError::nats_request_error(FAILED_REQUEST_DESCRIPTION, error))?;
    let request = serde_json::to_vec(&MessageBatchRequest {
        batch: MAX_MESSAGES_PER_BATCH,
        seq: from,
        next_by_subj: subject,
    });
    let request = request
        .map_err(|error| NatsError::nats_request_error(FAILED_REQUEST_DESCRIPTION, error))?;
    let to = format!("$JS.API.DIRECT.GET.{stream}");
    client
        .publish_with_reply(to, inbox, Bytes::from(request))
        .await
        .map_err(|error| NatsError::nats_request_error(FAILED_REQUEST_DESCRIPTION, error))?;
    let mut messages = Vec::new();
    while let Ok(Some(answer)) = tokio::time::timeout(BATCH_SILENCE_TIMEOUT, answers.next()).await {
        // A status message ends the batch: all messages were sent, or the replica has no more
        // (yet).
        if answer.status.is_some_and(|status| status.as_u16() != 100) {
            break;
        }
        let Some(message) = to_stored_message(answer) else {
            break;
        };
        messages.push(message);
    }
    Ok(messages)
}

fn to_stored_message(answer: async_nats::Message) -> Option<StoredStreamMessage> {
    let headers = answer.headers?;
    let sequence = headers.get("Nats-Sequence")?.as_str().parse().ok()?;
    Some(StoredStreamMessage {
        sequence,
        headers,
        payload: answer.payload,
        time_ms: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(sequence: u64, at: Option<u64>, text: &str, is_taken: bool) -> StoredStreamMessage {
        let mut headers = async_nats::HeaderMap::new();
        if let Some(at) = at {
            headers.insert(SESSION_OFFSET_HEADER_NAME, at.to_string());
        }
        if is_taken {
            headers.insert(SESSION_TAKEOVER_HEADER_NAME, "x");
        }
        StoredStreamMessage {
            sequence,
            headers,
            payload: Bytes::copy_from_slice(text.as_bytes()),
            time_ms: 0,
        }
    }

    #[test]
    fn a_gap_a_repetition_and_a_missing_offset_are_found() {
        for second in [
            message(2, Some(3), "b\n", false),
            message(2, Some(1), "b\n", false),
            message(2, None, "b\n", false),
            message(2, Some(u64::MAX), "b\n", true),
        ] {
            let mut bytes = StoredSessionBytes::default();
            bytes
                .append_message_payload(&message(1, Some(0), "a\n", false), "s")
                .unwrap();
            assert!(
                bytes.append_message_payload(&second, "s").is_err(),
                "{second:?}"
            );
        }
    }

    #[test]
    fn a_writer_that_takes_over_cuts_half_a_line_off() {
        let mut bytes = StoredSessionBytes::default();
        bytes
            .append_message_payload(&message(1, Some(0), "a\n", false), "s")
            .unwrap();
        bytes
            .append_message_payload(&message(4, Some(2), "half", false), "s")
            .unwrap();
        bytes
            .append_message_payload(&message(7, Some(2), "", true), "s")
            .unwrap();
        bytes
            .append_message_payload(&message(9, Some(2), "b\n", false), "s")
            .unwrap();
        assert_eq!(bytes.bytes, b"a\nb\n");
        assert_eq!(bytes.places, [(0, 1), (2, 9)]);
        let mut later = StoredSessionBytes::new_at_offset(10);
        assert!(
            later
                .append_message_payload(&message(11, Some(2), "", true), "s")
                .is_err()
        );
    }
}
