//! JSON protocol between the hook program and the module that `install` writes into an agent
//! (OpenCode, pi). Rind defines both sides.
//!
//! The request of the module has `session`, `folder`, and `id`, `tool`, `args`, `texts`, `failed`
//! or `prompt`, depending on the event. The answer of the program has `v: 1` and either `refuse`
//! with a reason, or `pass: true`, optionally with `ask`, `args`, `texts`, `prompt` and `notes`.
//! The module treats any other answer as a refusal.

use rind_lib::host::VerdictForExternalAgent;
use serde_json::{Map, Value, json};

use super::{
    HookCallFields, call_arguments, changed_prompt, find_changed_content, merge_changed_arguments,
    tool_result_event,
};
use crate::agent::AgentHookPoint;
use crate::answer::{HookAnswer, escape_and_truncate_reason};
use crate::event::{
    AgentHookEvent, AgentHookEventKind, ToolCallWithRindNames, absolute_folder_field,
    required_id_or_tool_name, required_text_field, required_value,
};
use crate::tools::{AgentToRindToolMapping, to_rind_call};

const AGENT_MODULE_TOOL_CALL_FIELDS: HookCallFields = HookCallFields {
    id: "id",
    tool: "tool",
    input: "args",
};

/// Name of the field that contains the texts of a tool's result.
const RESULT_TEXTS_FIELD: &str = "texts";

/// Function that splits a tool call that changes several files into one call per file. Returns an
/// empty list for any other call.
pub(super) type SplitCallPerFileFn = fn(
    tool: &str,
    input: &Value,
    event: &AgentHookEvent,
) -> Result<Vec<ToolCallWithRindNames>, String>;

pub(super) fn parse_agent_module_request(
    rows: &[AgentToRindToolMapping],
    split: SplitCallPerFileFn,
    point: AgentHookPoint,
    payload: &Value,
) -> Result<AgentHookEvent, String> {
    let folder = absolute_folder_field(payload, "folder");
    let mut event = AgentHookEvent {
        session: required_id_or_tool_name(payload, "session")?,
        folder,
        act: AgentHookEventKind::Prompt(String::new()),
    };
    if point == AgentHookPoint::TurnStart {
        event.act = AgentHookEventKind::Prompt(required_text_field(payload, "prompt")?.to_owned());
        return Ok(event);
    }
    let id = required_id_or_tool_name(payload, AGENT_MODULE_TOOL_CALL_FIELDS.id)?;
    let tool = required_id_or_tool_name(payload, AGENT_MODULE_TOOL_CALL_FIELDS.tool)?;
    let input = call_arguments(payload, &AGENT_MODULE_TOOL_CALL_FIELDS);
    event.act = match point {
        AgentHookPoint::PostTool => tool_result_event(
            rows,
            (id, &tool),
            input,
            required_value(payload, RESULT_TEXTS_FIELD)?,
            (
                payload.get("failed") == Some(&Value::Bool(true)),
                event.folder.as_deref(),
            ),
        )?,
        _ => {
            let mut calls = split(&tool, input, &event)?;
            if calls.is_empty() {
                calls.push(to_rind_call(rows, &tool, input, event.folder.as_deref())?);
            }
            AgentHookEventKind::Call { id, calls }
        }
    };
    Ok(event)
}

pub(super) fn write_agent_module_answer(
    rows: &[AgentToRindToolMapping],
    point: AgentHookPoint,
    payload: &Value,
    event: &AgentHookEvent,
    verdict: &VerdictForExternalAgent,
) -> HookAnswer {
    let mut fields = Map::new();
    if !verdict.notes.is_empty() {
        fields.insert("notes".to_owned(), json!(verdict.notes));
    }
    match point {
        AgentHookPoint::PreTool => {
            match merge_changed_arguments(
                rows,
                (payload, &AGENT_MODULE_TOOL_CALL_FIELDS),
                event,
                verdict,
            ) {
                Ok(Some(input)) => drop(fields.insert("args".to_owned(), input)),
                Ok(None) => {}
                Err(why) => return write_agent_module_refusal(&why),
            }
            if let Some(question) = &verdict.asked {
                fields.insert(
                    "ask".to_owned(),
                    escape_and_truncate_reason(question).into(),
                );
            }
        }
        AgentHookPoint::PostTool => {
            if let (Some(content), AgentHookEventKind::Result { texts, .. }) =
                (find_changed_content(verdict), &event.act)
            {
                let result = payload.get(RESULT_TEXTS_FIELD).unwrap_or(&Value::Null);
                match texts.result_with_replaced_texts(result, content) {
                    Ok(result) => drop(fields.insert(RESULT_TEXTS_FIELD.to_owned(), result)),
                    Err(why) => return write_agent_module_refusal(&why),
                }
            }
        }
        AgentHookPoint::TurnStart => {
            if let Some(text) = changed_prompt(verdict) {
                fields.insert("prompt".to_owned(), text.into());
            }
        }
    }
    fields.insert("v".to_owned(), 1.into());
    fields.insert("pass".to_owned(), true.into());
    HookAnswer::from_json(&Value::Object(fields))
}

pub(super) fn write_agent_module_refusal(why: &str) -> HookAnswer {
    HookAnswer::from_json(&json!({"v": 1, "refuse": escape_and_truncate_reason(why)}))
}
