//! Hooks of Claude Code: JSON on standard input, a JSON object on standard output.
//!
//! A pass is an empty answer, never `allow`: `allow` would skip Claude Code's own permission
//! prompt. For the same reason, changed arguments are sent without a decision.

use rind_lib::host::ForeignVerdict;
use rind_lib::message::EffectClass;
use serde_json::{Map, Value, json};

use super::{
    AgentFormat, CallFields, changed_content, changed_input, changed_prompt, input_of,
    joined_notes, result_act,
};
use crate::agent::GuardPoint;
use crate::answer::{HookAnswer, reason_text};
use crate::event::{HookAct, HookEvent, folder_of, needed_name, needed_value};
use crate::result::ResultTexts;
use crate::tools::{ToolRow, own_call};

/// Hook format of Claude Code.
pub(crate) struct ClaudeFormat;

pub(super) const FIELDS: CallFields = CallFields {
    id: "tool_use_id",
    tool: "tool_name",
    input: "tool_input",
};

/// Field with the result of a call.
const RESULT: &str = "tool_response";

/// Event of a failed call. Its payload has the error text under `error`.
const FAILURE: &str = "PostToolUseFailure";

pub(super) const ROWS: &[ToolRow] = &[
    ToolRow {
        theirs: "Bash",
        own: "bash",
        effect_class: EffectClass::Execute,
        arguments: &[("command", "command")],
    },
    ToolRow {
        theirs: "Edit",
        own: "edit_file",
        effect_class: EffectClass::Write,
        arguments: &[
            ("path", "file_path"),
            ("old_text", "old_string"),
            ("new_text", "new_string"),
            ("replace_all", "replace_all"),
        ],
    },
    ToolRow {
        theirs: "Write",
        own: "write_file",
        effect_class: EffectClass::Write,
        arguments: &[("path", "file_path"), ("content", "content")],
    },
    ToolRow {
        theirs: "NotebookEdit",
        own: "edit_file",
        effect_class: EffectClass::Write,
        arguments: &[("path", "notebook_path"), ("new_text", "new_source")],
    },
    ToolRow {
        theirs: "Read",
        own: "read_file",
        effect_class: EffectClass::Read,
        arguments: &[
            ("path", "file_path"),
            ("offset", "offset"),
            ("limit", "limit"),
        ],
    },
    ToolRow {
        theirs: "Glob",
        own: "list_files",
        effect_class: EffectClass::Read,
        arguments: &[("path", "path"), ("glob", "pattern")],
    },
    ToolRow {
        theirs: "Grep",
        own: "search",
        effect_class: EffectClass::Read,
        arguments: &[
            ("path", "path"),
            ("pattern", "pattern"),
            ("glob", "glob"),
            ("context", "-C"),
        ],
    },
];

/// Reads the payload of Claude Code or Codex, whose fields are the same.
pub(super) fn read_event(
    rows: &[ToolRow],
    point: GuardPoint,
    payload: &Value,
) -> Result<HookEvent, String> {
    let session = needed_name(payload, "session_id")?;
    let folder = folder_of(payload, "cwd");
    let act = match point {
        // The text may be empty, because a prompt may consist of an image only.
        GuardPoint::TurnStart => {
            let prompt = needed_value(payload, "prompt")?.as_str();
            HookAct::Prompt(prompt.ok_or("`prompt` is not a text")?.to_owned())
        }
        GuardPoint::PreTool => {
            let tool = needed_name(payload, FIELDS.tool)?;
            let input = input_of(payload, &FIELDS);
            HookAct::Call {
                id: needed_name(payload, FIELDS.id)?,
                calls: vec![own_call(rows, &tool, input, folder.as_deref())?],
            }
        }
        GuardPoint::PostTool => {
            let tool = needed_name(payload, FIELDS.tool)?;
            let is_error = payload.get("hook_event_name").and_then(Value::as_str) == Some(FAILURE);
            let key = if is_error { "error" } else { RESULT };
            let result = needed_value(payload, key)?;
            result_act(
                rows,
                (needed_name(payload, FIELDS.id)?, &tool),
                input_of(payload, &FIELDS),
                result,
                (is_error, folder.as_deref()),
            )?
        }
    };
    Ok(HookEvent {
        session,
        folder,
        act,
    })
}

