//! Sets of plugins for a fleet: the signed record of which plugins all workers of a tenant, or of
//! one of its classes of workers, run.
//!
//! Records are stored in a key-value bucket: the last message of a key is the record that applies,
//! and earlier ones are its history. Files are stored as values of the tenant by their hash, before
//! the record that names them. The servers are trusted with neither: a record is accepted by its
//! signature, and a file by its hash. The module must not know how plugins are loaded. Start from
//! [`PluginSets`].

mod record;
mod signature;

use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::stream;
use async_nats::{HeaderMap, Subscriber};
use bytes::Bytes;
use futures_util::StreamExt;
use rind_lib::session::{self, Blobs, SessionBlobs};

pub use self::record::{PluginSetRecord, SetFile, SetPlugin, file_names};
pub use self::signature::{PluginSetKey, SignedSet, check_public_key};
use crate::blobs::NatsBlobs;
use crate::link::{AppendAnswer, StoredMessage};
use crate::sessions::StoreParts;
use crate::setup::{NO_STREAM, ensure_stream};
use crate::worker::{class_error, is_class};
use crate::{NatsError, NatsSessions};

/// Maximum number of records that the bucket keeps for each key.
const HISTORY: i64 = 64;

/// Interval at which a program checks for a new record even without a notification.
const LOOK: Duration = Duration::from_secs(10);

/// Minimum interval between two checks: every client that may publish can send notifications.
const REST: Duration = Duration::from_millis(250);

/// The sets of plugins of a tenant. Cheap to clone.
#[derive(Clone)]
pub struct PluginSets {
    parts: Arc<StoreParts>,
}

/// Position at which the next record of a tenant or a class is published.
#[derive(Clone, Debug)]
pub struct NextSet {
    /// Sequence of the last message of the key, which the next record must follow; 0 without one.
    sequence: u64,
    /// Last record, or the reason why it is refused; `None` if there is none.
    pub last: Option<Result<SignedSet, String>>,
}

impl std::fmt::Debug for PluginSets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("PluginSets").field(&self.parts.name).finish()
    }
}

impl PluginSets {
    /// Returns the sets of plugins of the store's tenant.
    #[must_use]
    pub fn of(sessions: &NatsSessions) -> Self {
        Self {
            parts: sessions.parts().clone(),
        }
    }

    /// Returns the name of the tenant.
    #[must_use]
    pub fn tenant(&self) -> &str {
        self.parts.streams.names.tenant()
    }

    /// Returns the set that applies to workers of a class: the one of the class, or else the one of
    /// the tenant. `None` if neither was published.
    ///
    /// # Errors
    /// The record is signed with none of these keys, is for another tenant or class, or exceeds a
    /// limit, or the servers do not answer.
    pub async fn find(&self, class: &str, keys: &[String]) -> Result<Option<SignedSet>, NatsError> {
        for class in [Some(class), None] {
            if let Some(last) = self.last(class).await? {
                return self.read(&last, class, keys).map(Some);
            }
        }
        Ok(None)
    }

    /// Whether a set is published that applies to workers of a class; without a class, whether any
    /// set is published. Verifies nothing: a program without a key needs this only to refuse to run
    /// turns.
    ///
    /// # Errors
    /// The servers do not answer.
    pub async fn is_published(&self, class: Option<&str>) -> Result<bool, NatsError> {
        let Some(class) = class else {
            let all = format!("$KV.{}.>", self.bucket());
            return Ok(self.next(&self.stream(), &all, 1).await?.is_some());
        };
        Ok(self.last(Some(class)).await?.is_some() || self.last(None).await?.is_some())
    }

    /// Returns the set with this digest from the history of a class or of the tenant, if the bucket
    /// still has it.
    ///
    /// # Errors
    /// The servers do not answer.
    pub async fn find_earlier(
        &self,
        class: &str,
        keys: &[String],
        digest: &str,
    ) -> Result<Option<SignedSet>, NatsError> {
        for class in [Some(class), None] {
            let mut from = 1;
            let (stream, subject) = (self.stream(), self.subject(class));
            // A stream that another program created may keep more records.
            for _ in 0..HISTORY {
                let Some(message) = self.next(&stream, &subject, from).await? else {
                    break;
                };
                from = message.sequence.saturating_add(1);
                let set = self.read(&message, class, keys);
                if let Some(set) = set.ok().filter(|set| set.digest == digest) {
                    return Ok(Some(set));
                }
            }
        }
        Ok(None)
    }

