//! Collects from a turn's events what each plugin did: changes, messages, accesses and metrics.
//!
//! Does not depend on particular plugins or on how activity is shown. Start from [`TurnActivity`].

use std::collections::BTreeMap;

use rind_lib::event::Event;
use rind_lib::point::trace::{AccessOutcome, AccessRecord, TraceOutcome, TraceRecord};

#[derive(Debug, Default)]
pub(in super::super) struct TurnActivity {
    plugins: BTreeMap<String, PluginActivity>,
    /// Plugin whose hook last changed the summary of a compaction.
    summarized: Option<String>,
}

/// Kind of activity. The order matters: kinds before [`Logged`](Self::Logged) change something or
/// leave the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) enum ActivityKind {
    /// Messages to the person.
    Said,
    /// Messages to the model.
    Told,
    /// Refusals and questions for approval, each with the reason.
    Refused,
    Changed,
    Reached,
    Ran,
    Measured,
    /// Changes that last after the turn, in the conversation or on the disk.
    Left,
    Logged,
    Failed,
    /// Points at which the plugin's hooks were called.
    CalledAt,
    /// Points at which a hook of the plugin changed, refused, reported or measured something.
    ActedAt,
}

/// Activity of one plugin, without duplicates.
#[derive(Debug, Default)]
pub(in super::super) struct PluginActivity {
    pub(in super::super) calls: u32,
    /// Total time of the hook calls in microseconds, including waits.
    pub(in super::super) micros: f64,
    all: BTreeMap<ActivityKind, Vec<String>>,
    last_point: Option<String>,
}

impl TurnActivity {
    pub(super) fn record_event(&mut self, event: &Event) {
        match event {
            Event::Hook { record } => {
                if record.changed.contains(&"summary") {
                    self.summarized = Some(record.plugin.to_string());
                }
                self.plugin_activity_mut(&record.plugin).add_hook(record);
            }
            Event::Access { record } => self.plugin_activity_mut(&record.plugin).add_access(record),
            Event::Notice {
                plugin: Some(plugin),
                text,
                ..
            } => self
                .plugin_activity_mut(plugin)
                .add_last_call_effect(ActivityKind::Said, text),
            Event::Metric { plugin, name, .. } => {
                self.plugin_activity_mut(plugin)
                    .add_last_call_effect(ActivityKind::Measured, name);
            }
            Event::Injected { plugin, text, .. } => {
                self.add_activity(plugin, ActivityKind::Told, text)
            }
            Event::ToolStart {
                call,
                plugin: Some(plugin),
                ..
            } => self.add_activity(plugin, ActivityKind::Ran, format!("`{}`", call.name)),
            Event::CompactEnd {
                messages,
                summary: Some(summary),
                is_built_in: false,
                ..
            } => {
                let size = summary.len();
                let what = format!("a summary of {size} bytes in place of {messages} messages");
                if let Some(plugin) = self.summarized.take() {
                    self.add_activity(&plugin, ActivityKind::Left, what);
                }
            }
            _ => {}
        }
    }

    pub(super) fn add_activity(
        &mut self,
        plugin: &str,
        kind: ActivityKind,
        what: impl Into<String>,
    ) {
        self.plugin_activity_mut(plugin).add_text(kind, what);
    }

    /// Returns the activity of a plugin; `None` if the plugin appeared in no event.
    pub(in super::super) fn get(&self, plugin: &str) -> Option<&PluginActivity> {
        self.plugins.get(plugin)
    }

    fn plugin_activity_mut(&mut self, plugin: &str) -> &mut PluginActivity {
        self.plugins.entry(plugin.to_owned()).or_default()
    }
}

impl PluginActivity {
    pub(in super::super) fn has_effects(&self) -> bool {
        self.all.range(..ActivityKind::Logged).next().is_some()
    }

    pub(in super::super) fn activity_texts(&self, kind: ActivityKind) -> &[String] {
        self.all.get(&kind).map_or(&[], Vec::as_slice)
    }

