//! Tracks which files were edited in a turn after the last check that passed.

use rind_sdk::prelude::{Error, FinishedCall, data, state};
use rind_sdk::serde_json::Value;

use crate::check::is_check_failure_propagated;

/// Maximum number of files that the reason for rejecting an answer names.
const MAX_FILES_IN_REJECTION_REASON: usize = 20;

/// Maximum length in characters of a command that an objection quotes.
const MAX_QUOTED_COMMAND_CHARS: usize = 120;

/// Settings of the plugin: which calls are edits and which are checks.
#[data]
pub(crate) struct ChecklistSettings {
    /// Names of the tools that edit a file.
    pub(crate) edit_tools: Vec<String>,
    /// Names of the tools that run a shell command.
    pub(crate) command_tools: Vec<String>,
    /// Names of the tools that run a check.
    pub(crate) check_tools: Vec<String>,
    /// Patterns of shell commands that run a check.
    pub(crate) checks: Vec<String>,
    /// Suffixes of the paths of files that need no check.
    pub(crate) exempt: Vec<String>,
}

/// Effect of a tool call on the progress of the turn.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ToolCallProgressEffect {
    /// Edit of the file with this path.
    Edit(String),
    /// Check that passed.
    Check,
    /// Check that failed, or whose result is unknown.
    Unproven(FailedOrInconclusiveCheck),
    /// Neither an edit nor a check.
    Other,
}

/// A check that does not prove that the edits are correct.
#[data]
#[derive(PartialEq, Eq)]
pub(crate) struct FailedOrInconclusiveCheck {
    /// Command line of the check, or name of the tool that ran it.
    what: String,
    /// Whether the check is taken as failed. If false, its result is unknown, because the shell
    /// line succeeded but need not fail if the check fails.
    has_failed: bool,
}

impl ToolCallProgressEffect {
    /// Returns the effect of a finished call; [`Self::Other`] for a refused call.
    pub(crate) fn classify_finished_call(
        finished: &FinishedCall,
        settings: &ChecklistSettings,
    ) -> Self {
        let call = &finished.call();
        let is_error = finished.is_error();
        let arguments: Value = call.parse().unwrap_or_default();
        let text = |key: &str| arguments.get(key).and_then(Value::as_str);
        if settings.edit_tools.contains(&call.name) {
            let path = text("path").or(text("file_path")).unwrap_or("a file");
            let is_exempt = settings
                .exempt
                .iter()
                .any(|end| path.ends_with(end.as_str()));
            return if is_error || is_exempt {
                Self::Other
            } else {
                Self::Edit(path.to_owned())
            };
        }
        let was_refused = is_error && finished.duration_ms() == 0;
        let line = text("command").filter(|_| settings.command_tools.contains(&call.name));
        let decides = if settings.check_tools.contains(&call.name) {
            Some(true)
        } else {
            line.and_then(|line| is_check_failure_propagated(line, &settings.checks))
        };
        let what = || format_command_line(line.unwrap_or(&call.name));
        match decides {
            _ if was_refused => Self::Other,
            None => Self::Other,
            Some(_) if is_error => Self::Unproven(FailedOrInconclusiveCheck {
                what: what(),
                has_failed: true,
            }),
            Some(false) => Self::Unproven(FailedOrInconclusiveCheck {
                what: what(),
                has_failed: false,
            }),
            Some(true) => Self::Check,
        }
    }
}

/// Edits and checks in the current turn of one agent.
#[data]
#[derive(Default)]
pub(crate) struct TurnProgress {
    /// Number of the turn.
    turn: u32,
    /// Files that were edited after the last check that passed.
    unchecked: Vec<String>,
    /// Last check since the last edit, if the check failed or its result is unknown.
    #[serde(default)]
    unproven: Option<FailedOrInconclusiveCheck>,
    /// Whether an answer of this turn was already rejected.
    was_sent_back: bool,
}

