//! Settings for confining `bash`, and their result on this machine.
//!
//! Pure: what the machine can do is found out by `process::confine`, and the paths are made whole by whoever reads the
//! settings. Start from [`commands`].

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::builtin::{Commands, Confining};
use super::process::Passed;
use super::process::confine::{Detected, Limits};
use crate::config::{Section, number};

/// Whether commands must run confined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Need {
    /// Commands run confined or not at all.
    Required,
    /// Commands run confined where the machine supports it; elsewhere a notice says that they are not.
    #[default]
    WhenPossible,
    /// Commands run with all rights of the user.
    Off,
}

/// Choice of the mechanism that confines commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Choice {
    /// The first that holds, in the order below.
    #[default]
    Auto,
    /// Namespaces that Rind makes.
    Namespaces,
    /// Namespaces that the program `bwrap` makes.
    Bwrap,
    /// Landlock and the system call filter alone.
    Landlock,
}

/// The section `[sandbox]`. A path may begin with `~/`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct SandboxConfig {
    /// Whether the commands of `bash` must run confined. Default: when-possible.
    pub bash: Need,
    /// Confinement of commands. Default: auto.
    pub mechanism: Choice,
    /// Whether they may open network connections. Default: no.
    pub network: bool,
    /// Folders and files that they may read besides the workspace, the system and the usual tools.
    pub read: Vec<String>,
    /// Folders and files that they may change besides the workspace. They must be there.
    pub write: Vec<String>,
    /// Environment variables that they get besides the usual ones: names, and prefixes such as
    /// `APP_*`. A name that looks like a secret (`KEY`, `TOKEN`, `SECRET`, `PASSWORD` …) is passed
    /// only if it is written out. Scripts get the same variables.
    pub env: Passed,
    /// Most memory of all processes of a command together, in MiB. Default: three quarters of the machine's.
    #[serde(deserialize_with = "number::within_if_set::<16, 0x0400_0000, _, _>")]
    pub memory_mb: Option<u64>,
    /// Most processes and threads of a command. Default: 128 for each processor, at least 512 and
    /// at most 4096.
    #[serde(deserialize_with = "number::within_if_set::<8, 4_194_304, _, _>")]
    pub processes: Option<u64>,
    /// Largest file that a command may write, in MiB. Default: 16 GiB.
    #[serde(deserialize_with = "number::within_if_set::<1, 0x0400_0000, _, _>")]
    pub file_mb: Option<u64>,
    /// Most free space of a disk that a command may take, in MiB. Default: 64 GiB, and never the last of it.
    #[serde(deserialize_with = "number::within_if_set::<1, 0x4000_0000, _, _>")]
    pub disk_mb: Option<u64>,
    /// Most that the temporary folder of a command may hold where it is in memory, in MiB. Default: a quarter of the machine's
    /// memory, at most 4 GiB.
    #[serde(deserialize_with = "number::within_if_set::<1, 0x0400_0000, _, _>")]
    pub temporary_mb: Option<u64>,
}

impl SandboxConfig {
    /// Returns the resource limits of a command.
    #[must_use]
    pub(crate) fn limits(&self) -> Limits {
        let usual = Limits::default();
        let bytes = |mb: Option<u64>, usual| mb.map_or(usual, |mb| mb.saturating_mul(1 << 20));
        Limits {
            memory_bytes: bytes(self.memory_mb, usual.memory_bytes),
            processes: self.processes.unwrap_or(usual.processes),
            file_bytes: bytes(self.file_mb, usual.file_bytes),
            disk_bytes: bytes(self.disk_mb, usual.disk_bytes),
            temporary_bytes: bytes(self.temporary_mb, usual.temporary_bytes),
        }
    }
}

impl Section for SandboxConfig {
    const NAME: &'static str = "sandbox";
}

/// Returns the way in which commands run, from the settings and what was
/// [detected](crate::tool::process::confine::detect). `keeper` is Rind's own binary, which ends
/// what unconfined commands leave behind.
#[must_use]
pub(crate) fn commands(
    config: &SandboxConfig,
    detected: &Result<Detected, String>,
    keeper: Option<PathBuf>,
) -> Commands {
    let confining = match (config.bash, detected) {
        (Need::Off, _) => keeper.map_or(Confining::Free, Confining::Kept),
        (_, Ok(detected)) => Confining::Confined(detected.confinement.clone()),
        (Need::WhenPossible, Err(why)) => Confining::Unconfined {
            why: why.clone(),
            keeper,
        },
        (Need::Required, Err(why)) => Confining::Refused(why.clone()),
    };
    Commands {
        confining,
        env: config.env.clone(),
    }
}
