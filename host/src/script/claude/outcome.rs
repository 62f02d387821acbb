//! Converts the output and exit status of Claude Code hooks to outcomes of extension points.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::{ClaudeHook, ClaudeHookEvent, ClaudeHooksSessionState, reply, tools};
use crate::lock::lock_ignoring_poison;
use crate::point::caller::Caller;
use crate::point::failure::Failure;
use crate::script::once;
use crate::tool::process::{FinishedProcess, ProcessEndReason};

impl ClaudeHook {
    /// Converts the output of the hook to a JSON outcome of the extension point.
    pub(in crate::script) fn convert_hook_output(
        &self,
        caller: &Caller,
        payload: &Value,
        finished: &FinishedProcess,
        state: &ClaudeHooksSessionState,
    ) -> Result<Value, Failure> {
        let errors = once::stderr_excerpt(finished);
        let outcome = match finished.ending {
            ProcessEndReason::Exited(0) => {
                let text = finished.stdout.text();
                let text = text.trim();
                if text.starts_with('{') {
                    self.parse_json_outcome(caller, payload, &once::parse_script_outcome(text)?)?
                } else {
                    reply::check_plain_text_reply(text, self.event.can_refuse_action())?;
                    self.convert_plain_text_outcome(text)
                }
            }
            ProcessEndReason::Exited(2) => {
                let why = if errors.is_empty() {
                    "exit code 2".to_owned()
                } else {
                    // Add advice: Python exits with 2 if it cannot open a script, which would look
                    // like a refusal.
                    once::add_confinement_advice(&errors).into_owned()
                };
                self.refusal_outcome(&why)
            }
            ending => return Err(once::missing_outcome_failure(ending, &errors)),
        };
        if outcome.pointer("/verdict/again").is_some() {
            let context = &caller.context;
            *lock_ignoring_poison(&state.went_on) = Some((context.agent.to_string(), context.turn));
        }
        Ok(outcome)
    }

    /// Returns the outcome for plain-text output. At the events that accept context, the text is
    /// added to the context of the model; at other events it is ignored.
    fn convert_plain_text_outcome(&self, text: &str) -> Value {
        let is_context = matches!(
            self.event,
            ClaudeHookEvent::UserPromptSubmit | ClaudeHookEvent::SessionStart
        );
        if is_context && !text.is_empty() {
            json!({"inject": [{"text": text}]})
        } else {
            json!({})
        }
    }

    /// Returns the outcome that refuses the action; at an extension point that cannot refuse, an
    /// outcome that reports `why`.
    fn refusal_outcome(&self, why: &str) -> Value {
        match self.event {
            ClaudeHookEvent::PreToolUse => json!({"verdict": {"block": why}}),
            ClaudeHookEvent::PostToolUse | ClaudeHookEvent::PostToolUseFailure => {
                json!({"inject": [{"text": why}]})
            }
            ClaudeHookEvent::UserPromptSubmit => json!({"block": why}),
            ClaudeHookEvent::Stop | ClaudeHookEvent::SubagentStop => {
                json!({"verdict": {"again": why}})
            }
            ClaudeHookEvent::PreCompact => json!({"verdict": {"cancel": why}}),
            _ => json!({"effects": [build_notify_effect("warn", why)]}),
        }
    }

