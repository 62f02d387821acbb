//! Publishes and reads plugin sets. A plugin set is a signed record of the plugins that all workers
//! of a tenant, or all workers of one class, run.
//!
//! Records are stored in a key-value bucket: the last message of a key is the record that applies,
//! and earlier messages are the history. Files are stored as values of the tenant, named by their
//! hash, before the record that lists them. The servers are not trusted: the signature of a record
//! and the hash of a file are verified. The module must not know how plugins are loaded. Start from
//! [`TenantPluginSetStore`].

mod record;
mod signature;

use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::stream;
use async_nats::{HeaderMap, Subscriber};
use bytes::Bytes;
use futures_util::StreamExt;
use rind_lib::session::{self, Blobs, SessionBlobs};

pub use self::record::{PluginSetFile, PluginSetPlugin, PluginSetRecord, split_plugin_file_path};
pub use self::signature::{PluginSetSigningKey, SignedPluginSet, check_public_key};
use crate::blobs::NatsBlobStore;
use crate::link::{MessageAppendOutcome, StoredStreamMessage};
use crate::sessions::SharedNatsStoreState;
use crate::setup::{STREAM_NOT_FOUND_ERROR_CODE, ensure_stream_exists};
use crate::worker::{invalid_worker_class_error, is_worker_class_name};
use crate::{NatsError, NatsSessions};

/// Maximum number of published sets that the bucket keeps for each tenant or class.
const MAX_PUBLISHED_SETS_IN_HISTORY: i64 = 64;

/// Maximum interval at which a program checks for a new record of a plugin set if no notification
/// arrives.
const MAX_PLUGIN_SET_POLL_INTERVAL: Duration = Duration::from_secs(10);

/// Minimum interval between two checks for a new record. It limits the load, because any client
/// that may publish can send notifications.
const MIN_NEW_RECORD_CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// Store of the plugin sets of one tenant. Cheap to clone.
#[derive(Clone)]
pub struct TenantPluginSetStore {
    parts: Arc<SharedNatsStoreState>,
}

/// Position in the history of a tenant's or a class's plugin sets at which the next record is
/// published.
#[derive(Clone, Debug)]
pub struct NextPluginSetPosition {
    /// Sequence of the last message under the key of the tenant or class. The next record must
    /// directly follow this message. 0 if the key has no message.
    sequence: u64,
    /// Last published record, or the reason why it is refused; `None` if there is none.
    pub last: Option<Result<SignedPluginSet, String>>,
}

impl std::fmt::Debug for TenantPluginSetStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("TenantPluginSetStore")
            .field(&self.parts.name)
            .finish()
    }
}

impl TenantPluginSetStore {
    /// Creates the store of plugin sets for the tenant of a session store.
    #[must_use]
    pub fn from_sessions(sessions: &NatsSessions) -> Self {
        Self {
            parts: sessions.shared_store_state().clone(),
        }
    }

    /// Returns the name of the tenant whose sets the store contains.
    #[must_use]
    pub fn tenant(&self) -> &str {
        self.parts.streams.names.tenant()
    }

    /// Returns the set that applies to workers of a class: the set of the class, or else the set of
    /// the tenant. `None` if neither was published.
    ///
    /// # Errors
    /// The record is signed with none of `keys`, is for another tenant or class, or exceeds a
    /// limit, or the servers do not answer.
    pub async fn find_set(
        &self,
        class: &str,
        keys: &[String],
    ) -> Result<Option<SignedPluginSet>, NatsError> {
        for class in [Some(class), None] {
            if let Some(last) = self.last_plugin_set_message(class).await? {
                return self.parse_record_message(&last, class, keys).map(Some);
            }
        }
        Ok(None)
    }

    /// Whether a set is published that applies to workers of `class`, or any set at all if `class`
    /// is `None`. Does not verify the signature: a program without a key calls this only to refuse
    /// to run turns.
    ///
    /// # Errors
    /// The servers do not answer.
    pub async fn is_plugin_set_published(&self, class: Option<&str>) -> Result<bool, NatsError> {
        let Some(class) = class else {
            let all = format!("$KV.{}.>", self.bucket_name());
            return Ok(self
                .next_plugin_set_message(&self.stream_name(), &all, 1)
                .await?
                .is_some());
        };
        Ok(self.last_plugin_set_message(Some(class)).await?.is_some()
            || self.last_plugin_set_message(None).await?.is_some())
    }

