//! Outcomes of hooks: the Rust side of `wit/outcomes.wit`, field for field, before they are merged.
//!
//! Data only; [`super::merge`] decides what an outcome comes to. A field left `None` or empty changes nothing.

use super::payload::{Assessment, PromptPart};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// Level of a log line or notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Detail for the author of the plugin.
    Debug,
    /// Information for the operator.
    Info,
    /// A warning.
    Warn,
    /// An error.
    Error,
}

/// Effect that a hook requests besides its outcome.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Effect {
    /// Write a line to the log.
    Log {
        /// Level.
        level: Level,
        /// One line.
        text: String,
    },
    /// Record a value.
    Metric {
        /// Name of the metric.
        name: String,
        /// The value.
        value: f64,
    },
    /// Keep a value in the plugin's store.
    Store {
        /// The key.
        key: String,
        /// The value.
        value: String,
    },
    /// Show a notice to the person at the terminal.
    Notify {
        /// Level.
        level: Level,
        /// One line.
        text: String,
    },
}

/// A message that a hook adds to the conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Injection {
    /// The text.
    pub text: String,
    /// True keeps it in the session; false shows it in the next request only.
    pub keep: bool,
}

/// Outcome of a hook that only observes.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// Extra requests.
    pub effects: Vec<Effect>,
}

/// Outcome of a hook on incoming text.
#[derive(Clone, Debug, Default)]
pub struct InputOutcome {
    /// Text to put in place of the input.
    pub text: Option<String>,
    /// Messages to add.
    pub inject: Vec<Injection>,
    /// Refuse the turn, with the reason.
    pub block: Option<String>,
    /// Extra requests.
    pub effects: Vec<Effect>,
}

/// Outcome of a hook on the assessment.
#[derive(Clone, Debug, Default)]
pub struct AssessmentOutcome {
    /// Replacement for the assessment; its `input` is ignored.
    pub assessment: Option<Assessment>,
    /// Extra requests.
    pub effects: Vec<Effect>,
}

/// Outcome of a hook that contributes to the system prompt.
#[derive(Clone, Debug, Default)]
pub struct PromptOutcome {
    /// Parts to add.
    pub parts: Vec<PromptPart>,
    /// Extra requests.
    pub effects: Vec<Effect>,
}

/// Outcome of a hook that edits the parts of the system prompt.
#[derive(Clone, Debug, Default)]
pub struct PartsOutcome {
    /// Parts to add, or to put in place of those with the same key.
    pub put: Vec<PromptPart>,
    /// Keys of parts to take out.
    pub remove: Vec<String>,
    /// Extra requests.
    pub effects: Vec<Effect>,
}

/// Outcome of a hook that may change one text and nothing else.
#[derive(Clone, Debug, Default)]
pub struct TextOutcome {
    /// Text to put in place.
    pub text: Option<String>,
    /// Extra requests.
    pub effects: Vec<Effect>,
}

/// One edit of the messages of a request.
#[derive(Clone, Debug)]
pub enum MessageEdit {
    /// Leave out the message with this id.
    Drop(String),
    /// Put a text in place of a message's text or of a tool result's content.
    Replace {
        /// Id of the message.
        id: String,
        /// The new text.
        text: String,
    },
    /// Add a message at the end.
    Append(String),
}

/// Outcome of a hook on the messages of one request.
#[derive(Clone, Debug, Default)]
pub struct ContextOutcome {
    /// Edits in order.
    pub edits: Vec<MessageEdit>,
    /// Extra requests.
    pub effects: Vec<Effect>,
}

/// A change of something that may have no value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Change<T> {
    /// Leave it as it is.
    #[default]
    Keep,
    /// Take it out.
    Unset,
    /// Put this in its place.
    Set(T),
}

impl<T> Change<T> {
    /// The value that is to be put in place.
    #[must_use]
    pub fn set(&self) -> Option<&T> {
        match self {
            Self::Set(value) => Some(value),
            Self::Keep | Self::Unset => None,
        }
    }

    /// The value as it will be: nothing after `Unset`; `None` to leave it.
    #[must_use]
    pub fn into_new(self) -> Option<Option<T>> {
        match self {
            Self::Keep => None,
            Self::Unset => Some(None),
            Self::Set(value) => Some(Some(value)),
        }
    }
}

/// Outcome of a hook on a request to the model.
#[derive(Clone, Debug, Default)]
pub struct RequestOutcome {
    /// Model to use.
    pub model: Option<String>,
    /// Sampling temperature, from 0 to 2.
    pub temperature: Change<f64>,
    /// Most tokens the model may write.
    pub max_tokens: Change<u32>,
    /// Tools to leave active.
    pub tools: Change<Vec<String>>,
    /// Messages to add.
    pub inject: Vec<Injection>,
    /// Refuse to ask the model, with the reason.
    pub block: Option<String>,
    /// Extra requests.
    pub effects: Vec<Effect>,
}

/// Outcome of a hook on a request as it goes over the wire.
#[derive(Clone, Debug, Default)]
pub struct WireOutcome {
    /// Body to send instead, JSON text, an object.
    pub body: Option<String>,
    /// Extra requests.
    pub effects: Vec<Effect>,
}

