//! Implements the session store on NATS JetStream.
//!
//! Creates, opens and removes sessions, which consist of a lease, lines and large values. The order
//! of the writes ensures that a reader finds a complete session or none. Start from
//! [`NatsSessions`]; copies are made in `fork`.

mod fork;

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::FuturesOrdered;
use rind_lib::lock::lock_ignoring_poison;
use rind_lib::session::{
    BlobKind, Blobs, Error, FramePosition, Journal, OpenedJournal, SessionAddress, SessionListItem,
    SessionPage, Sessions,
};

use crate::blobs::NatsBlobStore;
use crate::journal::{NatsSessionJournal, WeakJournalLineQueue};
use crate::lease::{HeldSessionLease, HeldSessionLeaseSet};
use crate::link::NatsConnection;
use crate::log::{
    SessionAppendPosition, SessionNatsSubject, is_complete_session, session_length_after_message,
};
use crate::names::session_id_from_subject;
use crate::quota::TenantQuotaCache;
use crate::replay::StoredSessionBytes;
use crate::runtime::NatsTokioRuntime;
use crate::setup::{
    LARGE_VALUES_STREAM_NAME_PART, SESSION_LINES_STREAM_NAME_PART, TenantStreamProperties,
    create_streams,
};
use crate::writer::{SessionLineQueue, store_queued_session_lines};
use crate::{NatsConfig, NatsError, TenantQuotaClient, client};

/// Store of sessions on NATS JetStream, which many machines share. Cheap to clone.
///
/// All methods block, and may be called from any thread, even within an async runtime.
#[derive(Clone)]
pub struct NatsSessions {
    parts: Arc<SharedNatsStoreState>,
}

/// State that the store shares with the journals, values and clients that it creates.
pub(crate) struct SharedNatsStoreState {
    /// Name of the session store, as messages to users show it.
    pub(crate) name: String,
    pub(crate) config: NatsConfig,
    pub(crate) streams: TenantStreamProperties,
    pub(crate) link: NatsConnection,
    pub(crate) leases: HeldSessionLeaseSet,
    pub(crate) runtime: NatsTokioRuntime,
    pub(crate) patience: Duration,
    /// Name of this program, which other programs see as the writer of its sessions.
    writer: String,
    /// Short-lived cache of the servers' answers about the tenant's quotas.
    pub(crate) quotas: Mutex<TenantQuotaCache>,
    /// Locked while this program updates the tenant's counted usage.
    pub(crate) quota_change: tokio::sync::Mutex<()>,
    /// Sessions that this program has open for writing, each with its lease.
    open: Mutex<HashMap<SessionAddress, (WeakJournalLineQueue, Arc<HeldSessionLease>)>>,
}

impl SharedNatsStoreState {
    fn lock_open_session_map(
        &self,
    ) -> MutexGuard<'_, HashMap<SessionAddress, (WeakJournalLineQueue, Arc<HeldSessionLease>)>>
    {
        lock_ignoring_poison(&self.open)
    }

    /// Returns the name of this program, which is unique for each run.
    pub(crate) fn writer_name(&self) -> &str {
        &self.writer
    }

    /// Whether this program has the session open for writing.
    pub(crate) fn is_open(&self, at: &SessionAddress) -> bool {
        self.lock_open_session_map().contains_key(at)
    }

    /// Removes the session with this queue from the open sessions.
    pub(crate) fn remove_open_session(&self, queue: &Arc<SessionLineQueue>) {
        let of_queue = Arc::downgrade(queue);
        self.lock_open_session_map()
            .retain(|_, (own, _)| !own.ptr_eq(&of_queue));
    }
}

impl std::fmt::Debug for NatsSessions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("NatsSessions")
            .field(&self.parts.name)
            .finish()
    }
}

