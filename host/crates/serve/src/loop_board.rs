//! Shows the state of each plugin's loop, computed from the events of its runs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use rind_lib::event::{Event, LoopResult, Stamped};
use rind_lib::lock::lock_ignoring_poison;
use schemars::JsonSchema;
use serde::Serialize;

use crate::hook_sums::HookCallTotals;

/// State of the loop of a plugin.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct LoopRow {
    /// Name of the plugin whose loop this is.
    pub(crate) plugin: String,
    /// Id of the session in which the loop runs.
    pub(crate) session: String,
    /// Number of runs of the loop that ended since the server started.
    pub(crate) runs: u64,
    /// Number of consecutive runs that failed, up to the last one.
    pub(crate) failures: u32,
    /// Duration of the last run of the loop in milliseconds; absent before the first run ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last_run_ms: Option<u64>,
    /// Reason that the plugin gave for another run, or the error of the last run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last_reason: Option<String>,
    /// Time of the next run in milliseconds since 1970; in the past while the loop runs. Absent
    /// before the first run has ended, and if the loop has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next_run: Option<i64>,
    /// Whether the loop has ended and will not run again.
    pub(crate) has_ended: bool,
}

/// State of all loops that a server runs, by plugin.
pub struct LoopStatusBoard {
    loops: Mutex<BTreeMap<String, LoopRow>>,
    hooks: Arc<HookCallTotals>,
}

impl LoopStatusBoard {
    /// Creates an empty board. Hook calls during the runs of loops are counted in `hooks`.
    pub(crate) fn new(hooks: Arc<HookCallTotals>) -> Self {
        Self {
            loops: Mutex::default(),
            hooks,
        }
    }

    /// Adds a loop that is about to run. `session` is the session of all its runs.
    pub fn add_loop(&self, plugin: &str, session: &str) {
        let row = LoopRow {
            plugin: plugin.to_owned(),
            session: session.to_owned(),
            runs: 0,
            failures: 0,
            last_run_ms: None,
            last_reason: None,
            next_run: None,
            has_ended: false,
        };
        lock_ignoring_poison(&self.loops).insert(plugin.to_owned(), row);
    }

    /// Updates the row of the loop from an event of the loop's session.
    pub fn update_from_event(&self, stamped: &Stamped) {
        match &stamped.event {
            Event::LoopRun {
                plugin,
                outcome,
                reason,
                duration_ms,
                ..
            } => self.update_loop_row(plugin, |row| {
                row.runs += 1;
                row.failures = match outcome {
                    LoopResult::Failed => row.failures + 1,
                    _ => 0,
                };
                row.last_run_ms = Some(*duration_ms);
                row.last_reason.clone_from(reason);
                // After a failure, this value is preliminary: unless the run was the last one, a
                // `LoopWait` event follows and sets it to false.
                row.has_ended = !matches!(outcome, LoopResult::Again);
            }),
            Event::LoopWait {
                plugin, delay_ms, ..
            } => self.update_loop_row(plugin, |row| {
                let delay = i64::try_from(*delay_ms).unwrap_or(i64::MAX);
                let now = stamped.at.as_millisecond();
                row.next_run = Some(now.saturating_add(delay));
                row.has_ended = false;
            }),
            _ => self.hooks.count_hook_call_event(stamped),
        }
    }

    fn update_loop_row(&self, plugin: &str, change: impl FnOnce(&mut LoopRow)) {
        if let Some(row) = lock_ignoring_poison(&self.loops).get_mut(plugin) {
            row.next_run = None;
            change(row);
        }
    }

    /// Returns the rows of all loops, sorted by the names of their plugins.
    pub(crate) fn build_loop_rows(&self) -> Vec<LoopRow> {
        lock_ignoring_poison(&self.loops)
            .values()
            .cloned()
            .collect()
    }
}
