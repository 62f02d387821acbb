//! Represents the hook events of all agents in one type, with Rind's names of tools and arguments.

use std::path::PathBuf;

use rind_lib::message::EffectClass;
use serde_json::Value;

use super::agent::{AgentHookPoint, GuardedAgent};
use super::result::ToolResultTextsWithPaths;

/// Maximum size of the payload that an agent sends to its hook, in bytes.
pub(crate) const MAX_HOOK_PAYLOAD_BYTES: usize = 16 << 20;

/// Maximum length of ids and tool names, in bytes.
const MAX_ID_OR_TOOL_NAME_BYTES: usize = 256;

/// Event for which another agent runs Rind's hook: a tool call, its result or a prompt.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AgentHookEvent {
    /// Id that the agent gave its session.
    pub(crate) session: String,
    /// Folder that the agent works in, if the hook reports it.
    pub(crate) folder: Option<PathBuf>,
    /// Call, result or prompt that the event is about.
    pub(crate) act: AgentHookEventKind,
}

/// Call, result or prompt that a hook event is about.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum AgentHookEventKind {
    /// Tool call that the agent is about to run.
    Call {
        id: String,
        /// The call with Rind's tool and argument names; several if one call of the agent changes
        /// several files.
        calls: Vec<ToolCallWithRindNames>,
    },
    /// Tool call that the agent has run, with its result.
    Result {
        id: String,
        call: ToolCallWithRindNames,
        texts: ToolResultTextsWithPaths,
        is_error: bool,
    },
    /// Prompt that the user sent to the agent.
    Prompt(String),
}

/// Tool call of an agent, with Rind's names of tool and arguments if Rind has an equivalent tool.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ToolCallWithRindNames {
    pub(crate) tool: String,
    pub(crate) arguments: Value,
    pub(crate) effect_class: EffectClass,
}

/// Error for a hook payload from an agent that cannot be judged.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct InvalidHookPayloadError {
    /// Reason why the payload cannot be judged, as a sentence.
    pub(crate) why: String,
    /// JSON object that was sent, on which the form of the refusal may depend; `None` if the
    /// payload is not a JSON object.
    pub(crate) payload: Option<Value>,
}

/// Parses the payload that an agent has sent to its hook.
///
/// # Errors
/// The payload is too large, is not a JSON object, or lacks a field that the point needs.
pub(crate) fn parse_hook_payload(
    agent: GuardedAgent,
    point: AgentHookPoint,
    bytes: &[u8],
) -> Result<(Value, AgentHookEvent), InvalidHookPayloadError> {
    let title = agent.hook_table().title;
    let unread = |why| InvalidHookPayloadError { why, payload: None };
    if bytes.len() > MAX_HOOK_PAYLOAD_BYTES {
        let n_bytes = bytes.len();
        return Err(unread(format!(
            "{title} sent {n_bytes} bytes to the hook, at most {MAX_HOOK_PAYLOAD_BYTES} are read"
        )));
    }
    let payload: Value = serde_json::from_slice(bytes).map_err(|error| {
        unread(format!(
            "the input of the hook of {title} is not valid JSON: {error}"
        ))
    })?;
    if !payload.is_object() {
        let why = format!("the input of the hook of {title} is not a JSON object");
        return Err(unread(why));
    }
    match agent.hook_format().parse_event(point, &payload) {
        Ok(event) => Ok((payload, event)),
        Err(why) => Err(InvalidHookPayloadError {
            why,
            payload: Some(payload),
        }),
    }
}

/// Returns the text in a required field of the hook's payload.
pub(crate) fn required_text_field<'a>(payload: &'a Value, key: &str) -> Result<&'a str, String> {
    let text = payload.get(key).and_then(Value::as_str);
    text.filter(|text| !text.is_empty())
        .ok_or_else(|| format!("`{key}` is missing in the input of the hook"))
}

/// Returns a required field of the hook payload; the error names a missing field.
pub(crate) fn required_value<'a>(payload: &'a Value, key: &str) -> Result<&'a Value, String> {
    payload
        .get(key)
        .ok_or_else(|| format!("`{key}` is missing in the input of the hook"))
}

/// Returns a required short text field of the payload: an id, or the name of a tool.
pub(crate) fn required_id_or_tool_name(payload: &Value, key: &str) -> Result<String, String> {
    let name = required_text_field(payload, key)?;
    if name.len() > MAX_ID_OR_TOOL_NAME_BYTES || name.chars().any(char::is_control) {
        return Err(format!(
            "`{key}` is longer than {MAX_ID_OR_TOOL_NAME_BYTES} bytes or has control characters"
        ));
    }
    Ok(name.to_owned())
}

/// Returns the folder in a field of the payload, if its path is absolute.
pub(crate) fn absolute_folder_field(payload: &Value, key: &str) -> Option<PathBuf> {
    let folder = payload.get(key).and_then(Value::as_str).map(PathBuf::from);
    folder.filter(|folder| folder.is_absolute())
}
