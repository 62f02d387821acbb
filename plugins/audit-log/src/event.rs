//! What is written of an event: names, numbers and hashes, never a text.

use rind_sdk::prelude::*;
use rind_sdk::serde_json::{Value, json};

use crate::chain::hash;

/// Longest name of a tool, point or plugin. A model can call for a tool of any name.
const MAX_NAME_CHARS: usize = 64;

fn short(name: &str) -> String {
    name.chars().take(MAX_NAME_CHARS).collect()
}

/// A text as its hash and length.
fn text(kind: &str, text: &str) -> Value {
    json!({"type": kind, "hash": hash(text.as_bytes()), "bytes": text.len()})
}

/// The parts of a message.
pub(crate) fn message(message: &Message) -> Vec<Value> {
    let mut events = Vec::new();
    let said = message.text();
    match message.role {
        Role::User => events.push(text("input", &said)),
        Role::Assistant if !said.is_empty() => events.push(text("reply", &said)),
        Role::Assistant | Role::Tool => {}
    }
    events.extend(message.tool_calls().map(|call| {
        json!({
            "type": "call",
            "tool": short(&call.name),
            "id": short(&call.id),
            "arguments": hash(call.arguments.as_bytes()),
        })
    }));
    events.extend(message.tool_results().map(|result| {
        json!({
            "type": "result",
            "tool": short(&result.name),
            "id": short(&result.call_id),
            "outcome": if result.is_error { "error" } else { "ok" },
            "hash": hash(result.content.as_bytes()),
            "bytes": result.content.len(),
        })
    }));
    events
}

/// What was shown.
pub(crate) fn output(shown: &str) -> Value {
    text("output", shown)
}

/// How a turn ended.
pub(crate) fn turn_end(summary: &TurnSummary) -> Value {
    let stop = match summary.stop {
        StopReason::Done => "done",
        StopReason::MaxSteps => "max-steps",
        StopReason::Blocked => "blocked",
        StopReason::Cancelled => "cancelled",
        StopReason::Failed => "failed",
    };
    json!({
        "type": "turn-end",
        "stop": stop,
        "steps": summary.steps,
        "tool_calls": summary.tool_calls,
        "input_tokens": summary.usage.input_tokens,
        "output_tokens": summary.usage.output_tokens,
        "hash": hash(summary.output.as_bytes()),
        "bytes": summary.output.len(),
    })
}

/// Something went wrong.
pub(crate) fn failure(failure: &Failure) -> Value {
    json!({
        "type": "failure",
        "where": short(&failure.where_),
        "plugin": failure.plugin.as_deref().map(short),
        "hash": hash(failure.message.as_bytes()),
    })
}

#[test]
fn no_text_of_a_message_is_in_its_events() {
    let call = ToolCall {
        id: "c1".to_owned(),
        name: "n".repeat(100),
        arguments: "{\"path\":\"private\"}".to_owned(),
    };
    let result = ToolResult {
        call_id: "c1".to_owned(),
        name: "bash".to_owned(),
        content: "private".to_owned(),
        is_error: true,
    };
    let of = |role, content| {
        let message = Message {
            id: "m".to_owned(),
            role,
            content,
        };
        self::message(&message)
    };
    let said = || Content::Text("private".to_owned());
    let user = of(Role::User, vec![said()]);
    let assistant = of(Role::Assistant, vec![said(), Content::ToolCall(call)]);
    let tool = of(Role::Tool, vec![Content::ToolResult(result)]);
    assert_eq!((user.len(), assistant.len(), tool.len()), (1, 2, 1));
    assert_eq!(assistant[1]["tool"].as_str().unwrap().len(), MAX_NAME_CHARS);
    assert_eq!(tool[0]["outcome"], "error");
    let all = format!("{user:?}{assistant:?}{tool:?}");
    assert!(!all.contains("private"), "{all}");
}
