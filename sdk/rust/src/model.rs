//! Asking a model. Needs the side effect `external` and `[external] model = true`.

pub use crate::bindings::rind::plugin::model::{Question, Reply, ask};

impl Question {
    /// A question to the session's model, answered in at most 1,024 tokens.
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
