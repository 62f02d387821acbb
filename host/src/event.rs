//! What happens in a session, as a stream for whoever shows it.
//!
//! Owns the event type and the sending end of the stream. It must not know who listens: a terminal, a JSON stream and a
//! test read the same events. Events carry no authority and nothing waits for them. Start from [`Event`].

use std::sync::Arc;

use serde::Serialize;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::message::{EffectClass, Message, ToolCall, ToolResult, Usage};
use crate::point::outcome::Level;
use crate::point::payload::{Decision, Source, TurnSummary};
use crate::point::trace::{AccessRecord, TraceRecord};

/// One thing that happened. As JSON it is an object whose `type` is the name in kebab case.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Event {
    /// The session is open and its first turn is about to start.
    SessionOpened {
        /// Session id.
        id: String,
        /// Whether it goes on from an earlier run.
        resumed: bool,
        /// Number of messages in it.
        messages: u32,
        /// Name of the provider.
        provider: String,
        /// Name of the model.
        model: String,
    },
    /// A turn starts.
    TurnStart {
        /// Its number, from 1.
        turn: u32,
        /// The text that came in, before any hook.
        input: String,
        /// Where it came from.
        source: Source,
    },
    /// The input was judged.
    Assessed {
        /// How the turn is taken on.
        decision: Decision,
        /// From 0 to 1.
        confidence: f64,
        /// Why.
        reasons: Vec<String>,
    },
    /// A step starts.
    StepStart {
        /// Its number within the turn, from 1.
        step: u32,
    },
    /// Older messages are about to be replaced by a summary, which may take a while.
    CompactStart {
        /// How many messages.
        messages: u32,
        /// Tokens of the request as it would be without, estimated.
        tokens: u64,
    },
    /// Older messages were replaced by a summary, or a hook refused that.
    CompactEnd {
        /// How many messages.
        messages: u32,
        /// What stands in their place; `None` when it was refused.
        summary: Option<String>,
        /// Whether the summary is the one that the host makes without a model.
        is_built_in: bool,
        /// Who refused, and why.
        refused: Option<String>,
    },
    /// A finished turn is about to be moved to a holder, which may take a while.
    ArchiveStart {
        /// How many messages.
        messages: u32,
        /// Their tokens, estimated.
        tokens: u64,
        /// Why: `max-steps`, `tool-calls` or `token-threshold`.
        reason: String,
    },
    /// A finished turn was moved to a holder, or stays as it was.
    ArchiveEnd {
        /// How many messages.
        messages: u32,
        /// Id of the holder; `None` when the turn stays.
        agent: Option<String>,
        /// What stands in its place; `None` when it stays.
        summary: Option<String>,
        /// Why it stays.
        refused: Option<String>,
    },
    /// The model wrote more text.
    TextDelta {
        /// The new piece.
        text: String,
    },
    /// The model reasoned on.
    ThinkingDelta {
        /// The new piece.
        text: String,
    },
    /// A request is about to be sent again.
    Retry {
        /// Number of the coming attempt, from 2.
        attempt: u32,
        /// Milliseconds until then.
        delay_ms: u64,
        /// Why.
        reason: String,
    },
    /// A message is finished and in the session.
    MessageEnd {
        /// The message.
        message: Message,
    },
    /// A tool call was let through and is about to run.
    ToolStart {
        /// The call with its final arguments.
        call: ToolCall,
        /// What the tool may do.
        effect_class: EffectClass,
        /// Name of the plugin the tool is from; `None` for a built-in tool.
        plugin: Option<String>,
        /// Name of the plugin that makes the call; `None` is the model.
        #[serde(skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// A tool call ended, or was refused: then no [`Event::ToolStart`] came before.
    ToolEnd {
        /// What the model, or the plugin that made the call, is told.
        result: ToolResult,
        /// Milliseconds that the tool ran; 0 when it was refused.
        duration_ms: u64,
        /// Who refused the call: `host`, `policy`, `user`, or `plugin NAME`.
        refused_by: Option<String>,
        /// Name of the plugin that made the call; `None` is the model.
        #[serde(skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// A subagent starts.
    SubagentStart {
        /// Its id.
        agent: String,
        /// Name of the plugin that runs it; `None` is the model.
        plugin: Option<String>,
        /// What it is to do.
        task: String,
        /// Names of its tools.
        tools: Vec<String>,
    },
    /// Something happened in a subagent.
    InSubagent {
        /// Its id.
        agent: String,
        /// What happened.
        event: Box<Event>,
    },
    /// A subagent ended.
    SubagentEnd {
        /// Its id.
        agent: String,
        /// What it answered, or why it has no answer.
        answer: String,
        /// Whether it failed.
        is_error: bool,
        /// Tokens that it used; they count in the turn as well.
        usage: Usage,
    },
    /// A hook was called, or left out.
    Hook {
        /// What it did.
        #[serde(flatten)]
        record: TraceRecord,
    },
    /// A plugin's code reached out of its sandbox.
    Access {
        /// What for, and what came of it.
        #[serde(flatten)]
        record: AccessRecord,
    },
    /// A line for the person at the terminal.
    Notice {
        /// How loud.
        level: Level,
        /// The plugin that speaks; `None` is the host.
        plugin: Option<String>,
        /// The line.
        text: String,
    },
    /// A plugin recorded a value.
    Metric {
        /// Name of the plugin.
        plugin: String,
        /// Name of the metric.
        name: String,
        /// The value.
        value: f64,
    },
    /// A plugin added a message.
    Injected {
        /// Name of the plugin.
        plugin: String,
        /// Its words.
        text: String,
        /// Whether the message stays in the session.
        keep: bool,
    },
    /// A turn ended, however it ended.
    TurnEnd {
        /// Its number.
        turn: u32,
        /// How it went.
        summary: TurnSummary,
        /// What the user is told.
        output: String,
    },
    /// Something failed that the turn could not go on without.
    Error {
        /// Where: `provider` or `session`.
        place: String,
        /// What happened and what to do about it.
        message: String,
    },
}

impl Event {
    /// Its name: the `type` of its JSON.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::SessionOpened { .. } => "session-opened",
            Self::TurnStart { .. } => "turn-start",
            Self::Assessed { .. } => "assessed",
            Self::StepStart { .. } => "step-start",
            Self::CompactStart { .. } => "compact-start",
            Self::CompactEnd { .. } => "compact-end",
            Self::ArchiveStart { .. } => "archive-start",
            Self::ArchiveEnd { .. } => "archive-end",
            Self::TextDelta { .. } => "text-delta",
            Self::ThinkingDelta { .. } => "thinking-delta",
            Self::Retry { .. } => "retry",
            Self::MessageEnd { .. } => "message-end",
            Self::ToolStart { .. } => "tool-start",
            Self::ToolEnd { .. } => "tool-end",
            Self::SubagentStart { .. } => "subagent-start",
            Self::InSubagent { .. } => "in-subagent",
            Self::SubagentEnd { .. } => "subagent-end",
            Self::Hook { .. } => "hook",
            Self::Access { .. } => "access",
            Self::Notice { .. } => "notice",
            Self::Metric { .. } => "metric",
            Self::Injected { .. } => "injected",
            Self::TurnEnd { .. } => "turn-end",
            Self::Error { .. } => "error",
        }
    }

    /// A notice of the host's own.
    #[must_use]
    pub fn notice(level: Level, text: impl Into<String>) -> Self {
        Self::Notice {
            level,
            plugin: None,
            text: text.into(),
        }
    }
}

