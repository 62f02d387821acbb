//! Trace records of dispatch and access records of plugins.
//!
//! Dispatch writes one [`TraceRecord`] for every hook whose conditions hold, whether it passed,
//! failed or was skipped; plugin code that accesses something outside its sandbox leaves an
//! [`AccessRecord`]. Both are parts of events and session entries, so their docs become part of the
//! JSON Schema of the events. Start from [`DispatchReportSink`].

use std::borrow::Cow;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use super::outcome::Effect;

/// Outcome of a hook call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TraceOutcome {
    /// The hook neither objected nor changed anything.
    Pass,
    /// The hook changed the value or added to it.
    Changed,
    /// The hook asked for approval.
    Asked,
    /// The hook refused the value.
    Blocked,
    /// The hook failed, and the turn continues without it.
    Failed,
    /// The hook failed, and the action that it was to judge is refused.
    FailedBlocking,
    /// The hook was disabled earlier in this turn and not called.
    Dropped,
    /// The hook was disabled earlier in this turn and continues to refuse.
    DroppedBlocking,
}

/// Record of one hook call in a dispatch.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct TraceRecord {
    /// Name of the extension point of the hook.
    pub point: Cow<'static, str>,
    /// Name of the plugin that has the hook.
    #[serde(serialize_with = "as_str")]
    #[schemars(with = "String")]
    pub plugin: Arc<str>,
    /// Outcome of the hook call.
    pub outcome: TraceOutcome,
    /// Names of the parts of the payload that the hook changed or added.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<String>")]
    pub changed: Vec<&'static str>,
    /// Reason for a question or a refusal, as the plugin wrote it, or the failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Time until the hook answered, in microseconds.
    pub micros: f64,
    /// Number of the turn; 0 outside a turn.
    pub turn: u32,
    /// Number of the step within the turn; 0 outside a step.
    pub step: u32,
    /// Id of the tool call that the hook call belongs to; absent if there is none.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "as_option_str"
    )]
    #[schemars(with = "String")]
    pub call_id: Option<Arc<str>>,
}

impl TraceRecord {
    /// Whether the hook was called. A hook that was dropped earlier in the turn is recorded but not
    /// called.
    #[must_use]
    pub fn was_hook_called(&self) -> bool {
        !matches!(
            self.outcome,
            TraceOutcome::Dropped | TraceOutcome::DroppedBlocking
        )
    }
}

/// Kind of the resource that a plugin accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Reached {
    /// File or folder.
    Files,
    /// Host of the network.
    Network,
    /// Model, subagent or tool.
    External,
    /// A text that the plugin gave out and in which a secret was found.
    Secret,
}

/// Outcome of a plugin's access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AccessOutcome {
    /// The access succeeded.
    Done,
    /// The access was allowed but failed.
    Failed,
    /// The access was refused.
    Denied,
    /// The secret in the text was masked.
    Masked,
}

/// Access by a plugin's code outside its sandbox. File accesses are recorded only if they were
/// refused or failed.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct AccessRecord {
    /// Name of the plugin that made the access.
    #[serde(serialize_with = "as_str")]
    #[schemars(with = "String")]
    pub plugin: Arc<str>,
    /// Kind of the accessed resource.
    pub reached: Reached,
    /// Target: a verb and a path, a method and a URL without its query, a name. Printable, and cut
    /// when long.
    pub target: String,
    /// Outcome of this access.
    pub outcome: AccessOutcome,
    /// Reason why the access did not succeed; absent if it succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Agent, turn, step, and hook or tool call from which the access was made.
    #[serde(flatten)]
    pub origin: Origin,
}

impl AccessRecord {
    /// Whether this record is the only event that reports the access. Successful uses of models,
    /// tools and subagents have events of their own.
    #[must_use]
    pub fn has_no_separate_event(&self) -> bool {
        self.reached != Reached::External || self.outcome != AccessOutcome::Done
    }
}

/// Origin of plugin code within a session: agent, turn and step, and hook or tool call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Origin {
    /// Agent in which the access was made: `main`, or the id of a subagent.
    #[serde(serialize_with = "as_str")]
    #[schemars(with = "String")]
    pub agent: Arc<str>,
    /// Number of the turn; 0 outside a turn.
    pub turn: u32,
    /// Number of the step within the turn; 0 outside a step.
    pub step: u32,
    /// Point of the hook that ran; absent when it was a tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub point: Option<Cow<'static, str>>,
    /// Id of the tool call that ran, or that the hook belongs to.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "as_option_str"
    )]
    #[schemars(with = "String")]
    pub call_id: Option<Arc<str>>,
}

fn as_str<S: serde::Serializer>(name: &Arc<str>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(name)
}

fn as_option_str<S: serde::Serializer>(
    name: &Option<Arc<str>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    name.as_deref().serialize(serializer)
}

/// Receiver of the dispatcher's reports. Its methods run in the task of the dispatch, so they must
/// return quickly and must not call a plugin.
pub trait DispatchReportSink: Send + Sync {
    /// Records one hook that was called or skipped.
    fn record_hook_trace(&self, record: TraceRecord);
    /// Handles an effect, such as a log line, that a hook returned with its outcome; `plugin` is
    /// the hook's plugin.
    fn handle_hook_effect(&self, plugin: &Arc<str>, effect: Effect);
}

/// Sink that discards all reports.
#[derive(Debug, Default)]
pub struct NullDispatchReportSink;

impl DispatchReportSink for NullDispatchReportSink {
    fn record_hook_trace(&self, _record: TraceRecord) {}
    fn handle_hook_effect(&self, _plugin: &Arc<str>, _effect: Effect) {}
}
