//! Stores large values of sessions in NATS, named by the hash of their content.
//!
//! A value is stored as one message per part, followed by a message whose subject contains the
//! value's length. This last message makes the value visible, and the length is known from subjects
//! alone. Sessions do not share values: copying a session copies its values, and removing it
//! removes them. Files of plugins are stored in the same format, but belong to the tenant.

use std::fmt::{self, Debug};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use async_nats::HeaderMap;
use bytes::Bytes;
use rind_lib::session::{BlobKind, Blobs, Error, SessionAddress, SessionBlobs};

use crate::NatsError;
use crate::link::MessageAppendOutcome;
use crate::log::MAX_LOG_MESSAGE_PAYLOAD_BYTES;
use crate::sessions::SharedNatsStoreState;
use crate::setup::LARGE_VALUES_STREAM_NAME_PART;

/// Token before the length in the subject of the last message, which completes a value.
const BLOB_LENGTH_SUBJECT_TOKEN: &str = "length";

/// Token that precedes the part's number in the subject of a message with a part of a value.
const BLOB_PART_SUBJECT_TOKEN: &str = "part";

/// Store for large values in NATS: for a session's values of one kind, for a session's files, or
/// for the files of plugins.
pub(crate) struct NatsBlobStore {
    parts: Arc<SharedNatsStoreState>,
    /// Owner of the large values, such as a session, for error messages.
    owner: String,
    place: BlobStreamAndSubjectPrefix,
}

/// Stream in which the values of one store are kept, and the prefix of their subjects.
#[derive(Clone)]
struct BlobStreamAndSubjectPrefix {
    stream: String,
    prefix: String,
}

impl Debug for NatsBlobStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("NatsBlobStore")
            .field(&self.place.prefix)
            .finish()
    }
}

impl NatsBlobStore {
    pub(crate) fn new(
        parts: Arc<SharedNatsStoreState>,
        at: &SessionAddress,
        kind: BlobKind,
    ) -> Self {
        let names = &parts.streams.names;
        let place = BlobStreamAndSubjectPrefix {
            stream: names.stream_name(
                LARGE_VALUES_STREAM_NAME_PART,
                names.partition_of_session(at),
            ),
            prefix: names.blob_subject_prefix(at, kind),
        };
        Self {
            owner: at.as_str().to_owned(),
            place,
            parts,
        }
    }

    /// Returns the store for the contents of a session's files.
    pub(crate) fn for_session_files(parts: Arc<SharedNatsStoreState>, at: &SessionAddress) -> Self {
        let names = &parts.streams.names;
        let place = BlobStreamAndSubjectPrefix {
            stream: names.stream_name(
                LARGE_VALUES_STREAM_NAME_PART,
                names.partition_of_session(at),
            ),
            prefix: names.files_prefix(at),
        };
        Self {
            owner: at.as_str().to_owned(),
            place,
            parts,
        }
    }

    /// Returns the store for the files of the tenant's plugins. Their prefix has `=plugins` in
    /// place of a session id, and no session id begins with `=`, so they cannot collide with the
    /// values of a session.
    pub(crate) fn for_plugin_files(parts: Arc<SharedNatsStoreState>) -> Self {
        let names = &parts.streams.names;
        let place = BlobStreamAndSubjectPrefix {
            stream: names.stream_name(LARGE_VALUES_STREAM_NAME_PART, 0),
            prefix: names.plugin_files_prefix(),
        };
        Self {
            owner: "plugins".to_owned(),
            place,
            parts,
        }
    }

    /// Stores a value without checking whether it is already stored.
    pub(crate) fn store_value_unconditionally(
        &self,
        name: &str,
        bytes: &[u8],
    ) -> Result<(), NatsError> {
        let (parts, place) = (self.parts.clone(), self.place.clone());
        let (name, bytes) = (name.to_owned(), Bytes::copy_from_slice(bytes));
        self.parts.runtime.block_on(async move {
            let of_value = format!("{}.{name}", place.prefix);
            for number in 0..count_blob_parts(bytes.len()) {
                let from = number * MAX_LOG_MESSAGE_PAYLOAD_BYTES;
                let part = bytes.slice(from..bytes.len().min(from + MAX_LOG_MESSAGE_PAYLOAD_BYTES));
                store_message_with_retries(
                    &parts,
                    format!("{of_value}.{BLOB_PART_SUBJECT_TOKEN}.{number}"),
                    part,
                )
                .await?;
            }
            let subject = format!("{of_value}.{BLOB_LENGTH_SUBJECT_TOKEN}.{}", bytes.len());
            store_message_with_retries(&parts, subject, Bytes::new()).await
        })
    }

    /// Returns the name and the length of each stored value.
    pub(crate) fn list_names_and_lengths(&self) -> Result<Vec<(String, u64)>, NatsError> {
        let filter = format!("{}.*.{BLOB_LENGTH_SUBJECT_TOKEN}.*", self.place.prefix);
        self.list_values_matching(filter)
    }

    fn list_values_matching(&self, filter: String) -> Result<Vec<(String, u64)>, NatsError> {
        let (link, place) = (self.parts.link.clone(), self.place.clone());
        self.parts.runtime.block_on(async move {
            let subjects = link.list_subjects(&place.stream, &filter).await?;
            Ok(subjects
                .iter()
                .filter_map(|subject| blob_name_and_length(subject))
                .collect())
        })
    }

