//! Progress of a turn, and the calls that did not run because the agent could not ask for approval.
//!
//! The turn writes it, and the tools for subagents read it. Start from [`TurnProgress`].

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::lock::lock_ignoring_poison;
use crate::text::escape_and_truncate_line;

/// Maximum number of blocked calls that are recorded: a model may repeat a call many times.
const MAX_RECORDED_BLOCKED_CALLS: usize = 8;

/// Maximum length in bytes of the description of a call that was blocked for lack of approval.
const MAX_BLOCKED_CALL_DESCRIPTION_BYTES: usize = 400;

/// Progress of a running turn: its current step, last tool and blocked calls.
#[derive(Debug, Default)]
pub(super) struct TurnProgress {
    step: AtomicU32,
    tool: Mutex<Option<String>>,
    blocked: Mutex<Vec<String>>,
}

impl TurnProgress {
    /// Records the number of the step that begins.
    pub(super) fn record_step(&self, step: u32) {
        self.step.store(step, Ordering::Relaxed);
    }

    /// Returns the number of the current step; 0 before the first step.
    pub(super) fn current_step(&self) -> u32 {
        self.step.load(Ordering::Relaxed)
    }

    /// Records the name of the tool that was started last.
    pub(super) fn record_last_tool(&self, name: &str) {
        *lock_ignoring_poison(&self.tool) = Some(name.to_owned());
    }

    /// Returns the name of the tool that the agent called last.
    pub(super) fn last_tool(&self) -> Option<String> {
        lock_ignoring_poison(&self.tool).clone()
    }

    /// Records a call that did not run, because it needs approval and the agent cannot ask for it.
    pub(super) fn record_blocked_call(&self, call: &str) {
        let call = escape_and_truncate_line(call, MAX_BLOCKED_CALL_DESCRIPTION_BYTES);
        let mut blocked = lock_ignoring_poison(&self.blocked);
        if blocked.len() < MAX_RECORDED_BLOCKED_CALLS && !blocked.contains(&call) {
            blocked.push(call);
        }
    }

    /// Returns descriptions of the calls that were blocked so far, without duplicates.
    pub(super) fn describe_blocked_calls(&self) -> Vec<String> {
        lock_ignoring_poison(&self.blocked).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blocked_call_is_kept_once_and_their_number_is_bounded() {
        let progress = TurnProgress::default();
        for n in 0..100 {
            progress.record_blocked_call(&format!("`bash`\n{}", n % 20));
            progress.record_blocked_call("`bash`\n0");
        }
        assert_eq!(
            progress.describe_blocked_calls().len(),
            MAX_RECORDED_BLOCKED_CALLS
        );
        assert_eq!(progress.describe_blocked_calls()[0], "`bash` 0");
    }
}
