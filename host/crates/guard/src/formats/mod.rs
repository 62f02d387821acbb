//! Formats of the agents' hooks: one file for each agent.
//!
//! A format reads the payload of the agent, and writes a verdict in the form that the agent obeys. Where
//! the agent has no form for a part of the verdict, the answer is a refusal, or nothing where the
//! event cannot refuse.

mod bridged;
mod claude;
mod codex;
mod goose;
mod opencode;
mod pi;
#[cfg(test)]
mod tests;

use std::path::Path;

use rind_lib::host::{ForeignChange, ForeignVerdict};
use rind_lib::message::Parts;
use serde_json::Value;

use super::agent::GuardPoint;
use super::answer::HookAnswer;
use super::event::{HookAct, HookEvent, OwnCall};
use super::result::ResultTexts;
use super::tools::{ToolRow, their_input};

pub(crate) use claude::ClaudeFormat;
pub(crate) use codex::CodexFormat;
pub(crate) use goose::GooseFormat;
pub(crate) use opencode::OpenCodeFormat;
pub(crate) use pi::PiFormat;

/// The JSON of one agent's hooks.
pub(crate) trait AgentFormat: Sync {
    /// Reads the payload of the agent.
    fn read(&self, point: GuardPoint, payload: &Value) -> Result<HookEvent, String>;

    /// Writes a verdict without a refusal.
    fn write(
        &self,
        point: GuardPoint,
        payload: &Value,
        event: &HookEvent,
        verdict: &ForeignVerdict,
    ) -> HookAnswer;

    /// Writes a refusal; `None` for a payload that could not be read.
    fn refuse(&self, point: GuardPoint, payload: Option<&Value>, why: &str) -> HookAnswer;
}

impl dyn AgentFormat {
    /// Writes any verdict.
    pub(crate) fn answer(
        &self,
        point: GuardPoint,
        payload: &Value,
        event: &HookEvent,
        verdict: &ForeignVerdict,
    ) -> HookAnswer {
        match &verdict.refused {
            Some(why) => self.refuse(point, Some(payload), why),
            None => self.write(point, payload, event, verdict),
        }
    }
}

/// Names of the fields in which an agent sends a tool call.
struct CallFields {
    id: &'static str,
    tool: &'static str,
    input: &'static str,
}

/// Input of a call of an agent.
fn input_of<'a>(payload: &'a Value, fields: &CallFields) -> &'a Value {
    payload.get(fields.input).unwrap_or(&Value::Null)
}

/// Returns the agent's arguments with the changes of a verdict; `None` without a change.
///
/// # Errors
/// The change cannot be said in the agent's arguments.
fn changed_input(
    rows: &[ToolRow],
    (payload, fields): (&Value, &CallFields),
    event: &HookEvent,
    verdict: &ForeignVerdict,
) -> Result<Option<Value>, String> {
    let Some(ForeignChange::Arguments(changed)) = &verdict.changed else {
        return Ok(None);
    };
    let HookAct::Call { calls, .. } = &event.act else {
        return Ok(None);
    };
    let [OwnCall { arguments, .. }] = calls.as_slice() else {
        return Err("a plugin changes a part of a call that changes several files".to_owned());
    };
    let tool = payload.get(fields.tool).and_then(Value::as_str);
    Ok(Some(their_input(
        rows,
        tool.unwrap_or_default(),
        input_of(payload, fields),
        (arguments, changed),
        event.folder.as_deref(),
    )))
}

/// Returns the content of a result as a verdict leaves it; `None` without a change.
fn changed_content(verdict: &ForeignVerdict) -> Option<&Parts> {
    match &verdict.changed {
        Some(ForeignChange::Content(content)) => Some(content),
        _ => None,
    }
}

/// Returns the text of a prompt as a verdict leaves it; `None` without a change.
fn changed_prompt(verdict: &ForeignVerdict) -> Option<&str> {
    match &verdict.changed {
        Some(ForeignChange::Prompt(text)) => Some(text),
        _ => None,
    }
}

/// Texts of plugins for the model, as one; `None` without one.
fn joined_notes(verdict: &ForeignVerdict) -> Option<String> {
    (!verdict.notes.is_empty()).then(|| verdict.notes.join("\n"))
}

/// Reads a call that has run.
fn result_act(
    rows: &[ToolRow],
    (id, tool): (String, &str),
    input: &Value,
    result: &Value,
    (is_error, folder): (bool, Option<&Path>),
) -> Result<HookAct, String> {
    Ok(HookAct::Result {
        id,
        call: super::tools::own_call(rows, tool, input, folder)?,
        texts: ResultTexts::find(result)?,
        is_error,
    })
}