    pub(crate) fn stored_value_length(&self, name: &str) -> Result<Option<u64>, NatsError> {
        let filter = format!("{}.{name}.{BLOB_LENGTH_SUBJECT_TOKEN}.*", self.place.prefix);
        Ok(self
            .list_values_matching(filter)?
            .pop()
            .map(|(_, length)| length))
    }

    fn to_store_error(&self, error: NatsError) -> Error {
        error.into_store_error(&self.parts.name)
    }
}

impl Blobs for NatsBlobStore {
    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        if !is_hash_name(name) {
            return Err(self.damaged_blob_error(name));
        }
        if self
            .stored_value_length(name)
            .map_err(|error| self.to_store_error(error))?
            .is_some()
        {
            return Ok(());
        }
        self.store_value_unconditionally(name, bytes)
            .map_err(|error| self.to_store_error(error))
    }

    fn get(&self, name: &str) -> Result<Vec<u8>, Error> {
        if !is_hash_name(name) {
            return Err(self.damaged_blob_error(name));
        }
        let length = self
            .stored_value_length(name)
            .map_err(|error| self.to_store_error(error))?;
        let length = length.and_then(|length| usize::try_from(length).ok());
        let length = length.ok_or_else(|| self.damaged_blob_error(name))?;
        let (link, place, of_value) =
            (self.parts.link.clone(), self.place.clone(), name.to_owned());
        let read = self.parts.runtime.block_on(async move {
            let mut value = Vec::new();
            for number in 0..count_blob_parts(length) {
                let subject = format!(
                    "{}.{of_value}.{BLOB_PART_SUBJECT_TOKEN}.{number}",
                    place.prefix
                );
                // Check the size: the length comes from a subject and may be wrong.
                match link.last_message(&place.stream, &subject).await? {
                    Some(part) if value.len() + part.payload.len() <= length => {
                        value.extend_from_slice(&part.payload);
                    }
                    _ => return Ok(None),
                }
            }
            Ok(Some(value))
        });
        let value = read.map_err(|error| self.to_store_error(error))?;
        let value = value.ok_or_else(|| self.damaged_blob_error(name))?;
        if SessionBlobs::compute_blob_id(&value) != name {
            return Err(self.damaged_blob_error(name));
        }
        Ok(value)
    }

    fn length(&self, name: &str) -> Option<u64> {
        if !is_hash_name(name) {
            return None;
        }
        self.stored_value_length(name).ok().flatten()
    }

    fn total(&self) -> Result<u64, Error> {
        let listed = self
            .list_names_and_lengths()
            .map_err(|error| self.to_store_error(error))?;
        Ok(listed.iter().map(|(_, length)| length).sum())
    }

    fn names(&self) -> Result<Vec<String>, Error> {
        let listed = self
            .list_names_and_lengths()
            .map_err(|error| self.to_store_error(error))?;
        let mut names: Vec<String> = listed.into_iter().map(|(name, _)| name).collect();
        names.sort();
        Ok(names)
    }

    /// Removes a value. Only logs a failure, because an unused value merely wastes space.
    fn release(&self, name: &str) {
        if !is_hash_name(name) {
            return;
        }
        let (link, stream) = (self.parts.link.clone(), self.place.stream.clone());
        let filter = format!("{}.{name}.>", self.place.prefix);
        let removed = self
            .parts
            .runtime
            .block_on(async move { link.purge_messages(&stream, &filter).await });
        if let Err(error) = removed {
            tracing::debug!(%error, "an unused value was not removed");
        }
    }

    fn damaged_blob_error(&self, name: &str) -> Error {
        let shown = rind_lib::text::escape_and_truncate_line(name, 70);
        Error::Blob {
            path: PathBuf::from(&self.parts.name)
                .join(&self.owner)
                .join(shown),
        }
    }
}

/// Returns the number of parts for a value of this length, in bytes.
fn count_blob_parts(length: usize) -> usize {
    length.div_ceil(MAX_LOG_MESSAGE_PAYLOAD_BYTES)
}

/// Returns the name and the length of a value from the subject of its last message.
fn blob_name_and_length(subject: &str) -> Option<(String, u64)> {
    let mut tokens = subject.rsplit('.');
    let (length, word, name) = (tokens.next()?, tokens.next()?, tokens.next()?);
    (word == BLOB_LENGTH_SUBJECT_TOKEN).then_some((name.to_owned(), length.parse().ok()?))
}

/// Stores a message. Retries until the message is stored or the timeout `patience` expires. The
/// subject determines the content, so storing a message twice is harmless.
async fn store_message_with_retries(
    parts: &SharedNatsStoreState,
    subject: String,
    payload: Bytes,
) -> Result<(), NatsError> {
    let began = Instant::now();
    loop {
        let sent = parts
            .link
            .publish(&subject, HeaderMap::new(), payload.clone());
        let error = match sent.await {
            MessageAppendOutcome::Stored(_) => return Ok(()),
            MessageAppendOutcome::Refused => {
                NatsError::from_jetstream_refusal("storing a value", 0, "it was refused")
            }
            MessageAppendOutcome::Unclear(error) => error,
        };
        if began.elapsed() >= parts.patience {
            return Err(error);
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
}

/// Whether a text has the form of a value's name: a BLAKE3 hash in lowercase hex.
fn is_hash_name(name: &str) -> bool {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    name.len() == 64 && name.bytes().all(is_digit)
}
