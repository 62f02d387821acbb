//! Observed behavior of a plugin in one turn, collected from the events of the session.
//!
//! The behavior is serialized into snapshots, so it must be the same in every run: times, ids and
//! temporary paths are left out. Start from [`ObservedTurn`].

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::ids::{SeenAgentIds, replace_varying_session_ids};
use super::oversight::find_result_of_unknown_tool;
use rind_lib::event::{Event, Stamped};

/// Observed behavior in one turn, without times and ids.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ObservedTurn {
    /// Output of the turn or of the command, or the reason why the command or the loop failed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub output: String,
    /// Input for a turn that the slash command returned; empty if it returned none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub prompt: String,
    /// Request of the loop for its next run; `None` if it made none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub again: Option<ObservedNextLoopRun>,
    /// Whether the loop reported that it is done.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub done: bool,
    /// Questions that the plugin asked the user, each with its answer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub asked: Vec<String>,
    /// Status line that the plugin set last.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub status: String,
    /// Stop reason of the turn. Empty if a command or a loop ran, and usually if hooks were called
    /// directly.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub stop: String,
    /// Texts of the results of the model's tool calls, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<String>,
    /// Accesses of the plugin, for example to files, in the form of `expect.accesses`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub accesses: Vec<String>,
    /// Notices that the plugin showed to the user.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<String>,
    /// Messages that the plugin added to the conversation.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub injected: Vec<String>,
    /// Warnings for the model, from hooks that the case calls directly.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Lines that the plugin logged.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub log: Vec<String>,
    /// Names of the plugin's tools that were called.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// Values that the plugin's metrics had, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub metrics: BTreeMap<String, f64>,
    /// Text files in the workspace after the turn, by path.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, String>,
    /// Payload that was passed to the hooks last, as they changed it; null if the case calls no
    /// hooks directly.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub payload: Value,
    /// Calls of the plugin's hooks, each with its outcome.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<ObservedHook>,
    /// Blocks of the system prompt of the last request, if the case compares them.
    #[serde(skip)]
    pub system: Vec<String>,
    /// Results of the model's calls of tools that do not exist.
    #[serde(skip)]
    pub unknown_tools: Vec<String>,
    /// Whether a call of the plugin was stopped at its deadline.
    #[serde(skip)]
    pub is_overdue: bool,
}

impl ObservedTurn {
    /// Returns the accesses that were denied, in the form of `expect.denials`.
    #[must_use]
    pub fn denied_accesses(&self) -> Vec<String> {
        let denied = self.accesses.iter();
        let denied = denied.filter_map(|line| line.strip_suffix(" denied"));
        denied.map(str::to_owned).collect()
    }
}

/// Request of a loop for its next run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ObservedNextLoopRun {
    /// Delay until the loop wants to run again, in milliseconds.
    pub after_ms: u64,
    /// Reason that the loop gave for the next run.
    pub reason: String,
}

/// Call of a plugin's hook, with its outcome.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ObservedHook {
    /// Name of the extension point at which the hook was called.
    pub point: String,
    /// Outcome of the hook, such as `pass` or `blocked`.
    pub outcome: String,
    /// Names of the parts that the hook changed, for example of the payload.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<String>,
    /// Reason that the hook gave, or the description of its failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Text in the error of a call that was stopped at its deadline, see
/// [`Failure::Deadline`](rind_lib::point::failure::Failure::Deadline).
const CALL_DEADLINE_ERROR_TEXT: &str = "stopped at its deadline of ";

/// Whether an event reports that a call of the plugin was stopped at its deadline.
fn is_call_deadline_event(event: &Event, plugin: &str) -> bool {
    match event {
        Event::Hook { record } => {
            &*record.plugin == plugin
                && record.was_hook_called()
                && record
                    .reason
                    .as_deref()
                    .is_some_and(is_call_deadline_message)
        }
        Event::ToolEnd { result, .. } => {
            result.is_error && is_call_deadline_message(&result.content.text())
        }
        _ => false,
    }
}

/// Whether a text describes a call that was stopped at its deadline.
fn is_call_deadline_message(text: &str) -> bool {
    text.contains(CALL_DEADLINE_ERROR_TEXT)
}

