//! Stores the lines of a session as messages on a subject: creates, reads and takes over sessions.
//!
//! Invariant: each append contains the sequence of the subject's last message, and fails if another
//! process has appended since. A process that continues a session first appends a message, so that
//! every later append of the previous writer is refused. Start from [`SessionNatsSubject`].

use std::time::Duration;

use async_nats::HeaderMap;
use bytes::Bytes;

use crate::NatsError;
use crate::append::{StreamAppendError, StreamMessageToAppend, append_message};
use crate::link::{NatsConnection, StoredStreamMessage};
use crate::replay::{
    SESSION_OFFSET_HEADER_NAME, SESSION_TAKEOVER_HEADER_NAME, StoredSessionBytes,
    read_subject_messages,
};

/// Header with the final length in bytes of a session whose lines are written in several messages.
/// Readers treat the session as absent until it has this length.
const SESSION_FINAL_LENGTH_HEADER_NAME: &str = "Rind-Whole";

/// Maximum number of attempts to take a session over. An attempt fails if the session's writer
/// appends during the read.
const MAX_SESSION_TAKEOVER_ATTEMPTS: usize = 20;

/// Maximum length of the payload of a message, in bytes.
pub(crate) const MAX_LOG_MESSAGE_PAYLOAD_BYTES: usize = 512 << 10;

/// NATS subject whose messages contain the lines of a session.
#[derive(Clone, Debug)]
pub(crate) struct SessionNatsSubject {
    pub(crate) link: NatsConnection,
    pub(crate) stream: String,
    pub(crate) subject: String,
    pub(crate) patience: Duration,
}

/// Position in the stored lines of a session at which the next message is appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SessionAppendPosition {
    /// Sequence number of the last message of the session's subject in the stream.
    pub(crate) sequence: u64,
    /// Length of the stored session, in bytes.
    pub(crate) offset: u64,
}

/// Content of a session that was taken over, and the position for the next append.
#[derive(Debug)]
pub(crate) struct TakenOverSessionContent {
    pub(crate) place: SessionAppendPosition,
    pub(crate) read: StoredSessionBytes,
    /// Number of bytes of an incomplete last line that was removed from the session.
    pub(crate) n_cut: usize,
}

impl SessionNatsSubject {
    /// Returns the last message of the session; `None` if there is no session, or only an
    /// incomplete copy.
    pub(crate) async fn last_message(&self) -> Result<Option<StoredStreamMessage>, NatsError> {
        let last = self.link.last_message(&self.stream, &self.subject).await?;
        Ok(last.filter(is_complete_session))
    }

    /// Returns the bytes of the session from the message with this offset in the session and this
    /// sequence number in the stream; `None` if there is no such session.
    pub(crate) async fn read(
        &self,
        (offset, sequence): (u64, u64),
    ) -> Result<Option<StoredSessionBytes>, NatsError> {
        let Some(last) = self.last_message().await? else {
            return Ok(None);
        };
        let mut read = StoredSessionBytes::new_at_offset(offset);
        let range = (sequence, last.sequence);
        read_subject_messages(&self.link, &self.stream, &self.subject, range, &mut read).await?;
        Ok(Some(read))
    }

    /// Appends a part of the session at a position, and returns the next position.
    pub(crate) async fn append(
        &self,
        place: SessionAppendPosition,
        headers: HeaderMap,
        payload: Bytes,
    ) -> Result<SessionAppendPosition, StreamAppendError> {
        let offset = place.offset + payload.len() as u64;
        let message = StreamMessageToAppend {
            subject: self.subject.clone(),
            headers: with_offset_header(headers, place.offset),
            payload,
        };
        let appended = append_message(
            &self.link,
            &self.stream,
            message,
            place.sequence,
            self.patience,
        );
        let sequence = appended.await?;
        Ok(SessionAppendPosition { sequence, offset })
    }

    /// Creates the session with no lines; `None` if the subject already has messages.
    pub(crate) async fn create_empty_session(
        &self,
    ) -> Result<Option<SessionAppendPosition>, NatsError> {
        let first = SessionAppendPosition {
            sequence: 0,
            offset: 0,
        };
        match self.append(first, HeaderMap::new(), Bytes::new()).await {
            Ok(place) => Ok(Some(place)),
            Err(StreamAppendError::Fenced) => Ok(None),
            Err(StreamAppendError::Failed(error)) => Err(error),
        }
    }

