//! The section `[agent.reflect]` of the settings.

use serde::Deserialize;

use crate::config::number;

/// Settings for reflection: whether the model reviews its answer, and how often an answer may be
/// sent back. The built-in reflection is local and always there; plugins act before it and after
/// it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ReflectConfig {
    /// Whether the model checks an answer once more if no hook or check sends it back. It costs one
    /// request for every answer.
    pub enabled: bool,
    /// The model that takes it, of the same provider. Absent: the session's.
    pub model: Option<String>,
    /// Maximum number of further steps that reflection may ask for in one turn; a follow-up may be
    /// sent back as often again.
    #[serde(deserialize_with = "number::within::<0, 100, _, _>")]
    pub rounds: u32,
}

impl Default for ReflectConfig {
    fn default() -> Self {
        Self {
            enabled: false,
            model: None,
            // An answer that is not better after two more steps does not get better.
            rounds: 2,
        }
    }
}
