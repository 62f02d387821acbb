//! Activity of plugins in a turn, collected from its events: changes, messages, accesses, metrics.
//!
//! Must not know any plugin, nor how it is shown. Start from [`TurnActivity`].

use std::collections::BTreeMap;

use rind_lib::event::Event;
use rind_lib::point::trace::{AccessOutcome, AccessRecord, TraceOutcome, TraceRecord};

#[derive(Debug, Default)]
pub(in super::super) struct TurnActivity {
    plugins: BTreeMap<String, PluginActivity>,
    /// Author of the last summary.
    summarized: Option<String>,
}

/// Kind of activity. The kinds before [`Logged`](Self::Logged) have an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) enum Kind {
    /// Messages to the person.
    Said,
    /// Messages to the model.
    Told,
    /// Refusals and questions, each with its reason.
    Refused,
    Changed,
    Reached,
    Ran,
    Measured,
    /// Traces left in the conversation or on the disk.
    Left,
    Logged,
    Failed,
    /// Points at which its hooks were called.
    CalledAt,
    /// Points at which a hook changed, refused, said or measured something.
    ActedAt,
}

/// Activity of one plugin, without duplicates.
#[derive(Debug, Default)]
pub(in super::super) struct PluginActivity {
    pub(in super::super) calls: u32,
    /// Microseconds in them, including waits.
    pub(in super::super) micros: f64,
    all: BTreeMap<Kind, Vec<String>>,
    last_point: Option<String>,
}

impl TurnActivity {
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
            } => self.of(plugin).add_of_last(Kind::Said, text),
            Event::Metric { plugin, name, .. } => {
                self.of(plugin).add_of_last(Kind::Measured, name);
            }
            Event::Injected { plugin, text, .. } => self.add(plugin, Kind::Told, text),
            Event::ToolStart {
                call,
                plugin: Some(plugin),
                ..
            } => self.add(plugin, Kind::Ran, format!("`{}`", call.name)),
            Event::CompactEnd {
                messages,
                summary: Some(summary),
                is_built_in: false,
                ..
            } => {
                let size = summary.len();
                let what = format!("a summary of {size} bytes in place of {messages} messages");
                if let Some(plugin) = self.summarized.take() {
                    self.add(&plugin, Kind::Left, what);
                }
            }
            _ => {}
        }
    }

    pub(super) fn add(&mut self, plugin: &str, kind: Kind, what: impl Into<String>) {
        self.of(plugin).add(kind, what);
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
    pub(in super::super) fn is_any(&self) -> bool {
        self.all.range(..Kind::Logged).next().is_some()
    }

    pub(in super::super) fn all(&self, kind: Kind) -> &[String] {
        self.all.get(&kind).map_or(&[], Vec::as_slice)
    }

    fn add(&mut self, kind: Kind, what: impl Into<String>) {
        let (all, what) = (self.all.entry(kind).or_default(), what.into());
        if !all.contains(&what) {
            all.push(what);
        }
    }

    /// Adds an effect of the last hook: effects come right after its record.
    fn add_of_last(&mut self, kind: Kind, what: &str) {
        if let Some(point) = self.last_point.clone() {
            self.add(Kind::ActedAt, point);
        }
        self.add(kind, what);
    }

    fn hook(&mut self, record: &TraceRecord) {
        let point = &*record.point;
        if record.was_called() {
            self.calls += 1;
            self.micros += record.micros;
            self.add(Kind::CalledAt, point);
        }
        let reason = record.reason.as_deref().unwrap_or_default();
        match record.outcome {
            TraceOutcome::Pass | TraceOutcome::Dropped => {}
            TraceOutcome::Changed => {
                self.add(Kind::ActedAt, point);
                for what in &record.changed {
                    match *what {
                        // The injection has an event of its own, which contains its text.
                        "inject" => {}
                        "note" => self.add(Kind::Told, reason),
                        what => self.add(Kind::Changed, format!("{what} at {point}")),
                    }
                }
            }
            TraceOutcome::Asked | TraceOutcome::Blocked | TraceOutcome::DroppedBlocking => {
                self.add(Kind::ActedAt, point);
                self.add(Kind::Refused, reason);
            }
            TraceOutcome::Failed | TraceOutcome::FailedBlocking => {
                self.add(Kind::Failed, format!("{point}: {reason}"));
            }
        }
        self.last_point = Some(point.to_owned());
    }

    fn access(&mut self, record: &AccessRecord) {
        let why = record.reason.as_deref().unwrap_or_default();
        match record.outcome {
            AccessOutcome::Done => self.add(Kind::Reached, &*record.target),
            // A missing file is no failure of the plugin; a real failure fails its hook.
            AccessOutcome::Masked | AccessOutcome::Failed => {}
            AccessOutcome::Denied => self.add(Kind::Failed, format!("{}: {why}", record.target)),
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
        acted.see(&hook(TraceOutcome::Pass, &[]));
        acted.see(&hook(TraceOutcome::Failed, &[]));
        acted.add("p", Kind::Logged, "nothing to do");
        let activity = acted.get("p").unwrap();
        assert!(!activity.is_any());
        assert_eq!((activity.calls, activity.micros), (2, 4.0));
        assert_eq!(activity.all(Kind::Failed), ["pre-tool: because"]);
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
        assert_eq!(activity.all(Kind::ActedAt), ["pre-tool"]);
        assert_eq!(activity.all(Kind::Changed), ["arguments at pre-tool"]);
        assert_eq!(activity.all(Kind::Told), ["because"]);
        assert_eq!(activity.all(Kind::Said), ["again"]);
    }
}
