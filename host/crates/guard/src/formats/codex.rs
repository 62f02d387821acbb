//! Hooks of Codex: the same fields as Claude Code, with other effects.
//!
//! A refusal is exit code 2 with the reason on standard error. `ask` is never sent, because Codex
//! would run the call. Codex uses changed arguments only if the decision is `allow`. A `block`
//! after a call replaces the result with the reason.

use rind_lib::host::ForeignVerdict;
use rind_lib::message::EffectClass;
use serde_json::{Map, Value, json};

use super::claude::{FIELDS, read_event, refuse_prompt, specific, write_prompt};
use super::{AgentFormat, changed_content, changed_input, input_of, joined_notes};
use crate::agent::GuardPoint;
use crate::answer::{HookAnswer, reason_text};
use crate::event::{HookAct, HookEvent};
use crate::patch::patch_calls;
use crate::tools::ToolRow;

/// Hook format of Codex.
pub(crate) struct CodexFormat;

/// Tool whose argument `command` is a patch.
const PATCH: &str = "apply_patch";

const ROWS: &[ToolRow] = &[
    ToolRow {
        theirs: "Bash",
        own: "bash",
        effect_class: EffectClass::Execute,
        arguments: &[("command", "command")],
    },
    ToolRow {
        theirs: PATCH,
        own: PATCH,
        effect_class: EffectClass::Write,
        arguments: &[],
    },
    ToolRow {
        theirs: "view_image",
        own: "read_file",
        effect_class: EffectClass::Read,
        arguments: &[("path", "path")],
    },
];

impl AgentFormat for CodexFormat {
    fn read(&self, point: GuardPoint, payload: &Value) -> Result<HookEvent, String> {
        let mut event = read_event(ROWS, point, payload)?;
        let is_patch = payload.get(FIELDS.tool).and_then(Value::as_str) == Some(PATCH);
        if let (true, HookAct::Call { calls, .. }) = (is_patch, &mut event.act) {
            let patch = input_of(payload, &FIELDS).get("command");
            let patch = patch.and_then(Value::as_str).unwrap_or_default();
            *calls = patch_calls(patch, event.folder.as_deref())?;
        }
        Ok(event)
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
            GuardPoint::TurnStart => write_prompt(verdict, "Codex"),
            GuardPoint::PreTool => {
                match changed_input(ROWS, (payload, &FIELDS), event, verdict) {
                    Ok(Some(input)) => {
                        fields.insert("updatedInput".to_owned(), input);
                        fields.insert("permissionDecision".to_owned(), "allow".into());
                    }
                    Ok(None) => {}
                    Err(why) => return self.refuse(point, Some(payload), &why),
                }
                specific("PreToolUse", fields)
            }
            GuardPoint::PostTool => match changed_content(verdict) {
                Some(content) => replaced_result(&content.text(), joined_notes(verdict)),
                None => specific("PostToolUse", fields),
            },
        }
    }

    fn refuse(&self, point: GuardPoint, payload: Option<&Value>, why: &str) -> HookAnswer {
        match (point, payload) {
            (GuardPoint::TurnStart, Some(_)) => refuse_prompt(why),
            (GuardPoint::PostTool, _) => {
                let text = format!("[the result was withheld: {}]", reason_text(why));
                replaced_result(&text, None)
            }
            _ => HookAnswer::refusal(why),
        }
    }
}

/// Writes the answer that replaces a result with `text`. An empty reason becomes `[empty]`, because
/// Codex ignores an answer without a reason and keeps the result.
fn replaced_result(text: &str, notes: Option<String>) -> HookAnswer {
    let text = if text.trim().is_empty() {
        "[empty]"
    } else {
        text
    };
    let mut answer = json!({"decision": "block", "reason": text});
    if let (Some(notes), Some(fields)) = (notes, answer.as_object_mut()) {
        fields.insert(
            "hookSpecificOutput".to_owned(),
            json!({"hookEventName": "PostToolUse", "additionalContext": notes}),
        );
    }
    HookAnswer::json(&answer)
}