impl NatsSessions {
    /// Connects to the servers, and creates the streams of the tenant that do not exist yet.
    ///
    /// # Errors
    /// There is no server, it is too old, it runs without JetStream, or the streams cannot be
    /// created.
    pub fn connect(config: NatsConfig) -> Result<Self, NatsError> {
        let runtime = NatsTokioRuntime::start("rind-nats", 2)?;
        let pid = std::process::id();
        let writer = format!("rind {pid} {}", uuid::Uuid::new_v4());
        let (own, name) = (config.clone(), writer.clone());
        let (link, streams) = runtime.block_on(async move {
            let link = NatsConnection::new(client::connect(&own, &name).await?);
            let streams = create_streams(&link, &own).await?;
            Ok((link, streams))
        })?;
        let names = streams.names.clone();
        let leases = HeldSessionLeaseSet::connect_and_spawn_renewal(
            &config,
            names,
            streams.lease,
            writer.clone(),
        )?;
        let parts = SharedNatsStoreState {
            name: format!("{}/{}", config.redacted_server_addresses(), config.tenant),
            patience: config.patience,
            quotas: Mutex::default(),
            quota_change: tokio::sync::Mutex::default(),
            config,
            streams,
            link,
            leases,
            runtime,
            writer,
            open: Mutex::default(),
        };
        Ok(Self {
            parts: Arc::new(parts),
        })
    }

    pub(crate) fn shared_store_state(&self) -> &Arc<SharedNatsStoreState> {
        &self.parts
    }

    /// Returns the time since this program last renewed its lease of a session, and whether another
    /// program has acquired the lease; `None` if the session is not open in this program.
    #[must_use]
    pub fn lease_age(&self, at: &SessionAddress) -> Option<(Duration, bool)> {
        let open = self.parts.lock_open_session_map();
        open.get(at).map(|(_, lease)| {
            (
                lease.time_since_renewal(),
                lease.is_taken_by_another_program(),
            )
        })
    }

    /// Whether another program holds the lease of a session, according to the servers.
    pub(crate) async fn is_leased_elsewhere(&self, at: &SessionAddress) -> Result<bool, NatsError> {
        let holder = self.parts.leases.holder(at).await?;
        Ok(holder.is_some_and(|holder| holder != self.parts.writer))
    }

    /// Returns the time after which other programs may continue the session of a program that died.
    #[must_use]
    pub fn lease_duration(&self) -> Duration {
        self.parts.leases.lease_duration()
    }

    /// Queues the record of a snapshot of an open session's files, to be stored after all of the
    /// session's lines.
    pub(crate) fn queue_snapshot_after_session_lines(
        &self,
        at: &SessionAddress,
        name: &str,
    ) -> Result<(), Error> {
        let open = self.parts.lock_open_session_map().get(at).cloned();
        let queue = open.and_then(|(queue, _)| queue.upgrade());
        queue
            .ok_or_else(|| self.unknown_session_error(at))?
            .queue_snapshot_record(name)
    }

    /// Returns the length of an open session in bytes, including lines that are not stored yet.
    pub(crate) fn length_of_open_session(&self, at: &SessionAddress) -> Option<u64> {
        let open = self.parts.lock_open_session_map().get(at).cloned();
        let queue = open.and_then(|(queue, _)| queue.upgrade());
        queue.map(|queue| queue.n_session_bytes())
    }

    /// Reads the complete session; `None` if there is no session with this address.
    pub(crate) fn read_complete_session(
        &self,
        at: &SessionAddress,
    ) -> Result<Option<StoredSessionBytes>, NatsError> {
        let subject = self.subject(at);
        let read = async move { subject.read((0, 1)).await };
        self.parts.runtime.block_on(read)
    }

    fn subject(&self, at: &SessionAddress) -> SessionNatsSubject {
        let names = &self.parts.streams.names;
        SessionNatsSubject {
            link: self.parts.link.clone(),
            stream: names.stream_name(
                SESSION_LINES_STREAM_NAME_PART,
                names.partition_of_session(at),
            ),
            subject: names.session_log_subject(at),
            patience: self.parts.patience,
        }
    }

