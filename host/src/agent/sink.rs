//! Where hooks' traces and effects go: to the events, the session file, the log, and the plugin's store.

use std::sync::{Arc, Mutex, PoisonError};

use crate::event::{Event, Events};
use crate::point::Point;
use crate::point::catalog;
use crate::point::outcome::{Effect, Level};
use crate::point::payload::FailureReport;
use crate::point::trace::{AccessRecord, Sink, TraceOutcome, TraceRecord};
use crate::session::{Report, Session};

/// Keeps a value in a plugin's store: name of the plugin, key, value. The store outlives sessions, so it is not the
/// agent's; whoever builds the agent says where it is.
pub type KeepInStore = Arc<dyn Fn(&str, &str, &str) + Send + Sync>;

/// The sink of one agent.
pub(super) struct AgentSink {
    outlet: Outlet,
    /// Failures of hooks that the `error` point has not been told of. Dispatch cannot call hooks from here.
    failures: Mutex<Vec<FailureReport>>,
}

impl AgentSink {
    pub(super) fn new(outlet: Outlet) -> Self {
        Self {
            outlet,
            failures: Mutex::new(Vec::new()),
        }
    }

    /// The failures that were not taken yet, but for the first `n`.
    pub(super) fn take_failures(&self, n: usize) -> Vec<FailureReport> {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let n = n.min(failures.len());
        failures.split_off(n)
    }

    /// How many failures were not taken yet.
    pub(super) fn n_failures(&self) -> usize {
        let failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        failures.len()
    }

    /// A plugin's code reached out of its sandbox.
    pub(super) fn access(&self, record: AccessRecord) {
        self.outlet.access(record);
    }
}

impl Sink for AgentSink {
    fn trace(&self, record: TraceRecord) {
        let is_failure = matches!(
            record.outcome,
            TraceOutcome::Failed | TraceOutcome::FailedBlocking
        );
        // A failing hook of `error` is not reported to `error`: that would never end.
        if is_failure && record.point != catalog::Error::NAME {
            let report = FailureReport {
                place: record.point.to_string(),
                message: record.reason.clone().unwrap_or_default(),
                plugin: Some(record.plugin.to_string()),
            };
            let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
            failures.push(report);
        }
        self.outlet
            .session
            .report(&Report::Trace { record: &record });
        self.outlet.events.emit(Event::Hook { record });
    }

    fn effect(&self, plugin: &Arc<str>, effect: Effect) {
        self.outlet.effect(plugin, effect);
    }
}

/// Where effects go, whether a hook's outcome carries them or a plugin's code asks for them while it runs.
#[derive(Clone)]
pub(super) struct Outlet {
    pub(super) session: Arc<Session>,
    pub(super) events: Events,
    pub(super) keep: KeepInStore,
}

impl Outlet {
    pub(super) fn access(&self, record: AccessRecord) {
        self.session.report(&Report::Access { record: &record });
        self.events.emit(Event::Access { record });
    }

    pub(super) fn effect(&self, plugin: &str, effect: Effect) {
        match effect {
            Effect::Log { level, text } => log(plugin, level, &text),
            Effect::Metric { name, value } => self.events.emit(Event::Metric {
                plugin: plugin.to_owned(),
                name,
                value,
            }),
            Effect::Store { key, value } => (self.keep)(plugin, &key, &value),
            Effect::Notify { level, text } => self.events.emit(Event::Notice {
                level,
                plugin: Some(plugin.to_owned()),
                text,
            }),
        }
    }
}

/// Writes a line of a plugin to the log. `tracing` wants targets that are known when it is compiled, so the plugin's name
/// is a field.
pub(super) fn log(plugin: &str, level: Level, text: &str) {
    match level {
        Level::Debug => tracing::debug!(target: "plugin", plugin, "{text}"),
        Level::Info => tracing::info!(target: "plugin", plugin, "{text}"),
        Level::Warn => tracing::warn!(target: "plugin", plugin, "{text}"),
        Level::Error => tracing::error!(target: "plugin", plugin, "{text}"),
    }
}
