//! Hooks of OpenCode, called by the module that `install` writes.

use rind_lib::host::ForeignVerdict;
use rind_lib::message::EffectClass;
use serde_json::Value;

use super::AgentFormat;
use super::bridged::{read_bridged, refuse_bridged, write_bridged};
use crate::agent::GuardPoint;
use crate::answer::HookAnswer;
use crate::event::{HookEvent, OwnCall};
use crate::patch::patch_calls;
use crate::tools::ToolRow;

/// Hook format of OpenCode.
pub(crate) struct OpenCodeFormat;

const ROWS: &[ToolRow] = &[
    ToolRow {
        theirs: "bash",
        own: "bash",
        effect_class: EffectClass::Execute,
        arguments: &[("command", "command")],
    },
    ToolRow {
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
    ToolRow {
        theirs: "write",
        own: "write_file",
        effect_class: EffectClass::Write,
        arguments: &[("path", "filePath"), ("content", "content")],
    },
    ToolRow {
        theirs: "read",
        own: "read_file",
        effect_class: EffectClass::Read,
        arguments: &[
            ("path", "filePath"),
            ("offset", "offset"),
            ("limit", "limit"),
        ],
    },
    ToolRow {
        theirs: "glob",
        own: "list_files",
        effect_class: EffectClass::Read,
        arguments: &[("path", "path"), ("glob", "pattern")],
    },
    ToolRow {
        theirs: "list",
        own: "list_files",
        effect_class: EffectClass::Read,
        arguments: &[("path", "path")],
    },
    ToolRow {
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

fn split_call(tool: &str, input: &Value, event: &HookEvent) -> Result<Vec<OwnCall>, String> {
    if !PATCHES.contains(&tool) {
        return Ok(Vec::new());
    }
    let patch = input.get("patchText").and_then(Value::as_str);
    patch_calls(patch.unwrap_or_default(), event.folder.as_deref())
}

impl AgentFormat for OpenCodeFormat {
    fn read(&self, point: GuardPoint, payload: &Value) -> Result<HookEvent, String> {
        read_bridged(ROWS, split_call, point, payload)
    }

    fn write(
        &self,
        point: GuardPoint,
        payload: &Value,
        event: &HookEvent,
        verdict: &ForeignVerdict,
    ) -> HookAnswer {
        write_bridged(ROWS, point, payload, event, verdict)
    }

    fn refuse(&self, _: GuardPoint, _: Option<&Value>, why: &str) -> HookAnswer {
        refuse_bridged(why)
    }
}
