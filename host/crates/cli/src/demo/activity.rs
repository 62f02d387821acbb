//! Collects from a turn's events what each plugin did: changes, messages, accesses and metrics.
//!
//! Does not depend on particular plugins or on how activity is shown. Start from
//! [`TurnPluginActivities`].

use std::collections::BTreeMap;

use rind_lib::event::Event;
use rind_lib::point::trace::{AccessOutcome, AccessRecord, TraceOutcome, TraceRecord};

#[derive(Debug, Default)]
pub(in super::super) struct TurnPluginActivities {
    plugins: BTreeMap<String, PluginActivity>,
    /// Plugin whose hook last changed the summary of a compaction.
    summarized: Option<String>,
}

/// Kind of activity. The order matters: kinds before [`Logged`](Self::Logged) change something or
/// leave the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) enum PluginActivityKind {
    /// Messages that the plugin showed to the person.
    Said,
    /// Messages that the plugin added for the model.
    Told,
    /// Tool calls that the plugin refused or asked about, each with the reason.
    Refused,
    Changed,
    Reached,
    Ran,
    Measured,
    /// Changes that last after the turn, in the conversation or on the disk.
    Left,
    Logged,
    Failed,
    /// Extension points at which the plugin's hooks were called.
    CalledAt,
    /// Points at which a hook of the plugin changed, refused, reported or measured something.
    ActedAt,
}

/// Activity of one plugin during a session, without duplicates.
#[derive(Debug, Default)]
pub(in super::super) struct PluginActivity {
    pub(in super::super) calls: u32,
    /// Total time of the hook calls in microseconds, including waits.
    pub(in super::super) micros: f64,
    all: BTreeMap<PluginActivityKind, Vec<String>>,
    last_point: Option<String>,
}

impl TurnPluginActivities {
    pub(super) fn record_plugin_activity_of_event(&mut self, event: &Event) {
        match event {
            Event::Hook { record } => {
                if record.changed.contains(&"summary") {
                    self.summarized = Some(record.plugin.to_string());
                }
                self.plugin_activity_mut(&record.plugin)
                    .add_hook_call_record(record);
            }
            Event::Access { record } => self
                .plugin_activity_mut(&record.plugin)
                .add_sandbox_access_record(record),
            Event::Notice {
                plugin: Some(plugin),
                text,
                ..
            } => self
                .plugin_activity_mut(plugin)
                .add_effect_of_last_hook_call(PluginActivityKind::Said, text),
            Event::Metric { plugin, name, .. } => {
                self.plugin_activity_mut(plugin)
                    .add_effect_of_last_hook_call(PluginActivityKind::Measured, name);
            }
            Event::Injected { plugin, text, .. } => {
                self.add_plugin_activity(plugin, PluginActivityKind::Told, text)
            }
            Event::ToolStart {
                call,
                plugin: Some(plugin),
                ..
            } => self.add_plugin_activity(
                plugin,
                PluginActivityKind::Ran,
                format!("`{}`", call.name),
            ),
            Event::CompactEnd {
                messages,
                summary: Some(summary),
                is_built_in: false,
                ..
            } => {
                let size = summary.len();
                let what = format!("a summary of {size} bytes in place of {messages} messages");
                if let Some(plugin) = self.summarized.take() {
                    self.add_plugin_activity(&plugin, PluginActivityKind::Left, what);
                }
            }
            _ => {}
        }
    }

