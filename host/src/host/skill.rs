//! Skills that a person runs in a session.

use serde_json::Value;

use super::Session;
use crate::agent;
use crate::skill::Skills;

/// Reason why a skill cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct SkillError(String);

impl Session {
    /// The skills of the session.
    #[must_use]
    pub fn skills(&self) -> &Skills {
        &self.agent.spec().skills
    }

    /// Ids of the skills that stay active from turn to turn, in the order in which they became so.
    #[must_use]
    pub fn active_skills(&self) -> Vec<String> {
        let active = self.agent.active_skills();
        active.iter().map(ToString::to_string).collect()
    }

    /// Prepares a skill for a person, and returns the input of the [`turn`](Self::turn) that runs
    /// it: nothing is active before that turn begins. `arguments` are text, or an object that fits
    /// the skill's schema; `line` is the text that the person typed, which the conversation shows
    /// of a skill that a subagent runs.
    ///
    /// # Errors
    /// There is no such skill, something that it needs is missing, the arguments do not fit, or the
    /// answer to the question before its first use was no.
    pub async fn invoke_skill(
        &mut self,
        name: &str,
        arguments: &Value,
        line: &str,
    ) -> Result<String, SkillError> {
        let invoked = self.agent.invoke_skill(name, arguments, line);
        invoked.await.map_err(SkillError)
    }

    /// Ends the skills that stay active from turn to turn, and returns their ids.
    ///
    /// # Errors
    /// The session cannot be written.
    pub async fn end_skills(&mut self) -> Result<Vec<String>, agent::Error> {
        let ended = self.agent.end_skills().await?;
        Ok(ended.iter().map(ToString::to_string).collect())
    }
}
