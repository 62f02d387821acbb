//! `rind worker`: runs turns of a class until a signal comes or it is drained.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio_util::sync::CancellationToken;

use super::super::exit_code::ExitStatus;
use super::super::signals::AnySignal;
use super::super::{open, render};
use super::args::WorkerArgs;
use super::files::SessionFolder;
use super::turns::ServedTurns;
use rind_lib::session::SessionStore;
use rind_nats::NatsSessions;
use rind_nats::worker::{NatsWorker, WorkerConfig};
use rind_operator::settings::SessionChoice;
use rind_operator::start::ReadyRun;
use rind_serve::holder::SessionHolder;
use rind_serve::workspaces::WorkspaceHost;

/// Runs turns of the class until a signal comes or the worker is drained.
pub(crate) async fn run_worker(args: WorkerArgs) -> anyhow::Result<ExitStatus> {
    let sessions = args.nats.connect().await?;
    // A worker has no person at its terminal.
    let settings = args.open.run_settings(SessionChoice::New, false)?;
    let prepared = open::prepare_session(settings).await?;
    let store = SessionStore::over(Arc::new(sessions.clone()));
    let ready = prepared.with_store(store).build_host().await?;
    let folder = match args.snapshots {
        Some(max_mib) => {
            let workspace = ready.run.host.host.workspace();
            Some(SessionFolder::open(&sessions, workspace, max_mib).await?)
        }
        None => None,
    };
    let name = format!("{}-{}", args.class, std::process::id());
    let config = WorkerConfig {
        // The folder has the files of one session at a time.
        slots: if folder.is_some() { 1 } else { args.slots },
        grace: Duration::from_secs(args.grace),
        ..WorkerConfig::new(&args.class, &name)
    };
    let turns = Arc::new(served_turns(&sessions, &ready.run, args.ask, folder).await?);
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
    #[cfg(feature = "otel")]
    let metrics = super::metrics::WorkerMetrics::from_env(worker.watch(), &name);
    let report = worker.run(stop).await?;
    #[cfg(feature = "otel")]
    metrics.finish().await;
    render::print_note(&format!(
        "worker {name} ended: {} turns, {} sessions taken over by others, {} turns left to others, {} dead letters",
        report.turns, report.fenced, report.interrupted, report.dead
    ));
    Ok(ExitStatus::Done)
}

/// Returns the turns of the worker, which others can see and steer.
async fn served_turns(
    sessions: &NatsSessions,
    run: &ReadyRun,
    ask: Option<u64>,
    folder: Option<SessionFolder>,
) -> anyhow::Result<ServedTurns> {
    let host = &run.host;
    let policy = match ask {
        Some(_) => host.asking_policy(),
        None => host.policy(),
    };
    let workspace = WorkspaceHost::new(host.host.clone(), policy, run.plugins.clone());
    // If no user is asked, questions of plugins get their defaults at once.
    let answer_time = Duration::from_secs(ask.unwrap_or(0));
    let holder = SessionHolder::new(workspace, answer_time).context("make random numbers")?;
    Ok(ServedTurns::open(sessions, holder, folder).await?)
}
