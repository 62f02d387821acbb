//! Maps events of Claude Code to extension points.

/// Event of Claude Code that has a corresponding extension point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::script) enum ClaudeEvent {
    PreToolUse,
    PostToolUse,
    PostToolUseFailure,
    UserPromptSubmit,
    SessionStart,
    SessionEnd,
    Stop,
    SubagentStart,
    SubagentStop,
    PreCompact,
    Notification,
}

/// All supported events of Claude Code, each with its name and the extension point that it maps to.
pub(super) const EVENTS: &[(ClaudeEvent, &str, &str)] = &[
    (ClaudeEvent::PreToolUse, "PreToolUse", "pre-tool"),
    (ClaudeEvent::PostToolUse, "PostToolUse", "post-tool"),
    (
        ClaudeEvent::PostToolUseFailure,
        "PostToolUseFailure",
        "post-tool",
    ),
    (
        ClaudeEvent::UserPromptSubmit,
        "UserPromptSubmit",
        "turn-start",
    ),
    (ClaudeEvent::SessionStart, "SessionStart", "turn-start"),
    (ClaudeEvent::SessionEnd, "SessionEnd", "session-end"),
    (ClaudeEvent::Stop, "Stop", "post-reflect"),
    (
        ClaudeEvent::SubagentStart,
        "SubagentStart",
        "subagent-start",
    ),
    (ClaudeEvent::SubagentStop, "SubagentStop", "post-reflect"),
    (ClaudeEvent::PreCompact, "PreCompact", "before-compact"),
    (ClaudeEvent::Notification, "Notification", "turn-end"),
];

impl ClaudeEvent {
    pub(super) fn find_event(name: &str) -> Option<Self> {
        let row = EVENTS.iter().find(|(_, known, _)| *known == name)?;
        Some(row.0)
    }

    pub(super) fn name(self) -> &'static str {
        let row = EVENTS.iter().find(|(event, ..)| *event == self);
        row.map_or("", |(_, name, _)| name)
    }

    /// Whether the event is about tool calls.
    pub(super) fn is_tool_event(self) -> bool {
        matches!(self.point(), "pre-tool" | "post-tool")
    }

    pub(in crate::script) fn point(self) -> &'static str {
        let row = EVENTS.iter().find(|(event, ..)| *event == self);
        row.map_or("", |(.., point)| point)
    }

    /// Whether a hook of this event can prevent the action that the event announces.
    pub(super) fn can_refuse_action(self) -> bool {
        matches!(self, Self::PreToolUse | Self::PreCompact)
    }
}