    fn add_text(&mut self, kind: ActivityKind, what: impl Into<String>) {
        let (all, what) = (self.all.entry(kind).or_default(), what.into());
        if !all.contains(&what) {
            all.push(what);
        }
    }

    /// Adds an effect of the plugin's most recent hook call. Events about the effects of a call
    /// directly follow the record of the call.
    fn add_last_call_effect(&mut self, kind: ActivityKind, what: &str) {
        if let Some(point) = self.last_point.clone() {
            self.add_text(ActivityKind::ActedAt, point);
        }
        self.add_text(kind, what);
    }

    fn add_hook(&mut self, record: &TraceRecord) {
        let point = &*record.point;
        if record.was_hook_called() {
            self.calls += 1;
            self.micros += record.micros;
            self.add_text(ActivityKind::CalledAt, point);
        }
        let reason = record.reason.as_deref().unwrap_or_default();
        match record.outcome {
            TraceOutcome::Pass | TraceOutcome::Dropped => {}
            TraceOutcome::Changed => {
                self.add_text(ActivityKind::ActedAt, point);
                for what in &record.changed {
                    match *what {
                        // Skip this change: an injected message is also reported by an event of its
                        // own, which contains the text.
                        "inject" => {}
                        "note" => self.add_text(ActivityKind::Told, reason),
                        what => self.add_text(ActivityKind::Changed, format!("{what} at {point}")),
                    }
                }
            }
            TraceOutcome::Asked | TraceOutcome::Blocked | TraceOutcome::DroppedBlocking => {
                self.add_text(ActivityKind::ActedAt, point);
                self.add_text(ActivityKind::Refused, reason);
            }
            TraceOutcome::Failed | TraceOutcome::FailedBlocking => {
                self.add_text(ActivityKind::Failed, format!("{point}: {reason}"));
            }
        }
        self.last_point = Some(point.to_owned());
    }

    fn add_access(&mut self, record: &AccessRecord) {
        let why = record.reason.as_deref().unwrap_or_default();
        match record.outcome {
            AccessOutcome::Done => self.add_text(ActivityKind::Reached, &*record.target),
            // A failed access, such as to a missing file, is no failure of the plugin. If it
            // matters, the hook itself fails.
            AccessOutcome::Masked | AccessOutcome::Failed => {}
            AccessOutcome::Denied => {
                self.add_text(ActivityKind::Failed, format!("{}: {why}", record.target))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;
    use rind_lib::point::outcome::Level;

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
        acted.record_event(&hook(TraceOutcome::Pass, &[]));
        acted.record_event(&hook(TraceOutcome::Failed, &[]));
        acted.add_activity("p", ActivityKind::Logged, "nothing to do");
        let activity = acted.get("p").unwrap();
        assert!(!activity.has_effects());
        assert_eq!((activity.calls, activity.micros), (2, 4.0));
        assert_eq!(
            activity.activity_texts(ActivityKind::Failed),
            ["pre-tool: because"]
        );
        assert!(acted.get("q").is_none());
    }

    #[test]
    fn deeds_stand_once_and_at_the_point_where_they_were_done() {
        let mut acted = TurnActivity::default();
        for _ in 0..2 {
            acted.record_event(&hook(TraceOutcome::Changed, &["note", "arguments"]));
            acted.record_event(&Event::Notice {
                level: Level::Warn,
                plugin: Some("p".to_owned()),
                text: "again".to_owned(),
            });
        }
        let activity = acted.get("p").unwrap();
        assert!(activity.has_effects());
        assert_eq!(activity.activity_texts(ActivityKind::ActedAt), ["pre-tool"]);
        assert_eq!(
            activity.activity_texts(ActivityKind::Changed),
            ["arguments at pre-tool"]
        );
        assert_eq!(activity.activity_texts(ActivityKind::Told), ["because"]);
        assert_eq!(activity.activity_texts(ActivityKind::Said), ["again"]);
    }
}
