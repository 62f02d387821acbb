//! Exit codes, documented in `host/docs/get-started.md` and in `--help`.

use std::error::Error;
use std::process::ExitCode;

use rind_lib::grant::policy::CapabilityPolicyError;
use rind_lib::point::payload::StopReason;
use rind_lib::{agent, config, host, plugin, provider, session};
pub(super) use rind_operator::usage::{Usage, bail_usage};

/// Exit status of the program; each value is the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExitStatus {
    /// The turn or the command was successful.
    Done = 0,
    /// The model, the host or a plugin failed; the error is on standard error.
    Failed = 1,
    /// The command line or a settings file is wrong. `clap` uses this code too.
    Usage = 2,
    /// A hook or the policy stopped the turn.
    Blocked = 3,
    /// The turn ended because it reached its maximum number of steps.
    MaxSteps = 4,
    Interrupted = 130,
}

impl ExitStatus {
    /// Returns `Done` if the command succeeded, otherwise `Failed`.
    pub(super) fn from_success_flag(is_done: bool) -> Self {
        if is_done { Self::Done } else { Self::Failed }
    }
}

impl From<ExitStatus> for ExitCode {
    fn from(exit: ExitStatus) -> Self {
        Self::from(exit as u8)
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

pub(super) fn exit_status_for_error(error: &anyhow::Error) -> ExitStatus {
    use session::Error::{Ambiguous, Elsewhere, Exists, InvalidId, NoneYet, Unknown};
    let is_usage = |cause: &(dyn Error + 'static)| {
        cause.is::<config::Error>()
            || cause.is::<CapabilityPolicyError>()
            || cause.is::<Usage>()
            // A provider that fails during a turn emits an event. An error of a provider can only
            // mean a wrong name, a missing key or a bad script.
            || cause.is::<provider::Error>()
            || matches!(
                session_error_in_cause(cause),
                Some(
                    Unknown { .. }
                        | NoneYet { .. }
                        | Ambiguous { .. }
                        | Elsewhere { .. }
                        | Exists { .. }
                        | InvalidId { .. }
                )
            )
    };
    let is_refused = |cause: &(dyn Error + 'static)| {
        use plugin::Error::{Relied, Required};
        matches!(cause.downcast_ref(), Some(agent::Error::Guard(_)))
            || matches!(cause.downcast_ref(), Some(Required { .. } | Relied { .. }))
    };
    // Check the error itself too: `chain` yields a wrapper for its outermost context, which does
    // not downcast.
    if error.is::<Usage>() || error.chain().any(is_usage) {
        ExitStatus::Usage
    } else if error.chain().any(is_refused) {
        ExitStatus::Blocked
    } else {
        ExitStatus::Failed
    }
}

/// Returns the session error inside an error. [`host::Error`] is transparent, so its session error
/// is not in the `source` chain.
fn session_error_in_cause<'a>(cause: &'a (dyn Error + 'static)) -> Option<&'a session::Error> {
    match cause.downcast_ref() {
        Some(host::Error::Session(error)) => Some(error),
        _ => cause.downcast_ref(),
    }
}

pub(super) const EXIT_CODES_HELP_TEXT: &str = "Exit codes: 0 done · 1 failed · 2 wrong usage or settings · 3 blocked by a hook or the policy · \
                               4 step limit reached · 130 interrupted";