    /// Converts JSON output. A refusal counts regardless of the other fields. In all other output,
    /// the fields must be as documented, so that a misspelled refusal is an error and not ignored.
    fn parse_json_outcome(
        &self,
        caller: &Caller,
        payload: &Value,
        said: &Value,
    ) -> Result<Value, Failure> {
        let text = |value: &Value| {
            value
                .as_str()
                .filter(|text| !text.is_empty())
                .map(str::to_owned)
        };
        let specific = &said["hookSpecificOutput"];
        let mut outcome = if said["continue"] == false {
            let why =
                text(&said["stopReason"]).unwrap_or_else(|| "a hook stopped the turn".to_owned());
            self.turn_ending_outcome(&why)
        } else if said["decision"] == "block" {
            let why = text(&said["reason"]).unwrap_or_else(|| "a hook refused it".to_owned());
            self.refusal_outcome(&why)
        } else {
            let is_judged = self.event == ClaudeHookEvent::PreToolUse;
            reply::check_hook_reply(said, is_judged)?;
            if is_judged {
                convert_tool_call_verdict(caller, payload, specific)?
            } else {
                json!({})
            }
        };
        if let (Some(context), Some(outcome)) = (
            text(&specific["additionalContext"]),
            outcome.as_object_mut(),
        ) {
            self.add_context_to_outcome(outcome, &context);
        }
        if let Some(message) = text(&said["systemMessage"]) {
            append_to_list_field(
                &mut outcome,
                "effects",
                build_notify_effect("info", &message),
            );
        }
        Ok(outcome)
    }

    /// Returns the outcome for `continue: false`, which ends the turn if the extension point
    /// supports that.
    fn turn_ending_outcome(&self, why: &str) -> Value {
        match self.event {
            ClaudeHookEvent::Stop | ClaudeHookEvent::SubagentStop => json!({"verdict": "done"}),
            ClaudeHookEvent::PostToolUse | ClaudeHookEvent::PostToolUseFailure => {
                let mut outcome = self.refusal_outcome(why);
                let told = "`continue: false` after a tool cannot end the turn here; the model was told the reason";
                append_to_list_field(&mut outcome, "effects", build_notify_effect("warn", told));
                outcome
            }
            _ => self.refusal_outcome(why),
        }
    }

    fn add_context_to_outcome(&self, outcome: &mut Map<String, Value>, context: &str) {
        match self.event {
            ClaudeHookEvent::PreToolUse => {
                outcome.insert("note".to_owned(), json!(context));
            }
            ClaudeHookEvent::PostToolUse
            | ClaudeHookEvent::PostToolUseFailure
            | ClaudeHookEvent::UserPromptSubmit
            | ClaudeHookEvent::SessionStart => {
                let inject = outcome.entry("inject").or_insert_with(|| json!([]));
                if let Some(inject) = inject.as_array_mut() {
                    inject.push(json!({"text": context}));
                }
            }
            _ => {}
        }
    }
}

/// Returns the verdict on a tool call. A hook cannot allow a call that the policy denies or asks
/// about, so `allow` only means that the hook has no objection.
fn convert_tool_call_verdict(
    caller: &Caller,
    payload: &Value,
    specific: &Value,
) -> Result<Value, Failure> {
    let reason = specific["permissionDecisionReason"].as_str();
    let reason = reason.filter(|reason| !reason.is_empty());
    let decision = &specific["permissionDecision"];
    if decision == "deny" {
        return Ok(json!({"verdict": {"block": reason.unwrap_or("a hook refused it")}}));
    }
    reply::check_tool_call_verdict(specific)?;
    let changed = specific["updatedInput"].as_object();
    match (decision == "ask", changed) {
        (true, Some(_)) => Err(Failure::Malformed(
            "it both asks about a call and changes it, which is not supported".to_owned(),
        )),
        (true, None) => {
            Ok(json!({"verdict": {"ask": reason.unwrap_or("a hook asks for your approval")}}))
        }
        (false, None) => Ok(json!({})),
        (false, Some(changed)) => {
            let tool = payload.pointer("/call/name").and_then(Value::as_str);
            let workspace = Path::new(&*caller.context.workspace);
            let arguments = tools::to_rind_arguments(tool.unwrap_or_default(), changed, workspace);
            Ok(json!({"verdict": {"change": arguments}}))
        }
    }
}

fn build_notify_effect(level: &str, text: &str) -> Value {
    json!({"notify": {"level": level, "text": text}})
}

fn append_to_list_field(outcome: &mut Value, list: &str, value: Value) {
    if !outcome[list].is_array() {
        outcome[list] = json!([]);
    }
    if let Some(list) = outcome[list].as_array_mut() {
        list.push(value);
    }
}
