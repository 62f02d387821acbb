//! Describes why a program was not confined, and whether the reason is permanent.
//!
//! The distinction is a security decision. A mechanism that the kernel does not offer may be
//! replaced by a weaker one. A mechanism that failed must not be replaced: a command can cause a
//! failure, such as a full disk or an exhausted limit, and would thereby weaken the confinement of
//! later commands.

use std::fmt;
use std::io;

use rustix::io::Errno;

/// Reason why the confinement of a program could not be set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfinementFailureReason {
    /// The machine does not offer or does not enforce the confinement mechanism. Another attempt
    /// would fail too.
    Missing(String),
    /// Setup failed for a reason that may be temporary: disk, memory, limits, timeout, settings.
    /// Every error that is not known to mean [`Missing`](Self::Missing) is classified as this.
    Failed(String),
}

/// Exit code with which the helper reports [`ConfinementFailureReason::Missing`].
pub(super) const MISSING_KERNEL_FEATURE_EXIT_CODE: u8 = 125;

/// Error codes with which a kernel reports that it does not offer a system call, or does not offer
/// it to this user.
const MISSING_KERNEL_FEATURE_ERRNOS: &[Errno] = &[
    Errno::PERM,
    Errno::ACCESS,
    Errno::NOSYS,
    Errno::INVAL,
    Errno::OPNOTSUPP,
    Errno::NODEV,
];

/// Messages of `bwrap` for the errors in [`MISSING_KERNEL_FEATURE_ERRNOS`], and the message of a
/// `bwrap` that is too old.
const BWRAP_MISSING_FEATURE_MESSAGES: &[&str] = &[
    "Operation not permitted",
    "Permission denied",
    "No permissions to create",
    "Function not implemented",
    "Invalid argument",
    "Operation not supported",
    "No such device",
    "Unknown option",
];

/// Kinds of namespaces whose number the kernel limits. With the limit 0, an administrator disabled
/// the kind.
#[cfg(target_os = "linux")]
const LIMITED_NAMESPACE_KINDS: [&str; 7] = ["user", "mnt", "pid", "ipc", "uts", "net", "cgroup"];

impl ConfinementFailureReason {
    /// Classifies an error of a system call that sets up the confinement. `what` names the failed
    /// step.
    pub(super) fn from_system_error(what: impl fmt::Display, error: &io::Error) -> Self {
        let why = format!("{what}: {error}");
        let errno = Errno::from_io_error(error);
        let is_missing = errno.is_some_and(|errno| {
            MISSING_KERNEL_FEATURE_ERRNOS.contains(&errno)
                || (errno == Errno::NOSPC && are_namespaces_disabled())
        });
        if is_missing {
            Self::Missing(why)
        } else {
            Self::Failed(why)
        }
    }

    /// Classifies the error text `said` of the helper or of `bwrap`, which exited with `code`.
    pub(super) fn from_helper_failure(code: i32, said: String) -> Self {
        let is_of_bwrap = said.lines().any(|line| line.starts_with("bwrap: "));
        let says_so = || {
            BWRAP_MISSING_FEATURE_MESSAGES
                .iter()
                .any(|words| said.contains(words))
                || (said.contains("ENOSPC") && are_namespaces_disabled())
        };
        if code == i32::from(MISSING_KERNEL_FEATURE_EXIT_CODE) || (is_of_bwrap && says_so()) {
            Self::Missing(said)
        } else {
            Self::Failed(said)
        }
    }

    /// Puts `what`, the failed step, in front of the reason.
    pub(super) fn with_failed_step(self, what: &str) -> Self {
        match self {
            Self::Missing(why) => Self::Missing(format!("{what}: {why}")),
            Self::Failed(why) => Self::Failed(format!("{what}: {why}")),
        }
    }

    /// Returns the text of the reason, to be shown to users.
    #[must_use]
    pub fn reason_text(&self) -> &str {
        let (Self::Missing(why) | Self::Failed(why)) = self;
        why
    }
}

impl From<String> for ConfinementFailureReason {
    fn from(why: String) -> Self {
        Self::Failed(why)
    }
}

impl fmt::Display for ConfinementFailureReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason_text())
    }
}

/// Whether an administrator disabled a kind of namespaces. The kernel then reports ENOSPC, which it
/// also reports when a limit is reached.
#[cfg(target_os = "linux")]
fn are_namespaces_disabled() -> bool {
    LIMITED_NAMESPACE_KINDS.iter().any(|kind| {
        let most = std::fs::read_to_string(format!("/proc/sys/user/max_{kind}_namespaces"));
        most.is_ok_and(|most| most.trim() == "0")
    })
}

#[cfg(not(target_os = "linux"))]
fn are_namespaces_disabled() -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_definite_no_of_the_kernel_means_that_a_mechanism_is_missing() {
        let call =
            |errno: Errno| ConfinementFailureReason::from_system_error("unshare", &errno.into());
        for errno in MISSING_KERNEL_FEATURE_ERRNOS {
            assert!(
                matches!(call(*errno), ConfinementFailureReason::Missing(_)),
                "{errno}"
            );
        }
        for errno in [
            Errno::AGAIN,
            Errno::NOMEM,
            Errno::MFILE,
            Errno::NFILE,
            Errno::DQUOT,
            Errno::IO,
            Errno::INTR,
            Errno::NOENT,
        ] {
            assert!(
                matches!(call(errno), ConfinementFailureReason::Failed(_)),
                "{errno}"
            );
        }
        let unknown =
            ConfinementFailureReason::from_system_error("unshare", &io::Error::other("cut off"));
        assert!(matches!(unknown, ConfinementFailureReason::Failed(_)));
        for (code, said, is_missing) in [
            (125, "this kernel has no Landlock", true),
            (126, "this kernel has no Landlock", false),
            (1, "bwrap: No permissions to create new namespace", true),
            (
                1,
                "bwrap: Creating new namespace failed: Resource temporarily unavailable",
                false,
            ),
            (1, "Operation not permitted", false),
        ] {
            let found = ConfinementFailureReason::from_helper_failure(code, said.to_owned());
            assert_eq!(
                matches!(found, ConfinementFailureReason::Missing(_)),
                is_missing,
                "{said}"
            );
        }
    }
}
