//! Defines the events of a session, which observers read as a stream.
//!
//! Owns the event type, the delivery of events with time and position (`stream`), and the tree of a
//! turn's parts (`tree`). It must not know who listens: a terminal, a JSON stream and a test read
//! the same events. Events carry no authority, and the host never waits for a listener.
//!
//! Events form a tree: a turn contains its steps, a step its requests and tool calls, and a tool
//! call the hooks, accesses, requests, tool calls and subagents that name its id. Any other event
//! belongs to its agent, or to a compaction or archival that is running there. If a turn is cut
//! short, its open parts get no end event of their own: `turn-end` ends them all.
//!
//! Start from [`Event`].

pub(crate) mod pump;
mod result;
mod stream;
mod tree;

pub use result::{CommandResult, LoopResult, SubagentState};
pub use stream::{
    EVENT_STREAM_VERSION, EventObserver, EventSender, NumberedEvent, Stamped, event_line_schema,
};
#[doc(hidden)]
pub use tree::TurnPartId;

use schemars::JsonSchema;
use serde::Serialize;

use crate::message::{EffectClass, Finish, Message, ToolCall, ToolResult, Usage};
use crate::point::outcome::Level;
use crate::point::payload::{Decision, Source, TurnSummary};
use crate::point::trace::{AccessRecord, TraceRecord};

