//! Creates outcomes of hooks: defaults that change nothing, short constructors, and builder methods
//! for the optional parts.

use crate::outcomes::{
    AssessmentOutcome, CallOutcome, CallVerdict, ContextOutcome, CountChange, DeltaOutcome,
    FloatChange, InputOutcome, MessageEdit, NamesChange, Observed, OutputOutcome, PartsOutcome,
    PromptOutcome, ReflectionOutcome, Replacement, ReplyOutcome, RequestOutcome, ResultOutcome,
    SliceOutcome, SliceVerdict, SteeringAction, SteeringOutcome, TextOutcome, VerdictChange,
    VerdictOutcome, WireOutcome,
};
use crate::payloads::{Assessment, PromptPart, Tier};
use crate::types::{Effect, Injection, Level, LogLine, Metric, Part, Stored};
use std::fmt::Display;

// `outcomes.in` is a symlink to a file of the contract. With a path that leads out of this folder,
// cargo would record the location of the plugin that is compiled first.
include!("outcomes.in");

/// Implements for each outcome a default and builder methods for effects, which every outcome has.
macro_rules! outcomes {
    ($($name:ident { $($field:ident $(: $way:ident $what:literal)?),* };)*) => {$(
        impl Default for $name {
            /// Returns an outcome that changes nothing.
            fn default() -> Self {
                Self { $($field: Default::default(),)* effects: Vec::new() }
            }
        }

        impl $name {
            /// Adds a line to the host's log.
            #[must_use]
            pub fn log(mut self, level: Level, text: impl Display) -> Self {
                self.effects.push(Effect::Log(LogLine { level, text: text.to_string() }));
                self
            }

            /// Adds a notice for the person at the terminal.
            #[must_use]
            pub fn notify(mut self, level: Level, text: impl Display) -> Self {
                self.effects.push(Effect::Notify(LogLine { level, text: text.to_string() }));
                self
            }

            /// Adds a metric. Its name ends with the unit, such as `review.seconds`.
            #[must_use]
            pub fn metric(mut self, name: impl Into<String>, value: f64) -> Self {
                self.effects.push(Effect::Metric(Metric { name: name.into(), value }));
                self
            }

            /// Sets a key of the plugin's store, when the host has accepted the outcome.
            #[must_use]
            pub fn store(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
                self.effects.push(Effect::Store(Stored { key: key.into(), value: value.into() }));
                self
            }
        }
    )*};
}

for_each_outcome!(outcomes);

macro_rules! injecting {
    ($($name:ident),*) => {$(
        impl $name {
            /// Adds a message to the conversation. The message remains for all later requests.
            #[must_use]
            pub fn inject(mut self, text: impl Into<String>) -> Self {
                self.inject.push(Injection { text: text.into(), keep: true });
                self
            }

            /// Adds a message that the model sees in the next request only.
            #[must_use]
            pub fn inject_once(mut self, text: impl Into<String>) -> Self {
                self.inject.push(Injection { text: text.into(), keep: false });
                self
            }
        }
    )*};
}
injecting!(
    InputOutcome,
    RequestOutcome,
    ReplyOutcome,
    ResultOutcome,
    SteeringOutcome
);

macro_rules! blocking {
    ($($name:ident),*) => {$(
        impl $name {
            /// Refuses the input, request, reply or output, for this reason.
            #[must_use]
            pub fn block(reason: impl Into<String>) -> Self {
                Self { block: Some(reason.into()), ..Self::default() }
            }
        }
    )*};
}
blocking!(InputOutcome, RequestOutcome, ReplyOutcome, OutputOutcome);

