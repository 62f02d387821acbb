//! Settings for confining `bash`, and the resulting confinement on this machine.
//!
//! Does no input or output: `process::confine` detects the capabilities of the machine, and the
//! code that reads the settings resolves the paths. Start from [`build_command_environment`].

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::builtin::{
    CommandConfinementAndEnvironment, CommandConfinementMode, RetriedConfinementSetup,
};
use super::process::VariablesToPass;
use super::process::confine::{ConfinementFailureReason, DetectedConfinement, Limits};
use crate::config::{Section, number};

/// Whether commands must run confined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SandboxRequirement {
    /// Commands run confined or not at all.
    #[default]
    Required,
    /// Commands run confined. On a machine without any mechanism, commands run with all rights of
    /// the user, and a notice informs the user. If a mechanism exists but fails, commands are
    /// refused.
    WhenPossible,
    /// Commands run with all rights of the user.
    Off,
}

/// Confinement of commands that the user types in the chat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UserCommandConfinement {
    /// No confinement: the user's shell (`SHELL`), with all their variables and rights.
    #[default]
    Shell,
    /// The same confinement as commands of `bash`.
    Confined,
}

/// Choice of the mechanism that confines commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SandboxMechanismChoice {
    /// First mechanism that works, in the order of the following variants.
    #[default]
    Auto,
    /// Namespaces created by Rind.
    Namespaces,
    /// Namespaces created by the program `bwrap`.
    Bwrap,
    /// Landlock and the filter for system calls (seccomp), without namespaces.
    Landlock,
}

/// Confinement of commands and scripts. A path may begin with `~/`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SandboxConfig {
    /// Whether the commands of `bash` must run confined. Default: required.
    pub bash: Option<SandboxRequirement>,
    /// Confinement of commands that the user types in the chat after `!`; `shell` means none.
    /// Default: shell.
    pub own_commands: UserCommandConfinement,
    /// Mechanism that confines commands. Default: auto.
    pub mechanism: SandboxMechanismChoice,
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
    pub env: VariablesToPass,
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
    pub fn sandbox_requirement(&self) -> SandboxRequirement {
        self.bash.unwrap_or_default()
    }

    /// Returns the resource limits of a command.
    #[must_use]
    pub fn command_limits(&self) -> Limits {
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

/// Returns the confinement of commands, from the settings and the
/// [detected](crate::tool::process::confine::detect_confinement) mechanism. `keeper` is Rind's own
/// binary, which ends processes that unconfined commands leave running. `retried` is a confinement
/// whose setup has failed and that each call tries to set up again.
#[must_use]
pub fn build_command_environment(
    config: &SandboxConfig,
    detected: &Result<DetectedConfinement, ConfinementFailureReason>,
    keeper: Option<PathBuf>,
    retried: Option<&RetriedConfinementSetup>,
) -> CommandConfinementAndEnvironment {
    let confining = match (config.sandbox_requirement(), detected) {
        (SandboxRequirement::Off, _) => {
            keeper.map_or(CommandConfinementMode::Free, CommandConfinementMode::Kept)
        }
        (_, Ok(detected)) => CommandConfinementMode::Confined(detected.confinement.clone()),
        (_, Err(ConfinementFailureReason::Failed(why))) => retried.map_or_else(
            || CommandConfinementMode::Refused(why.clone()),
            |retried| CommandConfinementMode::RetryingConfinement(retried.clone()),
        ),
        // If the operator names a mechanism, do not fall back to running unconfined.
        (SandboxRequirement::WhenPossible, Err(ConfinementFailureReason::Missing(why)))
            if config.mechanism == SandboxMechanismChoice::Auto =>
        {
            CommandConfinementMode::Unconfined {
                why: why.clone(),
                keeper,
            }
        }
        (_, Err(ConfinementFailureReason::Missing(why))) => {
            CommandConfinementMode::Refused(why.clone())
        }
    };
    CommandConfinementAndEnvironment {
        confining,
        env: config.env.clone(),
        shell: None,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::tool::process::confine::{ConfinementMechanism, ConfinementPermissions};

    /// Name of the variant.
    fn way(
        bash: Option<SandboxRequirement>,
        mechanism: SandboxMechanismChoice,
        obstacle: ConfinementFailureReason,
    ) -> &'static str {
        let config = SandboxConfig {
            bash,
            mechanism,
            ..SandboxConfig::default()
        };
        let wanted = ConfinementPermissions {
            helper: PathBuf::new(),
            mechanism: ConfinementMechanism::Landlock,
            write: Vec::new(),
            read: Vec::new(),
            hidden: Vec::new(),
            network: false,
            limits: Limits::default(),
            git_settings: String::new(),
            records: None,
        };
        let retried = RetriedConfinementSetup::new(wanted, || {
            Box::pin(std::future::ready(Err(ConfinementFailureReason::Failed(
                String::new(),
            ))))
        });
        let keeper = Some(Path::new("/rind").to_owned());
        match build_command_environment(&config, &Err(obstacle), keeper, Some(&retried)).confining {
            CommandConfinementMode::Free | CommandConfinementMode::Kept(_) => "off",
            CommandConfinementMode::Confined(_) => "confined",
            CommandConfinementMode::Unconfined { .. } => "unconfined",
            CommandConfinementMode::Refused(_) => "refused",
            CommandConfinementMode::RetryingConfinement(_) => "retried",
        }
    }

    #[test]
    fn a_confinement_that_failed_never_lets_commands_run_and_a_missing_one_only_where_the_operator_says_so()
     {
        let missing = || ConfinementFailureReason::Missing("no Landlock".to_owned());
        let failed = || ConfinementFailureReason::Failed("disk full".to_owned());
        for (bash, mechanism, when_missing, when_failed) in [
            (None, SandboxMechanismChoice::Auto, "refused", "retried"),
            (
                Some(SandboxRequirement::Required),
                SandboxMechanismChoice::Auto,
                "refused",
                "retried",
            ),
            (
                Some(SandboxRequirement::WhenPossible),
                SandboxMechanismChoice::Auto,
                "unconfined",
                "retried",
            ),
            (
                Some(SandboxRequirement::WhenPossible),
                SandboxMechanismChoice::Landlock,
                "refused",
                "retried",
            ),
            (
                Some(SandboxRequirement::Off),
                SandboxMechanismChoice::Auto,
                "off",
                "off",
            ),
        ] {
            assert_eq!(way(bash, mechanism, missing()), when_missing, "{bash:?}");
            assert_eq!(way(bash, mechanism, failed()), when_failed, "{bash:?}");
        }
    }
}
