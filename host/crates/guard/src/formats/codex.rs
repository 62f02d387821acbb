//! Hooks of Codex. Their JSON has the same fields as Claude Code's, but Codex treats answers
//! differently.
//!
//! A refusal is exit code 2 with the reason on standard error. `ask` is never sent, because Codex
//! would run the call. Codex uses changed arguments only if the decision is `allow`. A `block`
//! after a call replaces the result with the reason.

use rind_lib::host::ExternalAgentVerdict;
use rind_lib::message::EffectClass;
use serde_json::{Map, Value, json};

use super::claude::{
    FIELDS, hook_specific_output, read_event, refuse_prompt, write_prompt_verdict,
};
use super::{
    AgentFormat, call_arguments, find_changed_content, join_plugin_notes, merge_changed_arguments,
};
use crate::agent::GuardPoint;
use crate::answer::{HookAnswer, reason_text};
use crate::event::{HookEvent, HookEventKind};
use crate::patch::split_patch_into_calls;
use crate::tools::ToolTranslation;

/// Hook format of Codex.
pub(crate) struct CodexFormat;

/// Tool whose argument `command` is a patch.
const PATCH: &str = "apply_patch";

const ROWS: &[ToolTranslation] = &[
    ToolTranslation {
        theirs: "Bash",
        own: "bash",
        effect_class: EffectClass::Execute,
        arguments: &[("command", "command")],
    },
    ToolTranslation {
        theirs: PATCH,
        own: PATCH,
        effect_class: EffectClass::Write,
        arguments: &[],
    },
    ToolTranslation {
        theirs: "view_image",
        own: "read_file",
        effect_class: EffectClass::Read,
        arguments: &[("path", "path")],
    },
];

impl AgentFormat for CodexFormat {
    fn parse_event(&self, point: GuardPoint, payload: &Value) -> Result<HookEvent, String> {
        let mut event = read_event(ROWS, point, payload)?;
        let is_patch = payload.get(FIELDS.tool).and_then(Value::as_str) == Some(PATCH);
        if let (true, HookEventKind::Call { calls, .. }) = (is_patch, &mut event.act) {
            let patch = call_arguments(payload, &FIELDS).get("command");
            let patch = patch.and_then(Value::as_str).unwrap_or_default();
            *calls = split_patch_into_calls(patch, event.folder.as_deref())?;
        }
        Ok(event)
    }

    fn write_verdict(
        &self,
        point: GuardPoint,
        payload: &Value,
        event: &HookEvent,
        verdict: &ExternalAgentVerdict,
    ) -> HookAnswer {
        let mut fields = Map::new();
        if let Some(notes) = join_plugin_notes(verdict) {
            fields.insert("additionalContext".to_owned(), notes.into());
        }
        match point {
            GuardPoint::TurnStart => write_prompt_verdict(verdict, "Codex"),
            GuardPoint::PreTool => {
                match merge_changed_arguments(ROWS, (payload, &FIELDS), event, verdict) {
                    Ok(Some(input)) => {
                        fields.insert("updatedInput".to_owned(), input);
                        fields.insert("permissionDecision".to_owned(), "allow".into());
                    }
                    Ok(None) => {}
                    Err(why) => return self.write_refusal(point, Some(payload), &why),
                }
                hook_specific_output("PreToolUse", fields)
            }
            GuardPoint::PostTool => match find_changed_content(verdict) {
                Some(content) => replace_result(&content.text(), join_plugin_notes(verdict)),
                None => hook_specific_output("PostToolUse", fields),
            },
        }
    }

    fn write_refusal(&self, point: GuardPoint, payload: Option<&Value>, why: &str) -> HookAnswer {
        match (point, payload) {
            (GuardPoint::TurnStart, Some(_)) => refuse_prompt(why),
            (GuardPoint::PostTool, _) => {
                let text = format!("[the result was withheld: {}]", reason_text(why));
                replace_result(&text, None)
            }
            _ => HookAnswer::refusal(why),
        }
    }
}

/// Writes the answer that replaces a result with `text`. An empty text becomes `[empty]`, because
/// Codex ignores an answer without a reason and keeps the result.
fn replace_result(text: &str, notes: Option<String>) -> HookAnswer {
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
    HookAnswer::from_json(&answer)
}
