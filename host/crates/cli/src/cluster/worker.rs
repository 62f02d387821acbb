//! `rind worker`: runs the turns of the sessions that were created for one class of workers, until
//! a signal arrives or the worker is drained.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::super::exit_code::ExitStatus;
use super::super::signals::ShutdownSignals;
use super::super::{open, render};
use super::args::WorkerArgs;
use super::files::WorkerSessionFilesFolder;
use super::hosts::{AgentHostRegistry, WorkerHostWithOpenSessions};
use super::plugins::{PluginSetLoader, check_plugin_set_public_keys, load_new_sets_forever};
use super::turns::WorkerTurnRunner;
use rind_lib::beneath::{real_path, select_folders_below_root};
use rind_lib::session::SessionStore;
use rind_nats::worker::{NatsWorker, WorkerConfig};
use rind_operator::confinement::rind_folders;
use rind_operator::settings::SessionChoice;

/// Runs turns of the class until a signal arrives or the worker is drained.
pub(crate) async fn run_worker(args: WorkerArgs) -> anyhow::Result<ExitStatus> {
    check_plugin_set_public_keys(&args.plugins_key)?;
    let sessions = args.nats.connect().await?;
    // A worker has no person at a terminal to ask.
    let settings = args.open.to_run_settings(SessionChoice::New, false)?;
    let (paths, hosts) = (
        settings.paths.clone(),
        Arc::new(AgentHostRegistry::new_empty()),
    );
    let folder = match args.snapshots {
        Some(max_mib) => {
            refuse_folders_inside_workspace(&paths.workspace, &rind_folders(&paths))?;
            Some(WorkerSessionFilesFolder::open(&sessions, &paths.workspace, max_mib).await?)
        }
        None => None,
    };
    let keys = args.plugins_key.clone();
    let loader = PluginSetLoader::new(&sessions, &args.class, keys, settings.clone(), args.ask);
    // Without keys for plugin sets, load the plugins of this machine before anything else starts.
    // Otherwise `load_new_sets_forever` loads the published plugin set later.
    let (exits, loader) = if args.plugins_key.is_empty() {
        let prepared = open::prepare_session(settings).await?;
        let store = SessionStore::with_backend(Arc::new(sessions.clone()));
        let ready = prepared.with_session_store(store).build_host().await?;
        render::print_note(&ready.run.chosen);
        let local = WorkerHostWithOpenSessions::new(&sessions, &ready.run, args.ask, None)?;
        (
            Some(ready.exits),
            Arc::new(loader.with_local_host_if_unpublished(local)),
        )
    } else {
        (None, Arc::new(loader))
    };
    let name = format!("{}-{}", args.class, std::process::id());
    let config = WorkerConfig {
        // A folder with snapshots holds the files of one session at a time.
        slots: if folder.is_some() { 1 } else { args.slots },
        grace: Duration::from_secs(args.grace),
        ..WorkerConfig::new(&args.class, &name)
    };
    let follows = load_new_sets_forever(loader.clone(), hosts.clone());
    let turns = WorkerTurnRunner::open(&sessions, hosts, loader, folder).await?;
    let turns = Arc::new(turns);
    let worker = tokio::task::spawn_blocking(move || NatsWorker::new(sessions, config, turns));
    let worker = worker.await.context("cannot open the queue")??;
    let stop = CancellationToken::new();
    let interrupted =
        ShutdownSignals::listen_for_interrupts().context("cannot listen for SIGTERM")?;
    drop(exits);
    tokio::spawn(interrupted.cancel_then_exit_on_second_signal(stop.clone()));
    let _follows = AbortOnDropHandle::new(tokio::spawn(follows));
    render::print_note(&format!(
        "worker {name} runs turns of the class {}",
        args.class
    ));
    #[cfg(feature = "otel")]
    let metrics = super::metrics::WorkerMetricsExporter::from_env(worker.status_handle(), &name);
    let report = worker.run(stop).await?;
    #[cfg(feature = "otel")]
    metrics.flush_and_stop().await;
    render::print_note(&format!(
        "worker {name} ended: {} turns, {} sessions taken over by other workers, {} interrupted turns left to other workers, {} inputs given up (dead letters)",
        report.turns, report.fenced, report.interrupted, report.dead
    ));
    Ok(ExitStatus::Done)
}

/// Checks that none of Rind's own folders is in a workspace whose files the worker stores and
/// removes.
fn refuse_folders_inside_workspace(workspace: &Path, own: &[PathBuf]) -> anyhow::Result<()> {
    let below = select_folders_below_root(&real_path(workspace), own);
    match below.first() {
        None => Ok(()),
        Some(folder) => bail!(
            "a worker with --snapshots stores and removes the files of its workspace, and the workspace {} contains {}, which belongs to rind; choose another with --workspace",
            workspace.display(),
            folder.display()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_with_snapshots_has_no_folder_of_the_program_in_it() {
        let root = tempfile::tempdir().unwrap();
        let root = real_path(root.path());
        let own = [root.join("home/.config/rind"), root.join("data")];
        assert!(refuse_folders_inside_workspace(&root.join("work"), &own).is_ok());
        let refused = refuse_folders_inside_workspace(&root.join("home"), &own).unwrap_err();
        assert!(refused.to_string().contains(".config/rind"), "{refused}");
    }
}
