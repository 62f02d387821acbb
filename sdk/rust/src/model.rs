//! Asks a model. Needs the side effect `external` and `[external] model = true`.

pub use crate::bindings::rind::plugin::model::{Question, Reply};
use crate::types::Error;

#[cfg(target_family = "wasm")]
use crate::bindings::rind::plugin::model as host;
#[cfg(not(target_family = "wasm"))]
use crate::testing::model as host;

/// Asks a question and waits for the answer.
///
/// # Errors
/// A hook, a policy or a limit refused the question, or the model failed.
pub fn ask(question: &Question) -> Result<Reply, Error> {
    host::ask(question)
}

impl Question {
    /// Creates a question to the session's model, answered in at most 1,024 tokens.
    #[must_use]
    pub fn new(prompt: impl Into<String>) -> Self {
        Self {
            system: String::new(),
            prompt: prompt.into(),
            model: None,
            max_tokens: 1024,
        }
    }
}
