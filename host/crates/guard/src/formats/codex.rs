//! Hooks of Codex. Their JSON has the same fields as Claude Code's, but Codex treats answers
//! differently.
//!
//! A refusal is exit code 2 with the reason on standard error. `ask` is never sent, because Codex
//! would run the call. Codex uses changed arguments only if the decision is `allow`. A `block`
//! after a call replaces the result with the reason.

use rind_lib::host::VerdictForExternalAgent;
use rind_lib::message::EffectClass;
use serde_json::{Map, Value, json};

use super::claude::{
    TOOL_CALL_PAYLOAD_FIELDS, hook_answer_for_prompt, hook_specific_output,
    parse_claude_or_codex_event, prompt_refusal_answer,
};
use super::{
    AgentFormat, call_arguments, find_changed_content, join_plugin_notes, merge_changed_arguments,
};
use crate::agent::AgentHookPoint;
use crate::answer::{HookAnswer, escape_and_truncate_reason};
use crate::event::{AgentHookEvent, AgentHookEventKind};
use crate::patch::split_patch_into_calls;
use crate::tools::AgentToRindToolMapping;

/// Translates between the hook JSON of Codex and Rind's events.
pub(crate) struct CodexHookFormat;

/// Name of the Codex tool whose argument `command` is a patch.
const APPLY_PATCH_TOOL_NAME: &str = "apply_patch";

const CODEX_TOOL_TRANSLATIONS: &[AgentToRindToolMapping] = &[
    AgentToRindToolMapping {
        theirs: "Bash",
        own: "bash",
        effect_class: EffectClass::Execute,
        arguments: &[("command", "command")],
    },
    AgentToRindToolMapping {
        theirs: APPLY_PATCH_TOOL_NAME,
        own: APPLY_PATCH_TOOL_NAME,
        effect_class: EffectClass::Write,
        arguments: &[],
    },
    AgentToRindToolMapping {
        theirs: "view_image",
        own: "read_file",
        effect_class: EffectClass::Read,
        arguments: &[("path", "path")],
    },
];

impl AgentFormat for CodexHookFormat {
    fn parse_event(
        &self,
        point: AgentHookPoint,
        payload: &Value,
    ) -> Result<AgentHookEvent, String> {
        let mut event = parse_claude_or_codex_event(CODEX_TOOL_TRANSLATIONS, point, payload)?;
        let is_patch = payload
            .get(TOOL_CALL_PAYLOAD_FIELDS.tool)
            .and_then(Value::as_str)
            == Some(APPLY_PATCH_TOOL_NAME);
        if let (true, AgentHookEventKind::Call { calls, .. }) = (is_patch, &mut event.act) {
            let patch = call_arguments(payload, &TOOL_CALL_PAYLOAD_FIELDS).get("command");
            let patch = patch.and_then(Value::as_str).unwrap_or_default();
            *calls = split_patch_into_calls(patch, event.folder.as_deref())?;
        }
        Ok(event)
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
            AgentHookPoint::TurnStart => hook_answer_for_prompt(verdict, "Codex"),
            AgentHookPoint::PreTool => {
                match merge_changed_arguments(
                    CODEX_TOOL_TRANSLATIONS,
                    (payload, &TOOL_CALL_PAYLOAD_FIELDS),
                    event,
                    verdict,
                ) {
                    Ok(Some(input)) => {
                        fields.insert("updatedInput".to_owned(), input);
                        fields.insert("permissionDecision".to_owned(), "allow".into());
                    }
                    Ok(None) => {}
                    Err(why) => return self.write_refusal(point, Some(payload), &why),
                }
                hook_specific_output("PreToolUse", fields)
            }
            AgentHookPoint::PostTool => match find_changed_content(verdict) {
                Some(content) => {
                    hook_answer_replacing_result(&content.text(), join_plugin_notes(verdict))
                }
                None => hook_specific_output("PostToolUse", fields),
            },
        }
    }

    fn write_refusal(
        &self,
        point: AgentHookPoint,
        payload: Option<&Value>,
        why: &str,
    ) -> HookAnswer {
        match (point, payload) {
            (AgentHookPoint::TurnStart, Some(_)) => prompt_refusal_answer(why),
            (AgentHookPoint::PostTool, _) => {
                let text = format!(
                    "[the result was withheld: {}]",
                    escape_and_truncate_reason(why)
                );
                hook_answer_replacing_result(&text, None)
            }
            _ => HookAnswer::from_refusal_reason(why),
        }
    }
}

/// Writes the answer that replaces a result with `text`. An empty text becomes `[empty]`, because
/// Codex ignores an answer without a reason and keeps the result.
fn hook_answer_replacing_result(text: &str, notes: Option<String>) -> HookAnswer {
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