    fn unknown_session_error(&self, at: &SessionAddress) -> Error {
        Error::Unknown {
            wanted: at.as_str().to_owned(),
            root: PathBuf::from(&self.parts.name),
        }
    }

    fn locked_session_error(&self, at: &SessionAddress) -> Error {
        Error::Locked {
            path: PathBuf::from(&self.parts.name).join(at.as_str()),
            pid: None,
        }
    }

    fn to_store_error(&self, error: NatsError) -> Error {
        error.into_store_error(&self.parts.name)
    }

    /// Whether the store contains a session with this address.
    fn exists(&self, at: &SessionAddress) -> Result<bool, Error> {
        let subject = self.subject(at);
        let last = self.block_on(async move { subject.last_message().await })?;
        Ok(last.is_some())
    }

    /// Runs a request on the store's runtime, and blocks until it completes.
    fn block_on<T: Send + 'static>(
        &self,
        future: impl Future<Output = Result<T, NatsError>> + Send + 'static,
    ) -> Result<T, Error> {
        let waited = self.parts.runtime.block_on(future);
        waited.map_err(|error| self.to_store_error(error))
    }

    fn acquire_lease(&self, at: &SessionAddress) -> Result<Option<Arc<HeldSessionLease>>, Error> {
        let (parts, at) = (self.parts.clone(), at.clone());
        self.block_on(async move { parts.leases.acquire(&at).await })
    }

    fn release_lease(&self, lease: Arc<HeldSessionLease>) {
        let parts = self.parts.clone();
        let _ = self.block_on(async move {
            parts.leases.release(&lease).await;
            Ok(())
        });
    }

    /// Runs a function, and releases the lease if the function fails. After a success, the lease
    /// stays held.
    fn release_lease_on_error<T>(
        &self,
        lease: &Arc<HeldSessionLease>,
        part: impl FnOnce() -> Result<T, Error>,
    ) -> Result<T, Error> {
        let done = part();
        if done.is_err() {
            self.release_lease(lease.clone());
        }
        done
    }

    /// Creates the journal of a session whose lease this program holds, and starts the task that
    /// stores its lines.
    fn create_journal(
        &self,
        at: &SessionAddress,
        place: SessionAppendPosition,
        places: Vec<(u64, u64)>,
        lease: Arc<HeldSessionLease>,
    ) -> Box<dyn Journal> {
        let queue = SessionLineQueue::new(at.as_str(), &self.parts.name, place.offset, places);
        let queue = Arc::new(queue);
        let of_queue = (Arc::downgrade(&queue), lease.clone());
        self.parts
            .lock_open_session_map()
            .insert(at.clone(), of_queue);
        let stored = store_queued_session_lines(queue.clone(), self.subject(at), place);
        self.parts.runtime.spawn(stored);
        Box::new(NatsSessionJournal::new(self.parts.clone(), queue, lease))
    }

    /// Removes the lines and values of a session and of its subagents. Removes the lines first,
    /// because a session without lines does not exist.
    fn remove_session_tree(&self, at: &SessionAddress) -> Result<(), Error> {
        let (link, names, at) = (
            self.parts.link.clone(),
            self.parts.streams.names.clone(),
            at.clone(),
        );
        self.block_on(async move {
            let partition = names.partition_of_session(&at);
            let lines = names.stream_name(SESSION_LINES_STREAM_NAME_PART, partition);
            link.purge_messages(&lines, &names.log_subjects_filter_with_subagents(&at))
                .await?;
            let values = names.stream_name(LARGE_VALUES_STREAM_NAME_PART, partition);
            link.purge_messages(&values, &names.blob_subjects_filter_with_subagents(&at))
                .await
        })
    }

    /// Reads a session from the last known message boundary at or before a position, or from its
    /// beginning. Blocks until lines that this program has appended are stored.
    fn read_session_from_boundary_before(
        &self,
        at: &SessionAddress,
        from: u64,
    ) -> Result<StoredSessionBytes, Error> {
        let subject = self.subject(at);
        let open = self
            .parts
            .lock_open_session_map()
            .get(at)
            .and_then(|(queue, _)| queue.upgrade());
        let place = open.and_then(|queue| {
            // Wait until the lines that this program has appended are stored, so that the read
            // includes them.
            let (taken, _) = queue.queued_and_stored_lengths();
            queue.wait_until_bytes_stored(taken, Some(Instant::now() + self.parts.patience));
            queue.last_message_position_before(from)
        });
        let read = self.block_on(async move {
            // If another program has truncated the session before this position, read it from the
            // beginning.
            match place {
                Some(place) => match subject.read(place).await {
                    Err(NatsError::Damaged { .. }) => subject.read((0, 1)).await,
                    read => read,
                },
                None => subject.read((0, 1)).await,
            }
        })?;
        read.ok_or_else(|| self.unknown_session_error(at))
    }

    fn list_session_page(&self, ids: Vec<String>) -> Result<Vec<SessionListItem>, Error> {
        let (link, names) = (self.parts.link.clone(), self.parts.streams.names.clone());
        self.block_on(async move {
            let mut lasts = FuturesOrdered::new();
            for id in ids {
                let Some(at) = SessionAddress::parse(&id) else {
                    continue;
                };
                let (link, subject) = (link.clone(), names.session_log_subject(&at));
                let stream = names.stream_name(
                    SESSION_LINES_STREAM_NAME_PART,
                    names.partition_of_session(&at),
                );
                lasts.push_back(async move { (id, link.last_message(&stream, &subject).await) });
            }
            let mut sessions = Vec::new();
            while let Some((id, last)) = lasts.next().await {
                if let Some(last) = last?.filter(is_complete_session) {
                    sessions.push(SessionListItem {
                        id,
                        updated: last.time_ms,
                        bytes: session_length_after_message(&last),
                    });
                }
            }
            Ok(sessions)
        })
    }
}