    /// Creates the session with these lines. The session becomes visible when all lines are stored.
    /// Returns `false` if the subject already has messages.
    pub(crate) async fn create_session_with_content(
        &self,
        lines: &[u8],
    ) -> Result<bool, NatsError> {
        let mut whole = HeaderMap::new();
        whole.insert(SESSION_FINAL_LENGTH_HEADER_NAME, lines.len().to_string());
        let mut place = SessionAppendPosition {
            sequence: 0,
            offset: 0,
        };
        let mut parts: Vec<&[u8]> = lines.chunks(MAX_LOG_MESSAGE_PAYLOAD_BYTES).collect();
        if parts.is_empty() {
            parts.push(&[]);
        }
        for part in parts {
            let payload = Bytes::copy_from_slice(part);
            place = match self.append(place, whole.clone(), payload).await {
                Ok(place) => place,
                Err(StreamAppendError::Fenced) => return Ok(false),
                Err(StreamAppendError::Failed(error)) => return Err(error),
            };
        }
        Ok(true)
    }

    /// Removes the lines of the session, but not those of its subagents.
    pub(crate) async fn remove_messages(&self) -> Result<(), NatsError> {
        self.link.purge_messages(&self.stream, &self.subject).await
    }

    /// Takes the session over: reads it and appends a message, so that the previous writer's
    /// appends are refused. `None` if there is no such session. `writer` is stored in the message
    /// for operators who inspect it.
    pub(crate) async fn take_over_session_log(
        &self,
        writer: &str,
    ) -> Result<Option<TakenOverSessionContent>, NatsError> {
        let mut read = StoredSessionBytes::default();
        let mut from = 1;
        for _ in 0..MAX_SESSION_TAKEOVER_ATTEMPTS {
            let Some(last) = self.last_message().await? else {
                return Ok(None);
            };
            let range = (from, last.sequence);
            read_subject_messages(&self.link, &self.stream, &self.subject, range, &mut read)
                .await?;
            from = last.sequence + 1;
            let mended = plan_incomplete_line_repair(&read.bytes);
            let place = SessionAppendPosition {
                sequence: last.sequence,
                offset: read.start + mended.len as u64,
            };
            let mut headers = HeaderMap::new();
            headers.insert(SESSION_TAKEOVER_HEADER_NAME, writer);
            let added = Bytes::from_static(mended.added);
            match self.append(place, headers, added).await {
                Ok(place) => {
                    let n_cut = read.bytes.len() - mended.len;
                    read.bytes.truncate(mended.len);
                    read.bytes.extend_from_slice(mended.added);
                    return Ok(Some(TakenOverSessionContent { place, read, n_cut }));
                }
                Err(StreamAppendError::Fenced) => {}
                Err(StreamAppendError::Failed(error)) => return Err(error),
            }
        }
        Err(NatsError::Damaged {
            what: format!("the session of {}", self.subject),
            why: "another program writes to it continuously".to_owned(),
        })
    }
}

fn with_offset_header(mut headers: HeaderMap, offset: u64) -> HeaderMap {
    headers.insert(SESSION_OFFSET_HEADER_NAME, offset.to_string());
    headers
}

/// Whether the last message of a session completes it. A copied session, which is written in
/// several messages, exists only when the last of them is stored.
pub(crate) fn is_complete_session(last: &StoredStreamMessage) -> bool {
    let Some(whole) = last.numeric_header(SESSION_FINAL_LENGTH_HEADER_NAME) else {
        return true;
    };
    session_length_after_message(last) >= whole
}

/// Computes the length of a session in bytes from its last message.
pub(crate) fn session_length_after_message(last: &StoredStreamMessage) -> u64 {
    let at = last
        .numeric_header(SESSION_OFFSET_HEADER_NAME)
        .unwrap_or_default();
    at.saturating_add(last.payload.len() as u64)
}

/// Repair of an incomplete last line, which is required before the next append.
struct IncompleteLineRepair {
    /// Number of bytes, from the start of the session, that the repair keeps.
    len: usize,
    /// Bytes that the repair appends after the kept bytes.
    added: &'static [u8],
}

/// Determines the repair of a session's end. Adds the line feed if the last line lacks only that,
/// and removes any other incomplete line.
fn plan_incomplete_line_repair(bytes: &[u8]) -> IncompleteLineRepair {
    let last = bytes.iter().rposition(|byte| *byte == b'\n');
    let len = last.map_or(0, |at| at + 1);
    let rest = bytes.get(len..).unwrap_or_default();
    // A line that parses is complete: no proper prefix of a JSON object is a JSON object.
    let is_complete = serde_json::from_slice::<serde_json::Map<_, _>>(rest).is_ok();
    match is_complete {
        true => IncompleteLineRepair {
            len: bytes.len(),
            added: b"\n",
        },
        false => IncompleteLineRepair { len, added: b"" },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_line_feed_of_a_complete_line_is_added() {
        for (bytes, len, added) in [
            ("", 0, ""),
            ("{}\n", 3, ""),
            ("{}\n{\"a\":1}", 10, "\n"),
            ("{}\n{\"a\":1", 3, ""),
            ("{}\n12", 3, ""),
            ("half", 0, ""),
        ] {
            let mended = plan_incomplete_line_repair(bytes.as_bytes());
            assert_eq!(
                (mended.len, mended.added),
                (len, added.as_bytes()),
                "{bytes}"
            );
        }
    }
}
