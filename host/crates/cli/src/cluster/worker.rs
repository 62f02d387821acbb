//! `rind worker`: runs turns of a class until a signal comes or it is drained.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use tokio_util::sync::CancellationToken;

use super::super::exit_code::ExitStatus;
use super::super::signals::AnySignal;
use super::super::{open, render};
use super::args::WorkerArgs;
use super::files::SessionFolder;
use super::turns::ServedTurns;
use rind_lib::beneath::{own_below, real_path};
use rind_lib::session::SessionStore;
use rind_nats::NatsSessions;
use rind_nats::worker::{NatsWorker, WorkerConfig};
use rind_operator::confinement::own_folders;
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
            check_apart(workspace, &own_folders(&ready.run.setup.paths))?;
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

/// Checks that no folder of the program is in a folder whose files are stored and removed.
fn check_apart(workspace: &Path, own: &[PathBuf]) -> anyhow::Result<()> {
    let below = own_below(&real_path(workspace), own);
    match below.first() {
        None => Ok(()),
        Some(folder) => bail!(
            "the folder {} has {} in it, which belongs to rind, and a worker with --snapshots stores and removes what is in its folder; give it another with --workspace",
            workspace.display(),
            folder.display()
        ),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_with_snapshots_has_no_folder_of_the_program_in_it() {
        let root = tempfile::tempdir().unwrap();
        let root = real_path(root.path());
        let own = [root.join("home/.config/rind"), root.join("data")];
        assert!(check_apart(&root.join("work"), &own).is_ok());
        let refused = check_apart(&root.join("home"), &own).unwrap_err();
        assert!(refused.to_string().contains(".config/rind"), "{refused}");
    }
}
