//! Converts messages, outputs and failures into lines of the log. A line contains names, numbers
//! and hashes, but no text of the conversation.

use rind_sdk::prelude::*;
use rind_sdk::serde::Serialize;

use rind_audit::hash;

/// Event that one line of the log records.
#[derive(Debug, Serialize)]
#[serde(crate = "rind_sdk::serde", tag = "type", rename_all = "kebab-case")]
pub(crate) enum AuditEvent {
    Input(HashedText),
    Reply(HashedText),
    Output(HashedText),
    Call {
        tool: String,
        id: String,
        arguments: String,
    },
    Result {
        tool: String,
        id: String,
        outcome: &'static str,
        #[serde(flatten)]
        content: HashedText,
    },
    TurnEnd {
        stop: &'static str,
        steps: u32,
        tool_calls: u32,
        input_tokens: u64,
        output_tokens: u64,
        #[serde(flatten)]
        output: HashedText,
    },
    Skill {
        skill: String,
        trust: String,
        by: String,
        /// Hash of the skill's file.
        file: String,
        /// `active`, or the reason why the skill ended.
        state: String,
    },
    Failure {
        r#where: String,
        plugin: Option<String>,
        hash: String,
    },
}

/// Hash and length of a text.
#[derive(Debug, Serialize)]
#[serde(crate = "rind_sdk::serde")]
pub(crate) struct HashedText {
    hash: String,
    bytes: usize,
}

impl HashedText {
    fn hash_text(text: &str) -> Self {
        Self {
            hash: hash(text.as_bytes()),
            bytes: text.len(),
        }
    }
}

/// Maximum length of a recorded tool, point, plugin or call name, in characters. A model can ask
/// for a tool of any name.
const MAX_RECORDED_NAME_CHARS: usize = 64;

fn truncate_name(name: &str) -> String {
    name.chars().take(MAX_RECORDED_NAME_CHARS).collect()
}

/// Returns the events for a message: its text, tool calls and tool results.
pub(crate) fn message_events(message: &Message) -> Vec<AuditEvent> {
    let mut events = Vec::new();
    let said = message.text();
    match message.role {
        Role::User => events.push(AuditEvent::Input(HashedText::hash_text(&said))),
        Role::Assistant if !said.is_empty() => {
            events.push(AuditEvent::Reply(HashedText::hash_text(&said)))
        }
        Role::Assistant | Role::Tool => {}
    }
    events.extend(message.tool_calls().map(|call| AuditEvent::Call {
        tool: truncate_name(&call.name),
        id: truncate_name(&call.id),
        arguments: hash(call.arguments.as_bytes()),
    }));
    events.extend(message.tool_results().map(|result| AuditEvent::Result {
        tool: truncate_name(&result.name),
        id: truncate_name(&result.call_id),
        outcome: if result.is_error { "error" } else { "ok" },
        content: HashedText::hash_text(&result.text()),
    }));
    events
}

/// Returns the event for text that was shown to the user.
pub(crate) fn create_output_audit_event(shown: &str) -> AuditEvent {
    AuditEvent::Output(HashedText::hash_text(shown))
}

/// Returns the event for the end of a turn.
pub(crate) fn turn_end_event(summary: &TurnSummary) -> AuditEvent {
    let stop = match summary.stop {
        StopReason::Done => "done",
        StopReason::MaxSteps => "max-steps",
        StopReason::Blocked => "blocked",
        StopReason::Cancelled => "cancelled",
        StopReason::Failed => "failed",
    };
    AuditEvent::TurnEnd {
        stop,
        steps: summary.steps,
        tool_calls: summary.tool_calls,
        input_tokens: summary.usage.input_tokens,
        output_tokens: summary.usage.output_tokens,
        output: HashedText::hash_text(&summary.output),
    }
}

/// Returns the event for a skill that became active or ended.
pub(crate) fn skill_event(skill: &SkillInfo) -> AuditEvent {
    let state = match skill.reason.as_str() {
        "" => "active",
        reason => reason,
    };
    AuditEvent::Skill {
        skill: truncate_name(&skill.id),
        trust: truncate_name(&skill.trust),
        by: truncate_name(&skill.by),
        file: skill.hash.clone(),
        state: truncate_name(state),
    }
}

/// Returns the event for a failure.
pub(crate) fn failure_event(failure: &Failure) -> AuditEvent {
    AuditEvent::Failure {
        r#where: truncate_name(&failure.where_),
        plugin: failure.plugin.as_deref().map(truncate_name),
        hash: hash(failure.message.as_bytes()),
    }
}

#[cfg(test)]
use rind_sdk::serde_json;

#[test]
fn audit_events_of_a_message_do_not_contain_its_text() {
    let call = ToolCall {
        id: "c1".to_owned(),
        name: "n".repeat(100),
        arguments: "{\"path\":\"private\"}".to_owned(),
    };
    let result = ToolResult {
        call_id: "c1".to_owned(),
        name: "bash".to_owned(),
        parts: vec![Part::Text("private".to_owned())],
        is_error: true,
    };
    let of = |role, content| {
        let message = rind_sdk::testing::message("m", role, content);
        let events = self::message_events(&message);
        serde_json::to_value(&events).unwrap()
    };
    let said = || Content::Text("private".to_owned());
    let user = of(Role::User, vec![said()]);
    let assistant = of(Role::Assistant, vec![said(), Content::ToolCall(call)]);
    let tool = of(Role::Tool, vec![Content::ToolResult(result)]);
    let len = |events: &serde_json::Value| events.as_array().unwrap().len();
    assert_eq!((len(&user), len(&assistant), len(&tool)), (1, 2, 1));
    assert_eq!(
        assistant[1]["tool"].as_str().unwrap().len(),
        MAX_RECORDED_NAME_CHARS
    );
    assert_eq!(tool[0]["outcome"], "error");
    let all = format!("{user:?}{assistant:?}{tool:?}");
    assert!(!all.contains("private"), "{all}");
}
