//! Arguments of the commands that use a cluster, and the connection to its NATS servers.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::{Args as ClapArgs, Subcommand};

use super::super::args::SessionOpenArgs;
use super::super::exit_code::bail_usage;
use super::plugins::PluginsCommand;
use super::quota::QuotaArgs;
use super::remote::NatsRemoteSessionClient;
use rind_lib::session::SessionStore;
use rind_nats::worker::{ClusterStatus, SessionInboxClient};
use rind_nats::{DeclaredDiskSyncInterval, DurabilityReport, NatsConfig, NatsSessions};
use rind_serve::remote::RemoteSessionClient;

/// Arguments that locate the session store on NATS servers.
#[derive(Debug, ClapArgs)]
pub(crate) struct NatsArgs {
    /// NATS servers with JetStream, as in nats://127.0.0.1:4222; several with commas between
    #[arg(long = "nats", value_name = "URL")]
    url: String,
    /// Tenant whose sessions the command uses; sessions of other tenants are kept apart
    #[arg(long, value_name = "NAME", default_value = "default")]
    tenant: String,
    /// File with the credentials of the client (`.creds`)
    #[arg(long, value_name = "FILE")]
    creds: Option<PathBuf>,
    /// File with root certificates; requires TLS
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// Number of servers that keep each message: 1, 3 or 5; used when the streams are created
    #[arg(long, value_name = "N", default_value_t = 1)]
    replicas: usize,
    /// `sync_interval` of all servers, which do not report it: `always`, or seconds
    #[arg(long, value_name = "WHEN")]
    sync_interval: Option<String>,
}

/// Arguments that locate the session store, if the sessions are not files on this machine.
#[derive(Debug, Default, ClapArgs)]
pub(crate) struct SharedStoreArgs {
    /// NATS servers with JetStream that keep the sessions, as in nats://127.0.0.1:4222. `rind run` and
    /// `rind chat` have a worker run the turns; `--session` or `--resume` is then the whole id of a
    /// session, which is created if there is none
    #[arg(long, value_name = "URL")]
    nats: Option<String>,
    /// Tenant whose sessions the command uses, with --nats
    #[arg(
        long,
        value_name = "NAME",
        default_value = "default",
        requires = "nats"
    )]
    tenant: String,
    /// File with the credentials of the client (`.creds`), with --nats
    #[arg(long, value_name = "FILE", requires = "nats")]
    creds: Option<PathBuf>,
    /// File with root certificates, with --nats; requires TLS
    #[arg(long, value_name = "FILE", requires = "nats")]
    tls_ca: Option<PathBuf>,
}

impl SharedStoreArgs {
    /// Returns the arguments for the NATS servers, if `--nats` is given.
    pub(super) fn into_nats_args(self) -> Option<NatsArgs> {
        self.into_nats_args_with_fsync(None)
    }

    fn into_nats_args_with_fsync(self, sync_interval: Option<String>) -> Option<NatsArgs> {
        Some(NatsArgs {
            url: self.nats?,
            tenant: self.tenant,
            creds: self.creds,
            tls_ca: self.tls_ca,
            replicas: 1,
            sync_interval,
        })
    }
}

/// Arguments of `rind doctor` for checks of the NATS servers.
#[derive(Debug, Default, ClapArgs)]
pub(crate) struct ServerCheckArgs {
    #[command(flatten)]
    store: SharedStoreArgs,
    /// `sync_interval` of all servers, with --nats: `always`, or seconds
    #[arg(long, value_name = "WHEN", requires = "nats")]
    sync_interval: Option<String>,
}

impl ServerCheckArgs {
    /// Checks the NATS servers and the workers. Returns `None` if no servers are configured.
    ///
    /// # Errors
    /// The servers do not answer or cannot keep sessions, or an argument is wrong.
    pub(crate) async fn check_nats_durability_and_status(
        self,
    ) -> anyhow::Result<Option<(DurabilityReport, ClusterStatus)>> {
        let Some(nats) = self.store.into_nats_args_with_fsync(self.sync_interval) else {
            return Ok(None);
        };
        let (sessions, inbox) = nats.connect_with_session_inbox().await?;
        let status = inbox.cluster_status().await?;
        let report = tokio::task::spawn_blocking(move || sessions.durability_report()).await;
        let report = report.context("cannot ask the NATS servers for their state")??;
        Ok(Some((report, status)))
    }
}

