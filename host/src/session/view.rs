//! Events of a session, turn by turn, for people and programs that watch it from outside.
//!
//! Owns the model of a turn that `show` and `export` share: what was said, calls with what hooks
//! decided about them, subagents, archived turns, and the parts of the system prompt. It is made of
//! entries alone, and must not know how it is shown. Texts are not sanitized; code that shows them
//! must do that. Start from [`SessionView::new`].

mod build;
mod described;

use serde::Serialize;
use serde_json::Value;

use super::entry::{Entry, PromptRow};
use crate::event::SubagentState;
use crate::message::{Blob, Role, Usage};

/// A session as it can be looked at.
#[derive(Clone, Debug, Default, Serialize)]
pub struct SessionView {
    /// Id of the session.
    pub id: String,
    /// Title of the session, if it has one.
    pub title: Option<String>,
    /// Time of creation, in milliseconds since 1970.
    pub created: i64,
    /// Folder the agent worked in.
    pub workspace: String,
    /// Name of the provider of the last use.
    pub provider: String,
    /// Name of the model of the last use.
    pub model: String,
    /// Sessions that this one was forked from, the first one first.
    pub forked_from: Vec<String>,
    /// Turns in order. The first has the number 0 if something happened before the first turn.
    pub turns: Vec<TurnView>,
    /// Messages about lines that cannot be read.
    pub notices: Vec<String>,
}

/// One turn.
#[derive(Clone, Debug, Default, Serialize)]
pub struct TurnView {
    /// Number of the turn; 0 for what happened before the first one.
    pub turn: u32,
    /// Input as it arrived, before any hook ran.
    pub input: String,
    /// Source of the input.
    pub source: String,
    /// Slash command that produced the input.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Digest of the set of plugins that it ran with, if it was one of a fleet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plugins: Option<String>,
    /// Time of the start, in milliseconds since 1970.
    pub started: i64,
    /// Reason for the end; `None` while the turn is open.
    pub stop: Option<String>,
    /// Cost in US dollars of the requests with a known price.
    pub cost_usd: f64,
    /// Tokens of models without a known price.
    pub unpriced_tokens: u64,
    /// Tokens used.
    pub usage: Usage,
    /// Number of requests to the model.
    pub steps: u32,
    /// Holder that keeps the turn, if it was archived.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub archived_in: Option<String>,
    /// Whether the turn was undone.
    pub is_undone: bool,
    /// Events of the turn, in order.
    pub items: Vec<ItemView>,
}

/// One event of a turn.
#[derive(Clone, Debug, Serialize)]
pub struct ItemView {
    /// Number of the line that began it.
    pub line: u64,
    /// Id of the entry that began it.
    pub entry: String,
    /// Time of the entry, in milliseconds since 1970.
    pub time: i64,
    /// Content of the event.
    #[serde(flatten)]
    pub item: Item,
}

/// Kinds of events.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Item {
    /// A message.
    Said {
        /// Sender, as the model sees it.
        role: Role,
        /// Plugin, summary, reflection or agent that wrote it, if no person and no model did.
        #[serde(skip_serializing_if = "Option::is_none")]
        by: Option<String>,
        /// Text of the message.
        text: String,
        /// Reasoning of the model.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        reasoning: Vec<String>,
        /// Images and other bytes, by type and size.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        blobs: Vec<String>,
        /// References to the same bytes.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        attachments: Vec<Blob>,
    },
    /// A tool call.
    Call(Box<CallView>),
    /// A decision of a hook that is about no call.
    Decision(Decision),
    /// A request to the model.
    Step {
        /// Number of the step.
        step: u32,
        /// Name of the requested model.
        model: String,
        /// Tokens used.
        usage: Usage,
        /// Cost in US dollars, if a price is known.
        cost_usd: Option<f64>,
        /// Plugin whose loop of the agent sent the request outside the conversation.
        #[serde(skip_serializing_if = "Option::is_none")]
        aside: Option<String>,
    },
    /// A subagent.
    Subagent {
        /// Id of the subagent.
        agent: String,
        /// Plugin that made the call, if the model did not.
        #[serde(skip_serializing_if = "Option::is_none")]
        plugin: Option<String>,
        /// Task of the subagent.
        task: String,
        /// Answer; `None` while there is none.
        answer: Option<String>,
        /// Whether the subagent failed.
        is_error: bool,
        /// Name of its preset.
        #[serde(skip_serializing_if = "Option::is_none")]
        preset: Option<String>,
        /// Whether the subagent worked before and went on here.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_continued: bool,
        /// State that it ended in; `None` while it has not ended.
        state: Option<SubagentState>,
        /// Number of its steps.
        steps: u32,
        /// Cost in US dollars of the tokens with a known price.
        cost_usd: f64,
        /// Tokens used.
        usage: Usage,
    },
    /// Messages were replaced: archival, compaction or undo.
    Replaced {
        /// Reason of the replacement.
        reason: String,
        /// Number of removed messages.
        removed: usize,
        /// Text that replaces them.
        summary: String,
        /// Holder that keeps the removed messages.
        #[serde(skip_serializing_if = "Option::is_none")]
        holder: Option<String>,
    },
    /// The system prompt was recorded: its parts, without their texts, which sessions do not keep.
    Prompt {
        /// Parts in order.
        parts: Vec<PromptRow>,
    },
    /// Event of another kind that people should see.
    Note {
        /// Description of the event.
        text: String,
    },
}

/// A tool call with its whole history: hooks, decisions and result.
#[derive(Clone, Debug, Default, Serialize)]
pub struct CallView {
    /// Id of the call.
    pub id: String,
    /// Name of the tool.
    pub tool: String,
    /// Plugin that makes the call, if the model does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Arguments as the model wrote them.
    pub arguments: Value,
    /// Arguments with which the tool ran, if hooks changed them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ran_with: Option<Value>,
    /// Decisions of hooks about the call.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub decisions: Vec<Decision>,
    /// Whether the tool began to run.
    pub has_begun: bool,
    /// Plugin or policy that refused the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused_by: Option<String>,
    /// Run time in milliseconds, once the call ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// Result as the model reads it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// References to images and other bytes of the result.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Blob>,
    /// Whether the call failed, was refused or was cancelled.
    pub is_error: bool,
}

/// Decision of a hook that changed, asked, refused or failed.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Decision {
    /// Name of the plugin.
    pub plugin: String,
    /// Name of the point.
    pub point: String,
    /// Outcome, as in traces.
    pub outcome: String,
    /// Names of the changed parts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<String>,
    /// Reason as the plugin wrote it, or the failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Number of the step, 0 outside one.
    pub step: u32,
    /// Time until the hook answered, in microseconds.
    pub micros: f64,
}

impl SessionView {
    /// Creates the view of a session of its entries.
    #[must_use]
    pub fn new(id: &str, reading: &super::Reading) -> Self {
        let mut view = build::Build::new(id);
        for numbered in &reading.entries {
            let Entry { id, time, body, .. } = &numbered.entry;
            view.take(numbered.line, id, *time, body);
        }
        let mut view = view.view;
        view.notices.clone_from(&reading.notices);
        view
    }
}
