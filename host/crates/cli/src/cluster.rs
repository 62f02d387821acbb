//! `rind worker` and `rind cluster`: turns of many machines over NATS.
//!
//! Owns the flags for the servers and what is shown. How turns are shared is in `rind_nats`. Start
//! from [`run_worker`] and [`run_cluster`].

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::{Args as ClapArgs, Subcommand};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::args::{OpenArgs, RunArgs};
use super::exit_code::{ExitStatus, bail_usage};
use super::signals::AnySignal;
use super::{open, render};
use rind_lib::session::SessionStore;
use rind_nats::worker::{
    ClusterStatus, DeadInput, HostTurns, NatsWorker, TurnInbox, WorkerConfig, WorkerStatus,
};
use rind_nats::{DeclaredSync, DurabilityReport, NatsConfig, NatsSessions};
use rind_operator::settings::SessionChoice;

/// Most dead letters of a session that are listed.
const MAX_DEAD: usize = 100;

/// Longest part of a dead letter that is shown on a line, in characters.
const SHOWN: usize = 160;

/// Arguments that say where the sessions are.
#[derive(Debug, ClapArgs)]
pub(super) struct NatsArgs {
    /// NATS servers with JetStream, as in nats://127.0.0.1:4222; several with commas between
    #[arg(long = "nats", value_name = "URL")]
    url: String,
    /// Tenant whose sessions are meant; those of others are kept apart
    #[arg(long, value_name = "NAME", default_value = "default")]
    tenant: String,
    /// File with the credentials of the client (`.creds`)
    #[arg(long, value_name = "FILE")]
    creds: Option<PathBuf>,
    /// File with root certificates; requires TLS
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// Number of servers that keep each message: 1, 3 or 5; holds when the streams are created
    #[arg(long, value_name = "N", default_value_t = 1)]
    replicas: usize,
    /// `sync_interval` of all servers, which they do not tell: `always`, or seconds
    #[arg(long, value_name = "WHEN")]
    sync_interval: Option<String>,
}

/// Arguments that say where the sessions are, if they are not in files of this machine.
#[derive(Debug, Default, ClapArgs)]
pub(super) struct SharedStoreArgs {
    /// NATS servers with JetStream that keep the sessions, as in nats://127.0.0.1:4222. `rind run` has
    /// a worker run the turn; `--session` or `--resume` is then the whole id of a session, which is
    /// created if there is none
    #[arg(long, value_name = "URL")]
    nats: Option<String>,
    /// Tenant whose sessions are meant, with --nats
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
    /// Returns the arguments for the servers, if there are any.
    fn servers(self) -> Option<NatsArgs> {
        Some(NatsArgs {
            url: self.nats?,
            tenant: self.tenant,
            creds: self.creds,
            tls_ca: self.tls_ca,
            replicas: 1,
            sync_interval: None,
        })
    }

    /// Connects to the store, if sessions are not in files.
    ///
    /// # Errors
    /// The servers do not answer, or an argument is wrong.
    pub(super) async fn connect(self) -> anyhow::Result<Option<SessionStore>> {
        let Some(nats) = self.servers() else {
            return Ok(None);
        };
        let sessions = nats.connect().await?;
        Ok(Some(SessionStore::over(Arc::new(sessions))))
    }
}

/// Arguments of `rind run` for a turn that a worker runs.
#[derive(Debug, Default, ClapArgs)]
pub(super) struct RemoteArgs {
    #[command(flatten)]
    store: SharedStoreArgs,
    /// Class of workers that may run it, with --nats
    #[arg(
        long,
        value_name = "NAME",
        default_value = "default",
        requires = "nats"
    )]
    class: String,
}

impl RemoteArgs {
    /// Whether a worker is to run the turn.
    pub(super) fn is_remote(&self) -> bool {
        self.store.nats.is_some()
    }
}

#[derive(Debug, ClapArgs)]
pub(super) struct WorkerArgs {
    #[command(flatten)]
    nats: NatsArgs,
    #[command(flatten)]
    open: OpenArgs,
    /// Class of the inputs that this worker runs: workers that can serve the same workspaces
    #[arg(long, value_name = "NAME", default_value = "default")]
    class: String,
    /// Number of sessions to work on at once
    #[arg(long, value_name = "N", default_value_t = 4)]
    slots: usize,
    /// Seconds that running turns get after SIGTERM; then they go on elsewhere
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    grace: u64,
}

