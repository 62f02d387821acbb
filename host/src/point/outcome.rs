//! Outcomes of hooks before they are merged: the types of `wit/outcomes.wit`, and those of
//! plugin-defined points.
//!
//! This module holds data only; [`super::merge`] applies it. A field with its default value changes
//! nothing.

use serde_json::Value;

pub use super::contract::outcomes::{
    AssessmentOutcome, CallOutcome, CallVerdict, ContextOutcome, CountChange, DeltaOutcome,
    FloatChange, InputOutcome, MessageEdit, NamesChange, Observed, OutputOutcome, PartsOutcome,
    PromptOutcome, ReflectionOutcome, Replacement, ReplyOutcome, RequestOutcome, ResultOutcome,
    SliceOutcome, SliceVerdict, SteeringAction, SteeringOutcome, TextOutcome, VerdictChange,
    VerdictOutcome, WireOutcome,
};
pub use super::contract::types::{Effect, Injection, Level, LogLine, Metric, Part, Stored};

include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../wit/outcomes.in"));
pub(crate) use {for_each_choice, for_each_outcome};

macro_rules! outcomes {
    ($($name:ident { $($field:ident $(: $way:ident $what:literal)?),* };)*) => {$(
        impl Default for $name {
            /// Returns the outcome that changes nothing.
            fn default() -> Self {
                Self { $($field: Default::default(),)* effects: Vec::new() }
            }
        }
    )*};
}
for_each_outcome!(outcomes);

macro_rules! choices {
    ($($name:ident { $neutral:ident $(, $other:ident)*; $($rest:tt)* };)*) => {$(
        impl Default for $name {
            /// Returns the verdict that changes nothing.
            fn default() -> Self {
                Self::$neutral
            }
        }
    )*};
}
for_each_choice!(choices);

macro_rules! changes {
    ($($name:ident($value:ty);)*) => {$(
        impl $name {
            /// Returns the change: `None` keeps the old value, `Some(None)` removes it, and
            /// `Some(Some(…))` is the new value.
            #[must_use]
            pub fn into_new_value(self) -> Option<Option<$value>> {
                match self {
                    Self::Keep => None,
                    Self::Unset => Some(None),
                    Self::Set(value) => Some(Some(value)),
                }
            }
        }
    )*};
}
changes! {
    FloatChange(f64);
    CountChange(u32);
    NamesChange(Vec<String>);
}

impl From<String> for Part {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

/// Verdict of an implementer on the payload of a plugin-defined point.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum PluginDefinedPointVerdict {
    /// The implementer neither objects nor changes the value.
    #[default]
    Pass,
    /// The new value at a gate or mutate point, or a contribution at a collect point.
    Value(Value),
    /// Asks the user, with this reason, before the value is used.
    Ask(String),
    /// Refuses the value, for this reason.
    Block(String),
}

/// Outcome of an implementer of a plugin-defined point.
#[derive(Clone, Debug, Default)]
pub struct PluginDefinedPointOutcome {
    /// Verdict on the value, or a new value.
    pub verdict: PluginDefinedPointVerdict,
    /// Requests to the host that do not concern the value, such as log lines and notices.
    pub effects: Vec<Effect>,
}