/// Outcome of a hook on the model's answer.
#[derive(Clone, Debug, Default)]
pub struct ReplyOutcome {
    /// Text to put in place of the message's text.
    pub text: Option<String>,
    /// Messages to add; a message asks the model for another step.
    pub inject: Vec<Injection>,
    /// Refuse the answer, with the reason.
    pub block: Option<String>,
    /// Extra requests.
    pub effects: Vec<Effect>,
}

/// Verdict of a hook on a tool call.
#[derive(Clone, Debug, Default)]
pub enum CallVerdict {
    /// No objection.
    #[default]
    Pass,
    /// Run it with these arguments, JSON text.
    Change(String),
    /// Ask the user first, for this reason.
    Ask(String),
    /// Refuse it, for this reason.
    Block(String),
}

/// Outcome of a hook on a tool call.
#[derive(Clone, Debug, Default)]
pub struct CallOutcome {
    /// The verdict.
    pub verdict: CallVerdict,
    /// A warning for the model, put beneath the result of the call.
    pub note: Option<String>,
    /// Extra requests.
    pub effects: Vec<Effect>,
}

/// Part that a hook puts into a tool result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NewPart {
    /// Plain text.
    Text(String),
    /// A value as JSON text.
    Json(String),
    /// The blob with this id, which the result has.
    Blob(String),
}

impl From<String> for NewPart {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

/// Outcome of a hook on a tool result.
#[derive(Clone, Debug, Default)]
pub struct ResultOutcome {
    /// Parts to put in place.
    pub content: Option<Vec<NewPart>>,
    /// Mark the result as an error, or not.
    pub is_error: Option<bool>,
    /// Messages to add after the results of this step.
    pub inject: Vec<Injection>,
    /// Extra requests.
    pub effects: Vec<Effect>,
}

/// Action for text that arrived during a turn.
#[derive(Clone, Debug, Default)]
pub enum SteeringAction {
    /// Take it as it is.
    #[default]
    Pass,
    /// Take this text instead.
    Replace(String),
    /// Leave it out, for this reason.
    Drop(String),
}

/// Outcome of a hook on steering.
#[derive(Clone, Debug, Default)]
pub struct SteeringOutcome {
    /// Action for the text.
    pub action: SteeringAction,
    /// Messages to add.
    pub inject: Vec<Injection>,
    /// Extra requests.
    pub effects: Vec<Effect>,
}

/// Outcome of a hook before reflection.
#[derive(Clone, Debug, Default)]
pub struct ReflectionOutcome {
    /// Draft to put in place.
    pub draft: Option<String>,
    /// Criteria to add.
    pub criteria: Vec<String>,
    /// The verdict, in place of the built-in reflection.
    pub verdict: VerdictChange,
    /// Extra requests.
    pub effects: Vec<Effect>,
}

/// Verdict that replaces the one of reflection.
#[derive(Clone, Debug, Default)]
pub enum VerdictChange {
    /// Leave the verdict as it is.
    #[default]
    Keep,
    /// The turn is done.
    Done,
    /// Another step is needed, for this reason.
    Again(String),
}

/// Outcome of a hook on the verdict of reflection.
#[derive(Clone, Debug, Default)]
pub struct VerdictOutcome {
    /// The new verdict.
    pub verdict: VerdictChange,
    /// Extra requests.
    pub effects: Vec<Effect>,
}

/// Outcome of a hook on the output.
#[derive(Clone, Debug, Default)]
pub struct OutputOutcome {
    /// Text to put in place.
    pub text: Option<String>,
    /// Hold the output back, for this reason.
    pub block: Option<String>,
    /// Extra requests.
    pub effects: Vec<Effect>,
}

/// Outcome of a hook on text as it is written.
#[derive(Clone, Debug, Default)]
pub struct DeltaOutcome {
    /// Text to put in place.
    pub text: Option<String>,
    /// Bytes at the end of the text that are not to be shown yet.
    pub keep: usize,
    /// Stop the answer, for this reason.
    pub stop: Option<String>,
    /// Extra requests.
    pub effects: Vec<Effect>,
}

/// Verdict of an implementation on the payload of a plugin-defined point.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum PointVerdict {
    /// No objection, no change.
    #[default]
    Pass,
    /// The new value, or a contribution.
    Value(Value),
    /// Ask the user first, for this reason.
    Ask(String),
    /// Refuse it, for this reason.
    Block(String),
}

/// Outcome of an implementation of a plugin-defined point.
#[derive(Clone, Debug, Default)]
pub struct PointOutcome {
    /// The verdict.
    pub verdict: PointVerdict,
    /// Extra requests.
    pub effects: Vec<Effect>,
}

/// Verdict of a hook on compaction or archival.
#[derive(Clone, Debug, Default)]
pub enum SliceVerdict {
    /// No objection.
    #[default]
    Pass,
    /// Do not do it, for this reason.
    Cancel(String),
    /// Do it with this summary.
    Summary(String),
}

/// Outcome of a hook before compaction or archival.
#[derive(Clone, Debug, Default)]
pub struct SliceOutcome {
    /// The verdict.
    pub verdict: SliceVerdict,
    /// Extra requests.
    pub effects: Vec<Effect>,
}