#[derive(Debug, Subcommand)]
pub(super) enum ClusterCommand {
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
        /// Class of workers that may run it
        #[arg(long, value_name = "NAME", default_value = "default")]
        class: String,
        /// Id of the input, with which it is run once however often it is sent
        #[arg(long, value_name = "ID")]
        input_id: Option<String>,
        /// Text of the input
        text: String,
    },
    /// Have workers end once their turns have ended: a worker by its name, a class, or `*` for all
    Drain {
        #[command(flatten)]
        nats: NatsArgs,
        /// Name of a worker or of a class, or `*`
        wanted: String,
    },
    /// List inputs that failed again and again
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
    fn config(&self) -> anyhow::Result<NatsConfig> {
        let sync = match self.sync_interval.as_deref() {
            None => DeclaredSync::Unknown,
            Some("always") => DeclaredSync::Always,
            Some(text) => match text.trim_end_matches('s').parse() {
                Ok(seconds) => DeclaredSync::Interval(Duration::from_secs(seconds)),
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
            .with_declared_sync(sync);
        if let Some(path) = &self.creds {
            config = config.with_credentials(path.clone());
        }
        if let Some(path) = &self.tls_ca {
            config = config.with_root_certificates(path.clone());
        }
        Ok(config)
    }

    /// Connects on a thread that may block.
    async fn connect(&self) -> anyhow::Result<NatsSessions> {
        let config = self.config()?;
        let connected = tokio::task::spawn_blocking(move || NatsSessions::connect(config)).await;
        Ok(connected.context("connect to NATS")??)
    }

    async fn inbox(&self) -> anyhow::Result<(NatsSessions, TurnInbox)> {
        let sessions = self.connect().await?;
        let own = sessions.clone();
        let inbox = tokio::task::spawn_blocking(move || TurnInbox::open(&own)).await;
        Ok((sessions, inbox.context("open the queue")??))
    }
}

/// Runs turns of the class until a signal comes or the worker is drained.
pub(super) async fn run_worker(args: WorkerArgs) -> anyhow::Result<ExitStatus> {
    let sessions = args.nats.connect().await?;
    // A worker has no person at its terminal.
    let settings = args.open.run_settings(SessionChoice::New, false)?;
    let prepared = open::prepare_session(settings).await?;
    let store = SessionStore::over(Arc::new(sessions.clone()));
    let ready = prepared.with_store(store).build_host().await?;
    let name = format!("{}-{}", args.class, std::process::id());
    let config = WorkerConfig {
        slots: args.slots,
        grace: Duration::from_secs(args.grace),
        ..WorkerConfig::new(&args.class, &name)
    };
    let turns = Arc::new(HostTurns::new(ready.run.host.host.clone()));
    let worker = tokio::task::spawn_blocking(move || NatsWorker::new(sessions, config, turns));
    let worker = worker.await.context("open the queue")??;
    let stop = CancellationToken::new();
    let interrupted = AnySignal::interrupts().context("listen for SIGTERM")?;
    drop(ready.exits);
    tokio::spawn(interrupted.pass_on(stop.clone()));
    render::print_note(&ready.run.chosen);
    render::print_note(&format!(
        "worker {name} runs turns of the class {}",
        args.class
    ));
    let report = worker.run(stop).await?;
    render::print_note(&format!(
        "worker {name} ended: {} turns, {} sessions taken over by others, {} turns left to others, {} dead letters",
        report.turns, report.fenced, report.interrupted, report.dead
    ));
    Ok(ExitStatus::Done)
}

/// Sends the prompt to a session, waits for the end of its turn and prints the answer.
pub(super) async fn run_remote(args: RunArgs) -> anyhow::Result<ExitStatus> {
    let is_plain = args.image.is_empty()
        && args.output_schema.is_none()
        && args.max_cost.is_none()
        && args.max_steps.is_none()
        && args.steer_from.is_none();
    if !is_plain {
        bail_usage!(
            "with --nats a worker runs the turn and gets only the prompt: --image, --output-schema, --max-cost, --max-steps and --steer-from are not supported"
        );
    }
    let Some(prompt) = super::input::read_prompt(args.prompt.as_deref(), true, false)? else {
        bail_usage!("pass a prompt");
    };
    let remote = args.remote;
    let Some(nats) = remote.store.servers() else {
        bail_usage!("pass --nats");
    };
    let (sessions, inbox) = nats.inbox().await?;
    let session = args.session.or(args.resume);
    let session = session.unwrap_or_else(rind_lib::clock::new_id);
    let id = args.input_id.unwrap_or_else(rind_lib::clock::new_id);
    inbox.send(&session, &remote.class, &id, &prompt).await?;
    render::print_note(&format!(
        "session {session}, input {id}; the turn goes on if this program ends"
    ));
    let ended = inbox.wait_for_end(&sessions, &session, &id).await?;
    let answer = render::printable_text(ended.output.trim_end());
    render::print_answer(format_args!("{answer}\n"));
    Ok(ended.summary.stop.into())
}

/// Runs a command about the cluster.
pub(super) async fn run_cluster(command: ClusterCommand) -> anyhow::Result<ExitStatus> {
    match command {
        ClusterCommand::Status { nats, json } => show_status(&nats, json).await?,
        ClusterCommand::Send {
            nats,
            session,
            class,
            input_id,
            text,
        } => {
            let (_, inbox) = nats.inbox().await?;
            let id = input_id.unwrap_or_else(rind_lib::clock::new_id);
            inbox.send(&session, &class, &id, &text).await?;
            render::answer_line(format!("input {id} is stored for session {session}"));
        }
        ClusterCommand::Drain { nats, wanted } => {
            let (_, inbox) = nats.inbox().await?;
            let drained = inbox.drain(&wanted).await?;
            if drained.is_empty() {
                anyhow::bail!(
                    "no worker answered to `{}`",
                    render::printable_text(&wanted)
                );
            }
            drained.iter().for_each(print_worker);
        }
        ClusterCommand::Dead { nats, json } => {
            let (_, inbox) = nats.inbox().await?;
            let dead = inbox.dead(MAX_DEAD).await?;
            match json {
                true => render::print_json(&dead)?,
                false => dead.iter().for_each(print_dead),
            }
        }
        ClusterCommand::Replay { nats, session } => {
            let (_, inbox) = nats.inbox().await?;
            let n_sent = inbox.replay(&session).await?;
            render::answer_line(format!("{n_sent} inputs were sent again"));
        }
    }
    Ok(ExitStatus::Done)
}

/// Status of a cluster as JSON.
#[derive(Serialize)]
struct ClusterReport<'a> {
    #[serde(flatten)]
    cluster: &'a ClusterStatus,
    /// Consequences of a failure of the servers.
    durability: &'a DurabilityReport,
}

