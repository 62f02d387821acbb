//! Receives the trace records and effects of hooks, and forwards them to the events, the session
//! file, the log, and the plugin's store.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use super::halt::AgentHaltReason;
use crate::event::{Event, EventSender};
use crate::lock::lock_ignoring_poison;
use crate::point::ExtensionPoint;
use crate::point::catalog;
use crate::point::dispatch::ExtensionPointKind;
use crate::point::outcome::{Effect, Level, LogLine, Metric};
use crate::point::payload::FailureReport;
use crate::point::trace::{AccessRecord, DispatchReportSink, TraceOutcome, TraceRecord};
use crate::session::{Body, PluginActionReport, Session};

/// Callback that saves a value in a plugin's store; its arguments are the plugin's name, the key
/// and the value. The store outlives sessions, so the code that builds the agent provides the
/// callback.
pub type PluginKeyValueWriter = Arc<dyn Fn(&str, &str, &str) + Send + Sync>;

pub(super) struct AgentDispatchReportSink {
    outlet: HookEffectExecutor,
    /// Failures of hooks that wait to be passed to the hooks of `error`. The sink cannot call these
    /// hooks itself.
    failures: Mutex<Vec<FailureReport>>,
    halt: Arc<AgentHaltReason>,
    agent: Arc<str>,
    /// Main agent's session, whose audit log also covers this agent.
    root: Arc<Session>,
    has_told_of_gap: AtomicBool,
}

impl AgentDispatchReportSink {
    pub(super) fn new(
        outlet: HookEffectExecutor,
        agent: Arc<str>,
        halt: Arc<AgentHaltReason>,
        root: Arc<Session>,
    ) -> Self {
        Self {
            outlet,
            failures: Mutex::new(Vec::new()),
            halt,
            agent,
            root,
            has_told_of_gap: AtomicBool::new(false),
        }
    }

    /// Handles a hook that failed, or was not called because it failed before. A failed hook of the
    /// audit log is recorded in the session as a gap of the log; a failed observing hook with
    /// `on_failure = "block"` ends the running turn of the session, or its next turn if none runs.
    fn record_failed_hook(&self, record: &TraceRecord) {
        let is_blocking = matches!(
            record.outcome,
            TraceOutcome::FailedBlocking | TraceOutcome::DroppedBlocking
        );
        let is_missed = matches!(record.outcome, TraceOutcome::Failed | TraceOutcome::Dropped);
        if !is_blocking && !is_missed {
            return;
        }
        let why = record.reason.clone().unwrap_or_default();
        if &*record.plugin == rind_audit::PLUGIN {
            // Write this entry at once, while other reports wait for the next entry: it shows that
            // the audit log is incomplete.
            self.root.append_or_defer_error(Body::AuditGap {
                agent: self.agent.to_string(),
                turn: record.turn,
                step: record.step,
                point: record.point.to_string(),
                reason: why.clone(),
            });
            if !self.has_told_of_gap.swap(true, Ordering::Relaxed) {
                let text = format!(
                    "the audit log has a gap, because the hook that writes it failed at {}: {why}",
                    record.point
                );
                self.outlet
                    .events
                    .emit(Event::create_host_notice(Level::Warn, text));
            }
        }
        let only_looks = catalog::find_builtin_extension_point(&record.point)
            .is_some_and(|row| row.kind == ExtensionPointKind::Observe);
        if is_blocking && only_looks {
            self.halt.set_reason(format!(
                "plugin {} must observe every event (on_failure = \"block\"), but its hook at {} failed: {why}",
                record.plugin, record.point
            ));
        }
    }

    /// Removes and returns the recorded failures, but leaves the first `n` in the list.
    pub(super) fn take_failures(&self, n: usize) -> Vec<FailureReport> {
        let mut failures = lock_ignoring_poison(&self.failures);
        let n = n.min(failures.len());
        failures.split_off(n)
    }

    pub(super) fn n_failures(&self) -> usize {
        lock_ignoring_poison(&self.failures).len()
    }

    /// Records that a plugin's code accessed something outside its sandbox.
    pub(super) fn record_plugin_access(&self, record: AccessRecord) {
        self.outlet.record_plugin_access(record);
    }
}

impl DispatchReportSink for AgentDispatchReportSink {
    fn record_hook_trace(&self, record: TraceRecord) {
        let is_failure = matches!(
            record.outcome,
            TraceOutcome::Failed | TraceOutcome::FailedBlocking
        );
        // Do not report a failing hook of `error` to the hooks of `error`: that would never end.
        if is_failure && record.point != catalog::Error::NAME {
            lock_ignoring_poison(&self.failures).push(FailureReport {
                where_: record.point.to_string(),
                message: record.reason.clone().unwrap_or_default(),
                plugin: Some(record.plugin.to_string()),
            });
        }
        self.record_failed_hook(&record);
        self.outlet
            .session
            .append_plugin_report(&PluginActionReport::Trace(&record));
        self.outlet.events.emit(Event::Hook { record });
    }

    fn handle_hook_effect(&self, plugin: &Arc<str>, effect: Effect) {
        self.outlet.apply_effect(plugin, effect);
    }
}

/// Carries out the effects of hooks: both those in the outcome of a hook and those that a plugin
/// requests while it runs.
#[derive(Clone)]
pub(super) struct HookEffectExecutor {
    pub(super) session: Arc<Session>,
    pub(super) events: EventSender,
    pub(super) keep: PluginKeyValueWriter,
}

impl HookEffectExecutor {
    pub(super) fn record_plugin_access(&self, record: AccessRecord) {
        self.session
            .append_plugin_report(&PluginActionReport::Access(&record));
        self.events.emit(Event::Access { record });
    }

    pub(super) fn apply_effect(&self, plugin: &str, effect: Effect) {
        match effect {
            Effect::Log(line) => log_plugin_line(plugin, line.level, &line.text),
            Effect::Metric(Metric { name, value }) => self.events.emit(Event::Metric {
                plugin: plugin.to_owned(),
                name,
                value,
            }),
            Effect::Store(stored) => {
                // First write the values that the plugin set earlier, so that they are stored in
                // the order in which the plugin set them. If writing fails, the session returns
                // the error when its next entry is written.
                let _ = self.session.write_deferred_lines();
                (self.keep)(plugin, &stored.key, &stored.value);
            }
            Effect::Notify(LogLine { level, text }) => self.events.emit(Event::Notice {
                level,
                plugin: Some(plugin.to_owned()),
                text,
            }),
        }
    }
}

/// Writes a line of a plugin to the log. `tracing` needs targets that are known at compile time, so
/// the plugin's name is a field.
pub(super) fn log_plugin_line(plugin: &str, level: Level, text: &str) {
    match level {
        Level::Debug => tracing::debug!(target: "plugin", plugin, "{text}"),
        Level::Info => tracing::info!(target: "plugin", plugin, "{text}"),
        Level::Warn => tracing::warn!(target: "plugin", plugin, "{text}"),
        Level::Error => tracing::error!(target: "plugin", plugin, "{text}"),
    }
}
