//! Errors that the operator can correct: a wrong argument, setting or environment variable.

/// Error in an argument, a setting or an environment variable.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);

/// Returns from the function with an error that the operator can correct. Takes the arguments of
/// `format!`.
#[doc(hidden)]
#[macro_export]
macro_rules! bail_usage {
    ($($text:tt)*) => {
        return Err($crate::usage::Usage(format!($($text)*)).into())
    };
}
pub use bail_usage;