    /// Returns the position of the next record of the tenant or of a class. `keys` verify the last
    /// record.
    ///
    /// # Errors
    /// The name of the class is invalid, or the servers do not answer.
    pub async fn next_set(
        &self,
        class: Option<&str>,
        keys: &[String],
    ) -> Result<NextSet, NatsError> {
        if let Some(wrong) = class.filter(|class| !is_class(class)) {
            return Err(class_error(wrong));
        }
        let last = self.last(class).await?;
        Ok(NextSet {
            sequence: last.as_ref().map_or(0, |last| last.sequence),
            last: last.map(|last| self.check_set(&last, class, keys)),
        })
    }

    /// Signs a record and stores it after the last one at `place`. Its files must be stored before.
    ///
    /// # Errors
    /// The record is for another tenant or exceeds a limit, another program has stored a record
    /// since, or the servers do not answer.
    pub async fn publish(
        &self,
        place: &NextSet,
        key: &PluginSetKey,
        record: PluginSetRecord,
    ) -> Result<SignedSet, NatsError> {
        let class = record.class.clone();
        let refused = |why: String| self.refusal(class.as_deref(), why);
        if record.tenant != self.tenant() {
            return Err(refused("it is for another tenant".to_owned()));
        }
        let (set, bytes) = signature::sign(key, record).map_err(refused)?;
        ensure_stream(&self.parts.link, self.config(), self.parts.patience).await?;
        let link = &self.parts.link;
        let (subject, headers) = (self.subject(class.as_deref()), HeaderMap::new());
        let stored = link.append_at(&subject, place.sequence, headers, Bytes::from(bytes));
        match stored.await {
            AppendAnswer::Stored(_) => Ok(set),
            AppendAnswer::Refused => Err(refused(
                "another program has published one at the same time: look at it with `rind cluster plugins show`, and \
                 publish again"
                    .to_owned(),
            )),
            AppendAnswer::Unclear(error) => Err(error),
        }
    }

    /// Stores the content of a file, unless it is stored already. Blocks.
    ///
    /// # Errors
    /// The servers do not answer, or refuse the content.
    pub fn put_file(&self, bytes: &[u8]) -> Result<SetFile, NatsError> {
        let blobs = NatsBlobs::of_plugins(self.parts.clone());
        let hash = SessionBlobs::bytes_id(bytes);
        if content_of(&blobs, &hash)?.is_none() {
            // Remove parts that are stored under this hash but are incomplete or wrong.
            blobs.release(&hash);
            blobs.put_new(&hash, bytes)?;
        }
        Ok(SetFile {
            hash,
            bytes: bytes.len() as u64,
        })
    }

    /// Returns the content of a file. Blocks.
    ///
    /// # Errors
    /// The file is missing, its content has another hash or length, or the servers do not answer.
    pub fn file(&self, file: &SetFile) -> Result<Vec<u8>, NatsError> {
        let blobs = NatsBlobs::of_plugins(self.parts.clone());
        // Check the length before the parts are fetched, because any client that may publish can
        // store a file of any length.
        let length = blobs.known_length(&file.hash)?;
        let damaged = |why: &str| NatsError::Damaged {
            what: format!("the file {} of a set of plugins", file.hash),
            why: why.to_owned(),
        };
        match length {
            None => Err(damaged("it is missing; publish the set again")),
            Some(length) if length != file.bytes => Err(damaged("it has another length")),
            Some(_) => content_of(&blobs, &file.hash)?
                .ok_or_else(|| damaged("its content is missing or another; publish the set again")),
        }
    }

    /// Subscribes to changes of the sets.
    ///
    /// # Errors
    /// The servers do not answer.
    pub async fn changes(&self) -> Result<SetChanges, NatsError> {
        let all = format!("$KV.{}.>", self.bucket());
        let told = self.parts.link.client().subscribe(all).await;
        let told = told.map_err(|error| NatsError::unanswered("the wait for changes", error))?;
        Ok(SetChanges(told))
    }

