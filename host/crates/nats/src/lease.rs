//! Manages leases, which record the program that works on a session, so that two programs do not do
//! the same work.
//!
//! A lease is a key in a bucket, and expires unless it is renewed. Renewals use a thread and a
//! connection of their own, so that a busy program does not lose its sessions. Correctness does not
//! depend on leases: if a program has lost a lease without noticing, its next append is refused.
//! Start from [`HeldSessionLeaseSet`].

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_nats::HeaderMap;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

use crate::append::MESSAGE_ID_HEADER_NAME;
use crate::link::{MessageAppendOutcome, NatsConnection};
use crate::names::TenantStreamNames;
use crate::runtime::NatsTokioRuntime;
use crate::{NatsConfig, NatsError, client};
use rind_lib::lock::lock_ignoring_poison;
use rind_lib::session::SessionAddress;

/// Header by which the tools of NATS recognize that a key was deleted.
const KV_OPERATION_HEADER_NAME: &str = "KV-Operation";

/// Set of the leases that a program holds. Acquires, renews and releases them.
#[derive(Debug)]
pub(crate) struct HeldSessionLeaseSet {
    link: NatsConnection,
    names: TenantStreamNames,
    /// Name of this program, which other programs see as the holder of its leases.
    writer: String,
    time: Duration,
    held: Arc<Mutex<Vec<Arc<HeldSessionLease>>>>,
    /// Runtime that renews the leases until this value is dropped.
    _runtime: NatsTokioRuntime,
}

/// Lease of a session that this program holds or has held.
#[derive(Debug)]
pub(crate) struct HeldSessionLease {
    subject: String,
    id: String,
    /// Name of this program, stored under the key of the lease.
    writer: String,
    /// Sequence number of the last message that sets the lease's key; 0 once the lease was
    /// released. Locked during a request on the key.
    revision: tokio::sync::Mutex<u64>,
    renewed: Mutex<Instant>,
    is_lost: AtomicBool,
}

impl HeldSessionLease {
    /// Whether another program has acquired the lease after this program acquired it.
    pub(crate) fn is_taken_by_another_program(&self) -> bool {
        self.is_lost.load(Ordering::Acquire)
    }

    /// Returns the time since this program sent the last renewal of the lease that succeeded.
    pub(crate) fn time_since_renewal(&self) -> Duration {
        lock_ignoring_poison(&self.renewed).elapsed()
    }

    fn set_renewal_time(&self, sent: Instant) {
        *lock_ignoring_poison(&self.renewed) = sent;
    }
}

impl HeldSessionLeaseSet {
    /// Connects to the servers, and starts the thread that renews the leases of sessions.
    pub(crate) fn connect_and_spawn_renewal(
        config: &NatsConfig,
        names: TenantStreamNames,
        time: Duration,
        writer: String,
    ) -> Result<Self, NatsError> {
        let runtime = NatsTokioRuntime::start("rind-leases", 1)?;
        let own = config.clone();
        let name = format!("{writer} leases");
        // Run this client on a runtime of its own, so that a busy program does not delay the
        // renewals.
        let link = runtime.block_on(async move {
            Ok(NatsConnection::new(client::connect(&own, &name).await?))
        })?;
        let held: Arc<Mutex<Vec<Arc<HeldSessionLease>>>> = Arc::default();
        let stream = names.lease_stream();
        runtime.spawn(renew_leases_at_interval(
            link.clone(),
            stream,
            Arc::downgrade(&held),
            time / 4,
        ));
        Ok(Self {
            link,
            names,
            writer,
            time,
            held,
            _runtime: runtime,
        })
    }

    /// Acquires the lease of a session. Returns `None` if another program, or another writer in
    /// this program, holds the lease.
    pub(crate) async fn acquire(
        &self,
        at: &SessionAddress,
    ) -> Result<Option<Arc<HeldSessionLease>>, NatsError> {
        let subject = self.names.lease_subject(at);
        let stream = self.names.lease_stream();
        let lease = HeldSessionLease {
            id: uuid::Uuid::new_v4().to_string(),
            writer: self.writer.clone(),
            revision: tokio::sync::Mutex::new(0),
            renewed: Mutex::new(Instant::now()),
            is_lost: AtomicBool::new(false),
            subject,
        };
        let last = self.link.last_message(&stream, &lease.subject).await?;
        let expected = match last {
            None => 0,
            Some(last) if is_key_deleted(last.header(KV_OPERATION_HEADER_NAME)) => last.sequence,
            Some(_) => return Ok(None),
        };
        let sent = Instant::now();
        let Some(revision) = write_lease_key(&self.link, &stream, &lease, expected).await? else {
            return Ok(None);
        };
        lease.set_renewal_time(sent);
        *lease.revision.lock().await = revision;
        let lease = Arc::new(lease);
        self.lock_lease_list().push(lease.clone());
        Ok(Some(lease))
    }

