//! The lines of one session, as messages on its subject: creates, reads and takes over a session.
//!
//! Invariant: each append names the last message of the subject, and fails if another process has
//! appended since. A process that continues a session first appends a message of its own, so that
//! every later append of the previous writer is refused. Start from [`SessionSubject`].

use std::time::Duration;

use async_nats::HeaderMap;
use bytes::Bytes;

use crate::NatsError;
use crate::append::{AppendFailure, NewMessage, append_message};
use crate::link::{NatsLink, StoredMessage};
use crate::replay::{AT, SessionBytes, TAKEN, read_messages};

/// Header with the final length in bytes of a session whose lines are written in several messages.
/// Readers treat the session as absent until it has this length.
const WHOLE: &str = "Rind-Whole";

/// Maximum number of attempts to take a session over, each of which fails if its writer appends
/// during the read.
const MAX_RACES: usize = 20;

/// Maximum length of the payload of a message, in bytes.
pub(crate) const MAX_PART_BYTES: usize = 512 << 10;

/// The subject with the lines of a session.
#[derive(Clone, Debug)]
pub(crate) struct SessionSubject {
    pub(crate) link: NatsLink,
    pub(crate) stream: String,
    pub(crate) subject: String,
    pub(crate) patience: Duration,
}

/// Position at which the next message is appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AppendPlace {
    /// Sequence of the last message of the subject.
    pub(crate) sequence: u64,
    /// Length of the session in bytes.
    pub(crate) offset: u64,
}

/// A session that was taken over.
#[derive(Debug)]
pub(crate) struct TakenOverSession {
    pub(crate) place: AppendPlace,
    pub(crate) read: SessionBytes,
    /// Number of bytes of an incomplete last line, which was cut off the session.
    pub(crate) n_cut: usize,
}

impl SessionSubject {
    /// Returns the last message of the session; `None` if there is no session, or only an
    /// incomplete copy.
    pub(crate) async fn last(&self) -> Result<Option<StoredMessage>, NatsError> {
        let last = self.link.last(&self.stream, &self.subject).await?;
        Ok(last.filter(is_whole))
    }

    /// Returns the bytes of the session from a message on, given by its offset and sequence; `None`
    /// if there is no such session.
    pub(crate) async fn read(
        &self,
        (offset, sequence): (u64, u64),
    ) -> Result<Option<SessionBytes>, NatsError> {
        let Some(last) = self.last().await? else {
            return Ok(None);
        };
        let mut read = SessionBytes::from_offset(offset);
        let range = (sequence, last.sequence);
        read_messages(&self.link, &self.stream, &self.subject, range, &mut read).await?;
        Ok(Some(read))
    }

