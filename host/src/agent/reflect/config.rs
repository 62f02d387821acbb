//! The section `[agent.reflect]` of the settings.

use serde::Deserialize;

use crate::config::number;

/// Settings for reflection: whether the model reviews its answer, and how often an answer may be
/// sent back. The built-in checks are local and cannot be turned off; plugins act before and after
/// them.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ReflectConfig {
    /// Whether the model reviews each answer that no hook or check sends back. It costs one request
    /// per answer.
    pub enabled: bool,
    /// Model for the review, of the same provider. Absent: the session's model.
    pub model: Option<String>,
    /// Maximum number of further steps that reflection may ask for in one turn. A follow-up of the
    /// user starts the count again.
    #[serde(deserialize_with = "number::within::<0, 100, _, _>")]
    pub rounds: u32,
}

impl Default for ReflectConfig {
    fn default() -> Self {
        Self {
            enabled: false,
            model: None,
            // Two rounds, because an answer that two more steps did not improve rarely improves
            // later.
            rounds: 2,
        }
    }
}
