//! Runs skills that a person starts in a session.

use serde_json::Value;

use super::Session;
use crate::agent;
use crate::skill::SessionSkills;

/// Reason why a skill that a person started cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct SkillUnusableError(String);

impl Session {
    /// Returns the skills that the session can use.
    #[must_use]
    pub fn skills(&self) -> &SessionSkills {
        &self.agent.spec().skills
    }

    /// Returns the ids of the skills that stay active across turns, in the order of their
    /// activation.
    #[must_use]
    pub fn active_skills(&self) -> Vec<String> {
        let active = self.agent.active_skills();
        active.iter().map(ToString::to_string).collect()
    }

    /// Prepares a skill that a person runs, and returns the input of the [`turn`](Self::turn) that
    /// runs the skill; the skill becomes active only when that turn begins. `arguments` are text,
    /// or an object that fits the skill's schema. `line` is the text that the person typed: the
    /// conversation shows it for a skill that runs in a subagent.
    ///
    /// # Errors
    /// There is no such skill, something that the skill needs is missing, the arguments do not fit,
    /// or the person declined the question before the skill's first use.
    pub async fn invoke_skill(
        &mut self,
        name: &str,
        arguments: &Value,
        line: &str,
    ) -> Result<String, SkillUnusableError> {
        let invoked = self.agent.invoke_skill(name, arguments, line);
        invoked.await.map_err(SkillUnusableError)
    }

    /// Deactivates the skills that stay active across turns, and returns their ids.
    ///
    /// # Errors
    /// The session cannot be written.
    pub async fn end_skills(&mut self) -> Result<Vec<String>, agent::Error> {
        let ended = self.agent.deactivate_all_skills().await?;
        Ok(ended.iter().map(ToString::to_string).collect())
    }
}
