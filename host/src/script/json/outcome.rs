//! Parses outcomes of scripts in JSON. Their fields are those of `wit/outcomes.wit`.
//!
//! An absent field changes nothing, and an unknown field is an error, so that a misspelled `block`
//! allows nothing. `point::merge` decides which changes an outcome may make, as for plugins.
//!
//! For example:
//!
//! ```json
//! {"verdict": {"block": "`.env` is protected"}}
//! {"verdict": {"ask": "this deletes a branch"}, "note": "the branch is not merged"}
//! {"effects": [{"notify": {"level": "info", "text": "checked"}}]}
//! ```

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::message::{Part, Parts};
use crate::point::contract::types;
use crate::point::outcome as o;
use crate::point::payload as p;
use crate::text::escape_and_truncate_line;

/// Maximum length of a reason, in bytes: it is shown in a terminal and sent to the model.
const MAX_OUTCOME_REASON_BYTES: usize = 2048;

/// Maximum length of a log line or a notice, in bytes.
const MAX_LOG_LINE_BYTES: usize = 4096;

/// JSON type of this module that converts to the type `T` of the host.
pub(in super::super) trait IntoHostOutcome<T> {
    fn into_host(self) -> T;
}

macro_rules! same {
    ($($type:ty),*) => {$(
        impl IntoHostOutcome<$type> for $type {
            fn into_host(self) -> $type {
                self
            }
        }
    )*};
}
same!(String, bool, u32, f64, p::Decision, p::Tier, o::Level);

impl<T, A: IntoHostOutcome<T>> IntoHostOutcome<Option<T>> for Option<A> {
    fn into_host(self) -> Option<T> {
        self.map(A::into_host)
    }
}

impl<T, A: IntoHostOutcome<T>> IntoHostOutcome<Vec<T>> for Vec<A> {
    fn into_host(self) -> Vec<T> {
        self.into_iter().map(A::into_host).collect()
    }
}

/// Text on one line, truncated if it is longer than 2048 bytes.
#[derive(Deserialize, JsonSchema)]
#[serde(transparent)]
pub(in super::super) struct Line(String);

impl IntoHostOutcome<String> for Line {
    fn into_host(self) -> String {
        escape_and_truncate_line(&self.0, MAX_OUTCOME_REASON_BYTES)
    }
}

/// A JSON object; in the WIT contract it is a string with JSON text.
#[derive(Deserialize, JsonSchema)]
#[serde(transparent)]
pub(in super::super) struct Object(serde_json::Map<String, Value>);

impl IntoHostOutcome<String> for Object {
    fn into_host(self) -> String {
        Value::Object(self.0).to_string()
    }
}