/// Arguments of `rind serve` for sessions that workers run.
#[derive(Debug, Default, ClapArgs)]
pub(crate) struct ServerSessionStoreArgs {
    #[command(flatten)]
    store: SharedStoreArgs,
    /// Have workers of this class run all turns, with --nats; without it the server runs those of
    /// sessions that no worker has open
    #[arg(long, value_name = "NAME", requires = "nats")]
    class: Option<String>,
}

impl ServerSessionStoreArgs {
    /// Connects to the shared session store. Returns `None` if sessions are files on this machine.
    ///
    /// # Errors
    /// The servers do not answer, or an argument is wrong.
    pub(crate) async fn connect_shared_store(
        self,
    ) -> anyhow::Result<Option<SharedSessionStoreAccess>> {
        let Some(nats) = self.store.into_nats_args() else {
            return Ok(None);
        };
        let (sessions, inbox) = nats.connect_with_session_inbox().await?;
        Ok(Some(SharedSessionStoreAccess {
            remote: Arc::new(NatsRemoteSessionClient::new(
                sessions.clone(),
                inbox,
                self.class,
            )),
            store: SessionStore::with_backend(Arc::new(sessions)),
        }))
    }
}

/// A session store that several programs share.
pub(crate) struct SharedSessionStoreAccess {
    pub(crate) store: SessionStore,
    /// Access to the programs that have sessions of the store open.
    pub(crate) remote: Arc<dyn RemoteSessionClient>,
}

/// Arguments of `rind run` and `rind chat` for turns that a worker runs.
#[derive(Debug, Default, ClapArgs)]
pub(crate) struct RemoteArgs {
    #[command(flatten)]
    pub(super) store: SharedStoreArgs,
    /// Class of workers that may run the turns, with --nats
    #[arg(
        long,
        value_name = "NAME",
        default_value = "default",
        requires = "nats"
    )]
    pub(super) class: String,
}

/// Arguments of `rind chat` for a session whose turns workers run.
#[derive(Debug, Default, ClapArgs)]
pub(crate) struct AttachArgs {
    #[command(flatten)]
    pub(super) remote: RemoteArgs,
    /// Id of the session, with --nats; it is created if there is none
    #[arg(long, value_name = "ID", requires = "nats", conflicts_with = "resume")]
    pub(crate) session: Option<String>,
}

impl AttachArgs {
    /// Whether a worker, and not this program, runs the turns.
    pub(crate) fn is_turn_run_by_worker(&self) -> bool {
        self.remote.is_turn_run_by_worker()
    }
}

impl RemoteArgs {
    /// Whether a worker, and not this program, runs the turn.
    pub(crate) fn is_turn_run_by_worker(&self) -> bool {
        self.store.nats.is_some()
    }
}

