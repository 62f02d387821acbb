//! Errors that the operator can correct: a wrong argument, setting or variable.

/// Error in an argument, a setting or a variable of the environment.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);

/// Returns from a function with an error that the operator can correct.
#[doc(hidden)]
#[macro_export]
macro_rules! bail_usage {
    ($($text:tt)*) => {
        return Err($crate::usage::Usage(format!($($text)*)).into())
    };
}
pub use bail_usage;
