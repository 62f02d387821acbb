//! Hooks of OpenCode, called by the module that `install` writes.

use rind_lib::host::ExternalAgentVerdict;
use rind_lib::message::EffectClass;
use serde_json::Value;

use super::AgentFormat;
use super::bridged::{parse_bridge_request, write_bridge_answer, write_bridge_refusal};
use crate::agent::GuardPoint;
use crate::answer::HookAnswer;
use crate::event::{HookEvent, RindToolCall};
use crate::patch::split_patch_into_calls;
use crate::tools::ToolTranslation;

/// Hook format of OpenCode.
pub(crate) struct OpenCodeFormat;

const ROWS: &[ToolTranslation] = &[
    ToolTranslation {
        theirs: "bash",
        own: "bash",
        effect_class: EffectClass::Execute,
        arguments: &[("command", "command")],
    },
    ToolTranslation {
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
    ToolTranslation {
        theirs: "write",
        own: "write_file",
        effect_class: EffectClass::Write,
        arguments: &[("path", "filePath"), ("content", "content")],
    },
    ToolTranslation {
        theirs: "read",
        own: "read_file",
        effect_class: EffectClass::Read,
        arguments: &[
            ("path", "filePath"),
            ("offset", "offset"),
            ("limit", "limit"),
        ],
    },
    ToolTranslation {
        theirs: "glob",
        own: "list_files",
        effect_class: EffectClass::Read,
        arguments: &[("path", "path"), ("glob", "pattern")],
    },
    ToolTranslation {
        theirs: "list",
        own: "list_files",
        effect_class: EffectClass::Read,
        arguments: &[("path", "path")],
    },
    ToolTranslation {
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
const PATCHES: &[&str] = &["apply_patch", "patch"];

fn split_patch_call(
    tool: &str,
    input: &Value,
    event: &HookEvent,
) -> Result<Vec<RindToolCall>, String> {
    if !PATCHES.contains(&tool) {
        return Ok(Vec::new());
    }
    let patch = input.get("patchText").and_then(Value::as_str);
    split_patch_into_calls(patch.unwrap_or_default(), event.folder.as_deref())
}

impl AgentFormat for OpenCodeFormat {
    fn parse_event(&self, point: GuardPoint, payload: &Value) -> Result<HookEvent, String> {
        parse_bridge_request(ROWS, split_patch_call, point, payload)
    }

    fn write_verdict(
        &self,
        point: GuardPoint,
        payload: &Value,
        event: &HookEvent,
        verdict: &ExternalAgentVerdict,
    ) -> HookAnswer {
        write_bridge_answer(ROWS, point, payload, event, verdict)
    }

    fn write_refusal(&self, _: GuardPoint, _: Option<&Value>, why: &str) -> HookAnswer {
        write_bridge_refusal(why)
    }
}
