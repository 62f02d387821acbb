//! Builds a view of a session, turn by turn, for people and programs that inspect it from outside.
//!
//! Owns the model of a turn that `show` and `export` share: messages, tool calls with the decisions
//! of hooks, subagents, archived turns, and the parts of the system prompt. The model is built from
//! entries alone, and must not know how it is displayed. Texts are not sanitized; code that
//! displays them must do that. Start from [`SessionView::new`].

mod build;
mod described;

use serde::Serialize;
use serde_json::Value;

use super::entry::{Entry, PromptRow};
use crate::event::SubagentState;
use crate::message::{Blob, Role, Usage};

/// View of a session: facts about it, and the events of each turn.
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
    /// Name of the provider of the model that was used last.
    pub provider: String,
    /// Name of the model that was used last.
    pub model: String,
    /// Ids of the sessions that this one was forked from, the earliest fork first.
    pub forked_from: Vec<String>,
    /// Turns in order. The first has the number 0 if something happened before the first turn.
    pub turns: Vec<TurnView>,
    /// Messages about lines that cannot be read.
    pub notices: Vec<String>,
}

/// View of one turn: its input, figures and events.
#[derive(Clone, Debug, Default, Serialize)]
pub struct TurnView {
    /// Number of the turn; 0 for events before the first turn.
    pub turn: u32,
    /// Input as it arrived, before any hook ran.
    pub input: String,
    /// Source of the input.
    pub source: String,
    /// Slash command that produced the input.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Digest of the set of plugins that the turn ran with, if that set was one of a fleet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plugins: Option<String>,
    /// Time at which the turn began, in milliseconds since 1970.
    pub started: i64,
    /// Reason for the end; `None` while the turn is open.
    pub stop: Option<String>,
    /// Cost in US dollars of the requests with a known price.
    pub cost_usd: f64,
    /// Tokens of models without a known price.
    pub unpriced_tokens: u64,
    /// Tokens that the turn used.
    pub usage: Usage,
    /// Number of requests to the model.
    pub steps: u32,
    /// Id of the subagent that keeps the turn, if the turn was archived.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub archived_in: Option<String>,
    /// Whether the turn was undone.
    pub is_undone: bool,
    /// Events of the turn, in order.
    pub items: Vec<TurnEventView>,
}

/// Event of a turn.
#[derive(Clone, Debug, Serialize)]
pub struct TurnEventView {
    /// Line number of the entry that began the event.
    pub line: u64,
    /// Id of the first entry of the session file that is about this event.
    pub entry: String,
    /// Time of the entry, in milliseconds since 1970.
    pub time: i64,
    /// Content of the event.
    #[serde(flatten)]
    pub item: TurnEventContent,
}

/// Content of an event, by kind.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum TurnEventContent {
    /// Message of the conversation.
    Said {
        /// Sender, as the model sees it.
        role: Role,
        /// Author, if neither a person nor the model: a plugin, summary, reflection or agent.
        #[serde(skip_serializing_if = "Option::is_none")]
        by: Option<String>,
        /// Text of the message.
        text: String,
        /// Reasoning of the model.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        reasoning: Vec<String>,
        /// Images and other bytes, each described by type and size.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        blobs: Vec<String>,
        /// References to the bytes that `blobs` describes.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        attachments: Vec<Blob>,
    },
    /// Tool call, with the decisions on it and its result.
    Call(Box<CallView>),
    /// A decision of a hook that does not concern a tool call.
    Decision(Decision),
    /// Request to the model, with its usage and cost.
    Step {
        /// Number of the step.
        step: u32,
        /// Name of the requested model.
        model: String,
        /// Tokens that the request and its answer used.
        usage: Usage,
        /// Cost in US dollars, if a price is known.
        cost_usd: Option<f64>,
        /// Plugin whose agent loop sent the request outside the conversation.
        #[serde(skip_serializing_if = "Option::is_none")]
        aside: Option<String>,
    },
    /// Subagent that worked in the turn, with its task and answer.
    Subagent {
        /// Id of the subagent.
        agent: String,
        /// Plugin that started the subagent, if the model did not.
        #[serde(skip_serializing_if = "Option::is_none")]
        plugin: Option<String>,
        /// Task of the subagent.
        task: String,
        /// Answer of the subagent; `None` until it ends.
        answer: Option<String>,
        /// Whether the subagent failed.
        is_error: bool,
        /// Name of the subagent's preset.
        #[serde(skip_serializing_if = "Option::is_none")]
        preset: Option<String>,
        /// Whether the subagent had worked before and was continued here.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_continued: bool,
        /// State in which the subagent ended; `None` while it has not ended.
        state: Option<SubagentState>,
        /// Number of steps of the subagent.
        steps: u32,
        /// Cost in US dollars of the tokens with a known price.
        cost_usd: f64,
        /// Tokens that the subagent used.
        usage: Usage,
    },
    /// Messages were replaced: archival, compaction or undo.
    Replaced {
        /// Reason for the replacement, such as `undone`.
        reason: String,
        /// Number of removed messages.
        removed: usize,
        /// Text that replaces the removed messages.
        summary: String,
        /// Id of the subagent that keeps the removed messages, if they were archived.
        #[serde(skip_serializing_if = "Option::is_none")]
        holder: Option<String>,
    },
    /// The system prompt was recorded. Only its parts are listed, without their texts.
    Prompt {
        /// Parts of the system prompt, in order.
        parts: Vec<PromptRow>,
    },
    /// Event of another kind that users should see.
    Note {
        /// Description of the event.
        text: String,
    },
}

/// A tool call with its complete history: hooks, decisions and result.
#[derive(Clone, Debug, Default, Serialize)]
pub struct CallView {
    /// Id of the tool call.
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
    /// Plugin or policy that refused the call, if it was refused.
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

/// Decision of a hook that changed something, asked for approval, refused or failed.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Decision {
    /// Name of the plugin that has the hook.
    pub plugin: String,
    /// Name of the extension point of the hook.
    pub point: String,
    /// Outcome of the hook call, such as `changed` or `blocked`.
    pub outcome: String,
    /// Names of the parts of the payload that the hook changed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<String>,
    /// Reason that the plugin gave for the outcome, or a description of the hook's failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Number of the step within the turn; 0 outside a step.
    pub step: u32,
    /// Time until the hook answered, in microseconds.
    pub micros: f64,
}

impl SessionView {
    /// Creates the view of a session from its entries.
    #[must_use]
    pub fn new(id: &str, reading: &super::NumberedEntriesAndNotices) -> Self {
        let mut view = build::SessionViewBuilder::new(id);
        for numbered in &reading.entries {
            let Entry { id, time, body, .. } = &numbered.entry;
            view.apply_entry_line(numbered.line, id, *time, body);
        }
        let mut view = view.view;
        view.notices.clone_from(&reading.notices);
        view
    }
}
