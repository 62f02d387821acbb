//! Answer of the program at a hook of another agent.

use rind_lib::text::printable_text;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Exit code that the agents with commands as hooks take for a refusal.
const REFUSE: u8 = 2;

/// Longest reason of a refusal, in bytes.
const MAX_REASON: usize = 4000;

/// Output and exit code of the program at a hook.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HookAnswer {
    /// Exit code.
    pub code: u8,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl HookAnswer {
    /// Creates an empty answer, which changes nothing.
    pub(crate) fn silent() -> Self {
        Self::default()
    }

    /// An answer in JSON.
    pub(crate) fn json(value: &Value) -> Self {
        Self {
            stdout: value.to_string(),
            ..Self::default()
        }
    }

    /// The refusal by exit code, which every agent with commands as hooks understands.
    #[must_use]
    pub fn refusal(why: &str) -> Self {
        Self {
            code: REFUSE,
            stdout: String::new(),
            stderr: reason_text(why),
        }
    }
}

/// Cleans and cuts a reason for the terminal and the model of the other agent.
pub(crate) fn reason_text(why: &str) -> String {
    let mut text = printable_text(why);
    if text.len() > MAX_REASON {
        text.truncate(text.floor_char_boundary(MAX_REASON));
        text.push('…');
    }
    format!("Rind guard: {text}")
}
