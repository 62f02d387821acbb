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
            /// Returns the new value: `None` keeps the old one, `Some(None)` unsets it.
            #[must_use]
            pub fn into_new(self) -> Option<Option<$value>> {
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
pub enum PointVerdict {
    /// No objection, no change.
    #[default]
    Pass,
    /// The new value at a gate or mutate point, or a contribution at a collect point.
    Value(Value),
    /// Ask the user first, for this reason.
    Ask(String),
    /// Refuse the value, for this reason.
    Block(String),
}

/// Outcome of an implementer of a plugin-defined point.
#[derive(Clone, Debug, Default)]
pub struct PointOutcome {
    /// Verdict on the value, or a new one.
    pub verdict: PointVerdict,
    /// Side requests to the host.
    pub effects: Vec<Effect>,
}
