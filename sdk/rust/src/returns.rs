//! Return types of hooks and commands, so that authors write the shortest thing that is right.

use crate::outcomes::Observed;
use crate::types::Error;

/// A return type of a hook or a command where `O` is wanted: `O` itself, or a `Result` of it with any error that converts to
/// [`Error`].
#[diagnostic::on_unimplemented(
    message = "this function must return `{O}` or `Result<{O}, Error>`, not `{Self}`",
    label = "not what the host expects here"
)]
pub trait IntoOutcome<O> {
    /// The outcome, or why there is none.
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

/// Outcome of a command. A command may also return text, which is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandOutcome {
    /// Show this text.
    Show(String),
    /// Start a turn with this input.
    Prompt(String),
}

impl IntoOutcome<CommandOutcome> for String {
    fn into_outcome(self) -> Result<CommandOutcome, Error> {
        Ok(CommandOutcome::Show(self))
    }
}

impl<E: Into<Error>> IntoOutcome<CommandOutcome> for Result<String, E> {
    fn into_outcome(self) -> Result<CommandOutcome, Error> {
        self.map(CommandOutcome::Show).map_err(Into::into)
    }
}
