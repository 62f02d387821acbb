//! JSON protocol between the hook program and the module that `install` writes into an agent
//! (OpenCode, pi). Rind defines both sides.
//!
//! The request of the module has `session`, `folder`, and `id`, `tool`, `args`, `texts`, `failed`
//! or `prompt`, depending on the event. The answer of the program has `v: 1` and either `refuse`
//! with a reason, or `pass: true`, optionally with `ask`, `args`, `texts`, `prompt` and `notes`.
//! The module treats any other answer as a refusal.

use rind_lib::host::ForeignVerdict;
use serde_json::{Map, Value, json};

use super::{CallFields, changed_content, changed_input, changed_prompt, input_of, result_act};
use crate::agent::GuardPoint;
use crate::answer::{HookAnswer, reason_text};
use crate::event::{
    HookAct, HookEvent, OwnCall, folder_of, needed_name, needed_text, needed_value,
};
use crate::tools::{ToolRow, own_call};

const FIELDS: CallFields = CallFields {
    id: "id",
    tool: "tool",
    input: "args",
};

/// Field with the texts of a tool's result.
const TEXTS: &str = "texts";

/// Splits a tool call that changes several files into one call per file. Returns an empty list for
/// any other call.
pub(super) type SplitCall =
    fn(tool: &str, input: &Value, event: &HookEvent) -> Result<Vec<OwnCall>, String>;

pub(super) fn read_bridged(
    rows: &[ToolRow],
    split: SplitCall,
    point: GuardPoint,
    payload: &Value,
) -> Result<HookEvent, String> {
    let folder = folder_of(payload, "folder");
    let mut event = HookEvent {
        session: needed_name(payload, "session")?,
        folder,
        act: HookAct::Prompt(String::new()),
    };
    if point == GuardPoint::TurnStart {
        event.act = HookAct::Prompt(needed_text(payload, "prompt")?.to_owned());
        return Ok(event);
    }
    let id = needed_name(payload, FIELDS.id)?;
    let tool = needed_name(payload, FIELDS.tool)?;
    let input = input_of(payload, &FIELDS);
    event.act = match point {
        GuardPoint::PostTool => result_act(
            rows,
            (id, &tool),
            input,
            needed_value(payload, TEXTS)?,
            (
                payload.get("failed") == Some(&Value::Bool(true)),
                event.folder.as_deref(),
            ),
        )?,
        _ => {
            let mut calls = split(&tool, input, &event)?;
            if calls.is_empty() {
                calls.push(own_call(rows, &tool, input, event.folder.as_deref())?);
            }
            HookAct::Call { id, calls }
        }
    };
    Ok(event)
}

pub(super) fn write_bridged(
    rows: &[ToolRow],
    point: GuardPoint,
    payload: &Value,
    event: &HookEvent,
    verdict: &ForeignVerdict,
) -> HookAnswer {
    let mut fields = Map::new();
    if !verdict.notes.is_empty() {
        fields.insert("notes".to_owned(), json!(verdict.notes));
    }
    match point {
        GuardPoint::PreTool => {
            match changed_input(rows, (payload, &FIELDS), event, verdict) {
                Ok(Some(input)) => drop(fields.insert("args".to_owned(), input)),
                Ok(None) => {}
                Err(why) => return refuse_bridged(&why),
            }
            if let Some(question) = &verdict.asked {
                fields.insert("ask".to_owned(), reason_text(question).into());
            }
        }
        GuardPoint::PostTool => {
            if let (Some(content), HookAct::Result { texts, .. }) =
                (changed_content(verdict), &event.act)
            {
                let result = payload.get(TEXTS).unwrap_or(&Value::Null);
                match texts.replaced(result, content) {
                    Ok(result) => drop(fields.insert(TEXTS.to_owned(), result)),
                    Err(why) => return refuse_bridged(&why),
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
    HookAnswer::json(&Value::Object(fields))
}

pub(super) fn refuse_bridged(why: &str) -> HookAnswer {
    HookAnswer::json(&json!({"v": 1, "refuse": reason_text(why)}))
}
