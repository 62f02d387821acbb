//! Surroundings of commands of `bash` and of scripts: their confinement and their variables.

use std::path::PathBuf;

use super::super::process::Passed;
use super::super::process::confine::Confinement;
use super::Retried;

/// Surroundings of commands and scripts. The default confines nothing and passes the usual
/// variables.
#[derive(Clone, Debug, Default)]
pub struct Commands {
    /// Confinement by the kernel, or why there is none.
    pub confining: Confining,
    /// Variables of the environment that they get.
    pub env: Passed,
}

/// Confinement of commands to the workspace.
#[derive(Clone, Debug, Default)]
pub enum Confining {
    /// No confinement, as requested.
    #[default]
    Free,
    /// No confinement; Rind's own binary at this path sees to it that everything ends with the
    /// call.
    Kept(PathBuf),
    /// Confinement by the kernel.
    Confined(Confinement),
    /// No confinement, although it was requested: whoever approves a call is told the reason.
    Unconfined {
        /// Reason.
        why: String,
        /// Keeper as in `Kept`, where there is one.
        keeper: Option<PathBuf>,
    },
    /// Commands are refused, because they cannot be confined for this reason.
    Refused(String),
    /// Setting up the confinement has failed. Each call tries again, and is refused when that fails as well.
    Retried(Retried),
}

impl Confining {
    /// Returns the confinement that commands get, or would get once it can be set up.
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
            env: Passed::default(),
        }
    }
}

/// Surroundings of a process: [`Process::confine`](crate::tool::process::Process::confine) and
/// [`Process::keeper`](crate::tool::process::Process::keeper).
pub(crate) struct Around {
    pub(crate) confine: Option<Confinement>,
    pub(crate) keeper: Option<PathBuf>,
}

impl Commands {
    /// Returns the surroundings of a program that runs as commands do, or the reason why it must not run, which ends a
    /// sentence.
    pub(crate) async fn around(&self) -> Result<Around, String> {
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
        Ok(Around { confine, keeper })
    }
}