async fn show_status(nats: &NatsArgs, json: bool) -> anyhow::Result<()> {
    let (sessions, inbox) = nats.inbox().await?;
    let status = inbox.status().await?;
    let report = tokio::task::spawn_blocking(move || sessions.durability()).await;
    let report = report.context("ask the NATS servers for their state")??;
    if json {
        return render::print_json(&ClusterReport {
            cluster: &status,
            durability: &report,
        });
    }
    print_status(&status);
    render::answer_line(format!(
        "server {}, {} replicas",
        report.version, report.replicas
    ));
    for finding in report.findings {
        match finding.is_warning {
            true => render::print_warning(&finding.text),
            false => render::answer_line(finding.text),
        }
    }
    Ok(())
}

fn print_status(status: &ClusterStatus) {
    render::answer_line(format!(
        "{} sessions, {} with inputs that wait, {} with dead letters",
        status.sessions, status.waiting, status.dead
    ));
    for queue in &status.queues {
        let class = render::printable_text(&queue.class);
        render::answer_line(format!(
            "class {class}: {} sessions to look at",
            queue.wakes
        ));
    }
    if status.workers.is_empty() {
        render::print_warning("no worker answered");
    }
    status.workers.iter().for_each(print_worker);
}

fn print_worker(worker: &WorkerStatus) {
    render::answer_line(format!(
        "worker {} ({}): {} of {} slots busy, {} turns{}",
        render::printable_text(&worker.name),
        render::printable_text(&worker.class),
        worker.busy,
        worker.slots,
        worker.turns,
        if worker.is_draining { ", draining" } else { "" }
    ));
}

fn print_dead(dead: &DeadInput) {
    render::answer_line(format!(
        "{} input {}, {} attempts: {}",
        render::printable_text(&dead.session),
        render::printable_text(&dead.input),
        dead.attempts,
        render::one_line(&dead.cause, SHOWN)
    ));
}