macro_rules! records {
    ($($(#[$doc:meta])* $module:ident::$name:ident {
        $($(#[$about:meta])* $field:ident: $type:ty,)* $(; $fixed:ident = $value:expr)?
    })*) => {$(
        $(#[$doc])*
        #[derive(Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub(in super::super) struct $name { $($(#[$about])* $field: $type,)* }

        impl IntoHostOutcome<$module::$name> for $name {
            fn into_host(self) -> $module::$name {
                $module::$name { $($field: self.$field.into_host(),)* $($fixed: $value,)? }
            }
        }
    )*};
}

/// Defines outcome types. In JSON, every field may be omitted.
macro_rules! outcomes {
    ($($(#[$doc:meta])* $name:ident { $($(#[$about:meta])* $field:ident: $type:ty,)* })*) => {$(
        $(#[$doc])*
        #[derive(Default, Deserialize, JsonSchema)]
        #[serde(default, deny_unknown_fields)]
        pub(in super::super) struct $name {
            $($(#[$about])* $field: $type,)*
            /// Log lines, notices for the person and measured values, which take effect when the
            /// outcome is accepted.
            effects: Vec<Effect>,
        }

        impl IntoHostOutcome<o::$name> for $name {
            fn into_host(self) -> o::$name {
                o::$name { $($field: self.$field.into_host(),)* effects: self.effects.into_host() }
            }
        }
    )*};
}

/// Defines enums. In JSON, a case without a value is a string, and one with a value is an object.
/// The first case is the default and changes nothing.
macro_rules! choices {
    ($($(#[$doc:meta])* $name:ident {
        $(#[$first_about:meta])* $first:ident
        $(, $(#[$bare_about:meta])* $bare:ident)*;
        $($(#[$about:meta])* $case:ident($type:ty),)*
    })*) => {$(
        $(#[$doc])*
        #[derive(Default, Deserialize, JsonSchema)]
        #[serde(rename_all = "kebab-case")]
        pub(in super::super) enum $name {
            $(#[$first_about])* #[default] $first,
            $($(#[$bare_about])* $bare,)*
            $($(#[$about])* $case($type),)*
        }

        impl IntoHostOutcome<o::$name> for $name {
            fn into_host(self) -> o::$name {
                match self {
                    Self::$first => o::$name::$first,
                    $(Self::$bare => o::$name::$bare,)*
                    $(Self::$case(value) => o::$name::$case(value.into_host()),)*
                }
            }
        }
    )*};
}

outcomes! {
    /// Outcome of a hook that only observes.
    Observed {}
    /// Outcome of a hook on incoming text.
    InputOutcome {
        /// Text that replaces the input; absent to keep it.
        text: Option<String>,
        /// Messages to add to the conversation.
        inject: Vec<Injection>,
        /// Reason to refuse the turn; absent to accept it.
        block: Option<Line>,
    }
    /// Outcome of a hook on the assessment of the turn's input.
    AssessmentOutcome {
        /// Assessment that replaces the current one; absent to keep it.
        assessment: Option<Assessment>,
    }
    /// Outcome of a hook that contributes to the system prompt.
    PromptOutcome {
        /// Parts to add, each with a key of its own.
        parts: Vec<PromptPart>,
    }
    /// Outcome of a hook that edits the parts of the system prompt.
    PartsOutcome {
        /// Parts to add; a part replaces the one with the same key.
        put: Vec<PromptPart>,
        /// Keys of the parts to remove.
        remove: Vec<String>,
    }
    /// Outcome of a hook that may change one text and nothing else.
    TextOutcome {
        /// Text that replaces the one in the payload; absent to keep it.
        text: Option<String>,
    }
    /// Outcome of a hook on the messages of one request.
    ContextOutcome {
        /// Edits of the messages, in order. They apply to this request only.
        edits: Vec<MessageEdit>,
    }
    /// Outcome of a hook on a request to the model.
    RequestOutcome {
        /// Name of the model to use for this request; absent to keep the current one.
        model: Option<String>,
        /// Sampling temperature, from 0 to 2.
        temperature: FloatChange,
        /// Maximum number of tokens that the model may write, at least 1.
        max_tokens: CountChange,
        /// Names of the tools that the model may use.
        tools: NamesChange,
        /// Messages to add to the conversation.
        inject: Vec<Injection>,
        /// Reason to refuse the request; the turn ends.
        block: Option<Line>,
    }
    /// Outcome of a hook on a request in the provider's own format.
    WireOutcome {
        /// Body that replaces the request, in the provider's own format.
        body: Option<Object>,
    }
    /// Outcome of a hook on the model's answer.
    ReplyOutcome {
        /// Text that replaces the text of the answer; absent to keep it.
        text: Option<String>,
        /// Messages to add; a message asks the model for another step.
        inject: Vec<Injection>,
        /// Reason to refuse the answer; the turn ends.
        block: Option<Line>,
    }
    /// Outcome of a hook on a tool call.
    CallOutcome {
        /// The verdict; `block` beats `ask` beats `pass` over all hooks.
        verdict: CallVerdict,
        /// A warning for the model, appended to the result of the call.
        note: Option<Line>,
    }
    /// Outcome of a hook on a tool result.
    ResultOutcome {
        /// Text or parts that replace the content of the result.
        content: Option<Content>,
        /// Whether to mark the result as an error; absent to keep its mark.
        is_error: Option<bool>,
        /// Messages to add after the results of this step.
        inject: Vec<Injection>,
    }
    /// Outcome of a hook on text that arrived during a turn.
    SteeringOutcome {
        /// Action for the text: use it unchanged, replace it or drop it.
        action: SteeringAction,
        /// Messages to add to the conversation.
        inject: Vec<Injection>,
    }
    /// Outcome of a hook before the answer is judged (reflection).
    ReflectionOutcome {
        /// Text that replaces the draft of the answer; absent to keep it.
        draft: Option<String>,
        /// Criteria for a good answer, to add to those of the reflection.
        criteria: Vec<String>,
        /// Verdict that replaces the built-in reflection.
        verdict: VerdictChange,
    }
    /// Outcome of a hook on the verdict of reflection.
    VerdictOutcome {
        /// Verdict that replaces the earlier one.
        verdict: VerdictChange,
    }
    /// Outcome of a hook on the output of a turn.
    OutputOutcome {
        /// Text that replaces the output; absent to keep it.
        text: Option<String>,
        /// Reason to withhold the output; absent to show it.
        block: Option<Line>,
    }
    /// Outcome of a hook on text while it is streamed.
    DeltaOutcome {
        /// Text that replaces all of the payload's `text`; absent to keep it.
        text: Option<String>,
        /// Number of bytes at the end of the text that are not shown yet.
        keep: u32,
        /// Reason to stop the answer here; the turn ends.
        stop: Option<Line>,
    }
    /// Outcome of a hook before compaction or archival.
    SliceOutcome {
        /// Verdict on the compaction or archival.
        verdict: SliceVerdict,
    }
}

choices! {
    /// Change of an optional number, which may have a fraction.
    FloatChange {
        /// Keeps the current value.
        Keep,
        /// Removes the value, so that the provider decides.
        Unset;
        /// Sets this value.
        Set(f64),
    }
    /// Change of an optional whole number.
    CountChange {
        /// Keeps the current value.
        Keep,
        /// Removes the value, so that the provider decides.
        Unset;
        /// Sets this value.
        Set(u32),
    }
    /// Change of a list of names.
    NamesChange {
        /// Keeps the current value.
        Keep,
        /// Removes all names.
        Unset;
        /// Keeps only these names.
        Set(Vec<String>),
    }
    /// Verdict of a hook on a tool call.
    CallVerdict {
        /// No objection to the tool call.
        Pass;
        /// Runs the call with these arguments, which must fit the schema of the tool.
        Change(Object),
        /// Asks the user, with this reason, before the call runs.
        Ask(Line),
        /// Refuses the call, for this reason.
        Block(Line),
    }
    /// Action for text that arrived during a turn.
    SteeringAction {
        /// Uses the text unchanged.
        Pass;
        /// Uses this text instead.
        Replace(String),
        /// Drops the text, for this reason.
        Drop(Line),
    }
    /// Verdict that replaces the one of reflection.
    VerdictChange {
        /// Keeps the current verdict.
        Keep,
        /// The turn is done: no further step is needed.
        Done;
        /// Another step is needed, for this reason.
        Again(Line),
    }
    /// Verdict of a hook on compaction or archival.
    SliceVerdict {
        /// No objection to the compaction or archival.
        Pass;
        /// Cancels the compaction or archival, for this reason.
        Cancel(Line),
        /// Compacts or archives with this summary.
        Summary(String),
    }
}

records! {
    /// A message that a hook adds to the conversation, as a user message that names the hook.
    o::Injection {
        /// Text of the message.
        text: String,
        /// Whether the message stays in the session; otherwise only the next request contains it.
        #[serde(default = "default_true")]
        keep: bool,
    }
    /// Assessment of the turn's input: how to handle the turn, and why.
    p::Assessment {
        /// Decision on how to handle the turn.
        decision: p::Decision,
        /// Confidence in the decision, from 0 to 1.
        confidence: f64,
        /// Reasons for the decision, in short phrases.
        #[serde(default)]
        reasons: Vec<String>,
        ; input = String::new()
    }
    /// Part of the system prompt.
    p::PromptPart {
        /// Tier of the part in the system prompt.
        tier: p::Tier,
        /// Key of the part, unique within the prompt.
        key: String,
        /// Text of the part.
        text: String,
        ; source = String::new()
    }
    /// New text of a message.
    o::Replacement {
        /// Id of the message to change.
        id: String,
        /// Text that replaces the message's own.
        text: String,
    }
    /// Measured value with its name.
    o::Metric {
        /// Name of the metric, `[a-z0-9_.]`.
        name: Line,
        /// The value, in the unit with which the name ends.
        value: f64,
    }
}

fn default_true() -> bool {
    true
}

/// Edit of the messages of a request.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(in super::super) enum MessageEdit {
    /// Removes the message with this id from the request.
    Drop(String),
    /// Replaces the text of a message or the content of a tool result.
    Replace(Replacement),
    /// Adds a message with this text at the end.
    Append(String),
}

impl IntoHostOutcome<o::MessageEdit> for MessageEdit {
    fn into_host(self) -> o::MessageEdit {
        match self {
            Self::Drop(id) => o::MessageEdit::Drop(id),
            Self::Replace(replacement) => o::MessageEdit::Replace(replacement.into_host()),
            Self::Append(text) => o::MessageEdit::Append(text),
        }
    }
}

/// Content of a tool result: a text, or a list of parts.
#[derive(Deserialize, JsonSchema)]
#[serde(transparent)]
pub(in super::super) struct Content(Parts);

impl IntoHostOutcome<Vec<o::Part>> for Content {
    fn into_host(self) -> Vec<o::Part> {
        let part = |part: &Part| match part {
            Part::Text { text } => o::Part::Text(text.clone()),
            Part::Json { value } => o::Part::Json(value.to_string()),
            Part::Blob(blob) => o::Part::Blob(types::Blob {
                id: blob.id.clone(),
                media_type: blob.media_type.clone(),
                size: blob.size,
            }),
        };
        self.0.iter().map(part).collect()
    }
}

/// A line for the log, or a notice for the person.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct LogLine {
    /// Level of the line or notice.
    level: o::Level,
    /// Text of the line or notice, on one line.
    text: String,
}

impl IntoHostOutcome<o::LogLine> for LogLine {
    fn into_host(self) -> o::LogLine {
        o::LogLine {
            level: self.level,
            text: escape_and_truncate_line(&self.text, MAX_LOG_LINE_BYTES),
        }
    }
}

/// An effect in addition to the outcome. Scripts have no store for data; they can write files.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(in super::super) enum Effect {
    /// Writes a line to the log.
    Log(LogLine),
    /// Records a measured value.
    Metric(Metric),
    /// Shows a notice to the user at the terminal.
    Notify(LogLine),
}

impl IntoHostOutcome<o::Effect> for Effect {
    fn into_host(self) -> o::Effect {
        match self {
            Self::Log(line) => o::Effect::Log(line.into_host()),
            Self::Metric(metric) => o::Effect::Metric(metric.into_host()),
            Self::Notify(line) => o::Effect::Notify(line.into_host()),
        }
    }
}