    /// Appends a part of the session at a position, and returns the next position.
    pub(crate) async fn append(
        &self,
        place: AppendPlace,
        headers: HeaderMap,
        payload: Bytes,
    ) -> Result<AppendPlace, AppendFailure> {
        let offset = place.offset + payload.len() as u64;
        let message = NewMessage {
            subject: self.subject.clone(),
            headers: with_offset(headers, place.offset),
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
        Ok(AppendPlace { sequence, offset })
    }

    /// Creates the session without lines; `None` if the subject already has messages.
    pub(crate) async fn create(&self) -> Result<Option<AppendPlace>, NatsError> {
        let first = AppendPlace {
            sequence: 0,
            offset: 0,
        };
        match self.append(first, HeaderMap::new(), Bytes::new()).await {
            Ok(place) => Ok(Some(place)),
            Err(AppendFailure::Fenced) => Ok(None),
            Err(AppendFailure::Failed(error)) => Err(error),
        }
    }

    /// Creates the session with these lines, which become visible all at once. Returns `false` if
    /// the subject already has messages.
    pub(crate) async fn create_whole(&self, lines: &[u8]) -> Result<bool, NatsError> {
        let mut whole = HeaderMap::new();
        whole.insert(WHOLE, lines.len().to_string());
        let mut place = AppendPlace {
            sequence: 0,
            offset: 0,
        };
        let mut parts: Vec<&[u8]> = lines.chunks(MAX_PART_BYTES).collect();
        if parts.is_empty() {
            parts.push(&[]);
        }
        for part in parts {
            let payload = Bytes::copy_from_slice(part);
            place = match self.append(place, whole.clone(), payload).await {
                Ok(place) => place,
                Err(AppendFailure::Fenced) => return Ok(false),
                Err(AppendFailure::Failed(error)) => return Err(error),
            };
        }
        Ok(true)
    }

    /// Removes the lines of the session. Subagents are not removed.
    pub(crate) async fn remove(&self) -> Result<(), NatsError> {
        self.link.purge(&self.stream, &self.subject).await
    }

    /// Takes the session over: reads it and appends a message, so that the previous writer's
    /// appends are refused. `None` if there is no such session. `writer` is stored in the message
    /// for operators who inspect it.
    pub(crate) async fn take(&self, writer: &str) -> Result<Option<TakenOverSession>, NatsError> {
        let mut read = SessionBytes::default();
        let mut from = 1;
        for _ in 0..MAX_RACES {
            let Some(last) = self.last().await? else {
                return Ok(None);
            };
            let range = (from, last.sequence);
            read_messages(&self.link, &self.stream, &self.subject, range, &mut read).await?;
            from = last.sequence + 1;
            let mended = repaired_end(&read.bytes);
            let place = AppendPlace {
                sequence: last.sequence,
                offset: read.start + mended.len as u64,
            };
            let mut headers = HeaderMap::new();
            headers.insert(TAKEN, writer);
            let added = Bytes::from_static(mended.added);
            match self.append(place, headers, added).await {
                Ok(place) => {
                    let n_cut = read.bytes.len() - mended.len;
                    read.bytes.truncate(mended.len);
                    read.bytes.extend_from_slice(mended.added);
                    return Ok(Some(TakenOverSession { place, read, n_cut }));
                }
                Err(AppendFailure::Fenced) => {}
                Err(AppendFailure::Failed(error)) => return Err(error),
            }
        }
        Err(NatsError::Damaged {
            what: format!("the session of {}", self.subject),
            why: "another program writes to it continuously".to_owned(),
        })
    }
}

fn with_offset(mut headers: HeaderMap, offset: u64) -> HeaderMap {
    headers.insert(AT, offset.to_string());
    headers
}

/// Whether a session exists, by its last message: a session that is written in several messages
/// exists once the last of them is stored.
pub(crate) fn is_whole(last: &StoredMessage) -> bool {
    let Some(whole) = last.number(WHOLE) else {
        return true;
    };
    length_after(last) >= whole
}

/// Returns the length of a session in bytes, by its last message.
pub(crate) fn length_after(last: &StoredMessage) -> u64 {
    let at = last.number(AT).unwrap_or_default();
    at.saturating_add(last.payload.len() as u64)
}

/// Repair of the end of a session, which the next append requires.
struct RepairedEnd {
    /// Number of bytes of the session that stay.
    len: usize,
    /// Bytes to append after them.
    added: &'static [u8],
}

/// Decides how the end of a session is repaired: a last line that only lacks its line feed gets
/// one, and any other incomplete line is cut off.
fn repaired_end(bytes: &[u8]) -> RepairedEnd {
    let last = bytes.iter().rposition(|byte| *byte == b'\n');
    let len = last.map_or(0, |at| at + 1);
    let rest = bytes.get(len..).unwrap_or_default();
    // No proper prefix of a JSON object parses as one.
    let is_complete = serde_json::from_slice::<serde_json::Map<_, _>>(rest).is_ok();
    match is_complete {
        true => RepairedEnd {
            len: bytes.len(),
            added: b"\n",
        },
        false => RepairedEnd { len, added: b"" },
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
            let mended = repaired_end(bytes.as_bytes());
            assert_eq!(
                (mended.len, mended.added),
                (len, added.as_bytes()),
                "{bytes}"
            );
        }
    }
}
