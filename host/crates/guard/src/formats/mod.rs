//! Hook formats of the agents, one file per agent.
//!
//! A format reads an agent's payload and writes a verdict in the agent's format. If the agent's
//! format cannot express a part of the verdict, the answer is a refusal, or empty where the event
//! cannot refuse.

mod bridged;
mod claude;
mod codex;
mod goose;
mod opencode;
mod pi;
#[cfg(test)]
mod tests;

use std::path::Path;

use rind_lib::host::{HookChangedValue, VerdictForExternalAgent};
use rind_lib::message::Parts;
use serde_json::Value;

use super::agent::AgentHookPoint;
use super::answer::HookAnswer;
use super::event::{AgentHookEvent, AgentHookEventKind, ToolCallWithRindNames};
use super::result::ToolResultTextsWithPaths;
use super::tools::{AgentToRindToolMapping, to_agent_arguments};

pub(crate) use claude::ClaudeCodeHookFormat;
pub(crate) use codex::CodexHookFormat;
pub(crate) use goose::GooseHookFormat;
pub(crate) use opencode::OpenCodeHookFormat;
pub(crate) use pi::PiHookFormat;

/// Hook format of one agent: parses the JSON that the agent passes to a hook, and writes the
/// answer.
pub(crate) trait AgentFormat: Sync {
    /// Parses the payload that the agent passed to its hook at `point`.
    fn parse_event(&self, point: AgentHookPoint, payload: &Value)
    -> Result<AgentHookEvent, String>;

    /// Writes the answer to the agent for a verdict that does not refuse.
    fn write_verdict(
        &self,
        point: AgentHookPoint,
        payload: &Value,
        event: &AgentHookEvent,
        verdict: &VerdictForExternalAgent,
    ) -> HookAnswer;

    /// Writes the answer for a refusal with the reason `why`. `payload` is `None` if it could not
    /// be parsed.
    fn write_refusal(
        &self,
        point: AgentHookPoint,
        payload: Option<&Value>,
        why: &str,
    ) -> HookAnswer;
}

impl dyn AgentFormat {
    /// Returns the hook's answer to the agent, in the agent's format: a refusal if the verdict
    /// contains one, or else the rest of the verdict.
    pub(crate) fn answer(
        &self,
        point: AgentHookPoint,
        payload: &Value,
        event: &AgentHookEvent,
        verdict: &VerdictForExternalAgent,
    ) -> HookAnswer {
        match &verdict.refused {
            Some(why) => self.write_refusal(point, Some(payload), why),
            None => self.write_verdict(point, payload, event, verdict),
        }
    }
}

/// Names of the payload fields in which an agent passes a tool call.
struct HookCallFields {
    id: &'static str,
    tool: &'static str,
    input: &'static str,
}

/// Returns the arguments of the tool call in an agent's payload.
fn call_arguments<'a>(payload: &'a Value, fields: &HookCallFields) -> &'a Value {
    payload.get(fields.input).unwrap_or(&Value::Null)
}

/// Returns the arguments of the agent's call with the changes of the verdict; `None` if the verdict
/// changes no arguments.
///
/// # Errors
/// The call changes several files, so a change of one part cannot be expressed in the agent's
/// arguments.
fn merge_changed_arguments(
    rows: &[AgentToRindToolMapping],
    (payload, fields): (&Value, &HookCallFields),
    event: &AgentHookEvent,
    verdict: &VerdictForExternalAgent,
) -> Result<Option<Value>, String> {
    let Some(HookChangedValue::Arguments(changed)) = &verdict.changed else {
        return Ok(None);
    };
    let AgentHookEventKind::Call { calls, .. } = &event.act else {
        return Ok(None);
    };
    let [ToolCallWithRindNames { arguments, .. }] = calls.as_slice() else {
        return Err("a plugin changes a part of a call that changes several files".to_owned());
    };
    let tool = payload.get(fields.tool).and_then(Value::as_str);
    Ok(Some(to_agent_arguments(
        rows,
        tool.unwrap_or_default(),
        call_arguments(payload, fields),
        (arguments, changed),
        event.folder.as_deref(),
    )))
}

/// Returns the new content of a result; `None` if the verdict does not change the result.
fn find_changed_content(verdict: &VerdictForExternalAgent) -> Option<&Parts> {
    match &verdict.changed {
        Some(HookChangedValue::Content(content)) => Some(content),
        _ => None,
    }
}

/// Returns the new text of a prompt; `None` if the verdict does not change the prompt.
fn changed_prompt(verdict: &VerdictForExternalAgent) -> Option<&str> {
    match &verdict.changed {
        Some(HookChangedValue::Prompt(text)) => Some(text),
        _ => None,
    }
}

/// Joins the notes of plugins for the model into one text; `None` if there are none.
fn join_plugin_notes(verdict: &VerdictForExternalAgent) -> Option<String> {
    (!verdict.notes.is_empty()).then(|| verdict.notes.join("\n"))
}

/// Creates the event for a call that has run, with its result.
fn tool_result_event(
    rows: &[AgentToRindToolMapping],
    (id, tool): (String, &str),
    input: &Value,
    result: &Value,
    (is_error, folder): (bool, Option<&Path>),
) -> Result<AgentHookEventKind, String> {
    Ok(AgentHookEventKind::Result {
        id,
        call: super::tools::to_rind_call(rows, tool, input, folder)?,
        texts: ToolResultTextsWithPaths::find_texts_within_limit(result)?,
        is_error,
    })
}
