//! Hooks of Claude Code: JSON on standard input, a JSON object on standard output.
//!
//! If the call may run, the answer is empty, never `allow`: `allow` would skip Claude Code's own
//! permission prompt. For the same reason, changed arguments are sent without a decision.

use rind_lib::host::VerdictForExternalAgent;
use rind_lib::message::EffectClass;
use serde_json::{Map, Value, json};

use super::{
    AgentFormat, HookCallFields, call_arguments, changed_prompt, find_changed_content,
    join_plugin_notes, merge_changed_arguments, tool_result_event,
};
use crate::agent::AgentHookPoint;
use crate::answer::{HookAnswer, escape_and_truncate_reason};
use crate::event::{
    AgentHookEvent, AgentHookEventKind, absolute_folder_field, required_id_or_tool_name,
    required_value,
};
use crate::result::ToolResultTextsWithPaths;
use crate::tools::{AgentToRindToolMapping, to_rind_call};

/// Translates between the hook JSON of Claude Code and Rind's events.
pub(crate) struct ClaudeCodeHookFormat;

pub(super) const TOOL_CALL_PAYLOAD_FIELDS: HookCallFields = HookCallFields {
    id: "tool_use_id",
    tool: "tool_name",
    input: "tool_input",
};

/// Name of the field that contains the result of a tool call.
const TOOL_RESULT_FIELD: &str = "tool_response";

/// Event of a failed call. Its payload has the error text under `error`.
const FAILED_CALL_EVENT_NAME: &str = "PostToolUseFailure";