    /// Verifies the record in a message, which must be for this tenant and class.
    fn read(
        &self,
        message: &StoredMessage,
        class: Option<&str>,
        keys: &[String],
    ) -> Result<SignedSet, NatsError> {
        let checked = self.check_set(message, class, keys);
        checked.map_err(|why| self.refusal(class, why))
    }

    fn check_set(
        &self,
        message: &StoredMessage,
        class: Option<&str>,
        keys: &[String],
    ) -> Result<SignedSet, String> {
        let set = signature::verify(&message.payload, keys)?;
        let (tenant, of_class) = (&set.record.tenant, set.record.class.as_deref());
        if tenant != self.tenant() {
            return Err(format!(
                "it is a record for the tenant {}",
                rind_lib::text::clean_line(tenant, 40)
            ));
        }
        if of_class != class {
            return Err(match of_class {
                Some(other) => format!(
                    "it is a record for the class {}",
                    rind_lib::text::clean_line(other, 40)
                ),
                None => "it is a record for the whole tenant".to_owned(),
            });
        }
        Ok(set)
    }

    fn refusal(&self, class: Option<&str>, why: String) -> NatsError {
        let of = match class {
            Some(class) => format!("the class {class} of the tenant {}", self.tenant()),
            None => format!("the tenant {}", self.tenant()),
        };
        NatsError::PluginSet { of, why }
    }

    async fn last(&self, class: Option<&str>) -> Result<Option<StoredMessage>, NatsError> {
        let (stream, subject) = (self.stream(), self.subject(class));
        absent_without_stream(self.parts.link.last(&stream, &subject).await)
    }

    async fn next(
        &self,
        stream: &str,
        subject: &str,
        from: u64,
    ) -> Result<Option<StoredMessage>, NatsError> {
        absent_without_stream(self.parts.link.next(stream, subject, from).await)
    }

    fn bucket(&self) -> String {
        format!("rind-{}-plugins", self.tenant())
    }

    fn stream(&self) -> String {
        format!("KV_{}", self.bucket())
    }

    fn subject(&self, class: Option<&str>) -> String {
        match class {
            Some(class) => format!("$KV.{}.class.{class}", self.bucket()),
            None => format!("$KV.{}.tenant", self.bucket()),
        }
    }

    /// Returns the configuration of the stream. It is that of a key-value bucket, so that the tools
    /// of NATS can show the records.
    fn config(&self) -> stream::Config {
        stream::Config {
            name: self.stream(),
            subjects: vec![format!("$KV.{}.>", self.bucket())],
            discard: stream::DiscardPolicy::New,
            max_messages_per_subject: HISTORY,
            allow_rollup: true,
            deny_delete: true,
            allow_direct: true,
            num_replicas: self.parts.streams.replicas,
            duplicate_window: Duration::from_secs(1),
            ..stream::Config::default()
        }
    }
}

/// Subscription to changes of the sets of a tenant.
#[derive(Debug)]
pub struct SetChanges(Subscriber);

impl SetChanges {
    /// Waits until a set may have changed: until a notification, or until the interval of checks
    /// has passed.
    pub async fn changed(&mut self) {
        tokio::time::sleep(REST).await;
        let _ = tokio::time::timeout(LOOK, self.0.next()).await;
        // Drop further notifications: the next check covers all changes so far.
        while let Some(Some(_)) = futures_util::FutureExt::now_or_never(self.0.next()) {}
    }
}

/// Returns the content of a file; `None` if a part is missing or the content has another hash.
fn content_of(blobs: &NatsBlobs, hash: &str) -> Result<Option<Vec<u8>>, NatsError> {
    match blobs.get(hash) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(session::Error::Blob { .. }) => Ok(None),
        Err(error) => Err(NatsError::unanswered("a file of a set of plugins", error)),
    }
}

/// Converts the error that the stream does not exist into `None`: nothing was published yet.
fn absent_without_stream(
    found: Result<Option<StoredMessage>, NatsError>,
) -> Result<Option<StoredMessage>, NatsError> {
    match found {
        Err(NatsError::Refused {
            code: NO_STREAM, ..
        }) => Ok(None),
        other => other,
    }
}