/// Event of a session. As JSON it is an object whose `type` is the name in kebab case, with
/// the fields that every [`Stamped`] event has.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Event {
    /// The session is open and its first turn is about to start.
    SessionOpened {
        /// Version of this stream. It is raised when an existing field or event changes its meaning
        /// or is removed; additions do not raise it.
        version: u32,
        /// Id of the session.
        id: String,
        /// Whether the session was resumed from an earlier run.
        resumed: bool,
        /// Number of messages that the session already contains.
        messages: u32,
        /// Name of the model provider.
        provider: String,
        /// Name of the model that the session uses.
        model: String,
    },
    /// A plugin was found and does not run in this session.
    PluginLeftOut {
        /// Name of the plugin, or of its folder when its manifest cannot be read.
        plugin: String,
        /// Trust level of the plugin: `managed`, `package`, `user`, `project` or `local`.
        trust: String,
        /// Folder of the plugin.
        folder: String,
        /// Kind of cause: `failed`, `held` (it needs permissions that were not granted), `shadowed`
        /// (another plugin has the same name) or `switched-off`.
        cause: String,
        /// Reason why the plugin does not run.
        reason: String,
    },
    /// A skill was found, but in this session nobody can use it, or only the user.
    SkillLeftOut {
        /// Name of the skill; empty for a finding about a whole folder of skills.
        skill: String,
        /// Trust level of the skill: `managed`, `package`, `user`, `project` or `local`.
        trust: String,
        /// Path of the skill's file.
        file: String,
        /// Kind of cause: `unusable` (its file cannot be read as a skill), `user-only` (a fault
        /// keeps it from the model) or `shadowed` (another skill has the same name).
        cause: String,
        /// Reason why the skill is left out.
        reason: String,
    },
    /// A plugin was replaced by another version of itself, which the next step calls.
    PluginReplaced {
        /// Name of the plugin that was replaced.
        plugin: String,
        /// Version of the plugin that runs from now on.
        version: String,
        /// Digest of the new version's component.
        digest: String,
        /// Extension points for which the new version has hooks.
        hooks: Vec<String>,
        /// Names of the tools that the new version provides.
        tools: Vec<String>,
    },
    /// A turn starts with this input.
    TurnStart {
        /// Number of the turn within the session, from 1.
        turn: u32,
        /// Text of the input as it was entered, before hooks change it.
        input: String,
        /// Source of the input, such as the user or a plugin.
        source: Source,
        /// Slash command that produced the input, and where the command is from; absent if the text
        /// was typed directly.
        #[serde(skip_serializing_if = "Option::is_none")]
        command: Option<String>,
        /// Id that the caller gave the input; absent if it gave none.
        #[serde(skip_serializing_if = "Option::is_none")]
        input_id: Option<String>,
    },
    /// A slash command that a person started has ended.
    Command {
        /// Name of the command, without the slash.
        command: String,
        /// Source of the command: `built in`, `plugin NAME`, `your prompts` or
        /// `the project's prompts`.
        source: String,
        /// Result of the command: text, the input of a turn, nothing, or a failure.
        outcome: CommandResult,
        /// Text for the person, or the reason why it failed; absent where there is none.
        #[serde(skip_serializing_if = "Option::is_none")]
        text: Option<String>,
        /// Duration of the command in milliseconds.
        duration_ms: u64,
    },
    /// A run of a plugin's loop ended.
    LoopRun {
        /// Name of the plugin whose loop ran.
        plugin: String,
        /// Result of the run: the loop is done, wants to run again, or failed.
        outcome: LoopResult,
        /// Milliseconds after which the loop wants to run again; absent unless it does.
        #[serde(skip_serializing_if = "Option::is_none")]
        after_ms: Option<u64>,
        /// Reason for another run, as the plugin wrote it, or for the failure; absent if the loop
        /// is done.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// Duration of the run in milliseconds.
        duration_ms: u64,
    },
    /// A plugin's loop begins to wait for its next run.
    LoopWait {
        /// Name of the plugin whose loop waits.
        plugin: String,
        /// Milliseconds until the next run, which may be more than the loop wants.
        delay_ms: u64,
        /// Number of failed runs since the last successful one; 0 if the last run succeeded.
        failures: u32,
        /// Reason for the next run: the `reason` of the preceding `loop-run`.
        reason: String,
    },
    /// The input was assessed: how to handle the turn is decided.
    Assessed {
        /// Decision on how the turn handles the input.
        decision: Decision,
        /// Confidence in the decision, from 0 to 1.
        confidence: f64,
        /// Reasons for the decision.
        reasons: Vec<String>,
    },
    /// A step of the turn starts: a request to the model, and the tool calls in its answer.
    StepStart {
        /// Number of the step within the turn, from 1.
        step: u32,
    },
    /// A step of the turn ended: its tool calls have their results.
    StepEnd {
        /// Number of the step within the turn, from 1.
        step: u32,
        /// Number of tool calls in the step.
        tool_calls: u32,
        /// Whether the turn continues with another request to the model.
        goes_on: bool,
    },
    /// A request is about to be sent to the model.
    RequestStart {
        /// Number of the request within the turn of this agent, from 1.
        request: u32,
        /// Name of the provider to which the request is sent.
        provider: String,
        /// Name of the requested model.
        model: String,
        /// Name of the plugin that sends the request; absent for the request of a step.
        #[serde(skip_serializing_if = "Option::is_none")]
        by: Option<String>,
        /// Id of the tool call during which the plugin sends the request.
        #[serde(skip_serializing_if = "Option::is_none")]
        call_id: Option<String>,
    },
    /// A request to the model ended, with an answer or without one.
    RequestEnd {
        /// Number of the request, as in its `request-start`.
        request: u32,
        /// Name of the model that answered, as reported by the provider.
        #[serde(skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        /// Tokens that the request used.
        usage: Usage,
        /// Cost in US dollars; absent when no price is known.
        #[serde(skip_serializing_if = "Option::is_none")]
        cost_usd: Option<f64>,
        /// Milliseconds from sending the last attempt to the end of the answer.
        latency_ms: u64,
        /// Reason why the model stopped; absent when there is no answer.
        #[serde(skip_serializing_if = "Option::is_none")]
        finish: Option<Finish>,
        /// Reason why there is no answer; absent when there is one.
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// Older messages are about to be replaced by a summary, which may take a while.
    CompactStart {
        /// Number of messages that the summary replaces.
        messages: u32,
        /// Estimated tokens of the request if the messages were not replaced.
        tokens: u64,
    },
    /// Older messages were replaced by a summary, or a hook refused that.
    CompactEnd {
        /// Number of messages that were to be replaced.
        messages: u32,
        /// Summary that replaces the messages; null if a hook refused the replacement.
        summary: Option<String>,
        /// Whether the host built the summary without a model, because no hook provided one.
        is_built_in: bool,
        /// Plugin that refused, and its reason; null if none refused.
        refused: Option<String>,
    },
    /// An earlier turn is about to be moved to a holder: its summary is ready.
    ArchiveStart {
        /// Number of messages that are moved out of the conversation.
        messages: u32,
        /// Estimated number of tokens of these messages.
        tokens: u64,
        /// Limit that the turn reached: `max-steps`, `tool-calls` or `token-threshold`.
        reason: String,
    },
    /// An earlier turn was moved to a holder, or stays in the conversation.
    ArchiveEnd {
        /// Number of messages in the turn.
        messages: u32,
        /// Id of the subagent that holds the turn from now on; null when the turn stays.
        holder: Option<String>,
        /// Summary that replaces the turn in the conversation; null if the turn stays.
        summary: Option<String>,
        /// Reason why the turn stays; null if it was moved.
        refused: Option<String>,
    },
    /// The model wrote more text, as hooks let it through.
    TextDelta {
        /// Text that the model wrote since the previous `text-delta`.
        text: String,
    },
    /// The model writes text that is not shown yet: hooks judge the complete answer first, or the
    /// text is reasoning that is not shown.
    TextHeld {
        /// Whether the text is reasoning, which is shown only if no hook judges the model's text.
        is_thinking: bool,
        /// Plugins whose hooks hold the text back until it is complete.
        by: Vec<String>,
    },
    /// Text that was shown is void: hooks changed it later, or the request is sent again.
    Correction {
        /// Text that was shown and is void now.
        shown: String,
        /// Text that replaces the shown text; empty if it is not known yet.
        text: String,
    },
    /// The model wrote more reasoning. Not sent if hooks judge the model's text.
    ThinkingDelta {
        /// Reasoning that the model wrote since the previous `thinking-delta`.
        text: String,
    },
    /// A request is about to be sent again: the streamed part of its answer is void.
    Retry {
        /// Number of the attempt that follows, from 2.
        attempt: u32,
        /// Milliseconds until the request is sent again.
        delay_ms: u64,
        /// Reason why the request is sent again.
        reason: String,
    },
    /// A message is complete and was added to the session.
    MessageEnd {
        /// The message. If hooks judge the model's text, the message holds the text that they let
        /// through, or the reason why it is not shown, and its reasoning is left out.
        message: Message,
    },
    /// A tool call was made: hooks and policy judge it next.
    ToolCall {
        /// Call with the arguments that the model, or the plugin in `by`, wrote, before hooks
        /// change them.
        call: ToolCall,
        /// Name of the plugin that provides the tool; null for a built-in tool, and if no tool has
        /// this name.
        plugin: Option<String>,
        /// Name of the plugin that makes the call; absent if the model makes it.
        #[serde(skip_serializing_if = "Option::is_none")]
        by: Option<String>,
        /// Id of the tool call during which the plugin makes it.
        #[serde(skip_serializing_if = "Option::is_none")]
        parent_id: Option<String>,
    },
    /// A tool call was allowed and is about to run.
    ToolStart {
        /// Call with its final arguments, which hooks may have changed.
        call: ToolCall,
        /// Class of the tool's effects: reading, writing, executing or external.
        effect_class: EffectClass,
        /// Name of the plugin that provides the tool; null for a built-in tool.
        plugin: Option<String>,
        /// Name of the plugin that makes the call; absent if the model makes it.
        #[serde(skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// A tool call ended, or was refused, in which case there is no tool-start.
    ToolEnd {
        /// Result for the model, or for the plugin that made the call.
        result: ToolResult,
        /// Milliseconds that the tool ran; 0 when it was refused.
        duration_ms: u64,
        /// Source of the refusal: `host`, `policy`, `user`, or `plugin NAME`; null when the call
        /// ran.
        refused_by: Option<String>,
        /// Name of the plugin that made the call; absent if the model made it.
        #[serde(skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// A subagent starts. Events of the subagent have its id as `agent`.
    SubagentStart {
        /// Id of the subagent.
        subagent: String,
        /// Name of the plugin that runs the subagent; null if the model does.
        plugin: Option<String>,
        /// Task that the subagent was given.
        task: String,
        /// Names of the tools that the subagent can call.
        tools: Vec<String>,
        /// Name of the preset with which the subagent was started; absent without one.
        #[serde(skip_serializing_if = "Option::is_none")]
        preset: Option<String>,
        /// Whether an earlier subagent continues; `task` is then the further message to it.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_continued: bool,
        /// Id of the tool call that started the subagent; absent if no call did.
        #[serde(skip_serializing_if = "Option::is_none")]
        call_id: Option<String>,
    },
    /// A subagent ended.
    SubagentEnd {
        /// Id of the subagent that ended.
        subagent: String,
        /// Answer of the subagent, or the reason why there is none.
        answer: String,
        /// Whether the subagent failed.
        is_error: bool,
        /// Tokens that the subagent used; they are also counted in the turn of its parent.
        usage: Usage,
        /// State in which the subagent ended.
        state: SubagentState,
        /// Number of steps that the subagent made.
        steps: u32,
        /// Cost in US dollars of the tokens with a known price.
        cost_usd: f64,
    },
    /// A hook was called, or its call was skipped.
    Hook {
        /// Record of the hook call: point, plugin, outcome and duration.
        #[serde(flatten)]
        record: TraceRecord,
    },
    /// A plugin's code accessed, or tried to access, something outside its sandbox.
    Access {
        /// Record of the access: plugin, target and outcome.
        #[serde(flatten)]
        record: AccessRecord,
    },
    /// A plugin asked the user a question and got an answer.
    Asked {
        /// Name of the plugin that asked.
        plugin: String,
        /// Question as the user was shown it.
        question: String,
        /// Answer as text, from the user or the plugin's default.
        answer: String,
        /// Whether nobody could be asked, so that the plugin's default is the answer.
        is_default: bool,
        /// Id of the tool call during which the plugin asked.
        #[serde(skip_serializing_if = "Option::is_none")]
        call_id: Option<String>,
    },
    /// A plugin changed its status line.
    Status {
        /// Name of the plugin that changed its status line.
        plugin: String,
        /// Status line of at most 80 characters; empty if the plugin removed it.
        text: String,
    },
    /// A skill became active: from now on only the tools that it allows may be called.
    SkillActivated {
        /// Id of the skill: its folder, or `plugin:folder`.
        skill: String,
        /// Trust level of the skill: `managed`, `package`, `user`, `project` or `local`.
        trust: String,
        /// Digest of the skill's content.
        hash: String,
        /// Party that activated the skill: `user`, `model`, or `plugin NAME`.
        by: String,
        /// Whether the skill stays active until `/done` instead of the end of the turn.
        is_conversational: bool,
        /// Tools that the skill's allow list names; absent without such a list.
        #[serde(skip_serializing_if = "Option::is_none")]
        allow: Option<Vec<String>>,
        /// Names of the tools that the skill denies.
        deny: Vec<String>,
    },
    /// A skill ended, and with it its restriction of tool calls.
    SkillEnded {
        /// Id of the skill that ended.
        skill: String,
        /// Reason: `turn`, `done`, or `dropped` if the previous turn never ended.
        reason: String,
    },
    /// The host or a plugin shows a line to the user.
    Notice {
        /// Severity of the notice.
        level: Level,
        /// Name of the plugin that sent the notice; null if the host did.
        plugin: Option<String>,
        /// Text of the line to show.
        text: String,
    },
    /// A plugin recorded a value of a metric.
    Metric {
        /// Name of the plugin that recorded the value.
        plugin: String,
        /// Name of the metric, which the plugin chose.
        name: String,
        /// Value that was measured.
        value: f64,
    },
    /// A plugin added a message to the conversation.
    Injected {
        /// Name of the plugin that added the message.
        plugin: String,
        /// Text of the added message.
        text: String,
        /// Whether the message is stored in the session; if not, only the next request contains it.
        keep: bool,
    },
    /// Text that was queued during the turn was passed to the model, or dropped by a hook.
    SteeringTaken {
        /// Number of the text among those that were queued in this session.
        number: u64,
        /// Name of the plugin that dropped the text; absent if the model receives it.
        #[serde(skip_serializing_if = "Option::is_none")]
        dropped_by: Option<String>,
        /// Reason why the text was dropped, in the plugin's words.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// A turn ended: completed, interrupted or failed.
    TurnEnd {
        /// Number of the turn within the session, from 1.
        turn: u32,
        /// Summary of the turn: stop reason, steps, calls, tokens and cost.
        summary: TurnSummary,
        /// Output of the turn, to be shown to the user.
        output: String,
    },
    /// A failure of the provider or the session ended the turn.
    Error {
        /// Part that failed: `provider` or `session`.
        place: String,
        /// Message that says what failed and how to fix it.
        message: String,
    },
}

impl Event {
    /// Returns the name of the event, the `type` in its JSON.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::SessionOpened { .. } => "session-opened",
            Self::PluginLeftOut { .. } => "plugin-left-out",
            Self::SkillLeftOut { .. } => "skill-left-out",
            Self::TurnStart { .. } => "turn-start",
            Self::Command { .. } => "command",
            Self::LoopRun { .. } => "loop-run",
            Self::LoopWait { .. } => "loop-wait",
            Self::Asked { .. } => "asked",
            Self::Status { .. } => "status",
            Self::Assessed { .. } => "assessed",
            Self::StepStart { .. } => "step-start",
            Self::StepEnd { .. } => "step-end",
            Self::RequestStart { .. } => "request-start",
            Self::RequestEnd { .. } => "request-end",
            Self::CompactStart { .. } => "compact-start",
            Self::CompactEnd { .. } => "compact-end",
            Self::ArchiveStart { .. } => "archive-start",
            Self::ArchiveEnd { .. } => "archive-end",
            Self::TextDelta { .. } => "text-delta",
            Self::TextHeld { .. } => "text-held",
            Self::Correction { .. } => "correction",
            Self::ThinkingDelta { .. } => "thinking-delta",
            Self::Retry { .. } => "retry",
            Self::MessageEnd { .. } => "message-end",
            Self::ToolCall { .. } => "tool-call",
            Self::ToolStart { .. } => "tool-start",
            Self::ToolEnd { .. } => "tool-end",
            Self::SubagentStart { .. } => "subagent-start",
            Self::SubagentEnd { .. } => "subagent-end",
            Self::Hook { .. } => "hook",
            Self::Access { .. } => "access",
            Self::SkillActivated { .. } => "skill-activated",
            Self::SkillEnded { .. } => "skill-ended",
            Self::Notice { .. } => "notice",
            Self::Metric { .. } => "metric",
            Self::Injected { .. } => "injected",
            Self::PluginReplaced { .. } => "plugin-replaced",
            Self::SteeringTaken { .. } => "steering-taken",
            Self::TurnEnd { .. } => "turn-end",
            Self::Error { .. } => "error",
        }
    }

    /// Creates the event for a notice of the host to the user.
    #[must_use]
    pub fn create_host_notice(level: Level, text: impl Into<String>) -> Self {
        Self::Notice {
            level,
            plugin: None,
            text: text.into(),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::point::payload::StopReason;

    pub(crate) fn turn_start_event(turn: u32) -> Event {
        Event::TurnStart {
            turn,
            input: "go".to_owned(),
            source: Source::Terminal,
            command: None,
            input_id: None,
        }
    }

    pub(crate) fn turn_end_event(turn: u32) -> Event {
        Event::TurnEnd {
            turn,
            summary: TurnSummary {
                stop: StopReason::Done,
                steps: 1,
                tool_calls: 0,
                usage: Usage::default(),
                cost_usd: 0.0,
                unpriced_tokens: 0,
                duration_ms: 1,
                output: String::new(),
            },
            output: String::new(),
        }
    }

    #[test]
    fn the_name_of_an_event_is_its_type_in_json() {
        let event = Event::StepStart { step: 3 };
        let json = serde_json::to_value(&event).unwrap();
        assert_eq!(json, serde_json::json!({"type": "step-start", "step": 3}));
        assert_eq!(json["type"], event.name());
    }
}
