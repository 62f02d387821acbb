//! `rind worker` and `rind cluster`: run turns on many machines over NATS.
//!
//! Owns the flags for the servers and the output, and connects the sessions of `rind_serve` with
//! the queue of `rind_nats`. Start from [`run_worker`] and [`run_cluster`].

mod args;
mod attach;
mod files;
mod follow;
mod gate;
mod hosts;
#[cfg(feature = "otel")]
mod metrics;
mod plugins;
mod question;
mod quota;
mod remote;
mod remote_event;
mod run;
mod shared_session;
mod turns;
mod worker;

use anyhow::Context;
use serde::Serialize;

use super::exit_code::ExitStatus;
use super::render;
use args::NatsArgs;
use rind_nats::DurabilityReport;
use rind_nats::worker::{ClusterStatus, DeadLetter, WorkerStatus};

pub(super) use args::{
    AttachArgs, ClusterCommand, RemoteArgs, ServerCheckArgs, ServerSessionStoreArgs, WorkerArgs,
};
pub(super) use attach::AttachedClusterSession;
pub(super) use question::to_terminal_question_kind;
pub(super) use remote_event::parse_remote_event;
pub(super) use run::run_prompt_on_worker;
pub(super) use shared_session::FollowedSessionUpdate;
pub(super) use worker::run_worker;

/// Maximum number of dead letters that are listed.
const MAX_LISTED_DEAD_LETTERS: usize = 100;

/// Maximum length, in characters, of a dead letter's cause, and of the number and digest of a
/// worker's set of plugins, as printed on a line.
const MAX_SHOWN_STATUS_FIELD_CHARS: usize = 160;

/// Maximum length, in characters, of the printed reason why a worker begins no turns.
const MAX_SHOWN_WORKER_FAULT_CHARS: usize = 400;

/// Runs a subcommand of `rind cluster`.
pub(super) async fn run_cluster(command: ClusterCommand) -> anyhow::Result<ExitStatus> {
    match command {
        ClusterCommand::Status { nats, json } => show_cluster_status(&nats, json).await?,
        ClusterCommand::Send {
            nats,
            session,
            class,
            input_id,
            text,
        } => {
            let (_, inbox) = nats.connect_with_session_inbox().await?;
            let id = input_id.unwrap_or_else(rind_lib::clock::new_uuid_v7);
            inbox.send(&session, &class, &id, &text).await?;
            render::print_stdout_line(format!("input {id} is stored for session {session}"));
        }
        ClusterCommand::Quota(args) => args.run().await?,
        ClusterCommand::Plugins { command } => command.run().await?,
        ClusterCommand::Drain { nats, wanted } => {
            let (_, inbox) = nats.connect_with_session_inbox().await?;
            let drained = inbox.drain_workers(&wanted).await?;
            if drained.is_empty() {
                anyhow::bail!(
                    "no worker with the name or class `{}` answered",
                    render::printable_text(&wanted)
                );
            }
            drained.iter().for_each(print_worker);
        }
        ClusterCommand::Dead { nats, json } => {
            let (_, inbox) = nats.connect_with_session_inbox().await?;
            let dead = inbox.list_dead_letters(MAX_LISTED_DEAD_LETTERS).await?;
            match json {
                true => render::print_json(&dead)?,
                false => dead.iter().for_each(print_dead_letter),
            }
        }
        ClusterCommand::Replay { nats, session } => {
            let (_, inbox) = nats.connect_with_session_inbox().await?;
            let n_sent = inbox.resend_dead_letters(&session).await?;
            render::print_stdout_line(format!("{n_sent} inputs were sent again"));
        }
    }
    Ok(ExitStatus::Done)
}

/// Status of a cluster, as `rind cluster status --json` prints it.
#[derive(Serialize)]
struct ClusterReport<'a> {
    #[serde(flatten)]
    cluster: &'a ClusterStatus,
    /// Consequences for the stored data if NATS servers fail.
    durability: &'a DurabilityReport,
}

async fn show_cluster_status(nats: &NatsArgs, json: bool) -> anyhow::Result<()> {
    let (sessions, inbox) = nats.connect_with_session_inbox().await?;
    let status = inbox.cluster_status().await?;
    let report = tokio::task::spawn_blocking(move || sessions.durability_report()).await;
    let report = report.context("cannot ask the NATS servers for their state")??;
    if json {
        return render::print_json(&ClusterReport {
            cluster: &status,
            durability: &report,
        });
    }
    print_cluster_status(&status);
    render::print_stdout_line(format!(
        "server {}, {} replicas",
        report.version, report.replicas
    ));
    for finding in report.findings {
        match finding.is_warning {
            true => render::print_warning(&finding.text),
            false => render::print_stdout_line(finding.text),
        }
    }
    Ok(())
}

fn print_cluster_status(status: &ClusterStatus) {
    render::print_stdout_line(format!(
        "{} sessions, {} with inputs that wait, {} with inputs that failed for good (dead letters)",
        status.sessions, status.waiting, status.dead
    ));
    for queue in &status.queues {
        let class = render::printable_text(&queue.class);
        render::print_stdout_line(format!(
            "class {class}: {} sessions with work, the oldest waiting for {} s",
            queue.wakes,
            queue.oldest_ms / 1000
        ));
    }
    quota::print_quotas(status);
    if status.workers.is_empty() {
        render::print_warning("no worker answered");
    }
    status.workers.iter().for_each(print_worker);
}

fn print_worker(worker: &WorkerStatus) {
    render::print_stdout_line(format!(
        "worker {} ({}): {} of {} slots busy, {} turns{}",
        render::printable_text(&worker.name),
        render::printable_text(&worker.class),
        worker.busy,
        worker.slots,
        worker.turns,
        if worker.is_draining { ", draining" } else { "" }
    ));
    if let Some(plugins) = &worker.plugins {
        let plugins = render::truncate_to_one_line(plugins, MAX_SHOWN_STATUS_FIELD_CHARS);
        render::print_stdout_line(format!("  set of plugins {plugins}"));
    }
    if let Some(fault) = &worker.fault {
        render::print_warning(&render::truncate_to_one_line(
            fault,
            MAX_SHOWN_WORKER_FAULT_CHARS,
        ));
    }
}

fn print_dead_letter(dead: &DeadLetter) {
    render::print_stdout_line(format!(
        "{} input {}, {} attempts: {}",
        render::printable_text(&dead.session),
        render::printable_text(&dead.input),
        dead.attempts,
        render::truncate_to_one_line(&dead.cause, MAX_SHOWN_STATUS_FIELD_CHARS)
    ));
}
