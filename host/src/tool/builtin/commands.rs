//! Confinement and environment of commands of `bash` and of scripts.

use std::ffi::OsString;
use std::path::PathBuf;

use super::super::process::Passed;
use super::super::process::confine::Confinement;
use super::Retried;

/// Confinement and environment of commands and scripts. The default is no confinement and the usual
/// variables.
#[derive(Clone, Debug, Default)]
pub struct Commands {
    /// Confinement by the kernel, or the reason why there is none.
    pub confining: Confining,
    /// Additional environment variables.
    pub env: Passed,
    /// Shell that runs the command with `-c`. Default: `bash`, or `sh` if there is no `bash`.
    pub shell: Option<OsString>,
}

/// Confinement of commands to the workspace.
#[derive(Clone, Debug, Default)]
pub enum Confining {
    /// No confinement, as requested.
    #[default]
    Free,
    /// No confinement, but Rind's own binary at this path ensures that every process ends with the
    /// call.
    Kept(PathBuf),
    /// Confinement by the kernel.
    Confined(Confinement),
    /// No confinement, although it was requested. Approval questions show the reason.
    Unconfined {
        /// Reason why commands are not confined.
        why: String,
        /// Path of Rind's own binary, as in [`Self::Kept`], if it ensures that processes end with
        /// the call.
        keeper: Option<PathBuf>,
    },
    /// Commands are refused, because they cannot be confined for this reason.
    Refused(String),
    /// Setting up the confinement has failed. Each call retries, and is refused if that fails too.
    Retried(Retried),
}

impl Confining {
    /// Returns the confinement in force, or the one that will be in force once setup succeeds.
    pub(super) fn wanted(&self) -> Option<&Confinement> {
        match self {
            Self::Confined(confinement) => Some(confinement),
            Self::Retried(retried) => Some(retried.wanted()),
            Self::Free | Self::Kept(_) | Self::Unconfined { .. } | Self::Refused(_) => None,
        }
    }
}

impl From<Confining> for Commands {
    fn from(confining: Confining) -> Self {
        Self {
            confining,
            ..Self::default()
        }
    }
}

/// Confinement and keeper of a process:
/// [`Process::confine`](crate::tool::process::Process::confine) and
/// [`Process::keeper`](crate::tool::process::Process::keeper).
pub(crate) struct ProcessSurroundings {
    pub(crate) confine: Option<Confinement>,
    pub(crate) keeper: Option<PathBuf>,
}

impl Commands {
    /// Settings for commands that the user types: they run in the user's own shell, with all
    /// variables and rights of the user. The binary at `keeper` ends the processes that they leave
    /// running.
    #[must_use]
    pub fn of_user(keeper: Option<PathBuf>, shell: Option<OsString>) -> Self {
        Self {
            confining: keeper.map_or(Confining::Free, Confining::Kept),
            env: Passed::everything(),
            shell,
        }
    }

    /// Returns the confinement and the keeper for a program that runs as commands do. The error is
    /// the reason why the program must not run, phrased to follow "commands".
    pub(crate) async fn around(&self) -> Result<ProcessSurroundings, String> {
        let (confine, keeper) = match self.confining.clone() {
            Confining::Free => (None, None),
            Confining::Kept(keeper) => (None, Some(keeper)),
            Confining::Unconfined { keeper, .. } => (None, keeper),
            Confining::Confined(confinement) => (Some(confinement), None),
            Confining::Refused(why) => {
                return Err(format!(
                    "must run confined, and this machine cannot do it: {why}. `bash = \"off\"` in [sandbox] of config.toml runs \
                     them with all rights of the user"
                ));
            }
            Confining::Retried(retried) => match retried.confinement().await {
                Ok(confinement) => (Some(confinement), None),
                Err(obstacle) => {
                    return Err(format!(
                        "must run confined, and that failed: {obstacle}. The next call tries again"
                    ));
                }
            },
        };
        Ok(ProcessSurroundings { confine, keeper })
    }
}