pub(super) const CLAUDE_TOOL_TRANSLATIONS: &[AgentToRindToolMapping] = &[
    AgentToRindToolMapping {
        theirs: "Bash",
        own: "bash",
        effect_class: EffectClass::Execute,
        arguments: &[("command", "command")],
    },
    AgentToRindToolMapping {
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
    AgentToRindToolMapping {
        theirs: "Write",
        own: "write_file",
        effect_class: EffectClass::Write,
        arguments: &[("path", "file_path"), ("content", "content")],
    },
    AgentToRindToolMapping {
        theirs: "NotebookEdit",
        own: "edit_file",
        effect_class: EffectClass::Write,
        arguments: &[("path", "notebook_path"), ("new_text", "new_source")],
    },
    AgentToRindToolMapping {
        theirs: "Read",
        own: "read_file",
        effect_class: EffectClass::Read,
        arguments: &[
            ("path", "file_path"),
            ("offset", "offset"),
            ("limit", "limit"),
        ],
    },
    AgentToRindToolMapping {
        theirs: "Glob",
        own: "list_files",
        effect_class: EffectClass::Read,
        arguments: &[("path", "path"), ("glob", "pattern")],
    },
    AgentToRindToolMapping {
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
pub(super) fn parse_claude_or_codex_event(
    rows: &[AgentToRindToolMapping],
    point: AgentHookPoint,
    payload: &Value,
) -> Result<AgentHookEvent, String> {
    let session = required_id_or_tool_name(payload, "session_id")?;
    let folder = absolute_folder_field(payload, "cwd");
    let act = match point {
        // Accept an empty text, because a prompt may consist of an image only.
        AgentHookPoint::TurnStart => {
            let prompt = required_value(payload, "prompt")?.as_str();
            AgentHookEventKind::Prompt(prompt.ok_or("`prompt` is not a text")?.to_owned())
        }
        AgentHookPoint::PreTool => {
            let tool = required_id_or_tool_name(payload, TOOL_CALL_PAYLOAD_FIELDS.tool)?;
            let input = call_arguments(payload, &TOOL_CALL_PAYLOAD_FIELDS);
            AgentHookEventKind::Call {
                id: required_id_or_tool_name(payload, TOOL_CALL_PAYLOAD_FIELDS.id)?,
                calls: vec![to_rind_call(rows, &tool, input, folder.as_deref())?],
            }
        }
        AgentHookPoint::PostTool => {
            let tool = required_id_or_tool_name(payload, TOOL_CALL_PAYLOAD_FIELDS.tool)?;
            let is_error = payload.get("hook_event_name").and_then(Value::as_str)
                == Some(FAILED_CALL_EVENT_NAME);
            let key = if is_error { "error" } else { TOOL_RESULT_FIELD };
            let result = required_value(payload, key)?;
            tool_result_event(
                rows,
                (
                    required_id_or_tool_name(payload, TOOL_CALL_PAYLOAD_FIELDS.id)?,
                    &tool,
                ),
                call_arguments(payload, &TOOL_CALL_PAYLOAD_FIELDS),
                result,
                (is_error, folder.as_deref()),
            )?
        }
    };
    Ok(AgentHookEvent {
        session,
        folder,
        act,
    })
}

/// Writes `hookSpecificOutput` for an event; writes nothing if `fields` is empty.
pub(super) fn hook_specific_output(event: &str, mut fields: Map<String, Value>) -> HookAnswer {
    if fields.is_empty() {
        return HookAnswer::empty_answer();
    }
    fields.insert("hookEventName".to_owned(), event.into());
    HookAnswer::from_json(&json!({ "hookSpecificOutput": fields }))
}

/// Returns the answer by which Claude Code and Codex refuse a prompt.
pub(super) fn prompt_refusal_answer(why: &str) -> HookAnswer {
    HookAnswer::from_json(&json!({"decision": "block", "reason": escape_and_truncate_reason(why)}))
}

/// Returns the answer of Claude Code and Codex hooks for a verdict that does not refuse a prompt.
/// Refuses the prompt if a plugin changes it, because these hooks cannot change a prompt.
pub(super) fn hook_answer_for_prompt(verdict: &VerdictForExternalAgent, title: &str) -> HookAnswer {
    if changed_prompt(verdict).is_some() {
        let why = format!(
            "a plugin changes the prompt, and a hook of {title} cannot; the prompt was not sent"
        );
        return prompt_refusal_answer(&why);
    }
    let mut fields = Map::new();
    if let Some(notes) = join_plugin_notes(verdict) {
        fields.insert("additionalContext".to_owned(), notes.into());
    }
    hook_specific_output("UserPromptSubmit", fields)
}

impl AgentFormat for ClaudeCodeHookFormat {
    fn parse_event(
        &self,
        point: AgentHookPoint,
        payload: &Value,
    ) -> Result<AgentHookEvent, String> {
        parse_claude_or_codex_event(CLAUDE_TOOL_TRANSLATIONS, point, payload)
    }

    fn write_verdict(
        &self,
        point: AgentHookPoint,
        payload: &Value,
        event: &AgentHookEvent,
        verdict: &VerdictForExternalAgent,
    ) -> HookAnswer {
        let mut fields = Map::new();
        if let Some(notes) = join_plugin_notes(verdict) {
            fields.insert("additionalContext".to_owned(), notes.into());
        }
        match point {
            AgentHookPoint::TurnStart => hook_answer_for_prompt(verdict, "Claude Code"),
            AgentHookPoint::PreTool => {
                match merge_changed_arguments(
                    CLAUDE_TOOL_TRANSLATIONS,
                    (payload, &TOOL_CALL_PAYLOAD_FIELDS),
                    event,
                    verdict,
                ) {
                    Ok(Some(input)) => {
                        fields.insert("updatedInput".to_owned(), input);
                    }
                    Ok(None) => {}
                    Err(why) => return self.write_refusal(point, Some(payload), &why),
                }
                if let Some(question) = &verdict.asked {
                    fields.insert("permissionDecision".to_owned(), "ask".into());
                    fields.insert(
                        "permissionDecisionReason".to_owned(),
                        escape_and_truncate_reason(question).into(),
                    );
                }
                hook_specific_output("PreToolUse", fields)
            }
            AgentHookPoint::PostTool => {
                let AgentHookEventKind::Result {
                    texts, is_error, ..
                } = &event.act
                else {
                    return HookAnswer::empty_answer();
                };
                // A hook cannot change the text of a failed call.
                if *is_error {
                    return hook_specific_output(FAILED_CALL_EVENT_NAME, fields);
                }
                if let Some(content) = find_changed_content(verdict) {
                    let result = payload.get(TOOL_RESULT_FIELD).unwrap_or(&Value::Null);
                    match texts.result_with_replaced_texts(result, content) {
                        Ok(result) => {
                            fields.insert("updatedToolOutput".to_owned(), result);
                        }
                        Err(why) => return self.write_refusal(point, Some(payload), &why),
                    }
                }
                hook_specific_output("PostToolUse", fields)
            }
        }
    }

    fn write_refusal(
        &self,
        point: AgentHookPoint,
        payload: Option<&Value>,
        why: &str,
    ) -> HookAnswer {
        let reason = escape_and_truncate_reason(why);
        match (point, payload) {
            (_, None) => HookAnswer::from_refusal_reason(why),
            (AgentHookPoint::TurnStart, _) => prompt_refusal_answer(why),
            (AgentHookPoint::PreTool, _) => {
                let mut fields = Map::new();
                fields.insert("permissionDecision".to_owned(), "deny".into());
                fields.insert("permissionDecisionReason".to_owned(), reason.into());
                hook_specific_output("PreToolUse", fields)
            }
            (AgentHookPoint::PostTool, Some(payload)) => {
                hook_answer_withholding_result(payload, &reason)
            }
        }
    }
}

/// Replaces the texts of a result with the reason and keeps the structure of the result, because
/// the agent ignores a result of another structure.
fn hook_answer_withholding_result(payload: &Value, reason: &str) -> HookAnswer {
    let result = payload.get(TOOL_RESULT_FIELD).unwrap_or(&Value::Null);
    let text = format!("[the result was withheld: {reason}]");
    let replaced = ToolResultTextsWithPaths::find_all_texts(result)
        .result_with_replaced_texts(result, &text.into());
    let mut answer = json!({"decision": "block", "reason": reason});
    if let (Ok(replaced), Some(fields)) = (replaced, answer.as_object_mut()) {
        fields.insert(
            "hookSpecificOutput".to_owned(),
            json!({"hookEventName": "PostToolUse", "updatedToolOutput": replaced}),
        );
    }
    HookAnswer::from_json(&answer)
}
