//! Surroundings of commands of `bash` and of scripts: their confinement and their variables.

use std::path::PathBuf;

use super::super::process::Passed;
use super::super::process::confine::Confinement;

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
    /// Returns the surroundings of a program that runs as commands do, or the reason why none may
    /// run.
    pub(crate) fn around(&self) -> Result<Around, String> {
        let (confine, keeper) = match self.confining.clone() {
            Confining::Free => (None, None),
            Confining::Kept(keeper) => (None, Some(keeper)),
            Confining::Unconfined { keeper, .. } => (None, keeper),
            Confining::Confined(confinement) => (Some(confinement), None),
            Confining::Refused(why) => return Err(why),
        };
        Ok(Around { confine, keeper })
    }
}
