//! Creates and reads errors, and converts common error types for `?`.

use crate::types::Error;
use std::fmt::Display;

impl Error {
    /// Creates an error without a more specific kind.
    pub fn other(text: impl Display) -> Self {
        Self::Failed(text.to_string())
    }

    /// Creates an error for invalid input from the caller.
    pub fn invalid(text: impl Display) -> Self {
        Self::InvalidInput(text.to_string())
    }

    /// Returns the text of the error, without its kind.
    #[must_use]
    pub fn message(&self) -> &str {
        match self {
            Self::InvalidInput(text)
            | Self::NotFound(text)
            | Self::Denied(text)
            | Self::Limit(text)
            | Self::Failed(text) => text,
        }
    }
}

impl From<String> for Error {
    fn from(text: String) -> Self {
        Self::Failed(text)
    }
}

impl From<&str> for Error {
    fn from(text: &str) -> Self {
        Self::Failed(text.to_owned())
    }
}

// A blanket `impl<E: std::error::Error> From<E>` is not possible: `Error` implements that trait
// itself, so it would conflict with `From<T> for T`.
macro_rules! from {
    ($($error:ty),* $(,)?) => {$(
        impl From<$error> for Error {
            fn from(error: $error) -> Self {
                Self::Failed(error.to_string())
            }
        }
    )*};
}

from! {
    serde_json::Error,
    std::io::Error,
    std::fmt::Error,
    std::num::ParseIntError,
    std::num::ParseFloatError,
    std::num::TryFromIntError,
    std::str::Utf8Error,
    std::string::FromUtf8Error,
    Box<dyn std::error::Error>,
    Box<dyn std::error::Error + Send + Sync>,
}