/// Writes `hookSpecificOutput` for an event; writes nothing if `fields` is empty.
pub(super) fn specific(event: &str, mut fields: Map<String, Value>) -> HookAnswer {
    if fields.is_empty() {
        return HookAnswer::silent();
    }
    fields.insert("hookEventName".to_owned(), event.into());
    HookAnswer::json(&json!({ "hookSpecificOutput": fields }))
}

/// Writes the refusal of a prompt, for Claude Code and Codex.
pub(super) fn refuse_prompt(why: &str) -> HookAnswer {
    HookAnswer::json(&json!({"decision": "block", "reason": reason_text(why)}))
}

/// Writes the verdict for a prompt, for Claude Code and Codex.
pub(super) fn write_prompt(verdict: &ForeignVerdict, title: &str) -> HookAnswer {
    if changed_prompt(verdict).is_some() {
        let why = format!(
            "a plugin changes the prompt, and a hook of {title} cannot; the prompt was not sent"
        );
        return refuse_prompt(&why);
    }
    let mut fields = Map::new();
    if let Some(notes) = joined_notes(verdict) {
        fields.insert("additionalContext".to_owned(), notes.into());
    }
    specific("UserPromptSubmit", fields)
}

impl AgentFormat for ClaudeFormat {
    fn read(&self, point: GuardPoint, payload: &Value) -> Result<HookEvent, String> {
        read_event(ROWS, point, payload)
    }

    fn write(
        &self,
        point: GuardPoint,
        payload: &Value,
        event: &HookEvent,
        verdict: &ForeignVerdict,
    ) -> HookAnswer {
        let mut fields = Map::new();
        if let Some(notes) = joined_notes(verdict) {
            fields.insert("additionalContext".to_owned(), notes.into());
        }
        match point {
            GuardPoint::TurnStart => write_prompt(verdict, "Claude Code"),
            GuardPoint::PreTool => {
                match changed_input(ROWS, (payload, &FIELDS), event, verdict) {
                    Ok(Some(input)) => {
                        fields.insert("updatedInput".to_owned(), input);
                    }
                    Ok(None) => {}
                    Err(why) => return self.refuse(point, Some(payload), &why),
                }
                if let Some(question) = &verdict.asked {
                    fields.insert("permissionDecision".to_owned(), "ask".into());
                    fields.insert(
                        "permissionDecisionReason".to_owned(),
                        reason_text(question).into(),
                    );
                }
                specific("PreToolUse", fields)
            }
            GuardPoint::PostTool => {
                let HookAct::Result {
                    texts, is_error, ..
                } = &event.act
                else {
                    return HookAnswer::silent();
                };
                // A hook cannot change the text of a failed call.
                if *is_error {
                    return specific(FAILURE, fields);
                }
                if let Some(content) = changed_content(verdict) {
                    let result = payload.get(RESULT).unwrap_or(&Value::Null);
                    match texts.replaced(result, content) {
                        Ok(result) => {
                            fields.insert("updatedToolOutput".to_owned(), result);
                        }
                        Err(why) => return self.refuse(point, Some(payload), &why),
                    }
                }
                specific("PostToolUse", fields)
            }
        }
    }

    fn refuse(&self, point: GuardPoint, payload: Option<&Value>, why: &str) -> HookAnswer {
        let reason = reason_text(why);
        match (point, payload) {
            (_, None) => HookAnswer::refusal(why),
            (GuardPoint::TurnStart, _) => refuse_prompt(why),
            (GuardPoint::PreTool, _) => {
                let mut fields = Map::new();
                fields.insert("permissionDecision".to_owned(), "deny".into());
                fields.insert("permissionDecisionReason".to_owned(), reason.into());
                specific("PreToolUse", fields)
            }
            (GuardPoint::PostTool, Some(payload)) => withheld_result(payload, &reason),
        }
    }
}

/// Replaces the texts of a result with the reason and keeps the structure of the result, because
/// the agent ignores a result of another structure.
fn withheld_result(payload: &Value, reason: &str) -> HookAnswer {
    let result = payload.get(RESULT).unwrap_or(&Value::Null);
    let text = format!("[the result was withheld: {reason}]");
    let replaced = ResultTexts::find_all(result).replaced(result, &text.into());
    let mut answer = json!({"decision": "block", "reason": reason});
    if let (Ok(replaced), Some(fields)) = (replaced, answer.as_object_mut()) {
        fields.insert(
            "hookSpecificOutput".to_owned(),
            json!({"hookEventName": "PostToolUse", "updatedToolOutput": replaced}),
        );
    }
    HookAnswer::json(&answer)
}
