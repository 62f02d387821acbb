//! Tests of sessions and workers with real NATS servers.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on fails, and counts of faults are shown"
)]

mod approvals;
mod chat;
mod dead;
mod fair;
mod figures;
mod front;
mod hostile;
mod moved;
mod operate;
mod plugin_sets;
mod queue;
mod quotas;
mod races;
mod rounds;
mod servers;
mod snapshots;
mod store;

mod workers;
