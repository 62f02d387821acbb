//! Reason why a program was not confined, and whether trying again can help.
//!
//! The difference decides what may happen next. A mechanism that a kernel does not offer can be replaced by a weaker one. One
//! that failed must not be: a full disk or an exhausted limit, which a command can bring about, would otherwise remove the
//! confinement of the commands that follow.

use std::fmt;
use std::io;

use rustix::io::Errno;

/// Reason why a program was not confined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// This machine does not offer the mechanism, or does not enforce it; that stays so.
    Missing(String),
    /// Setting it up failed, for a reason that may pass: disk, memory, limits, time, settings. Everything that is not known to
    /// be [`Missing`](Self::Missing) counts as this.
    Failed(String),
}

/// Exit code of the helper for [`Obstacle::Missing`].
pub(super) const MISSING: u8 = 125;

/// Errors with which a kernel says that it does not offer a call, or not to this user.
const OF_MISSING: &[Errno] = &[
    Errno::PERM,
    Errno::ACCESS,
    Errno::NOSYS,
    Errno::INVAL,
    Errno::OPNOTSUPP,
    Errno::NODEV,
];

/// The same errors in the messages of `bwrap`, and the message of one that is too old.
const OF_MISSING_IN_WORDS: &[&str] = &[
    "Operation not permitted",
    "Permission denied",
    "No permissions to create",
    "Function not implemented",
    "Invalid argument",
    "Operation not supported",
    "No such device",
    "Unknown option",
];

/// Limits of namespaces. Zero means that an administrator switched them off.
#[cfg(target_os = "linux")]
const NAMESPACE_LIMITS: [&str; 7] = ["user", "mnt", "pid", "ipc", "uts", "net", "cgroup"];

impl Obstacle {
    /// Classifies an error of a system call that sets up the confinement.
    pub(super) fn of_call(what: impl fmt::Display, error: &io::Error) -> Self {
        let why = format!("{what}: {error}");
        let errno = Errno::from_io_error(error);
        let is_missing = errno.is_some_and(|errno| {
            OF_MISSING.contains(&errno) || (errno == Errno::NOSPC && are_namespaces_off())
        });
        if is_missing {
            Self::Missing(why)
        } else {
            Self::Failed(why)
        }
    }

    /// Classifies what a helper or `bwrap` wrote before it exited with this code.
    pub(super) fn of_helper(code: i32, said: String) -> Self {
        let is_of_bwrap = said.lines().any(|line| line.starts_with("bwrap: "));
        let says_so = || {
            OF_MISSING_IN_WORDS.iter().any(|words| said.contains(words))
                || (said.contains("ENOSPC") && are_namespaces_off())
        };
        if code == i32::from(MISSING) || (is_of_bwrap && says_so()) {
            Self::Missing(said)
        } else {
            Self::Failed(said)
        }
    }

    /// Puts words before the reason.
    pub(super) fn within(self, what: &str) -> Self {
        match self {
            Self::Missing(why) => Self::Missing(format!("{what}: {why}")),
            Self::Failed(why) => Self::Failed(format!("{what}: {why}")),
        }
    }

    /// Returns the reason, for people.
    #[must_use]
    pub fn why(&self) -> &str {
        let (Self::Missing(why) | Self::Failed(why)) = self;
        why
    }
}

impl From<String> for Obstacle {
    fn from(why: String) -> Self {
        Self::Failed(why)
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.why())
    }
}

/// Whether an administrator has switched namespaces off. The kernel then answers ENOSPC, as it does when a limit is reached.
#[cfg(target_os = "linux")]
fn are_namespaces_off() -> bool {
    NAMESPACE_LIMITS.iter().any(|kind| {
        let most = std::fs::read_to_string(format!("/proc/sys/user/max_{kind}_namespaces"));
        most.is_ok_and(|most| most.trim() == "0")
    })
}

#[cfg(not(target_os = "linux"))]
fn are_namespaces_off() -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_definite_no_of_the_kernel_means_that_a_mechanism_is_missing() {
        let call = |errno: Errno| Obstacle::of_call("unshare", &errno.into());
        for errno in OF_MISSING {
            assert!(matches!(call(*errno), Obstacle::Missing(_)), "{errno}");
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
            assert!(matches!(call(errno), Obstacle::Failed(_)), "{errno}");
        }
        let unknown = Obstacle::of_call("unshare", &io::Error::other("cut off"));
        assert!(matches!(unknown, Obstacle::Failed(_)));
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
            let found = Obstacle::of_helper(code, said.to_owned());
            assert_eq!(matches!(found, Obstacle::Missing(_)), is_missing, "{said}");
        }
    }
}