impl Sessions for NatsSessions {
    fn name(&self) -> String {
        self.parts.name.clone()
    }

    fn create(&self, at: &SessionAddress) -> Result<Box<dyn Journal>, Error> {
        // If another program holds the lease of a session that does not exist yet, it is about to
        // create the session.
        let Some(lease) = self.acquire_lease(at)? else {
            return Err(at.already_exists_error());
        };
        let place = self.release_lease_on_error(&lease, || {
            let subject = self.subject(at);
            let quotas = TenantQuotaClient::from_sessions(self);
            let is_root = at.as_str() == at.root_session_id();
            let created = self.block_on(async move {
                // Count only new root sessions against the quota, not the sessions of subagents.
                if is_root && subject.last_message().await?.is_none() {
                    quotas.count_session_against_quotas().await?;
                }
                let created = subject.create_empty_session().await?;
                if created.is_some() || subject.last_message().await?.is_some() {
                    return Ok(created);
                }
                // Remove the remains of an interrupted copy: some lines, but no complete session.
                subject.remove_messages().await?;
                subject.create_empty_session().await
            });
            created?.ok_or_else(|| at.already_exists_error())
        })?;
        Ok(self.create_journal(at, place, Vec::new(), lease))
    }

    fn create_with_lines(&self, at: &SessionAddress, lines: &[u8]) -> Result<(), Error> {
        let lease = self
            .acquire_lease(at)?
            .ok_or_else(|| at.already_exists_error())?;
        let written = self.write_complete_session(at, lines);
        self.release_lease(lease);
        written
    }