/// Defines constructors that set one field of an outcome.
macro_rules! constructors {
    ($($name:ident { $($(#[$doc:meta])* $method:ident($argument:ident: $type:ty) => $field:ident: $value:expr;)* })*) => {$(
        impl $name {$(
            $(#[$doc])*
            #[must_use]
            pub fn $method($argument: $type) -> Self {
                Self { $field: $value, ..Self::default() }
            }
        )*}
    )*};
}

constructors! {
    InputOutcome {
        /// Replaces the text of the input.
        replace(text: impl Into<String>) => text: Some(text.into());
    }
    TextOutcome {
        /// Replaces the finished system prompt.
        replace(text: impl Into<String>) => text: Some(text.into());
    }
    ReplyOutcome {
        /// Replaces the text of the message.
        replace(text: impl Into<String>) => text: Some(text.into());
    }
    OutputOutcome {
        /// Replaces the text of the output.
        replace(text: impl Into<String>) => text: Some(text.into());
    }
    DeltaOutcome {
        /// Replaces the complete text of the delta, including text that was held back earlier with
        /// [`DeltaOutcome::keep`].
        replace(text: impl Into<String>) => text: Some(text.into());
        /// Stops the answer, for this reason.
        stop(reason: impl Into<String>) => stop: Some(reason.into());
    }
    ResultOutcome {
        /// Replaces the result of the tool with a text.
        replace(text: impl Into<String>) => content: Some(vec![Part::Text(text.into())]);
        /// Replaces the result of the tool with these parts. Blobs must be among those of the
        /// original result.
        replace_parts(parts: Vec<Part>) => content: Some(parts);
    }
    WireOutcome {
        /// Replaces the body of the request with this JSON text.
        replace(body: impl Into<String>) => body: Some(body.into());
    }
    AssessmentOutcome {
        /// Replaces the assessment of the input.
        replace(assessment: Assessment) => assessment: Some(assessment);
    }
    ReflectionOutcome {
        /// Replaces the draft of the answer.
        replace(draft: impl Into<String>) => draft: Some(draft.into());
        /// Adds a criterion for a good answer.
        criterion(text: impl Into<String>) => criteria: vec![text.into()];
        /// Requests another step for this reason; the built-in checks of the answer are skipped.
        again(reason: impl Into<String>) => verdict: VerdictChange::Again(reason.into());
    }
    PromptOutcome {
        /// Adds one part to the system prompt.
        part(part: PromptPart) => parts: vec![part];
    }
    VerdictOutcome {
        /// Requests another step, for this reason.
        again(reason: impl Into<String>) => verdict: VerdictChange::Again(reason.into());
    }
    SteeringOutcome {
        /// Replaces the text that the user sent.
        replace(text: impl Into<String>) => action: SteeringAction::Replace(text.into());
        /// Drops the text that the user sent, for this reason.
        drop(reason: impl Into<String>) => action: SteeringAction::Drop(reason.into());
    }
    CallOutcome {
        /// Runs the call with these arguments (JSON text) instead.
        change(arguments: impl Into<String>) => verdict: CallVerdict::Change(arguments.into());
        /// Asks the user first, for this reason.
        ask(reason: impl Into<String>) => verdict: CallVerdict::Ask(reason.into());
        /// Refuses the call, for this reason.
        block(reason: impl Into<String>) => verdict: CallVerdict::Block(reason.into());
    }
    SliceOutcome {
        /// Prevents the compaction or archiving, for this reason.
        cancel(reason: impl Into<String>) => verdict: SliceVerdict::Cancel(reason.into());
        /// Compacts or archives the messages with this summary.
        summary(text: impl Into<String>) => verdict: SliceVerdict::Summary(text.into());
    }
}

impl CallOutcome {
    /// Lets the call run unchanged.
    #[must_use]
    pub fn pass() -> Self {
        Self::default()
    }

    /// Appends a warning for the model to the result of the call.
    #[must_use]
    pub fn with_note(mut self, note: impl Into<String>) -> Self {
        self.note = Some(note.into());
        self
    }
}

impl DeltaOutcome {
    /// Holds back the last `bytes` of the text; the next delta begins with them.
    #[must_use]
    pub fn keep(mut self, bytes: usize) -> Self {
        self.keep = u32::try_from(bytes).unwrap_or(u32::MAX);
        self
    }
}

macro_rules! finishing {
    ($($name:ident),*) => {$(
        impl $name {
            /// Declares the turn done, in place of the verdict of the built-in reflection.
            #[must_use]
            pub fn done() -> Self {
                Self { verdict: VerdictChange::Done, ..Self::default() }
            }
        }
    )*};
}
finishing!(ReflectionOutcome, VerdictOutcome);

impl ContextOutcome {
    /// Removes the message with this id from the request.
    #[must_use]
    pub fn drop_message(mut self, id: impl Into<String>) -> Self {
        self.edits.push(MessageEdit::Drop(id.into()));
        self
    }

    /// Replaces the text of a message, or the content of a tool result.
    #[must_use]
    pub fn replace_message(mut self, id: impl Into<String>, text: impl Into<String>) -> Self {
        let replacement = Replacement {
            id: id.into(),
            text: text.into(),
        };
        self.edits.push(MessageEdit::Replace(replacement));
        self
    }

    /// Appends a message to the request.
    #[must_use]
    pub fn append_message(mut self, text: impl Into<String>) -> Self {
        self.edits.push(MessageEdit::Append(text.into()));
        self
    }
}

impl PromptPart {
    /// Creates a part of the system prompt. The host fills in its origin.
    #[must_use]
    pub fn new(tier: Tier, key: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            tier,
            key: key.into(),
            source: String::new(),
            text: text.into(),
        }
    }
}

macro_rules! choices {
    ($($name:ident { $neutral:ident $(, $other:ident)*; $($rest:tt)* };)*) => {$(
        impl Default for $name {
            /// Returns the variant that changes nothing.
            fn default() -> Self {
                Self::$neutral
            }
        }
    )*};
}
for_each_choice!(choices);

macro_rules! set {
    ($($name:ident($value:ty);)*) => {$(
        impl From<$value> for $name {
            fn from(value: $value) -> Self {
                Self::Set(value)
            }
        }
    )*};
}
set! {
    FloatChange(f64);
    CountChange(u32);
    NamesChange(Vec<String>);
}
