//! Defines the results that events report: of slash commands, of loop runs, and of subagents.
//!
//! The module must not know how a result is produced. Start from [`SubagentState`].

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Result of a slash command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CommandResult {
    /// The command returned a text to be shown to the user.
    Text,
    /// The command returned the input of a turn, which starts next.
    Prompt,
    /// The command returned no output.
    Nothing,
    /// An action of the front end, such as choosing another model or session, or quitting.
    Action,
    /// The command failed.
    Failed,
}

/// Result of one run of a plugin's loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LoopResult {
    /// The loop has nothing left to do and does not run again.
    Done,
    /// The loop wants to run again.
    Again,
    /// The run failed; the loop runs again after a pause that grows.
    Failed,
}

/// State of a subagent, as reported to the model and the person and stored in the session.
///
/// A subagent that is not running can be continued, whatever its state is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SubagentState {
    /// The subagent works on its task.
    Running,
    /// The subagent answered.
    Answered,
    /// The subagent answered, but a call was refused because a subagent cannot ask for approval.
    Blocked,
    /// The limit of steps or of cost ended the work; the answer is incomplete.
    Limited,
    /// The subagent was stopped: by its parent, by its time limit, or because the turn of its
    /// parent ended.
    Stopped,
    /// The subagent failed.
    Failed,
    /// The program ended while the subagent worked.
    Interrupted,
}

impl SubagentState {
    /// Returns the name of the state, as in events.
    #[must_use]
    pub fn as_word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Answered => "answered",
            Self::Blocked => "blocked",
            Self::Limited => "limited",
            Self::Stopped => "stopped",
            Self::Failed => "failed",
            Self::Interrupted => "interrupted",
        }
    }
}

impl std::fmt::Display for SubagentState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_word())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_has_the_same_word_in_json_and_for_people() {
        for state in [
            SubagentState::Running,
            SubagentState::Answered,
            SubagentState::Blocked,
            SubagentState::Limited,
            SubagentState::Stopped,
            SubagentState::Failed,
            SubagentState::Interrupted,
        ] {
            assert_eq!(serde_json::to_value(state).unwrap(), state.as_word());
        }
    }
}
