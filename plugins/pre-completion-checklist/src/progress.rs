//! What was edited in a turn and not checked since, and what to say about it.

use rind_sdk::prelude::{Error, FinishedCall, data, state};
use rind_sdk::serde_json::Value;

use crate::check::is_check;

/// Most files that are named.
const MOST_FILES: usize = 20;

/// The operator's settings.
#[data]
pub(crate) struct Settings {
    /// Tools that edit a file.
    pub(crate) edit_tools: Vec<String>,
    /// Tools that run a shell command.
    pub(crate) command_tools: Vec<String>,
    /// Tools that are checks.
    pub(crate) check_tools: Vec<String>,
    /// Commands that are checks.
    pub(crate) checks: Vec<String>,
    /// Ends of paths that need no check.
    pub(crate) exempt: Vec<String>,
}

/// What a call did to the work.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Did {
    /// It edited this file.
    Edit(String),
    /// It was a check.
    Check,
    /// Neither.
    Other,
}

impl Did {
    /// What a call that has ended did. A call that was refused did nothing; a check that failed was one.
    pub(crate) fn of(finished: &FinishedCall, settings: &Settings) -> Self {
        let call = &finished.call;
        let is_error = finished.outcome.is_error;
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
        let was_refused = is_error && finished.duration_ms == 0;
        let is_check = settings.check_tools.contains(&call.name)
            || (settings.command_tools.contains(&call.name)
                && text("command").is_some_and(|line| is_check(line, &settings.checks)));
        if is_check && !was_refused {
            Self::Check
        } else {
            Self::Other
        }
    }
}

/// Where one agent's turn stands.
#[data]
#[derive(Default)]
pub(crate) struct Progress {
    /// The turn.
    turn: u32,
    /// Files that were edited after the last check.
    unchecked: Vec<String>,
    /// Whether an answer of this turn was sent back.
    was_sent_back: bool,
}

impl Progress {
    /// What was kept for an agent in this turn, or a new start.
    pub(crate) fn load(agent: &str, turn: u32) -> Result<Self, Error> {
        let kept: Self = state::get_json(&key(agent))?.unwrap_or_default();
        Ok(if kept.turn == turn {
            kept
        } else {
            Self {
                turn,
                ..Self::default()
            }
        })
    }

    /// Keeps it.
    pub(crate) fn save(&self, agent: &str) -> Result<(), Error> {
        state::set_json(&key(agent), self)
    }

    /// Takes note of what a call did. False when that changes nothing.
    pub(crate) fn note(&mut self, did: Did) -> bool {
        match did {
            Did::Edit(path) if !self.unchecked.contains(&path) => self.unchecked.push(path),
            Did::Check if !self.unchecked.is_empty() => self.unchecked.clear(),
            _ => return false,
        }
        true
    }

    /// What is missing for an answer to stand, said once a turn. A question is no claim that the work is done.
    pub(crate) fn objection(&mut self, answer: &str) -> Option<Objection> {
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
            .take(MOST_FILES)
            .map(|path| format!("`{path}`"));
        let mut files = named.collect::<Vec<_>>().join(", ");
        if let Some(more @ 1..) = self.unchecked.len().checked_sub(MOST_FILES) {
            files.push_str(&format!(" and {more} more"));
        }
        Some(Objection {
            to_model: format!(
                "Not done yet: {files} changed in this turn, and no build, test or check ran after the last edit. Run what \
                 checks the change and mend what fails, then answer. If nothing can check it, say in your answer that it \
                 was not checked, and why."
            ),
            to_person: format!("answer sent back: nothing has checked {files}"),
        })
    }
}

/// Why an answer is sent back.
pub(crate) struct Objection {
    /// For the model.
    pub(crate) to_model: String,
    /// For the person.
    pub(crate) to_person: String,
}

fn key(agent: &str) -> String {
    format!("progress/{agent}")
}
