//! Defines the side effects that a plugin declares.

use serde::{Deserialize, Serialize};

/// Side effect that a plugin declares in its manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SideEffect {
    /// No side effect; cannot be combined with others.
    None,
    /// Reads or writes files.
    Filesystem,
    /// Communicates over the network.
    Network,
    /// Reads or changes the conversation: prompts, messages, tool calls, the model.
    Session,
    /// Asks models, or runs subagents or tools of others.
    External,
}

display_as_in_json!(SideEffect);
