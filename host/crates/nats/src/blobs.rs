//! Large values of sessions, by the hash of their content.
//!
//! A value is stored as messages with its parts, followed by one whose subject contains its length;
//! that last message makes the value visible. So the length of a value is known from subjects
//! alone. Values are not shared between sessions: copying a session copies them, and removing it
//! removes them. Files of plugins are values of the tenant.

use std::fmt::{self, Debug};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use async_nats::HeaderMap;
use bytes::Bytes;
use rind_lib::session::{BlobKind, Blobs, Error, SessionAddress, SessionBlobs};

use crate::NatsError;
use crate::link::AppendAnswer;
use crate::log::MAX_PART_BYTES;
use crate::sessions::StoreParts;
use crate::setup::VALUES;

/// Token before the length, in the subject of the message that makes a value complete.
const LENGTH: &str = "length";

/// Token before the number of a part.
const PART: &str = "part";

/// The values of one kind of one session.
pub(crate) struct NatsBlobs {
    parts: Arc<StoreParts>,
    /// Owner of the values, for messages.
    owner: String,
    place: ValuePlace,
}

/// Stream and subjects of the values.
#[derive(Clone)]
struct ValuePlace {
    stream: String,
    prefix: String,
}

impl Debug for NatsBlobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("NatsBlobs")
            .field(&self.place.prefix)
            .finish()
    }
}

impl NatsBlobs {
    pub(crate) fn new(parts: Arc<StoreParts>, at: &SessionAddress, kind: BlobKind) -> Self {
        let names = &parts.streams.names;
        let place = ValuePlace {
            stream: names.stream(VALUES, names.partition(at)),
            prefix: names.values(at, kind),
        };
        Self {
            owner: at.as_str().to_owned(),
            place,
            parts,
        }
    }

    /// Returns the contents of a session's files.
    pub(crate) fn of_files(parts: Arc<StoreParts>, at: &SessionAddress) -> Self {
        let names = &parts.streams.names;
        let place = ValuePlace {
            stream: names.stream(VALUES, names.partition(at)),
            prefix: names.files(at),
        };
        Self {
            owner: at.as_str().to_owned(),
            place,
            parts,
        }
    }

    /// Returns the files of plugins of the tenant. No session has an id that begins with `=`.
    pub(crate) fn of_plugins(parts: Arc<StoreParts>) -> Self {
        let names = &parts.streams.names;
        let place = ValuePlace {
            stream: names.stream(VALUES, 0),
            prefix: names.plugin_files(),
        };
        Self {
            owner: "plugins".to_owned(),
            place,
            parts,
        }
    }

    /// Stores a value that is not known to be stored.
    pub(crate) fn put_new(&self, name: &str, bytes: &[u8]) -> Result<(), NatsError> {
        let (parts, place) = (self.parts.clone(), self.place.clone());
        let (name, bytes) = (name.to_owned(), Bytes::copy_from_slice(bytes));
        self.parts.runtime.wait(async move {
            let of_value = format!("{}.{name}", place.prefix);
            for number in 0..n_parts(bytes.len()) {
                let from = number * MAX_PART_BYTES;
                let part = bytes.slice(from..bytes.len().min(from + MAX_PART_BYTES));
                store_message(&parts, format!("{of_value}.{PART}.{number}"), part).await?;
            }
            let subject = format!("{of_value}.{LENGTH}.{}", bytes.len());
            store_message(&parts, subject, Bytes::new()).await
        })
    }

    /// Returns names and lengths of all values.
    pub(crate) fn listed(&self) -> Result<Vec<(String, u64)>, NatsError> {
        let filter = format!("{}.*.{LENGTH}.*", self.place.prefix);
        self.find(filter)
    }

    fn find(&self, filter: String) -> Result<Vec<(String, u64)>, NatsError> {
        let (link, place) = (self.parts.link.clone(), self.place.clone());
        self.parts.runtime.wait(async move {
            let subjects = link.subjects(&place.stream, &filter).await?;
            Ok(subjects
                .iter()
                .filter_map(|subject| name_and_length(subject))
                .collect())
        })
    }

    pub(crate) fn known_length(&self, name: &str) -> Result<Option<u64>, NatsError> {
        let filter = format!("{}.{name}.{LENGTH}.*", self.place.prefix);
        Ok(self.find(filter)?.pop().map(|(_, length)| length))
    }

