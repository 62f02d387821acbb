//! Settings of the store: servers, tenant, credentials, and properties of the servers that clients
//! cannot query.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::NatsError;

/// Default time after which the lease of a dead writer expires. It is longer than the servers need
/// to elect a new leader, which is up to 9 s.
const DEFAULT_WRITER_LEASE_DURATION: Duration = Duration::from_secs(20);

/// Default time for which a failing write is retried before the session fails.
const DEFAULT_WRITE_RETRY_PERIOD: Duration = Duration::from_secs(60);

/// Default number of streams over which the sessions of a tenant are distributed.
const DEFAULT_STREAM_PARTITION_COUNT: u16 = 16;

/// Interval at which the servers sync to their disks. The operator declares it, because servers do
/// not report it to clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeclaredDiskSyncInterval {
    /// The operator did not declare an interval.
    #[default]
    Unknown,
    /// `sync_interval: always`: a message is on disk before the server acknowledges it.
    Always,
    /// The servers sync at this interval. A power failure may lose the messages of the last
    /// interval.
    Interval(Duration),
}

/// Settings of [`NatsSessions`](crate::NatsSessions).
#[derive(Clone, PartialEq, Eq)]
pub struct NatsConfig {
    pub(crate) servers: Vec<String>,
    pub(crate) tenant: String,
    pub(crate) credentials: Option<PathBuf>,
    pub(crate) root_certificates: Option<PathBuf>,
    pub(crate) client_certificate: Option<(PathBuf, PathBuf)>,
    pub(crate) replicas: usize,
    pub(crate) partitions: u16,
    pub(crate) sync: DeclaredDiskSyncInterval,
    pub(crate) lease: Duration,
    pub(crate) patience: Duration,
}

impl fmt::Debug for NatsConfig {
    /// Omits the credentials, and user names and passwords in the server addresses.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsConfig")
            .field("servers", &self.redacted_server_addresses())
            .field("tenant", &self.tenant)
            .field("replicas", &self.replicas)
            .finish_non_exhaustive()
    }
}

impl NatsConfig {
    /// Returns settings with defaults. `servers` lists addresses of the form `nats://HOST:PORT`,
    /// separated by commas. Sessions of `tenant` are isolated from sessions of other tenants.
    ///
    /// # Errors
    /// The list of servers is empty, or the name of the tenant is not 1 to 32 lower-case letters,
    /// digits and `-`.
    pub fn new(servers: &str, tenant: &str) -> Result<Self, NatsError> {
        let wrong = |what: String, why: &str| NatsError::Config {
            what,
            why: why.to_owned(),
        };
        let servers: Vec<String> = servers
            .split(',')
            .map(|server| server.trim().to_owned())
            .filter(|server| !server.is_empty())
            .collect();
        if servers.is_empty() {
            let why = "give at least one, such as nats://127.0.0.1:4222";
            return Err(wrong("an empty list of servers".to_owned(), why));
        }
        let is_in_name =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if !(1..=32).contains(&tenant.len()) || !tenant.bytes().all(is_in_name) {
            let shown = rind_lib::text::escape_and_truncate_line(tenant, 40);
            let why = "a name of a tenant has 1 to 32 lower-case letters, digits and `-`";
            return Err(wrong(format!("the tenant `{shown}`"), why));
        }
        Ok(Self {
            servers,
            tenant: tenant.to_owned(),
            credentials: None,
            root_certificates: None,
            client_certificate: None,
            replicas: 1,
            partitions: DEFAULT_STREAM_PARTITION_COUNT,
            sync: DeclaredDiskSyncInterval::Unknown,
            lease: DEFAULT_WRITER_LEASE_DURATION,
            patience: DEFAULT_WRITE_RETRY_PERIOD,
        })
    }

    /// Sets the path of the file with the credentials, in the format that `nsc` writes (`.creds`).
    #[must_use]
    pub fn with_credentials(mut self, path: PathBuf) -> Self {
        self.credentials = Some(path);
        self
    }

    /// Requires TLS, and trusts the root certificates in this file.
    #[must_use]
    pub fn with_root_certificates(mut self, path: PathBuf) -> Self {
        self.root_certificates = Some(path);
        self
    }

    /// Sets the paths of the client's certificate and key, for servers that verify clients.
    #[must_use]
    pub fn with_client_certificate(mut self, certificate: PathBuf, key: PathBuf) -> Self {
        self.client_certificate = Some((certificate, key));
        self
    }

    /// Sets the number of servers that keep each message: 1, 3 or 5. It applies when the streams
    /// are created; existing streams keep their number.
    #[must_use]
    pub fn with_replicas(mut self, replicas: usize) -> Self {
        self.replicas = replicas;
        self
    }

    /// Sets the number of streams over which sessions are distributed. It applies when the streams
    /// are created and can never be changed afterwards.
    #[must_use]
    pub fn with_partitions(mut self, partitions: u16) -> Self {
        self.partitions = partitions.clamp(1, 64);
        self
    }

    /// Declares the interval at which the servers sync to their disks.
    #[must_use]
    pub fn with_declared_disk_sync_interval(mut self, sync: DeclaredDiskSyncInterval) -> Self {
        self.sync = sync;
        self
    }

    /// Sets the time after which another program may continue the session of a program that died.
    /// The time applies when the streams are created; for existing streams, the time stored on the server
    /// applies.
    #[must_use]
    pub fn with_lease(mut self, lease: Duration) -> Self {
        self.lease = lease.clamp(Duration::from_secs(2), Duration::from_secs(600));
        self
    }

    /// Sets the time for which a failing write is retried, for example while the servers elect a
    /// leader. After that, the session fails.
    #[must_use]
    pub fn with_retry_duration(mut self, patience: Duration) -> Self {
        self.patience = patience.max(Duration::from_secs(1));
        self
    }

    /// Returns the addresses of the servers without user names and passwords.
    pub(crate) fn redacted_server_addresses(&self) -> String {
        let shown = self.servers.iter().map(|server| strip_credentials(server));
        shown.collect::<Vec<_>>().join(",")
    }
}

/// Returns an address without user name, password and control characters.
fn strip_credentials(server: &str) -> String {
    let (scheme, rest) = server.split_once("://").unwrap_or(("nats", server));
    let host = rest.rsplit('@').next().unwrap_or(rest);
    rind_lib::text::escape_and_truncate_line(&format!("{scheme}://{host}"), 120)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_in_an_address_is_never_shown() {
        let config = NatsConfig::new("nats://me:secret@a:4222, tls://b:4222", "t").unwrap();
        assert_eq!(
            config.redacted_server_addresses(),
            "nats://a:4222,tls://b:4222"
        );
        assert!(!format!("{config:?}").contains("secret"));
    }

    #[test]
    fn names_that_would_change_a_subject_are_refused() {
        for tenant in ["", "a.b", "*", ">", "a b", "A", "é", &"x".repeat(33)] {
            assert!(NatsConfig::new("nats://a", tenant).is_err(), "{tenant}");
        }
        assert!(NatsConfig::new(" , ", "t").is_err());
    }
}
