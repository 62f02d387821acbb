//! Parses the requests of the coding agent pi. The extension that `rind guard install` writes for
//! pi sends them.

use rind_lib::host::VerdictForExternalAgent;
use rind_lib::message::EffectClass;
use serde_json::{Value, json};

use super::AgentFormat;
use super::bridged::{
    parse_agent_module_request, write_agent_module_answer, write_agent_module_refusal,
};
use crate::agent::AgentHookPoint;
use crate::answer::HookAnswer;
use crate::event::{AgentHookEvent, ToolCallWithRindNames};
use crate::tools::{AgentToRindToolMapping, to_workspace_relative_path};

/// Translates between the hook JSON of pi and Rind's events.
pub(crate) struct PiHookFormat;

const PI_TOOL_TRANSLATIONS: &[AgentToRindToolMapping] = &[
    AgentToRindToolMapping {
        theirs: "bash",
        own: "bash",
        effect_class: EffectClass::Execute,
        arguments: &[("command", "command"), ("timeout_seconds", "timeout")],
    },
    AgentToRindToolMapping {
        theirs: "edit",
        own: "edit_file",
        effect_class: EffectClass::Write,
        arguments: &[
            ("path", "path"),
            ("old_text", "oldText"),
            ("new_text", "newText"),
        ],
    },
    AgentToRindToolMapping {
        theirs: "write",
        own: "write_file",
        effect_class: EffectClass::Write,
        arguments: &[("path", "path"), ("content", "content")],
    },
    AgentToRindToolMapping {
        theirs: "read",
        own: "read_file",
        effect_class: EffectClass::Read,
        arguments: &[("path", "path"), ("offset", "offset"), ("limit", "limit")],
    },
    AgentToRindToolMapping {
        theirs: "find",
        own: "list_files",
        effect_class: EffectClass::Read,
        arguments: &[("path", "path"), ("glob", "pattern")],
    },
    AgentToRindToolMapping {
        theirs: "ls",
        own: "list_files",
        effect_class: EffectClass::Read,
        arguments: &[("path", "path")],
    },
    AgentToRindToolMapping {
        theirs: "grep",
        own: "search",
        effect_class: EffectClass::Read,
        arguments: &[
            ("path", "path"),
            ("pattern", "pattern"),
            ("glob", "glob"),
            ("context", "context"),
        ],
    },
];

/// Maximum number of text replacements in one call of an edit tool.
const MAX_EDITS_PER_CALL: usize = 200;

/// Splits an edit call with several replacements into one call per replacement.
fn split_edit_into_replacements(
    tool: &str,
    input: &Value,
    event: &AgentHookEvent,
) -> Result<Vec<ToolCallWithRindNames>, String> {
    let edits = input.get("edits").and_then(Value::as_array);
    let path = input.get("path").and_then(Value::as_str);
    let (Some(edits), Some(path), "edit") = (edits, path, tool) else {
        return Ok(Vec::new());
    };
    if edits.len() > MAX_EDITS_PER_CALL {
        let n_edits = edits.len();
        return Err(format!(
            "the call has {n_edits} replacements, at most {MAX_EDITS_PER_CALL} are judged"
        ));
    }
    let path = to_workspace_relative_path(path, event.folder.as_deref());
    let call = |edit: &Value| ToolCallWithRindNames {
        tool: "edit_file".to_owned(),
        arguments: json!({
            "path": path,
            "old_text": edit.get("oldText").cloned().unwrap_or_default(),
            "new_text": edit.get("newText").cloned().unwrap_or_default(),
        }),
        effect_class: EffectClass::Write,
    };
    Ok(edits.iter().map(call).collect())
}

impl AgentFormat for PiHookFormat {
    fn parse_event(
        &self,
        point: AgentHookPoint,
        payload: &Value,
    ) -> Result<AgentHookEvent, String> {
        parse_agent_module_request(
            PI_TOOL_TRANSLATIONS,
            split_edit_into_replacements,
            point,
            payload,
        )
    }

    fn write_verdict(
        &self,
        point: AgentHookPoint,
        payload: &Value,
        event: &AgentHookEvent,
        verdict: &VerdictForExternalAgent,
    ) -> HookAnswer {
        write_agent_module_answer(PI_TOOL_TRANSLATIONS, point, payload, event, verdict)
    }

    fn write_refusal(&self, _: AgentHookPoint, _: Option<&Value>, why: &str) -> HookAnswer {
        write_agent_module_refusal(why)
    }
}
