//! Confinement and environment of commands of `bash` and of scripts.

use std::ffi::OsString;
use std::path::PathBuf;

use super::super::process::VariablesToPass;
use super::super::process::confine::ConfinementPermissions;
use super::RetriedConfinementSetup;

/// Confinement and environment of commands and scripts. By default, they run unconfined and with
/// the usual environment variables.
#[derive(Clone, Debug, Default)]
pub struct CommandConfinementAndEnvironment {
    /// Confinement by the kernel, or the reason why there is none.
    pub confining: CommandConfinementMode,
    /// Environment variables that commands get in addition to the usual ones.
    pub env: VariablesToPass,
    /// Shell that runs the command with `-c`. Default: `bash`, or `sh` if there is no `bash`.
    pub shell: Option<OsString>,
}

/// Way in which commands are confined to the workspace, if they are.
#[derive(Clone, Debug, Default)]
pub enum CommandConfinementMode {
    /// No confinement, because none was requested.
    #[default]
    Free,
    /// No confinement. The command runs under Rind's own binary at this path, which ends all of its
    /// processes at the end of the call.
    Kept(PathBuf),
    /// Confinement by the kernel, with these permissions.
    Confined(ConfinementPermissions),
    /// No confinement, although it was requested. Approval questions show the reason.
    Unconfined {
        /// Reason why commands are not confined.
        why: String,
        /// Path of Rind's own binary, which runs as a helper that ends the command's processes, as
        /// in [`Self::Kept`]; `None` if nothing ends them.
        keeper: Option<PathBuf>,
    },
    /// Commands are refused, because they cannot be confined for this reason.
    Refused(String),
    /// Confinement whose setup has failed. Each call tries the setup again and is refused if it
    /// still fails.
    RetryingConfinement(RetriedConfinementSetup),
}

impl CommandConfinementMode {
    /// Returns the confinement in force, or the one that applies once a retry of the setup
    /// succeeds; `None` if commands run unconfined or not at all.
    pub(super) fn configured_confinement(&self) -> Option<&ConfinementPermissions> {
        match self {
            Self::Confined(confinement) => Some(confinement),
            Self::RetryingConfinement(retried) => Some(retried.configured_confinement()),
            Self::Free | Self::Kept(_) | Self::Unconfined { .. } | Self::Refused(_) => None,
        }
    }
}

impl From<CommandConfinementMode> for CommandConfinementAndEnvironment {
    fn from(confining: CommandConfinementMode) -> Self {
        Self {
            confining,
            ..Self::default()
        }
    }
}

/// Confinement and keeper of a process:
/// [`ProcessSpec::confine`](crate::tool::process::ProcessSpec::confine) and
/// [`ProcessSpec::keeper`](crate::tool::process::ProcessSpec::keeper).
pub(crate) struct ProcessConfinementSettings {
    pub(crate) confine: Option<ConfinementPermissions>,
    pub(crate) keeper: Option<PathBuf>,
}

impl CommandConfinementAndEnvironment {
    /// Settings for commands that the user types: they run in the user's own shell, with all
    /// variables and rights of the user. The binary at `keeper` ends the processes that the
    /// commands leave running.
    #[must_use]
    pub fn for_user_shell(keeper: Option<PathBuf>, shell: Option<OsString>) -> Self {
        Self {
            confining: keeper.map_or(CommandConfinementMode::Free, CommandConfinementMode::Kept),
            env: VariablesToPass::with_all_variables(),
            shell,
        }
    }

    /// Returns the confinement of a program that runs with these settings, and the path of the
    /// binary that ends its processes (the keeper). The error is the reason why the program must
    /// not run, worded as the predicate of a sentence that begins with "commands".
    pub(crate) async fn resolve_process_confinement(
        &self,
    ) -> Result<ProcessConfinementSettings, String> {
        let (confine, keeper) = match self.confining.clone() {
            CommandConfinementMode::Free => (None, None),
            CommandConfinementMode::Kept(keeper) => (None, Some(keeper)),
            CommandConfinementMode::Unconfined { keeper, .. } => (None, keeper),
            CommandConfinementMode::Confined(confinement) => (Some(confinement), None),
            CommandConfinementMode::Refused(why) => {
                return Err(format!(
                    "must run confined, and this machine cannot do it: {why}. `bash = \"off\"` in [sandbox] of config.toml runs \
                     them with all rights of the user"
                ));
            }
            CommandConfinementMode::RetryingConfinement(retried) => {
                match retried.get_or_detect_confinement().await {
                    Ok(confinement) => (Some(confinement), None),
                    Err(obstacle) => {
                        return Err(format!(
                            "must run confined, but the confinement cannot be set up: {obstacle}. The next call tries again"
                        ));
                    }
                }
            }
        };
        Ok(ProcessConfinementSettings { confine, keeper })
    }
}