    /// Returns the name of the program that holds the lease of a session.
    pub(crate) async fn holder(&self, at: &SessionAddress) -> Result<Option<String>, NatsError> {
        let stream = self.names.lease_stream();
        let last = self
            .link
            .last_message(&stream, &self.names.lease_subject(at))
            .await?;
        let held = last.filter(|last| !is_key_deleted(last.header(KV_OPERATION_HEADER_NAME)));
        Ok(held.map(|last| String::from_utf8_lossy(&last.payload).into_owned()))
    }

    /// Releases a lease. If that fails, the lease expires by itself.
    pub(crate) async fn release(&self, lease: &Arc<HeldSessionLease>) {
        self.lock_lease_list()
            .retain(|held| !Arc::ptr_eq(held, lease));
        let mut revision = lease.revision.lock().await;
        if *revision > 0 && !lease.is_taken_by_another_program() {
            let mut headers = HeaderMap::new();
            headers.insert(KV_OPERATION_HEADER_NAME, "DEL");
            let answer = self
                .link
                .append_after_sequence(&lease.subject, *revision, headers, Bytes::new())
                .await;
            if let MessageAppendOutcome::Unclear(error) = answer {
                tracing::debug!(%error, "a lease was not released; it expires by itself");
            }
        }
        *revision = 0;
    }

    /// Returns the time after which a lease expires if it is not renewed.
    pub(crate) fn lease_duration(&self) -> Duration {
        self.time
    }

    fn lock_lease_list(&self) -> std::sync::MutexGuard<'_, Vec<Arc<HeldSessionLease>>> {
        lock_ignoring_poison(&self.held)
    }
}

/// Whether the last operation on a key deleted it, so that the lease is free.
fn is_key_deleted(operation: Option<&str>) -> bool {
    matches!(operation, Some("DEL" | "PURGE"))
}

/// Writes the key of a lease, whose last message must have the sequence `expected`. Returns the new
/// sequence; `None` if another writer has changed the key since.
async fn write_lease_key(
    link: &NatsConnection,
    stream: &str,
    lease: &HeldSessionLease,
    expected: u64,
) -> Result<Option<u64>, NatsError> {
    let mut headers = HeaderMap::new();
    headers.insert(MESSAGE_ID_HEADER_NAME, lease.id.as_str());
    let payload = Bytes::copy_from_slice(lease.writer.as_bytes());
    let error = match link
        .append_after_sequence(&lease.subject, expected, headers, payload)
        .await
    {
        MessageAppendOutcome::Stored(revision) => return Ok(Some(revision)),
        MessageAppendOutcome::Refused => None,
        MessageAppendOutcome::Unclear(error) => Some(error),
    };
    let last = link.last_message(stream, &lease.subject).await?;
    match last {
        Some(last)
            if last.header(MESSAGE_ID_HEADER_NAME) == Some(lease.id.as_str())
                && last.sequence > expected =>
        {
            Ok(Some(last.sequence))
        }
        Some(last) if last.sequence != expected => Ok(None),
        _ => error.map_or(Ok(None), Err),
    }
}

/// Renews all leases at the interval `every`, until the keeper is dropped.
async fn renew_leases_at_interval(
    link: NatsConnection,
    stream: String,
    held: std::sync::Weak<Mutex<Vec<Arc<HeldSessionLease>>>>,
    every: Duration,
) {
    loop {
        tokio::time::sleep(every).await;
        let Some(held) = held.upgrade() else {
            return;
        };
        let leases = lock_ignoring_poison(&held).clone();
        drop(held);
        let mut renewals: FuturesUnordered<_> = leases
            .iter()
            .map(|lease| renew_lease(&link, &stream, lease))
            .collect();
        while renewals.next().await.is_some() {}
    }
}

/// Renews a lease. An expired lease is acquired again, unless another program has acquired it.
async fn renew_lease(link: &NatsConnection, stream: &str, lease: &HeldSessionLease) {
    let mut revision = lease.revision.lock().await;
    if *revision == 0 || lease.is_taken_by_another_program() {
        return;
    }
    let sent = Instant::now();
    let mut renewed = write_lease_key(link, stream, lease, *revision).await;
    if matches!(renewed, Ok(None)) {
        renewed = match link.last_message(stream, &lease.subject).await {
            Ok(None) => write_lease_key(link, stream, lease, 0).await,
            Ok(Some(_)) => Ok(None),
            Err(error) => Err(error),
        };
    }
    match renewed {
        Ok(Some(new)) => {
            *revision = new;
            lease.set_renewal_time(sent);
        }
        Ok(None) => lease.is_lost.store(true, Ordering::Release),
        Err(error) => tracing::debug!(%error, "a lease was not renewed"),
    }
}