    pub(super) fn add_plugin_activity(
        &mut self,
        plugin: &str,
        kind: PluginActivityKind,
        what: impl Into<String>,
    ) {
        self.plugin_activity_mut(plugin)
            .add_activity_text_if_new(kind, what);
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
    pub(in super::super) fn has_lasting_or_outgoing_effects(&self) -> bool {
        self.all
            .range(..PluginActivityKind::Logged)
            .next()
            .is_some()
    }

    pub(in super::super) fn activity_texts_of_kind(&self, kind: PluginActivityKind) -> &[String] {
        self.all.get(&kind).map_or(&[], Vec::as_slice)
    }

    fn add_activity_text_if_new(&mut self, kind: PluginActivityKind, what: impl Into<String>) {
        let (all, what) = (self.all.entry(kind).or_default(), what.into());
        if !all.contains(&what) {
            all.push(what);
        }
    }

    /// Adds an effect of the plugin's most recent hook call. Events about the effects of a call
    /// directly follow the record of the call.
    fn add_effect_of_last_hook_call(&mut self, kind: PluginActivityKind, what: &str) {
        if let Some(point) = self.last_point.clone() {
            self.add_activity_text_if_new(PluginActivityKind::ActedAt, point);
        }
        self.add_activity_text_if_new(kind, what);
    }

    fn add_hook_call_record(&mut self, record: &TraceRecord) {
        let point = &*record.point;
        if record.was_hook_called() {
            self.calls += 1;
            self.micros += record.micros;
            self.add_activity_text_if_new(PluginActivityKind::CalledAt, point);
        }
        let reason = record.reason.as_deref().unwrap_or_default();
        match record.outcome {
            TraceOutcome::Pass | TraceOutcome::Dropped => {}
            TraceOutcome::Changed => {
                self.add_activity_text_if_new(PluginActivityKind::ActedAt, point);
                for what in &record.changed {
                    match *what {
                        // Skip this change: an injected message is also reported by an event of its
                        // own, which contains the text.
                        "inject" => {}
                        "note" => self.add_activity_text_if_new(PluginActivityKind::Told, reason),
                        what => self.add_activity_text_if_new(
                            PluginActivityKind::Changed,
                            format!("{what} at {point}"),
                        ),
                    }
                }
            }
            TraceOutcome::Asked | TraceOutcome::Blocked | TraceOutcome::DroppedBlocking => {
                self.add_activity_text_if_new(PluginActivityKind::ActedAt, point);
                self.add_activity_text_if_new(PluginActivityKind::Refused, reason);
            }
            TraceOutcome::Failed | TraceOutcome::FailedBlocking => {
                self.add_activity_text_if_new(
                    PluginActivityKind::Failed,
                    format!("{point}: {reason}"),
                );
            }
        }
        self.last_point = Some(point.to_owned());
    }

    fn add_sandbox_access_record(&mut self, record: &AccessRecord) {
        let why = record.reason.as_deref().unwrap_or_default();
        match record.outcome {
            AccessOutcome::Done => {
                self.add_activity_text_if_new(PluginActivityKind::Reached, &*record.target)
            }
            // A failed access, such as to a missing file, is no failure of the plugin. If it
            // matters, the hook itself fails.
            AccessOutcome::Masked | AccessOutcome::Failed => {}
            AccessOutcome::Denied => self.add_activity_text_if_new(
                PluginActivityKind::Failed,
                format!("{}: {why}", record.target),
            ),
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
        let mut acted = TurnPluginActivities::default();
        acted.record_plugin_activity_of_event(&hook(TraceOutcome::Pass, &[]));
        acted.record_plugin_activity_of_event(&hook(TraceOutcome::Failed, &[]));
        acted.add_plugin_activity("p", PluginActivityKind::Logged, "nothing to do");
        let activity = acted.get("p").unwrap();
        assert!(!activity.has_lasting_or_outgoing_effects());
        assert_eq!((activity.calls, activity.micros), (2, 4.0));
        assert_eq!(
            activity.activity_texts_of_kind(PluginActivityKind::Failed),
            ["pre-tool: because"]
        );
        assert!(acted.get("q").is_none());
    }

    #[test]
    fn deeds_stand_once_and_at_the_point_where_they_were_done() {
        let mut acted = TurnPluginActivities::default();
        for _ in 0..2 {
            acted.record_plugin_activity_of_event(&hook(
                TraceOutcome::Changed,
                &["note", "arguments"],
            ));
            acted.record_plugin_activity_of_event(&Event::Notice {
                level: Level::Warn,
                plugin: Some("p".to_owned()),
                text: "again".to_owned(),
            });
        }
        let activity = acted.get("p").unwrap();
        assert!(activity.has_lasting_or_outgoing_effects());
        assert_eq!(
            activity.activity_texts_of_kind(PluginActivityKind::ActedAt),
            ["pre-tool"]
        );
        assert_eq!(
            activity.activity_texts_of_kind(PluginActivityKind::Changed),
            ["arguments at pre-tool"]
        );
        assert_eq!(
            activity.activity_texts_of_kind(PluginActivityKind::Told),
            ["because"]
        );
        assert_eq!(
            activity.activity_texts_of_kind(PluginActivityKind::Said),
            ["again"]
        );
    }
}
