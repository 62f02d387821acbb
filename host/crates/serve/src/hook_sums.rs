//! Counts the hook calls of each plugin and each script since the server started: their number,
//! durations and failures.
//!
//! Only sums are kept, so memory does not grow with the number of calls. Sessions record the
//! individual calls.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use rind_lib::event::{Event, Stamped};
use rind_lib::lock::lock_ignoring_poison;
use rind_lib::point::trace::{TraceOutcome, TraceRecord};
use schemars::JsonSchema;
use serde::Serialize;

/// Hook calls of one plugin or script since the server started.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub(crate) struct PluginHookCallStats {
    /// Number of hook calls that failed since the server started.
    pub(crate) failures: u64,
    /// Most recent failed hook call; absent if no call failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last_failure: Option<HookFailure>,
    /// Totals for each extension point at which the hooks were called, the slowest hook first.
    pub(crate) hooks: Vec<HookSum>,
}

/// Failed call of a hook.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct HookFailure {
    /// Name of the extension point at which the hook was called.
    pub(crate) point: String,
    /// Reason why the hook call failed.
    pub(crate) reason: String,
    /// Id of the session in which the hook call failed.
    pub(crate) session: String,
    /// Time of the failure, in milliseconds since 1970.
    pub(crate) time: i64,
}

/// Number and duration of the calls of one hook.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct HookSum {
    /// Name of the extension point at which the hook is called.
    pub(crate) point: String,
    /// Number of calls of the hook since the server started.
    pub(crate) calls: u64,
    /// Average duration of a call, in milliseconds.
    pub(crate) average_ms: f64,
    /// Duration of the slowest call, in milliseconds.
    pub(crate) slowest_ms: f64,
    /// Id of the session in which the slowest call was made.
    pub(crate) slowest_session: String,
}

#[derive(Default)]
struct PluginHookCallTotals {
    failures: u64,
    last_failure: Option<HookFailure>,
    hooks: BTreeMap<String, HookPointTotals>,
}

struct HookPointTotals {
    calls: u64,
    micros: f64,
    slowest_micros: f64,
    slowest_session: Arc<str>,
}

/// Sums of the plugins of one host, by their names.
#[derive(Default)]
pub(crate) struct HookCallTotals(Mutex<BTreeMap<Arc<str>, PluginHookCallTotals>>);

impl HookCallTotals {
    /// Adds the hook call that an event reports. Other events are ignored.
    pub(crate) fn count_hook_call_event(&self, stamped: &Stamped) {
        let Event::Hook { record } = &stamped.event else {
            return;
        };
        if record.was_hook_called() {
            let session = stamped.session.clone().unwrap_or_default();
            self.add_hook_call(record, session, stamped.at.as_millisecond());
        }
    }

    fn add_hook_call(&self, record: &TraceRecord, session: Arc<str>, time: i64) {
        let mut plugins = lock_ignoring_poison(&self.0);
        let plugin = plugins.entry(record.plugin.clone()).or_default();
        if let TraceOutcome::Failed | TraceOutcome::FailedBlocking = record.outcome {
            plugin.failures += 1;
            plugin.last_failure = Some(HookFailure {
                point: record.point.to_string(),
                reason: record.reason.clone().unwrap_or_default(),
                session: session.to_string(),
                time,
            });
        }
        if let Some(hook) = plugin.hooks.get_mut(&*record.point) {
            hook.calls += 1;
            hook.micros += record.micros;
            if record.micros > hook.slowest_micros {
                hook.slowest_micros = record.micros;
                hook.slowest_session = session;
            }
            return;
        }
        let first = HookPointTotals {
            calls: 1,
            micros: record.micros,
            slowest_micros: record.micros,
            slowest_session: session,
        };
        plugin.hooks.insert(record.point.to_string(), first);
    }

    /// Returns the names of the plugins and scripts whose hooks were called.
    pub(crate) fn hook_owner_names(&self) -> Vec<Arc<str>> {
        lock_ignoring_poison(&self.0).keys().cloned().collect()
    }

    /// Returns the totals of all hook calls of the plugin or script called `name`.
    pub(crate) fn plugin_hook_totals(&self, name: &str) -> PluginHookCallStats {
        let plugins = lock_ignoring_poison(&self.0);
        let Some(plugin) = plugins.get(name) else {
            return PluginHookCallStats::default();
        };
        let hook = |(point, sum): (&String, &HookPointTotals)| HookSum {
            point: point.clone(),
            calls: sum.calls,
            average_ms: sum.micros / sum.calls as f64 / 1e3,
            slowest_ms: sum.slowest_micros / 1e3,
            slowest_session: sum.slowest_session.to_string(),
        };
        let mut hooks: Vec<HookSum> = plugin.hooks.iter().map(hook).collect();
        hooks.sort_by(|a, b| b.slowest_ms.total_cmp(&a.slowest_ms));
        PluginHookCallStats {
            failures: plugin.failures,
            last_failure: plugin.last_failure.clone(),
            hooks,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_hook_comes_first_and_failures_keep_their_session() {
        let sums = HookCallTotals::default();
        let call = |point: &'static str, outcome, micros, session: &str| {
            let record = TraceRecord {
                point: point.into(),
                plugin: "guard".into(),
                outcome,
                changed: Vec::new(),
                reason: Some("out of fuel".to_owned()),
                micros,
                turn: 1,
                step: 1,
                call_id: None,
            };
            sums.add_hook_call(&record, session.into(), 7);
        };
        call("pre-tool", TraceOutcome::Pass, 1000.0, "a");
        call("turn-end", TraceOutcome::Pass, 2000.0, "a");
        call("pre-tool", TraceOutcome::FailedBlocking, 4000.0, "b");
        let guard = sums.plugin_hook_totals("guard");
        let first = &guard.hooks[0];
        assert_eq!(
            (&*first.point, first.calls, &*first.slowest_session),
            ("pre-tool", 2, "b")
        );
        assert_eq!((first.average_ms, first.slowest_ms), (2.5, 4.0));
        assert_eq!(guard.failures, 1);
        assert_eq!(guard.last_failure.unwrap().session, "b");
        assert!(sums.plugin_hook_totals("other").hooks.is_empty());
    }
}
