//! Runs the conformance kit for session stores on one server and on three.

use rind_nats::NatsSessions;
use rind_nats_tests::{NatsServers, ServerSetup};
use rind_session_test::{CHECKS, StoreHandles};

/// Runs each check with its own tenant. Returns the failures.
fn failures(servers: &NatsServers) -> Vec<String> {
    let mut failed = Vec::new();
    for (n, check) in CHECKS.iter().enumerate() {
        let config = servers.config(&format!("check-{n}")).with_partitions(1);
        let own = NatsSessions::connect(config.clone()).unwrap();
        let other = NatsSessions::connect(config).unwrap();
        failed.extend(check.run(&StoreHandles::new(own, other)).err());
    }
    failed
}

#[test]
fn one_server_passes_the_conformance_kit() {
    let servers = NatsServers::start(ServerSetup::ONE);
    assert_eq!(failures(&servers), Vec::<String>::new());
}

#[test]
fn three_servers_that_sync_pass_the_conformance_kit() {
    let servers = NatsServers::start(ServerSetup {
        is_synced: true,
        ..ServerSetup::THREE
    });
    assert_eq!(failures(&servers), Vec::<String>::new());
}
