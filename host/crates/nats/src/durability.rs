//! Reports which failures of the servers lose acknowledged messages.
//!
//! Servers report their version and the number of replicas to clients, but not the interval at
//! which they sync to their disks. The operator declares the interval in the settings
//! ([`DeclaredDiskSyncInterval`]).

use serde::Serialize;

use crate::{DeclaredDiskSyncInterval, NatsError, NatsServerVersion, NatsSessions, client};

/// Durability of acknowledged messages with the current configuration of the servers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DurabilityReport {
    /// Version of the server to which this program is connected.
    pub version: String,
    /// Number of NATS servers that keep a copy of each message.
    pub replicas: usize,
    /// Findings about the configuration of the servers, with the warnings first.
    pub findings: Vec<DurabilityFinding>,
}

/// Property of the NATS servers' configuration that affects durability.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DurabilityFinding {
    /// Whether the finding is a warning, so that the operator should change something.
    pub is_warning: bool,
    /// Finding about the durability of messages, as a sentence for the operator.
    pub text: String,
}

impl NatsSessions {
    /// Reports the durability of acknowledged messages with the current configuration of the
    /// servers.
    ///
    /// # Errors
    /// The server of the connection cannot keep sessions.
    pub fn durability_report(&self) -> Result<DurabilityReport, NatsError> {
        let parts = self.shared_store_state();
        let version = client::check_server_supports_sessions(parts.link.client(), &parts.config)?;
        Ok(describe_durability(
            version,
            parts.streams.replicas,
            parts.config.sync,
        ))
    }
}

fn describe_durability(
    version: NatsServerVersion,
    replicas: usize,
    sync: DeclaredDiskSyncInterval,
) -> DurabilityReport {
    let finding = |is_warning, text: String| DurabilityFinding { is_warning, text };
    let mut findings = vec![match sync {
        DeclaredDiskSyncInterval::Always => finding(
            false,
            "declared `sync_interval: always`: an acknowledged entry survives a power failure of all servers".to_owned(),
        ),
        DeclaredDiskSyncInterval::Interval(time) => finding(
            true,
            format!(
                "declared a sync interval of {} s: a power failure of {} may lose acknowledged entries of that time, \
                 and a tool may then run twice; set `sync_interval: always` in the `jetstream` block of every server",
                time.as_secs(),
                if replicas > 1 { "most servers at once" } else { "the server" }
            ),
        ),
        DeclaredDiskSyncInterval::Unknown => finding(
            true,
            "the sync interval of the servers is not declared (their default is 2 minutes): set `sync_interval: always` on every server, and declare it"
                .to_owned(),
        ),
    }];
    findings.push(match replicas {
        0 | 1 => finding(
            true,
            "one replica: while that server is away nothing can be written, and its disk is the only copy".to_owned(),
        ),
        2 => finding(true, "two replicas stop when either server stops; use 3".to_owned()),
        _ => finding(
            false,
            format!("{replicas} replicas: writing continues while {} of them are unavailable", (replicas - 1) / 2),
        ),
    });
    if version.is_update_advised() {
        let text = format!(
            "the server has version {version}; 2.15 is recommended, because it appends with replicas a third faster"
        );
        findings.push(finding(true, text));
    }
    findings.sort_by_key(|finding| !finding.is_warning);
    DurabilityReport {
        version: version.to_string(),
        replicas,
        findings,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_report_warns_of_what_is_not_declared_and_of_one_replica() {
        let of = |text| NatsServerVersion::parse(text).unwrap();
        let n_warnings = |report: &DurabilityReport| {
            let findings = report.findings.iter();
            findings.filter(|finding| finding.is_warning).count()
        };
        let good = describe_durability(of("2.15.1"), 3, DeclaredDiskSyncInterval::Always);
        assert_eq!(n_warnings(&good), 0, "{good:?}");
        let bad = describe_durability(of("2.14.0"), 1, DeclaredDiskSyncInterval::Unknown);
        assert_eq!(n_warnings(&bad), 3, "{bad:?}");
        let slow = describe_durability(
            of("2.15.1"),
            3,
            DeclaredDiskSyncInterval::Interval(Duration::from_secs(60)),
        );
        assert!(slow.findings[0].is_warning && slow.findings[0].text.contains("60 s"));
    }
}