/// The sending end of a stream of events. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Events {
    sender: UnboundedSender<Event>,
    /// The subagent whose events these are.
    agent: Option<Arc<str>>,
}

impl Events {
    /// A stream and its receiving end. It has no bound: a slow listener must not hold a turn up, and what one turn can
    /// emit is bounded by what a model can write.
    #[must_use]
    pub fn channel() -> (Self, UnboundedReceiver<Event>) {
        let (sender, receiver) = unbounded_channel();
        let agent = None;
        (Self { sender, agent }, receiver)
    }

    /// The same stream for what happens in a subagent.
    #[must_use]
    pub fn of_subagent(&self, agent: &Arc<str>) -> Self {
        Self {
            sender: self.sender.clone(),
            agent: Some(agent.clone()),
        }
    }

    /// Sends an event. When nobody listens any more it is dropped: a closed terminal must not end a turn.
    pub fn emit(&self, event: Event) {
        let event = match &self.agent {
            None => event,
            Some(agent) => Event::InSubagent {
                agent: agent.to_string(),
                event: Box::new(event),
            },
        };
        let _ = self.sender.send(event);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_an_event_is_its_type_in_json() {
        let event = Event::StepStart { step: 3 };
        let json = serde_json::to_value(&event).unwrap();
        assert_eq!(json, serde_json::json!({"type": "step-start", "step": 3}));
        assert_eq!(json["type"], event.name());
    }

    #[test]
    fn emitting_to_nobody_does_nothing() {
        let (events, receiver) = Events::channel();
        drop(receiver);
        events.emit(Event::notice(Level::Info, "hello"));
    }
}
