//! Converts the return values of hooks, tools and commands to those of the contract, so that plugin
//! authors can use shorter return types.

use crate::outcomes::Observed;
use crate::types::{Answer, Effect, Error};
use serde::Serialize;
use std::fmt::Display;
use std::time::Duration;

/// A return type of a hook or a command whose outcome is `O`: `O` itself, or a `Result` of it with
/// any error that converts to [`Error`].
#[diagnostic::on_unimplemented(
    message = "this function must return `{O}` or `Result<{O}, Error>`, not `{Self}`",
    label = "not what the host expects here"
)]
pub trait IntoOutcome<O> {
    /// Converts the return value into an outcome or an error.
    ///
    /// # Errors
    /// The error that the function returned.
    fn into_outcome(self) -> Result<O, Error>;
}

impl<O> IntoOutcome<O> for O {
    fn into_outcome(self) -> Result<O, Error> {
        Ok(self)
    }
}

impl<O, E: Into<Error>> IntoOutcome<O> for Result<O, E> {
    fn into_outcome(self) -> Result<O, Error> {
        self.map_err(Into::into)
    }
}

impl IntoOutcome<Observed> for () {
    fn into_outcome(self) -> Result<Observed, Error> {
        Ok(Observed::default())
    }
}

impl<E: Into<Error>> IntoOutcome<Observed> for Result<(), E> {
    fn into_outcome(self) -> Result<Observed, Error> {
        self.map(|()| Observed::default()).map_err(Into::into)
    }
}

/// A return type of a tool: [`Answer`], or anything that can be displayed, which becomes one text.
#[diagnostic::on_unimplemented(
    message = "a tool returns text, anything else that can be displayed, or an `Answer`, not `{Self}`",
    label = "cannot be displayed",
    note = "`Answer::json(&value)?` makes an answer of a value that serializes; the tool then returns `Result<Answer, Error>`"
)]
pub trait IntoAnswer {
    /// Converts the return value into an answer.
    fn into_answer(self) -> Answer;
}

impl<T: Display> IntoAnswer for T {
    fn into_answer(self) -> Answer {
        Answer::text(self.to_string())
    }
}

impl IntoAnswer for Answer {
    fn into_answer(self) -> Answer {
        self
    }
}

/// Outcome of a command. A command may also return a `String`, which is shown, or nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandOutcome {
    /// Show this text.
    Text(String),
    /// Start a turn with this input.
    Prompt(String),
    /// The command has finished its work and shows nothing.
    Nothing,
}

impl IntoOutcome<CommandOutcome> for String {
    fn into_outcome(self) -> Result<CommandOutcome, Error> {
        Ok(CommandOutcome::Text(self))
    }
}

impl<E: Into<Error>> IntoOutcome<CommandOutcome> for Result<String, E> {
    fn into_outcome(self) -> Result<CommandOutcome, Error> {
        self.map(CommandOutcome::Text).map_err(Into::into)
    }
}

impl IntoOutcome<CommandOutcome> for () {
    fn into_outcome(self) -> Result<CommandOutcome, Error> {
        Ok(CommandOutcome::Nothing)
    }
}

impl<E: Into<Error>> IntoOutcome<CommandOutcome> for Result<(), E> {
    fn into_outcome(self) -> Result<CommandOutcome, Error> {
        self.map(|()| CommandOutcome::Nothing).map_err(Into::into)
    }
}

/// Outcome of one run of a loop. A loop that returns `()` is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoopOutcome {
    /// The loop has ended and is not run again.
    Done,
    /// Run again.
    Again {
        /// Delay before the next run.
        after: Duration,
        /// Reason for the next run, for the operator.
        reason: String,
    },
}

impl IntoOutcome<LoopOutcome> for () {
    fn into_outcome(self) -> Result<LoopOutcome, Error> {
        Ok(LoopOutcome::Done)
    }
}

impl<E: Into<Error>> IntoOutcome<LoopOutcome> for Result<(), E> {
    fn into_outcome(self) -> Result<LoopOutcome, Error> {
        self.map(|()| LoopOutcome::Done).map_err(Into::into)
    }
}

/// Outcome of an implementation of another plugin's point. An implementation may also return a type
/// of its own, which becomes [`PointVerdict::Value`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PointOutcome {
    /// Verdict on the payload.
    pub verdict: PointVerdict,
    /// Additional effects, such as log lines and notices.
    pub effects: Vec<Effect>,
}

/// Verdict of an implementation on a payload.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum PointVerdict {
    /// No objection, no change.
    #[default]
    Pass,
    /// This value, as JSON text: the new payload, or a contribution.
    Value(String),
    /// Ask the user first, for this reason; at gates only.
    Ask(String),
    /// Refuse, for this reason; at gates and mutate points.
    Block(String),
}

impl PointOutcome {
    /// Lets the payload pass unchanged.
    #[must_use]
    pub fn pass() -> Self {
        Self::default()
    }

    /// Returns a value: the new payload at a gate or mutate point, or a contribution at a collect
    /// point.
    ///
    /// # Errors
    /// The value cannot be written as JSON.
    pub fn value<T: Serialize + ?Sized>(value: &T) -> Result<Self, Error> {
        Ok(PointVerdict::Value(serde_json::to_string(value)?).into())
    }

    /// Asks the user first, for this reason.
    #[must_use]
    pub fn ask(reason: impl Into<String>) -> Self {
        PointVerdict::Ask(reason.into()).into()
    }

    /// Refuses, for this reason.
    #[must_use]
    pub fn block(reason: impl Into<String>) -> Self {
        PointVerdict::Block(reason.into()).into()
    }
}

impl From<PointVerdict> for PointOutcome {
    fn from(verdict: PointVerdict) -> Self {
        Self {
            verdict,
            effects: Vec::new(),
        }
    }
}

/// A return type of a point's implementation: [`PointOutcome`], any type that can be written as
/// JSON, or a `Result` of either.
pub trait IntoPointOutcome<Kind> {
    /// Converts the return value into an outcome or an error.
    ///
    /// # Errors
    /// The error that the function returned, or that its value cannot be written as JSON.
    fn into_point_outcome(self) -> Result<PointOutcome, Error>;
}

/// Type-level marker of implementations that return a [`PointOutcome`].
#[derive(Debug)]
pub struct AsOutcome;

/// Type-level marker of implementations that return a value.
#[derive(Debug)]
pub struct AsValue;

impl IntoPointOutcome<AsOutcome> for PointOutcome {
    fn into_point_outcome(self) -> Result<PointOutcome, Error> {
        Ok(self)
    }
}

impl<T: Serialize> IntoPointOutcome<AsValue> for T {
    fn into_point_outcome(self) -> Result<PointOutcome, Error> {
        PointOutcome::value(&self)
    }
}
