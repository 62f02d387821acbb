//! Settings for confining `bash`, and the resulting confinement on this machine.
//!
//! Pure: `process::confine` detects the capabilities of the machine, and the code that reads the
//! settings resolves the paths. Start from [`confined_commands`].

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::builtin::{Commands, Confining, Retried};
use super::process::Passed;
use super::process::confine::{Detected, Limits, Obstacle};
use crate::config::{Section, number};

/// Whether commands must run confined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SandboxNeed {
    /// Commands run confined or not at all.
    #[default]
    Required,
    /// Commands run confined. On a machine without any mechanism they run with all rights of the
    /// user, and a notice says so. If a mechanism exists but failed, commands are refused.
    WhenPossible,
    /// Commands run with all rights of the user.
    Off,
}

/// Confinement of commands that the user types in the chat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OwnCommands {
    /// No confinement: the user's shell (`SHELL`), with all their variables and rights.
    #[default]
    Shell,
    /// The same confinement as commands of `bash`.
    Confined,
}

/// Choice of the mechanism that confines commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MechanismChoice {
    /// First mechanism that works, in the order below.
    #[default]
    Auto,
    /// Namespaces created by Rind.
    Namespaces,
    /// Namespaces created by the program `bwrap`.
    Bwrap,
    /// Landlock and the system call filter only.
    Landlock,
}

/// Confinement of commands and scripts. A path may begin with `~/`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SandboxConfig {
    /// Whether the commands of `bash` must run confined. Default: required.
    pub bash: Option<SandboxNeed>,
    /// Confinement of commands that the user types in the chat after `!`; `shell` means none.
    /// Default: shell.
    pub own_commands: OwnCommands,
    /// Mechanism that confines commands. Default: auto.
    pub mechanism: MechanismChoice,
    /// Whether commands may open network connections. Default: no.
    pub network: bool,
    /// Directories and files that commands may read, in addition to the workspace, the system and
    /// the usual tools.
    pub read: Vec<String>,
    /// Directories and files that commands may change, in addition to the workspace. Each must
    /// exist.
    pub write: Vec<String>,
    /// Environment variables that commands get besides the usual ones: names, and prefixes such as
    /// `APP_*`. A name that looks like a secret (`KEY`, `TOKEN`, `SECRET`, `PASSWORD` …) is passed
    /// only if it is written out. Scripts get the same variables.
    pub env: Passed,
    /// Maximum memory of all processes of a command together, in MiB. Default: three quarters of
    /// the machine's memory.
    #[serde(deserialize_with = "number::within_if_set::<16, 0x0400_0000, _, _>")]
    pub memory_mb: Option<u64>,
    /// Maximum number of processes and threads of a command. Default: 128 for each processor, at
    /// least 512 and at most 4096.
    #[serde(deserialize_with = "number::within_if_set::<8, 4_194_304, _, _>")]
    pub processes: Option<u64>,
    /// Maximum size of a file that a command writes, in MiB. Default: 16 GiB.
    #[serde(deserialize_with = "number::within_if_set::<1, 0x0400_0000, _, _>")]
    pub file_mb: Option<u64>,
    /// Maximum amount of free disk space that a command may use up, in MiB. Default: 64 GiB, and
    /// never all of it.
    #[serde(deserialize_with = "number::within_if_set::<1, 0x4000_0000, _, _>")]
    pub disk_mb: Option<u64>,
    /// Maximum size of a command's temporary directory if that is in memory, in MiB. Default: a
    /// quarter of the machine's memory, at most 4 GiB.
    #[serde(deserialize_with = "number::within_if_set::<1, 0x0400_0000, _, _>")]
    pub temporary_mb: Option<u64>,
}

impl SandboxConfig {
    /// Returns whether commands must run confined.
    #[must_use]
    pub fn need(&self) -> SandboxNeed {
        self.bash.unwrap_or_default()
    }

    /// Returns the resource limits of a command.
    #[must_use]
    pub fn limits(&self) -> Limits {
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

/// Returns how commands run, from the settings and the
/// [detected](crate::tool::process::confine::detect) confinement. `keeper` is Rind's own binary,
/// which ends the leftover processes of unconfined commands. `retried` is a confinement that failed
/// and that each call tries to set up again.
#[must_use]
pub fn confined_commands(
    config: &SandboxConfig,
    detected: &Result<Detected, Obstacle>,
    keeper: Option<PathBuf>,
    retried: Option<&Retried>,
) -> Commands {
    let confining = match (config.need(), detected) {
        (SandboxNeed::Off, _) => keeper.map_or(Confining::Free, Confining::Kept),
        (_, Ok(detected)) => Confining::Confined(detected.confinement.clone()),
        (_, Err(Obstacle::Failed(why))) => retried.map_or_else(
            || Confining::Refused(why.clone()),
            |retried| Confining::Retried(retried.clone()),
        ),
        // If the operator names a mechanism, do not fall back to running unconfined.
        (SandboxNeed::WhenPossible, Err(Obstacle::Missing(why)))
            if config.mechanism == MechanismChoice::Auto =>
        {
            Confining::Unconfined {
                why: why.clone(),
                keeper,
            }
        }
        (_, Err(Obstacle::Missing(why))) => Confining::Refused(why.clone()),
    };
    Commands {
        confining,
        env: config.env.clone(),
        shell: None,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::tool::process::confine::{Confinement, Mechanism};

    /// Name of the variant.
    fn way(
        bash: Option<SandboxNeed>,
        mechanism: MechanismChoice,
        obstacle: Obstacle,
    ) -> &'static str {
        let config = SandboxConfig {
            bash,
            mechanism,
            ..SandboxConfig::default()
        };
        let wanted = Confinement {
            helper: PathBuf::new(),
            mechanism: Mechanism::Landlock,
            write: Vec::new(),
            read: Vec::new(),
            hidden: Vec::new(),
            network: false,
            limits: Limits::default(),
            git_settings: String::new(),
            records: None,
        };
        let retried = Retried::new(wanted, || {
            Box::pin(std::future::ready(Err(Obstacle::Failed(String::new()))))
        });
        let keeper = Some(Path::new("/rind").to_owned());
        match confined_commands(&config, &Err(obstacle), keeper, Some(&retried)).confining {
            Confining::Free | Confining::Kept(_) => "off",
            Confining::Confined(_) => "confined",
            Confining::Unconfined { .. } => "unconfined",
            Confining::Refused(_) => "refused",
            Confining::Retried(_) => "retried",
        }
    }

    #[test]
    fn a_confinement_that_failed_never_lets_commands_run_and_a_missing_one_only_where_the_operator_says_so()
     {
        let missing = || Obstacle::Missing("no Landlock".to_owned());
        let failed = || Obstacle::Failed("disk full".to_owned());
        for (bash, mechanism, when_missing, when_failed) in [
            (None, MechanismChoice::Auto, "refused", "retried"),
            (
                Some(SandboxNeed::Required),
                MechanismChoice::Auto,
                "refused",
                "retried",
            ),
            (
                Some(SandboxNeed::WhenPossible),
                MechanismChoice::Auto,
                "unconfined",
                "retried",
            ),
            (
                Some(SandboxNeed::WhenPossible),
                MechanismChoice::Landlock,
                "refused",
                "retried",
            ),
            (Some(SandboxNeed::Off), MechanismChoice::Auto, "off", "off"),
        ] {
            assert_eq!(way(bash, mechanism, missing()), when_missing, "{bash:?}");
            assert_eq!(way(bash, mechanism, failed()), when_failed, "{bash:?}");
        }
    }
}