#[derive(Debug, ClapArgs)]
pub(crate) struct WorkerArgs {
    #[command(flatten)]
    pub(super) nats: NatsArgs,
    #[command(flatten)]
    pub(super) open: SessionOpenArgs,
    /// Class of the inputs that this worker runs: workers that can serve the same workspaces
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub(super) class: String,
    /// Number of sessions to work on at once
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub(super) slots: usize,
    /// Seconds that running turns get after SIGTERM; then another worker continues them
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    pub(super) grace: u64,
    /// Store the files of each session after its turns, at most this many MiB, and restore them at the
    /// worker that has its next turn. The folder to work in must be empty at first; takes one session at
    /// a time
    #[arg(
        long,
        value_name = "MIB",
        num_args = 0..=1,
        default_missing_value = "256",
        value_parser = clap::value_parser!(u64).range(1..=65_536),
        conflicts_with = "slots"
    )]
    pub(super) snapshots: Option<u64>,
    /// Ask the people at `rind serve --nats` about calls that need approval, and wait this long; then
    /// the answer is no. Without it such calls are denied
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(super) ask: Option<u64>,
    /// Load the set of plugins that is published for the class and signed with this key (`rind cluster
    /// plugins`), and no others but those that come with Rind; may be named several times. Without a set
    /// no turn begins
    #[arg(
        long,
        value_name = "KEY",
        conflicts_with_all = ["plugin", "no_plugins", "without", "trust_project", "grant"]
    )]
    pub(super) plugins_key: Vec<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ClusterCommand {
    /// Show sessions, queues and workers, and what a failure of the servers would lose
    Status {
        #[command(flatten)]
        nats: NatsArgs,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Send an input to a session; a worker runs it
    Send {
        #[command(flatten)]
        nats: NatsArgs,
        /// Id of the session; it is created if there is none
        #[arg(long, value_name = "ID")]
        session: String,
        /// Class of workers that may run the input
        #[arg(long, value_name = "NAME", default_value = "default")]
        class: String,
        /// Id of the input; an input that is sent several times with the same id runs once
        #[arg(long, value_name = "ID")]
        input_id: Option<String>,
        /// Text of the input
        text: String,
    },
    /// Show the quotas of the tenant, or set them for all workers, fronts and senders
    Quota(QuotaArgs),
    /// Sets of plugins that workers load: make a key, publish a set, show it
    Plugins {
        #[command(subcommand)]
        command: PluginsCommand,
    },
    /// Have workers end once their turns have ended: a worker by its name, a class, or `*` for all
    Drain {
        #[command(flatten)]
        nats: NatsArgs,
        /// Name of a worker or of a class, or `*`
        wanted: String,
    },
    /// List inputs that failed repeatedly
    Dead {
        #[command(flatten)]
        nats: NatsArgs,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Send the dead letters of a session again
    Replay {
        #[command(flatten)]
        nats: NatsArgs,
        /// Id of the session
        session: String,
    },
}

impl NatsArgs {
    fn nats_config(&self) -> anyhow::Result<NatsConfig> {
        let sync = match self.sync_interval.as_deref() {
            None => DeclaredDiskSyncInterval::Unknown,
            Some("always") => DeclaredDiskSyncInterval::Always,
            Some(text) => match text.trim_end_matches('s').parse() {
                Ok(seconds) => DeclaredDiskSyncInterval::Interval(Duration::from_secs(seconds)),
                Err(_) => bail_usage!("--sync-interval takes `always` or a number of seconds"),
            },
        };
        if ![1, 3, 5].contains(&self.replicas) {
            bail_usage!(
                "--replicas takes 1, 3 or 5: an even number needs one more server and tolerates no additional failure"
            );
        }
        let mut config = NatsConfig::new(&self.url, &self.tenant)?
            .with_replicas(self.replicas)
            .with_declared_disk_sync_interval(sync);
        if let Some(path) = &self.creds {
            config = config.with_credentials(path.clone());
        }
        if let Some(path) = &self.tls_ca {
            config = config.with_root_certificates(path.clone());
        }
        Ok(config)
    }

    /// Connects to the NATS servers, on a thread that may block.
    pub(super) async fn connect(&self) -> anyhow::Result<NatsSessions> {
        let config = self.nats_config()?;
        let connected = tokio::task::spawn_blocking(move || NatsSessions::connect(config)).await;
        Ok(connected.context("cannot connect to NATS")??)
    }

    pub(super) async fn connect_with_session_inbox(
        &self,
    ) -> anyhow::Result<(NatsSessions, SessionInboxClient)> {
        let sessions = self.connect().await?;
        let own = sessions.clone();
        let inbox = tokio::task::spawn_blocking(move || SessionInboxClient::open(&own)).await;
        Ok((sessions, inbox.context("cannot open the queue")??))
    }
}
