//! Checks the NATS servers and workers for sessions on several machines, if the person named
//! servers.

use super::super::cluster::ServerCheckArgs;
use super::DoctorCheck;
use rind_nats::DurabilityReport;
use rind_nats::worker::ClusterStatus;

/// Age of the oldest input, in milliseconds, from which on workers are considered too few or stuck.
const LONG_QUEUE_WAIT_MS: u64 = 60_000;

/// Returns the findings about servers and workers; none if no server is named.
pub(super) async fn run_cluster_checks(args: ServerCheckArgs) -> Vec<DoctorCheck> {
    match args.check_nats_durability_and_status().await {
        Ok(None) => Vec::new(),
        Ok(Some((report, status))) => vec![
            check_nats_storage_durability(&report).with_name("sessions on NATS"),
            check_cluster_workers(&status).with_name("workers"),
        ],
        Err(error) => vec![
            DoctorCheck::new_missing_required_part(format!("{error:#}"))
                .with_consequence_text("no session on these servers can be opened")
                .with_name("sessions on NATS"),
        ],
    }
}

fn check_nats_storage_durability(report: &DurabilityReport) -> DoctorCheck {
    let found = format!("server {}, {} replicas", report.version, report.replicas);
    let texts = |is_warning: bool| {
        let findings = report.findings.iter();
        let texts = findings.filter(|finding| finding.is_warning == is_warning);
        let texts: Vec<&str> = texts.map(|finding| finding.text.as_str()).collect();
        texts.join("; ")
    };
    let warnings = texts(true);
    match warnings.is_empty() {
        true => DoctorCheck::new_passed(found).with_consequence_text(texts(false)),
        false => DoctorCheck::new_for_weaker_protection(found).with_consequence_text(warnings),
    }
}

fn check_cluster_workers(status: &ClusterStatus) -> DoctorCheck {
    let found = format!(
        "{} workers, {} sessions with inputs that wait, {} with dead letters",
        status.workers.len(),
        status.waiting,
        status.dead
    );
    // Report a class without workers at once, because none of its turns can begin.
    let late: Vec<&str> = status
        .queues
        .iter()
        .filter(|queue| {
            let workers = status.workers.iter();
            let own = workers.filter(|worker| worker.class == queue.class);
            let is_served = own.clone().any(|worker| !worker.is_draining);
            // The queue also has a wake message for each session whose turn is running. Sessions
            // wait only if there are more wake messages than busy slots.
            let is_waiting = queue.wakes > own.map(|worker| worker.busy).sum();
            !is_served || (is_waiting && queue.oldest_ms >= LONG_QUEUE_WAIT_MS)
        })
        .map(|queue| queue.class.as_str())
        .collect();
    if !late.is_empty() {
        return DoctorCheck::new_for_weaker_protection(found)
            .with_consequence_text(format!(
                "inputs of the class {} wait for a free worker",
                late.join(", ")
            ))
            .with_advice("start workers of the class: rind worker --nats URL --class NAME");
    }
    match status.dead {
        0 => DoctorCheck::new_passed(found),
        _ => DoctorCheck::new_for_weaker_protection(found)
            .with_consequence_text("workers gave inputs up")
            .with_advice("rind cluster dead --nats URL lists them with their causes"),
    }
}