    fn in_store(&self, error: NatsError) -> Error {
        error.in_store(&self.parts.name)
    }
}

impl Blobs for NatsBlobs {
    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        if !is_hash_name(name) {
            return Err(self.damaged(name));
        }
        if self
            .known_length(name)
            .map_err(|error| self.in_store(error))?
            .is_some()
        {
            return Ok(());
        }
        self.put_new(name, bytes)
            .map_err(|error| self.in_store(error))
    }

    fn get(&self, name: &str) -> Result<Vec<u8>, Error> {
        if !is_hash_name(name) {
            return Err(self.damaged(name));
        }
        let length = self
            .known_length(name)
            .map_err(|error| self.in_store(error))?;
        let length = length.and_then(|length| usize::try_from(length).ok());
        let length = length.ok_or_else(|| self.damaged(name))?;
        let (link, place, of_value) =
            (self.parts.link.clone(), self.place.clone(), name.to_owned());
        let read = self.parts.runtime.wait(async move {
            let mut value = Vec::new();
            for number in 0..n_parts(length) {
                let subject = format!("{}.{of_value}.{PART}.{number}", place.prefix);
                // The length is from a subject, and any number of parts may be missing.
                match link.last(&place.stream, &subject).await? {
                    Some(part) if value.len() + part.payload.len() <= length => {
                        value.extend_from_slice(&part.payload);
                    }
                    _ => return Ok(None),
                }
            }
            Ok(Some(value))
        });
        let value = read.map_err(|error| self.in_store(error))?;
        let value = value.ok_or_else(|| self.damaged(name))?;
        if SessionBlobs::bytes_id(&value) != name {
            return Err(self.damaged(name));
        }
        Ok(value)
    }

    fn length(&self, name: &str) -> Option<u64> {
        if !is_hash_name(name) {
            return None;
        }
        self.known_length(name).ok().flatten()
    }

    fn total(&self) -> Result<u64, Error> {
        let listed = self.listed().map_err(|error| self.in_store(error))?;
        Ok(listed.iter().map(|(_, length)| length).sum())
    }

    fn names(&self) -> Result<Vec<String>, Error> {
        let listed = self.listed().map_err(|error| self.in_store(error))?;
        let mut names: Vec<String> = listed.into_iter().map(|(name, _)| name).collect();
        names.sort();
        Ok(names)
    }

    /// A failure only wastes space.
    fn release(&self, name: &str) {
        if !is_hash_name(name) {
            return;
        }
        let (link, stream) = (self.parts.link.clone(), self.place.stream.clone());
        let filter = format!("{}.{name}.>", self.place.prefix);
        let removed = self
            .parts
            .runtime
            .wait(async move { link.purge(&stream, &filter).await });
        if let Err(error) = removed {
            tracing::debug!(%error, "an unused value was not removed");
        }
    }

    fn damaged(&self, name: &str) -> Error {
        let shown = rind_lib::text::clean_line(name, 70);
        Error::Blob {
            path: PathBuf::from(&self.parts.name)
                .join(&self.owner)
                .join(shown),
        }
    }
}

/// Returns the number of messages for a value of this length.
fn n_parts(length: usize) -> usize {
    length.div_ceil(MAX_PART_BYTES)
}

/// Returns the name and the length of a value from the subject that makes it complete.
fn name_and_length(subject: &str) -> Option<(String, u64)> {
    let mut tokens = subject.rsplit('.');
    let (length, word, name) = (tokens.next()?, tokens.next()?, tokens.next()?);
    (word == LENGTH).then_some((name.to_owned(), length.parse().ok()?))
}

/// Stores a message whose content follows from its subject, so that sending it twice is harmless.
async fn store_message(
    parts: &StoreParts,
    subject: String,
    payload: Bytes,
) -> Result<(), NatsError> {
    let began = Instant::now();
    loop {
        let sent = parts
            .link
            .publish(&subject, HeaderMap::new(), payload.clone());
        let error = match sent.await {
            AppendAnswer::Stored(_) => return Ok(()),
            AppendAnswer::Refused => NatsError::refused("storing a value", 0, "it was refused"),
            AppendAnswer::Unclear(error) => error,
        };
        if began.elapsed() >= parts.patience {
            return Err(error);
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
}

/// Whether a text is a BLAKE3 hash as values are named.
fn is_hash_name(name: &str) -> bool {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    name.len() == 64 && name.bytes().all(is_digit)
}
