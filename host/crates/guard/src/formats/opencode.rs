//! Hooks of OpenCode, called by the module that `install` writes.

use rind_lib::host::VerdictForExternalAgent;
use rind_lib::message::EffectClass;
use serde_json::Value;

use super::AgentFormat;
use super::bridged::{
    parse_agent_module_request, write_agent_module_answer, write_agent_module_refusal,
};
use crate::agent::AgentHookPoint;
use crate::answer::HookAnswer;
use crate::event::{AgentHookEvent, ToolCallWithRindNames};
use crate::patch::split_patch_into_calls;
use crate::tools::AgentToRindToolMapping;

/// Translates between the hook JSON of OpenCode and Rind's events.
pub(crate) struct OpenCodeHookFormat;

const OPENCODE_TOOL_TRANSLATIONS: &[AgentToRindToolMapping] = &[
    AgentToRindToolMapping {
        theirs: "bash",
        own: "bash",
        effect_class: EffectClass::Execute,
        arguments: &[("command", "command")],
    },
    AgentToRindToolMapping {
        theirs: "edit",
        own: "edit_file",
        effect_class: EffectClass::Write,
        arguments: &[
            ("path", "filePath"),
            ("old_text", "oldString"),
            ("new_text", "newString"),
            ("replace_all", "replaceAll"),
        ],
    },
    AgentToRindToolMapping {
        theirs: "write",
        own: "write_file",
        effect_class: EffectClass::Write,
        arguments: &[("path", "filePath"), ("content", "content")],
    },
    AgentToRindToolMapping {
        theirs: "read",
        own: "read_file",
        effect_class: EffectClass::Read,
        arguments: &[
            ("path", "filePath"),
            ("offset", "offset"),
            ("limit", "limit"),
        ],
    },
    AgentToRindToolMapping {
        theirs: "glob",
        own: "list_files",
        effect_class: EffectClass::Read,
        arguments: &[("path", "path"), ("glob", "pattern")],
    },
    AgentToRindToolMapping {
        theirs: "list",
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
            ("glob", "include"),
        ],
    },
];

/// Tools whose argument `patchText` is a patch, which may change several files.
const PATCH_TOOL_NAMES: &[&str] = &["apply_patch", "patch"];

fn split_patch_call(
    tool: &str,
    input: &Value,
    event: &AgentHookEvent,
) -> Result<Vec<ToolCallWithRindNames>, String> {
    if !PATCH_TOOL_NAMES.contains(&tool) {
        return Ok(Vec::new());
    }
    let patch = input.get("patchText").and_then(Value::as_str);
    split_patch_into_calls(patch.unwrap_or_default(), event.folder.as_deref())
}

impl AgentFormat for OpenCodeHookFormat {
    fn parse_event(
        &self,
        point: AgentHookPoint,
        payload: &Value,
    ) -> Result<AgentHookEvent, String> {
        parse_agent_module_request(OPENCODE_TOOL_TRANSLATIONS, split_patch_call, point, payload)
    }

    fn write_verdict(
        &self,
        point: AgentHookPoint,
        payload: &Value,
        event: &AgentHookEvent,
        verdict: &VerdictForExternalAgent,
    ) -> HookAnswer {
        write_agent_module_answer(OPENCODE_TOOL_TRANSLATIONS, point, payload, event, verdict)
    }

    fn write_refusal(&self, _: AgentHookPoint, _: Option<&Value>, why: &str) -> HookAnswer {
        write_agent_module_refusal(why)
    }
}
