//! Recognizes the plan of a task in a tool call: a call of a tool named `todo`, `todo_write`,
//! `write_todos`, `update_plan` or `plan` whose arguments hold a list of entries. Such tools come
//! from plugins and MCP servers.

use rind_lib::message::ToolCall;
use rind_lib::text::escape_prose_for_display;
use serde_json::Value;

use crate::wire::{Plan, PlanEntry, PlanEntryPriority, PlanEntryStatus};

/// Names of tools whose calls are shown as a plan.
const PLAN_TOOL_NAMES: [&str; 5] = ["plan", "todo", "todo_write", "update_plan", "write_todos"];

/// Possible names of the argument that holds the list of entries.
const PLAN_ENTRIES_ARGUMENT_NAMES: [&str; 5] = ["entries", "items", "plan", "steps", "todos"];

/// Possible names of the field that holds the text of an entry.
const PLAN_ENTRY_TEXT_FIELDS: [&str; 5] = ["content", "step", "task", "text", "title"];

/// Maximum number of entries of a plan that are shown to the client.
const MAX_SHOWN_PLAN_ENTRIES: usize = 200;

/// Returns the plan in the arguments of a call, or `None` if the tool's name is not in
/// [`PLAN_TOOL_NAMES`] or an entry is malformed.
pub(crate) fn parse_plan(call: &ToolCall) -> Option<Plan> {
    // The tools of MCP servers are named `mcp__SERVER__TOOL`.
    let name = call.name.rsplit("__").next().unwrap_or_default();
    if !PLAN_TOOL_NAMES.contains(&name) {
        return None;
    }
    let list = PLAN_ENTRIES_ARGUMENT_NAMES
        .iter()
        .find_map(|name| call.arguments.get(name));
    let entries = list?.as_array()?.iter().take(MAX_SHOWN_PLAN_ENTRIES);
    let entries: Option<Vec<PlanEntry>> = entries.map(parse_plan_entry).collect();
    entries.map(Plan::new)
}

fn parse_plan_entry(value: &Value) -> Option<PlanEntry> {
    let of = |name: &&str| value.get(name).and_then(Value::as_str);
    let text = value
        .as_str()
        .or_else(|| PLAN_ENTRY_TEXT_FIELDS.iter().find_map(of))?;
    let status = match value.get("done").and_then(Value::as_bool) {
        Some(true) => PlanEntryStatus::Completed,
        _ => match of(&"status").or(of(&"state")) {
            Some("completed" | "complete" | "done") => PlanEntryStatus::Completed,
            Some("in_progress" | "in-progress" | "active") => PlanEntryStatus::InProgress,
            _ => PlanEntryStatus::Pending,
        },
    };
    let priority = match of(&"priority") {
        Some("high") => PlanEntryPriority::High,
        Some("low") => PlanEntryPriority::Low,
        _ => PlanEntryPriority::Medium,
    };
    Some(PlanEntry::new(
        escape_prose_for_display(text),
        priority,
        status,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_list_of_things_to_do_is_a_plan_and_anything_else_is_not() {
        let todos = json!({"todos": [
            {"content": "one", "status": "completed", "priority": "high"},
            {"title": "two", "status": "in_progress"},
            "three",
        ]});
        let plan = parse_plan(&ToolCall::new("1", "mcp__x__todo_write", todos.clone()));
        let plan = serde_json::to_value(plan.unwrap()).unwrap();
        let told = |at: usize, name: &str| plan["entries"][at][name].as_str().unwrap().to_owned();
        assert_eq!(
            [told(0, "status"), told(0, "priority")],
            ["completed", "high"]
        );
        assert_eq!(
            [told(1, "content"), told(1, "status")],
            ["two", "in_progress"]
        );
        assert_eq!(
            [told(2, "content"), told(2, "status")],
            ["three", "pending"]
        );
        for (name, arguments) in [
            ("bash", todos),
            ("todo", json!({"todos": [{"content": 3}]})),
            ("todo", json!({"todos": "x"})),
            ("todo", json!(null)),
        ] {
            assert_eq!(parse_plan(&ToolCall::new("1", name, arguments)), None);
        }
    }
}