impl TurnProgress {
    /// Loads the progress of an agent in this turn; empty if the stored progress is from another
    /// turn.
    pub(crate) fn load_progress(agent: &str, turn: u32) -> Result<Self, Error> {
        let kept: Self = state::get_json(&progress_storage_key(agent))?.unwrap_or_default();
        Ok(if kept.turn == turn {
            kept
        } else {
            Self {
                turn,
                ..Self::default()
            }
        })
    }

    /// Stores the progress in the session's state.
    pub(crate) fn save_progress(&self, agent: &str) -> Result<(), Error> {
        state::set_json(&progress_storage_key(agent), self)
    }

    /// Records the effect of a call. Returns whether the progress has changed.
    pub(crate) fn record_call_effect(&mut self, did: ToolCallProgressEffect) -> bool {
        match did {
            ToolCallProgressEffect::Edit(path) => {
                let was_tried = self.unproven.take().is_some();
                let is_known = self.unchecked.contains(&path);
                if !is_known {
                    self.unchecked.push(path);
                }
                return was_tried || !is_known;
            }
            ToolCallProgressEffect::Check if !self.unchecked.is_empty() => {
                self.unchecked.clear();
                self.unproven = None;
            }
            ToolCallProgressEffect::Unproven(check) if !self.unchecked.is_empty() => {
                self.unproven = Some(check)
            }
            _ => return false,
        }
        true
    }

    /// Returns the objection to an answer after unchecked edits, at most once a turn. An answer
    /// that ends with a question gets none, because it does not claim that the work is done.
    pub(crate) fn take_answer_rejection_reason(
        &mut self,
        answer: &str,
    ) -> Option<AnswerRejectionReason> {
        let answer =
            answer.trim_end_matches(|last: char| last.is_whitespace() || "*_`\"')".contains(last));
        let is_question = answer.ends_with(['?', '？', '؟']);
        if self.unchecked.is_empty() || self.was_sent_back || answer.is_empty() || is_question {
            return None;
        }
        self.was_sent_back = true;
        let named = self
            .unchecked
            .iter()
            .take(MAX_FILES_IN_REJECTION_REASON)
            .map(|path| format!("`{path}`"));
        let mut files = named.collect::<Vec<_>>().join(", ");
        if let Some(more @ 1..) = self
            .unchecked
            .len()
            .checked_sub(MAX_FILES_IN_REJECTION_REASON)
        {
            files.push_str(&format!(" and {more} more"));
        }
        let (why, of_person) = match &self.unproven {
            None => (
                "no build, test or check ran after the last edit".to_owned(),
                format!("no build, test or check ran after {files} changed"),
            ),
            Some(FailedOrInconclusiveCheck {
                what,
                has_failed: true,
            }) => (
                format!("the last check after that failed: `{what}`"),
                format!("`{what}` failed after the last edit of {files}"),
            ),
            Some(FailedOrInconclusiveCheck { what, .. }) => (
                format!(
                    "the exit code of `{what}` is not that of its check; run the check so that the line fails when it does, \
                     for one with `set -o pipefail`"
                ),
                format!("`{what}` does not show whether {files} passed"),
            ),
        };
        Some(AnswerRejectionReason {
            to_model: format!(
                "Not done yet: {files} changed in this turn, and {why}. Run what checks the change and mend what fails, then \
                 answer. If nothing can check it, or it cannot be made to pass, say so in your answer, and why."
            ),
            to_person: format!("answer sent back to the model: {of_person}"),
        })
    }
}

/// Reason why the plugin rejects the answer of a turn.
pub(crate) struct AnswerRejectionReason {
    /// Text of the reason for the model.
    pub(crate) to_model: String,
    /// Text of the reason for the user.
    pub(crate) to_person: String,
}

/// Formats a command as one line and truncates it.
fn format_command_line(line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    let line = words.join(" ").replace('`', "'");
    match line.char_indices().nth(MAX_QUOTED_COMMAND_CHARS) {
        Some((at, _)) => format!("{}…", line.get(..at).unwrap_or_default()),
        None => line,
    }
}

fn progress_storage_key(agent: &str) -> String {
    format!("progress/{agent}")
}
