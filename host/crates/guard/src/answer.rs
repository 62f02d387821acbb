//! Represents the answer of the guard program to a hook of another agent.

use rind_lib::text::printable_text;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Exit code by which a hook command refuses the call. All agents with command hooks support it.
const REFUSED_CALL_EXIT_CODE: u8 = 2;

/// Maximum length of the reason with which the guard refuses a call, in bytes.
const MAX_REFUSAL_REASON_BYTES: usize = 4000;

/// Output and exit code with which the guard program answers a hook.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HookAnswer {
    /// Exit code with which the hook program ends.
    pub code: u8,
    /// Text that the hook program writes to standard output.
    pub stdout: String,
    /// Text that the hook program writes to standard error.
    pub stderr: String,
}

impl HookAnswer {
    /// Creates an answer without output and with exit code 0, which lets the agent continue.
    pub(crate) fn empty_answer() -> Self {
        Self::default()
    }

    /// Creates an answer with exit code 0 and this JSON on standard output.
    pub(crate) fn from_json(value: &Value) -> Self {
        Self {
            stdout: value.to_string(),
            ..Self::default()
        }
    }

    /// Creates a refusal by exit code, which every agent whose hooks are commands understands.
    #[must_use]
    pub fn from_refusal_reason(why: &str) -> Self {
        Self {
            code: REFUSED_CALL_EXIT_CODE,
            stdout: String::new(),
            stderr: escape_and_truncate_reason(why),
        }
    }
}

/// Escapes control characters in a reason and shortens it, for the terminal and the model of the
/// other agent.
pub(crate) fn escape_and_truncate_reason(why: &str) -> String {
    let mut text = printable_text(why);
    if text.len() > MAX_REFUSAL_REASON_BYTES {
        text.truncate(text.floor_char_boundary(MAX_REFUSAL_REASON_BYTES));
        text.push('…');
    }
    format!("Rind guard: {text}")
}