    fn open(&self, at: &SessionAddress) -> Result<OpenedJournal, Error> {
        let subject = self.subject(at);
        if !self.exists(at)? {
            return Err(self.unknown_session_error(at));
        }
        let lease = self
            .acquire_lease(at)?
            .ok_or_else(|| self.locked_session_error(at))?;
        let taken = self.release_lease_on_error(&lease, || {
            let writer = self.parts.writer.clone();
            let taken =
                self.block_on(async move { subject.take_over_session_log(&writer).await })?;
            taken.ok_or_else(|| self.unknown_session_error(at))
        })?;
        let mut notices = Vec::new();
        if taken.n_cut > 0 {
            notices.push(format!(
                "the last line of {at} was cut off after {} bytes; they stay in the store, before message {}, and are no \
                 longer a part of the session",
                taken.n_cut, taken.place.sequence
            ));
        }
        Ok(OpenedJournal {
            journal: self.create_journal(at, taken.place, taken.read.places, lease),
            lines: taken.read.bytes,
            notices,
        })
    }

    fn read(&self, at: &SessionAddress, from: FramePosition) -> Result<Vec<u8>, Error> {
        let read = self.read_session_from_boundary_before(at, from.as_u64())?;
        let skipped = from.as_u64().saturating_sub(read.start);
        let skipped = usize::try_from(skipped).unwrap_or(usize::MAX);
        Ok(read.bytes.get(skipped..).unwrap_or_default().to_vec())
    }

    /// Whether a session exists; `false` also if the servers do not answer.
    fn contains(&self, at: &SessionAddress) -> bool {
        self.exists(at).unwrap_or_default()
    }

    fn blobs(&self, at: &SessionAddress, kind: BlobKind) -> Arc<dyn Blobs> {
        Arc::new(NatsBlobStore::new(self.parts.clone(), at, kind))
    }

    fn children(&self, at: &SessionAddress) -> Result<Vec<String>, Error> {
        if !self.exists(at)? {
            return Err(self.unknown_session_error(at));
        }
        let (link, names, at) = (
            self.parts.link.clone(),
            self.parts.streams.names.clone(),
            at.clone(),
        );
        let subjects = self.block_on(async move {
            let stream = names.stream_name(
                SESSION_LINES_STREAM_NAME_PART,
                names.partition_of_session(&at),
            );
            link.list_subjects(&stream, &names.subagent_log_lines_filter(&at))
                .await
        })?;
        let mut ids: Vec<String> = subjects
            .iter()
            .filter_map(|subject| session_id_from_subject(subject))
            .collect();
        ids.sort();
        Ok(ids)
    }

    fn remove(&self, at: &SessionAddress) -> Result<(), Error> {
        if !self.exists(at)? {
            return Err(self.unknown_session_error(at));
        }
        let lease = self
            .acquire_lease(at)?
            .ok_or_else(|| self.locked_session_error(at))?;
        let removed = self.remove_session_tree(at);
        self.release_lease(lease);
        removed
    }

    fn list(&self, after: Option<&str>, limit: usize) -> Result<SessionPage, Error> {
        let (link, names) = (self.parts.link.clone(), self.parts.streams.names.clone());
        let mut ids: Vec<String> = self.block_on(async move {
            let mut ids = Vec::new();
            for partition in 0..names.n_partitions() {
                let stream = names.stream_name(SESSION_LINES_STREAM_NAME_PART, partition);
                let subjects = link
                    .list_subjects(&stream, &names.log_subjects_filter_of_partition(partition))
                    .await?;
                ids.extend(
                    subjects
                        .iter()
                        .filter_map(|subject| session_id_from_subject(subject)),
                );
            }
            Ok(ids)
        })?;
        ids.retain(|id| after.is_none_or(|after| id.as_str() > after));
        ids.sort();
        let is_last = ids.len() <= limit;
        ids.truncate(limit);
        let next = ids.last().cloned().filter(|_| !is_last);
        let sessions = self.list_session_page(ids)?;
        Ok(SessionPage { sessions, next })
    }

    fn fork(
        &self,
        from: &SessionAddress,
        to: &SessionAddress,
        lines: &[u8],
        agents: &BTreeSet<String>,
    ) -> Result<(), Error> {
        self.fork_session_tree(from, to, lines, agents)
    }
}
