//! Maps events of Claude Code to extension points.

/// Event of Claude Code that has a corresponding extension point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::script) enum ClaudeHookEvent {
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
pub(super) const CLAUDE_EVENT_EXTENSION_POINTS: &[(ClaudeHookEvent, &str, &str)] = &[
    (ClaudeHookEvent::PreToolUse, "PreToolUse", "pre-tool"),
    (ClaudeHookEvent::PostToolUse, "PostToolUse", "post-tool"),
    (
        ClaudeHookEvent::PostToolUseFailure,
        "PostToolUseFailure",
        "post-tool",
    ),
    (
        ClaudeHookEvent::UserPromptSubmit,
        "UserPromptSubmit",
        "turn-start",
    ),
    (ClaudeHookEvent::SessionStart, "SessionStart", "turn-start"),
    (ClaudeHookEvent::SessionEnd, "SessionEnd", "session-end"),
    (ClaudeHookEvent::Stop, "Stop", "post-reflect"),
    (
        ClaudeHookEvent::SubagentStart,
        "SubagentStart",
        "subagent-start",
    ),
    (
        ClaudeHookEvent::SubagentStop,
        "SubagentStop",
        "post-reflect",
    ),
    (ClaudeHookEvent::PreCompact, "PreCompact", "before-compact"),
    (ClaudeHookEvent::Notification, "Notification", "turn-end"),
];

impl ClaudeHookEvent {
    pub(super) fn find_by_name(name: &str) -> Option<Self> {
        let row = CLAUDE_EVENT_EXTENSION_POINTS
            .iter()
            .find(|(_, known, _)| *known == name)?;
        Some(row.0)
    }

    pub(super) fn name(self) -> &'static str {
        let row = CLAUDE_EVENT_EXTENSION_POINTS
            .iter()
            .find(|(event, ..)| *event == self);
        row.map_or("", |(_, name, _)| name)
    }

    /// Whether the event is about tool calls.
    pub(super) fn is_tool_event(self) -> bool {
        matches!(self.extension_point_name(), "pre-tool" | "post-tool")
    }

    pub(in crate::script) fn extension_point_name(self) -> &'static str {
        let row = CLAUDE_EVENT_EXTENSION_POINTS
            .iter()
            .find(|(event, ..)| *event == self);
        row.map_or("", |(.., point)| point)
    }

    /// Whether a hook of this event can prevent the action that the event announces.
    pub(super) fn can_refuse_action(self) -> bool {
        matches!(self, Self::PreToolUse | Self::PreCompact)
    }
}
