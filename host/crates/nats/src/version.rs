//! Parses versions of the NATS server, and checks which of them can keep sessions safely.

use std::fmt;

/// Oldest supported server. Before 2.11, a cluster checks the expected sequence too early, so that
/// concurrent appends of several writers can all succeed. Versions from 2.11 to before 2.14 were
/// not tested with replicas.
const OLDEST_SUPPORTED_SERVER_VERSION: NatsServerVersion = NatsServerVersion {
    major: 2,
    minor: 14,
    patch: 0,
};

/// Recommended server version. With replicas and a sync for each append, it appends a third faster
/// than the oldest supported version.
const RECOMMENDED_SERVER_VERSION: NatsServerVersion = NatsServerVersion {
    major: 2,
    minor: 15,
    patch: 0,
};

/// Version of a NATS server, without a suffix such as `-RC.1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NatsServerVersion {
    major: u64,
    minor: u64,
    patch: u64,
}

impl NatsServerVersion {
    /// Parses the version that a server reports; `None` if it is not three numbers. Ignores a
    /// suffix after the numbers, as in `2.15.0-RC.1`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let numbers = text.trim_start_matches('v').split(['-', '+']).next()?;
        let mut numbers = numbers.split('.').map(|number| number.parse().ok());
        let (major, minor, patch) = (numbers.next()??, numbers.next()??, numbers.next()??);
        numbers.next().is_none().then_some(Self {
            major,
            minor,
            patch,
        })
    }

    /// Whether Rind can store sessions on a server of this version.
    #[must_use]
    pub fn is_supported(self) -> bool {
        self >= OLDEST_SUPPORTED_SERVER_VERSION
    }

    /// Whether the server should be updated to the recommended version.
    #[must_use]
    pub fn is_update_advised(self) -> bool {
        self < RECOMMENDED_SERVER_VERSION
    }
}

impl fmt::Display for NatsServerVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_servers_give_them() {
        let parse = |text| NatsServerVersion::parse(text).map(|version| version.to_string());
        assert_eq!(parse("2.15.1").as_deref(), Some("2.15.1"));
        assert_eq!(parse("v2.14.0-RC.2").as_deref(), Some("2.14.0"));
        for text in [
            "",
            "2",
            "2.14",
            "2.x.1",
            "2.14.0.1",
            "-1.2.3",
            "99999999999999999999.1.1",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn old_servers_are_refused_and_2_15_is_advised() {
        let of = |text| NatsServerVersion::parse(text).unwrap();
        assert!(!of("2.9.10").is_supported() && !of("2.13.9").is_supported());
        assert!(of("2.14.0").is_supported() && of("2.14.0").is_update_advised());
        assert!(of("2.15.1").is_supported() && !of("2.15.1").is_update_advised());
        assert!(of("3.0.0").is_supported());
    }
}
