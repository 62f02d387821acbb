//! Activity of plugins in a turn, collected from its events: changes, messages, accesses, metrics.
//!
//! Must not know any plugin, nor how it is shown. Start from [`TurnActivity`].

use std::collections::BTreeMap;

use crate::event::Event;
use crate::point::trace::{AccessOutcome, AccessRecord, TraceOutcome, TraceRecord};

/// Activity of all plugins in a turn.
#[derive(Debug, Default)]
pub(in super::super) struct TurnActivity {
    /// Activity by plugin name.
    plugins: BTreeMap<String, PluginActivity>,
    /// Author of the last summary.
    summarized: Option<String>,
}

/// Activity of one plugin. The same twice stands once.
#[derive(Debug, Default)]
pub(in super::super) struct PluginActivity {
    /// Calls of its hooks.
    pub(in super::super) calls: u32,
    /// Microseconds in them, with what they waited for.
    pub(in super::super) micros: f64,
    /// Points at which its hooks were called.
    pub(in super::super) called_at: Vec<String>,
    /// Points at which a hook changed, refused, said or measured something.
    pub(in super::super) acted_at: Vec<String>,
    /// Messages to the person.
    pub(in super::super) said: Vec<String>,
    /// Messages to the model.
    pub(in super::super) told: Vec<String>,
    /// Changes, each with its point.
    pub(in super::super) changed: Vec<String>,
    /// Refusals and questions, each with its reason.
    pub(in super::super) refused: Vec<String>,
    /// Accesses outside of the sandbox.
    pub(in super::super) reached: Vec<String>,
    /// Tools of its own that ran.
    pub(in super::super) ran: Vec<String>,
    /// Names of what it measured.
    pub(in super::super) measured: Vec<String>,
    /// Traces left in the conversation or on the disk.
    pub(in super::super) left: Vec<String>,
    /// Log lines.
    pub(in super::super) logged: Vec<String>,
    /// Failures.
    pub(in super::super) failed: Vec<String>,
    /// The point of its last call.
    last_point: Option<String>,
}

impl TurnActivity {
    /// Takes an event in.
    pub(super) fn see(&mut self, event: &Event) {
        match event {
            Event::Hook { record } => {
                if record.changed.contains(&"summary") {
                    self.summarized = Some(record.plugin.to_string());
                }
                self.of(&record.plugin).hook(record);
            }
            Event::Access { record } => self.of(&record.plugin).access(record),
            Event::Notice {
                plugin: Some(plugin),
                text,
                ..
            } => {
                let activity = self.of(plugin);
                activity.acts_there();
                add(&mut activity.said, text.clone());
            }
            Event::Metric { plugin, name, .. } => {
                let activity = self.of(plugin);
                activity.acts_there();
                add(&mut activity.measured, name.clone());
            }
            Event::Injected { plugin, text, .. } => add(&mut self.of(plugin).told, text.clone()),
            Event::ToolStart {
                call,
                plugin: Some(plugin),
                ..
            } => add(&mut self.of(plugin).ran, call.name.clone()),
            Event::CompactEnd {
                messages,
                summary: Some(summary),
                is_built_in: false,
                ..
            } => {
                let what = format!(
                    "a summary of {} bytes in place of {messages} messages",
                    summary.len()
                );
                if let Some(plugin) = self.summarized.take() {
                    self.left(&plugin, what);
                }
            }
            _ => {}
        }
    }

    /// Adds a log line of a plugin.
    pub(super) fn logged(&mut self, plugin: &str, line: String) {
        add(&mut self.of(plugin).logged, line);
    }

    /// Adds something that a plugin left behind.
    pub(super) fn left(&mut self, plugin: &str, what: String) {
        add(&mut self.of(plugin).left, what);
    }

    /// Returns the activity of a plugin; `None` when it was never called.
    pub(in super::super) fn get(&self, plugin: &str) -> Option<&PluginActivity> {
        self.plugins.get(plugin)
    }

    fn of(&mut self, plugin: &str) -> &mut PluginActivity {
        self.plugins.entry(plugin.to_owned()).or_default()
    }
}