/// Returns the string to which a value serializes; empty if it serializes to another type.
pub(super) fn serialize_to_string_or_empty(value: &impl Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}

impl ObservedTurn {
    /// Records why the slash command or the loop in the case failed.
    pub(super) fn record_call_failure(&mut self, why: String) {
        self.is_overdue |= is_call_deadline_message(&why);
        self.output = why;
    }

    /// Records what an event shows about the plugin, and the results of all tool calls.
    pub(super) fn record_event(&mut self, stamped: &Stamped, plugin: &str, own_tools: &[String]) {
        self.is_overdue |= is_call_deadline_event(&stamped.event, plugin);
        let unknown = find_result_of_unknown_tool(&stamped.event);
        let unknown = unknown.map(|result| result.content.to_string());
        self.unknown_tools.extend(unknown);
        match &stamped.event {
            Event::Asked {
                plugin: own,
                question,
                answer,
                ..
            } if own == plugin => self.asked.push(format!("{question} {answer}")),
            Event::Status { plugin: own, text } if own == plugin => self.status.clone_from(text),
            Event::Hook { record } if &*record.plugin == plugin && record.was_hook_called() => {
                self.hooks.push(ObservedHook {
                    point: record.point.to_string(),
                    outcome: serialize_to_string_or_empty(&record.outcome),
                    changed: record
                        .changed
                        .iter()
                        .map(|name| (*name).to_owned())
                        .collect(),
                    reason: record.reason.clone(),
                });
            }
            Event::Access { record } if &*record.plugin == plugin => {
                let line = format!(
                    "{} {} {}",
                    serialize_to_string_or_empty(&record.reached),
                    record.target,
                    serialize_to_string_or_empty(&record.outcome)
                );
                self.accesses.push(line);
            }
            Event::Notice {
                plugin: Some(by),
                text,
                ..
            } if by == plugin => self.notices.push(text.clone()),
            Event::Injected {
                plugin: by, text, ..
            } if by == plugin => self.injected.push(text.clone()),
            Event::Metric {
                plugin: by,
                name,
                value,
            } if by == plugin => {
                self.metrics.insert(name.clone(), *value);
            }
            Event::ToolStart { call, .. } if own_tools.contains(&call.name) => {
                self.tools.push(call.name.clone())
            }
            Event::ToolEnd {
                result, by: None, ..
            } => self.results.push(result.content.to_string()),
            _ => {}
        }
    }

    /// Replaces names that differ in each run: the temporary directory by `~`, and the ids of
    /// subagents by numbers in the order of their appearance.
    pub(super) fn replace_varying_names(mut self, root: &Path, agents: &SeenAgentIds) -> Self {
        let root = root.display().to_string();
        let stable = |text: &str| {
            replace_varying_session_ids(&agents.replace_ids_by_numbers(&text.replace(&root, "~")))
        };
        let unknown = &mut self.unknown_tools;
        let lists = [
            &mut self.results,
            &mut self.accesses,
            &mut self.notices,
            &mut self.injected,
            &mut self.notes,
            &mut self.log,
            &mut self.asked,
            &mut self.system,
            unknown,
        ];
        let reasons = self.hooks.iter_mut().flat_map(|hook| &mut hook.reason);
        let next = self.again.as_mut().map(|again| &mut again.reason);
        let texts = lists
            .into_iter()
            .flatten()
            .chain([&mut self.output, &mut self.prompt, &mut self.status])
            .chain(self.files.values_mut())
            .chain(next);
        for text in texts.chain(reasons) {
            *text = stable(text);
        }
        map_strings_in_json(&mut self.payload, &stable);
        self
    }
}

fn map_strings_in_json(value: &mut Value, stable: &dyn Fn(&str) -> String) {
    match value {
        Value::String(text) => *text = stable(text),
        Value::Array(all) => all
            .iter_mut()
            .for_each(|value| map_strings_in_json(value, stable)),
        Value::Object(all) => all
            .values_mut()
            .for_each(|value| map_strings_in_json(value, stable)),
        _ => {}
    }
}
