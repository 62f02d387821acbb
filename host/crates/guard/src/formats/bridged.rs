//! JSON protocol between the hook program and the module that `install` writes into an agent
//! (OpenCode, pi). Rind defines both sides.
//!
//! The request of the module has `session`, `folder`, and `id`, `tool`, `args`, `texts`, `failed`
//! or `prompt`, depending on the event. The answer of the program has `v: 1` and either `refuse`
//! with a reason, or `pass: true`, optionally with `ask`, `args`, `texts`, `prompt` and `notes`.
//! The module treats any other answer as a refusal.

use rind_lib::host::ExternalAgentVerdict;
use serde_json::{Map, Value, json};

use super::{
    HookCallFields, call_arguments, changed_prompt, find_changed_content, merge_changed_arguments,
    tool_result_event,
};
use crate::agent::GuardPoint;
use crate::answer::{HookAnswer, reason_text};
use crate::event::{
    HookEvent, HookEventKind, RindToolCall, absolute_folder, required_name, required_text,
    required_value,
};
use crate::tools::{ToolTranslation, to_rind_call};

const FIELDS: HookCallFields = HookCallFields {
    id: "id",
    tool: "tool",
    input: "args",
};

/// Field with the texts of a tool's result.
const TEXTS: &str = "texts";

/// Function that splits a tool call that changes several files into one call per file. Returns an
/// empty list for any other call.
pub(super) type SplitCall =
    fn(tool: &str, input: &Value, event: &HookEvent) -> Result<Vec<RindToolCall>, String>;

pub(super) fn parse_bridge_request(
    rows: &[ToolTranslation],
    split: SplitCall,
    point: GuardPoint,
    payload: &Value,
) -> Result<HookEvent, String> {
    let folder = absolute_folder(payload, "folder");
    let mut event = HookEvent {
        session: required_name(payload, "session")?,
        folder,
        act: HookEventKind::Prompt(String::new()),
    };
    if point == GuardPoint::TurnStart {
        event.act = HookEventKind::Prompt(required_text(payload, "prompt")?.to_owned());
        return Ok(event);
    }
    let id = required_name(payload, FIELDS.id)?;
    let tool = required_name(payload, FIELDS.tool)?;
    let input = call_arguments(payload, &FIELDS);
    event.act = match point {
        GuardPoint::PostTool => tool_result_event(
            rows,
            (id, &tool),
            input,
            required_value(payload, TEXTS)?,
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
            HookEventKind::Call { id, calls }
        }
    };
    Ok(event)
}

pub(super) fn write_bridge_answer(
    rows: &[ToolTranslation],
    point: GuardPoint,
    payload: &Value,
    event: &HookEvent,
    verdict: &ExternalAgentVerdict,
) -> HookAnswer {
    let mut fields = Map::new();
    if !verdict.notes.is_empty() {
        fields.insert("notes".to_owned(), json!(verdict.notes));
    }
    match point {
        GuardPoint::PreTool => {
            match merge_changed_arguments(rows, (payload, &FIELDS), event, verdict) {
                Ok(Some(input)) => drop(fields.insert("args".to_owned(), input)),
                Ok(None) => {}
                Err(why) => return write_bridge_refusal(&why),
            }
            if let Some(question) = &verdict.asked {
                fields.insert("ask".to_owned(), reason_text(question).into());
            }
        }
        GuardPoint::PostTool => {
            if let (Some(content), HookEventKind::Result { texts, .. }) =
                (find_changed_content(verdict), &event.act)
            {
                let result = payload.get(TEXTS).unwrap_or(&Value::Null);
                match texts.replace_texts_in(result, content) {
                    Ok(result) => drop(fields.insert(TEXTS.to_owned(), result)),
                    Err(why) => return write_bridge_refusal(&why),
                }
            }
        }
        GuardPoint::TurnStart => {
            if let Some(text) = changed_prompt(verdict) {
                fields.insert("prompt".to_owned(), text.into());
            }
        }
    }
    fields.insert("v".to_owned(), 1.into());
    fields.insert("pass".to_owned(), true.into());
    HookAnswer::from_json(&Value::Object(fields))
}

pub(super) fn write_bridge_refusal(why: &str) -> HookAnswer {
    HookAnswer::from_json(&json!({"v": 1, "refuse": reason_text(why)}))
}