    /// Returns the set with this digest from the earlier and current sets of a class or of the
    /// tenant, if the bucket still has it.
    ///
    /// # Errors
    /// The servers do not answer.
    pub async fn find_plugin_set_in_history(
        &self,
        class: &str,
        keys: &[String],
        digest: &str,
    ) -> Result<Option<SignedPluginSet>, NatsError> {
        for class in [Some(class), None] {
            let mut from = 1;
            let (stream, subject) = (self.stream_name(), self.plugin_set_subject(class));
            // Limit the number here: a stream that another program created may keep more records.
            for _ in 0..MAX_PUBLISHED_SETS_IN_HISTORY {
                let Some(message) = self
                    .next_plugin_set_message(&stream, &subject, from)
                    .await?
                else {
                    break;
                };
                from = message.sequence.saturating_add(1);
                let set = self.parse_record_message(&message, class, keys);
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
    pub async fn next_publish_position(
        &self,
        class: Option<&str>,
        keys: &[String],
    ) -> Result<NextPluginSetPosition, NatsError> {
        if let Some(wrong) = class.filter(|class| !is_worker_class_name(class)) {
            return Err(invalid_worker_class_error(wrong));
        }
        let last = self.last_plugin_set_message(class).await?;
        Ok(NextPluginSetPosition {
            sequence: last.as_ref().map_or(0, |last| last.sequence),
            last: last.map(|last| self.verify_plugin_set_message(&last, class, keys)),
        })
    }

    /// Signs a record and stores it as the next record at `place`. The files that the record lists
    /// must be stored before.
    ///
    /// # Errors
    /// The record is for another tenant or exceeds a limit, another program has stored a record
    /// after `place` was determined, or the servers do not answer.
    pub async fn publish(
        &self,
        place: &NextPluginSetPosition,
        key: &PluginSetSigningKey,
        record: PluginSetRecord,
    ) -> Result<SignedPluginSet, NatsError> {
        let class = record.class.clone();
        let refused = |why: String| self.unusable_plugin_set_error(class.as_deref(), why);
        if record.tenant != self.tenant() {
            return Err(refused("the set is for another tenant".to_owned()));
        }
        let (set, bytes) = signature::sign_plugin_set_record(key, record).map_err(refused)?;
        ensure_stream_exists(&self.parts.link, self.stream_config(), self.parts.patience).await?;
        let link = &self.parts.link;
        let (subject, headers) = (self.plugin_set_subject(class.as_deref()), HeaderMap::new());
        let stored =
            link.append_after_sequence(&subject, place.sequence, headers, Bytes::from(bytes));
        match stored.await {
            MessageAppendOutcome::Stored(_) => Ok(set),
            MessageAppendOutcome::Refused => Err(refused(
                "another program has published one at the same time: look at it with `rind cluster plugins show`, and \
                 publish again"
                    .to_owned(),
            )),
            MessageAppendOutcome::Unclear(error) => Err(error),
        }
    }

    /// Stores the content of a file, unless it is stored already. Blocks.
    ///
    /// # Errors
    /// The servers do not answer, or refuse the content.
    pub fn store_file(&self, bytes: &[u8]) -> Result<PluginSetFile, NatsError> {
        let blobs = NatsBlobStore::for_plugin_files(self.parts.clone());
        let hash = SessionBlobs::compute_blob_id(bytes);
        if read_stored_file_content(&blobs, &hash)?.is_none() {
            // Remove parts that are stored under this hash but are incomplete or wrong.
            blobs.release(&hash);
            blobs.store_value_unconditionally(&hash, bytes)?;
        }
        Ok(PluginSetFile {
            hash,
            bytes: bytes.len() as u64,
        })
    }

    /// Returns the content of a file. Blocks.
    ///
    /// # Errors
    /// The file is missing, its content has another hash or length, or the servers do not answer.
    pub fn read_file(&self, file: &PluginSetFile) -> Result<Vec<u8>, NatsError> {
        let blobs = NatsBlobStore::for_plugin_files(self.parts.clone());
        // Check the length before the parts are fetched, because any client that may publish can
        // store a file of any length.
        let length = blobs.stored_value_length(&file.hash)?;
        let damaged = |why: &str| NatsError::Damaged {
            what: format!("the file {} of a set of plugins", file.hash),
            why: why.to_owned(),
        };
        match length {
            None => Err(damaged("it is missing; publish the set again")),
            Some(length) if length != file.bytes => Err(damaged("it has another length")),
            Some(_) => read_stored_file_content(&blobs, &file.hash)?
                .ok_or_else(|| damaged("its content is missing or another; publish the set again")),
        }
    }

    /// Subscribes to changes of the sets.
    ///
    /// # Errors
    /// The servers do not answer.
    pub async fn subscribe_to_changes(&self) -> Result<PluginSetChangeSubscription, NatsError> {
        let all = format!("$KV.{}.>", self.bucket_name());
        let told = self.parts.link.client().subscribe(all).await;
        let told =
            told.map_err(|error| NatsError::nats_request_error("the wait for changes", error))?;
        Ok(PluginSetChangeSubscription(told))
    }

    /// Parses and verifies the record in a message. The record must be for this tenant and class.
    fn parse_record_message(
        &self,
        message: &StoredStreamMessage,
        class: Option<&str>,
        keys: &[String],
    ) -> Result<SignedPluginSet, NatsError> {
        let checked = self.verify_plugin_set_message(message, class, keys);
        checked.map_err(|why| self.unusable_plugin_set_error(class, why))
    }

    fn verify_plugin_set_message(
        &self,
        message: &StoredStreamMessage,
        class: Option<&str>,
        keys: &[String],
    ) -> Result<SignedPluginSet, String> {
        let set = signature::verify_signed_plugin_set(&message.payload, keys)?;
        let (tenant, of_class) = (&set.record.tenant, set.record.class.as_deref());
        if tenant != self.tenant() {
            return Err(format!(
                "the set was published for another tenant, {}",
                rind_lib::text::escape_and_truncate_line(tenant, 40)
            ));
        }
        if of_class != class {
            return Err(match of_class {
                Some(other) => format!(
                    "the set was published for another class of workers, {}",
                    rind_lib::text::escape_and_truncate_line(other, 40)
                ),
                None => "it was published for the whole tenant, not for this class of workers"
                    .to_owned(),
            });
        }
        Ok(set)
    }

    fn unusable_plugin_set_error(&self, class: Option<&str>, why: String) -> NatsError {
        let of = match class {
            Some(class) => format!("the class {class} of the tenant {}", self.tenant()),
            None => format!("the tenant {}", self.tenant()),
        };
        NatsError::PluginSet { of, why }
    }

    async fn last_plugin_set_message(
        &self,
        class: Option<&str>,
    ) -> Result<Option<StoredStreamMessage>, NatsError> {
        let (stream, subject) = (self.stream_name(), self.plugin_set_subject(class));
        none_if_stream_missing(self.parts.link.last_message(&stream, &subject).await)
    }

    async fn next_plugin_set_message(
        &self,
        stream: &str,
        subject: &str,
        from: u64,
    ) -> Result<Option<StoredStreamMessage>, NatsError> {
        none_if_stream_missing(
            self.parts
                .link
                .first_message_from_sequence(stream, subject, from)
                .await,
        )
    }

    fn bucket_name(&self) -> String {
        format!("rind-{}-plugins", self.tenant())
    }

    fn stream_name(&self) -> String {
        format!("KV_{}", self.bucket_name())
    }

    fn plugin_set_subject(&self, class: Option<&str>) -> String {
        match class {
            Some(class) => format!("$KV.{}.class.{class}", self.bucket_name()),
            None => format!("$KV.{}.tenant", self.bucket_name()),
        }
    }

    /// Returns the configuration of the stream: that of a key-value bucket, so that the tools of
    /// NATS can show the records.
    fn stream_config(&self) -> stream::Config {
        stream::Config {
            name: self.stream_name(),
            subjects: vec![format!("$KV.{}.>", self.bucket_name())],
            discard: stream::DiscardPolicy::New,
            max_messages_per_subject: MAX_PUBLISHED_SETS_IN_HISTORY,
            allow_rollup: true,
            deny_delete: true,
            allow_direct: true,
            num_replicas: self.parts.streams.replicas,
            duplicate_window: Duration::from_secs(1),
            ..stream::Config::default()
        }
    }
}

/// Subscription to changes of the plugin sets of a tenant.
#[derive(Debug)]
pub struct PluginSetChangeSubscription(Subscriber);

impl PluginSetChangeSubscription {
    /// Waits for a notification that a plugin set has changed, at most until the next regular
    /// check.
    pub async fn wait_for_change(&mut self) {
        tokio::time::sleep(MIN_NEW_RECORD_CHECK_INTERVAL).await;
        let _ = tokio::time::timeout(MAX_PLUGIN_SET_POLL_INTERVAL, self.0.next()).await;
        // Drop further notifications: the next check covers all changes so far.
        while let Some(Some(_)) = futures_util::FutureExt::now_or_never(self.0.next()) {}
    }
}

/// Returns the content of the plugin file with this hash; `None` if a part of it is missing or its
/// content has another hash.
fn read_stored_file_content(
    blobs: &NatsBlobStore,
    hash: &str,
) -> Result<Option<Vec<u8>>, NatsError> {
    match blobs.get(hash) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(session::Error::Blob { .. }) => Ok(None),
        Err(error) => Err(NatsError::nats_request_error(
            "a file of a set of plugins",
            error,
        )),
    }
}

/// Converts the error of a missing stream to `None`: no set was published yet.
fn none_if_stream_missing(
    found: Result<Option<StoredStreamMessage>, NatsError>,
) -> Result<Option<StoredStreamMessage>, NatsError> {
    match found {
        Err(NatsError::Refused {
            code: STREAM_NOT_FOUND_ERROR_CODE,
            ..
        }) => Ok(None),
        other => other,
    }
}
