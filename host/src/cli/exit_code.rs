//! Exit codes, documented in `host/README.md` and in `--help`.

use std::process::ExitCode;

use crate::point::payload::StopReason;
use crate::session;

/// Exit status of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExitStatus {
    /// 0: the turn is done, the command did its work.
    Done,
    /// 1: the model, the host or a plugin failed; the error is on standard error.
    Failed,
    /// 2: the command line or a settings file is wrong. `clap` uses it too.
    Usage,
    /// 3: a hook or the policy ended the turn.
    Blocked,
    /// 4: the step limit ended the turn.
    MaxSteps,
    /// 130: interrupted.
    Interrupted,
}

impl From<ExitStatus> for ExitCode {
    fn from(exit: ExitStatus) -> Self {
        Self::from(match exit {
            ExitStatus::Done => 0,
            ExitStatus::Failed => 1,
            ExitStatus::Usage => 2,
            ExitStatus::Blocked => 3,
            ExitStatus::MaxSteps => 4,
            ExitStatus::Interrupted => 130,
        })
    }
}

impl From<StopReason> for ExitStatus {
    fn from(stop: StopReason) -> Self {
        match stop {
            StopReason::Done => Self::Done,
            StopReason::MaxSteps => Self::MaxSteps,
            StopReason::Blocked => Self::Blocked,
            StopReason::Cancelled => Self::Interrupted,
            StopReason::Failed => Self::Failed,
        }
    }
}

/// Returns the exit status for an error of a command.
pub(super) fn of_error(error: &anyhow::Error) -> ExitStatus {
    // As the outermost context it is not in the chain itself.
    let is_usage = error.is::<Usage>()
        || error.chain().any(|cause| {
            cause.is::<crate::config::Error>()
            || cause.is::<crate::grant::policy::PolicyError>()
            || cause.is::<Usage>()
            // The model's failures during a turn are events; here it is a wrong name, a missing key, a bad script.
            || cause.is::<crate::provider::Error>()
            || matches!(
                cause.downcast_ref(),
                Some(
                    session::Error::Unknown { .. }
                        | session::Error::Ambiguous { .. }
                        | session::Error::Elsewhere { .. }
                )
            )
        });
    let is_refused = |cause: &(dyn std::error::Error + 'static)| {
        if let Some(crate::agent::Error::Guard(_)) = cause.downcast_ref() {
            return true;
        }
        let error = cause.downcast_ref();
        matches!(
            error,
            Some(crate::plugin::Error::Required { .. } | crate::plugin::Error::Relied { .. })
        )
    };
    if is_usage {
        ExitStatus::Usage
    } else if error.chain().any(is_refused) {
        ExitStatus::Blocked
    } else {
        ExitStatus::Failed
    }
}

/// Error in the command line.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Usage(pub(super) String);

/// The exit codes for `--help`.
pub(super) const HELP: &str = "Exit codes: 0 done · 1 failed · 2 wrong usage or settings · 3 blocked by a hook or the policy · \
                               4 step limit reached · 130 interrupted";