impl PluginActivity {
    /// Whether the plugin had any effect. What a plugin only writes to its log is no deed, and to fail is none.
    pub(in super::super) fn is_any(&self) -> bool {
        [
            &self.said,
            &self.told,
            &self.changed,
            &self.refused,
            &self.reached,
            &self.ran,
            &self.measured,
            &self.left,
        ]
        .into_iter()
        .any(|activity| !activity.is_empty())
    }

    fn hook(&mut self, record: &TraceRecord) {
        let point = record.point.to_string();
        if record.was_called() {
            self.calls += 1;
            self.micros += record.micros;
            add(&mut self.called_at, point.clone());
        }
        let reason = record.reason.clone().unwrap_or_default();
        match record.outcome {
            TraceOutcome::Pass | TraceOutcome::Dropped => {}
            TraceOutcome::Changed => {
                add(&mut self.acted_at, point.clone());
                for what in &record.changed {
                    match *what {
                        // An event of its own says what was told.
                        "inject" => {}
                        "note" => add(&mut self.told, reason.clone()),
                        what => add(&mut self.changed, format!("{what} at {point}")),
                    }
                }
            }
            TraceOutcome::Asked | TraceOutcome::Blocked | TraceOutcome::DroppedBlocking => {
                add(&mut self.acted_at, point.clone());
                add(&mut self.refused, reason);
            }
            TraceOutcome::Failed | TraceOutcome::FailedBlocking => {
                add(&mut self.failed, format!("{point}: {reason}"));
            }
        }
        self.last_point = Some(point);
    }

    fn access(&mut self, record: &AccessRecord) {
        let why = record.reason.as_deref().unwrap_or_default();
        match record.outcome {
            AccessOutcome::Done => add(&mut self.reached, record.target.clone()),
            // A file that is not there yet is no failure of the plugin, and what is one fails its hook.
            AccessOutcome::Masked | AccessOutcome::Failed => {}
            AccessOutcome::Denied => {
                add(&mut self.failed, format!("{}: {why}", record.target));
            }
        }
    }

    /// Marks the point of the last call as acted at: effects of a hook come right after its record.
    fn acts_there(&mut self) {
        if let Some(point) = self.last_point.clone() {
            add(&mut self.acted_at, point);
        }
    }
}

fn add(list: &mut Vec<String>, what: String) {
    if !list.contains(&what) {
        list.push(what);
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;
    use crate::point::outcome::Level;

    fn hook(outcome: TraceOutcome, changed: &[&'static str]) -> Event {
        Event::Hook {
            record: TraceRecord {
                point: Cow::Borrowed("pre-tool"),
                plugin: "p".into(),
                outcome,
                changed: changed.to_vec(),
                reason: Some("because".to_owned()),
                micros: 2.0,
                turn: 1,
                step: 1,
                call_id: None,
            },
        }
    }

    #[test]
    fn passing_failing_and_logging_are_no_deeds() {
        let mut acted = TurnActivity::default();
        acted.see(&hook(TraceOutcome::Pass, &[]));
        acted.see(&hook(TraceOutcome::Failed, &[]));
        acted.logged("p", "nothing to do".to_owned());
        let activity = acted.get("p").unwrap();
        assert!(!activity.is_any());
        assert_eq!((activity.calls, activity.micros), (2, 4.0));
        assert_eq!(activity.failed, ["pre-tool: because"]);
        assert!(acted.get("q").is_none());
    }

    #[test]
    fn deeds_stand_once_and_at_the_point_where_they_were_done() {
        let mut acted = TurnActivity::default();
        for _ in 0..2 {
            acted.see(&hook(TraceOutcome::Changed, &["note", "arguments"]));
            acted.see(&Event::Notice {
                level: Level::Warn,
                plugin: Some("p".to_owned()),
                text: "again".to_owned(),
            });
        }
        let activity = acted.get("p").unwrap();
        assert!(activity.is_any());
        assert_eq!(activity.acted_at, ["pre-tool"]);
        assert_eq!(activity.changed, ["arguments at pre-tool"]);
        assert_eq!(
            (&activity.told[..], &activity.said[..]),
            (&["because".to_owned()][..], &["again".to_owned()][..])
        );
    }
}
