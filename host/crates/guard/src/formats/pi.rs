//! Parses the requests of the coding agent pi. The extension that `rind guard install` writes for
//! pi sends them.

use rind_lib::host::ExternalAgentVerdict;
use rind_lib::message::EffectClass;
use serde_json::{Value, json};

use super::AgentFormat;
use super::bridged::{parse_bridge_request, write_bridge_answer, write_bridge_refusal};
use crate::agent::GuardPoint;
use crate::answer::HookAnswer;
use crate::event::{HookEvent, RindToolCall};
use crate::tools::{ToolTranslation, to_rind_path};

/// Hook format of pi.
pub(crate) struct PiFormat;

const ROWS: &[ToolTranslation] = &[
    ToolTranslation {
        theirs: "bash",
        own: "bash",
        effect_class: EffectClass::Execute,
        arguments: &[("command", "command"), ("timeout_seconds", "timeout")],
    },
    ToolTranslation {
        theirs: "edit",
        own: "edit_file",
        effect_class: EffectClass::Write,
        arguments: &[
            ("path", "path"),
            ("old_text", "oldText"),
            ("new_text", "newText"),
        ],
    },
    ToolTranslation {
        theirs: "write",
        own: "write_file",
        effect_class: EffectClass::Write,
        arguments: &[("path", "path"), ("content", "content")],
    },
    ToolTranslation {
        theirs: "read",
        own: "read_file",
        effect_class: EffectClass::Read,
        arguments: &[("path", "path"), ("offset", "offset"), ("limit", "limit")],
    },
    ToolTranslation {
        theirs: "find",
        own: "list_files",
        effect_class: EffectClass::Read,
        arguments: &[("path", "path"), ("glob", "pattern")],
    },
    ToolTranslation {
        theirs: "ls",
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
            ("glob", "glob"),
            ("context", "context"),
        ],
    },
];

/// Maximum number of replacements in one edit call.
const MAX_EDITS: usize = 200;

/// Splits an edit call with several replacements into one call per replacement.
fn split_edit_call(
    tool: &str,
    input: &Value,
    event: &HookEvent,
) -> Result<Vec<RindToolCall>, String> {
    let edits = input.get("edits").and_then(Value::as_array);
    let path = input.get("path").and_then(Value::as_str);
    let (Some(edits), Some(path), "edit") = (edits, path, tool) else {
        return Ok(Vec::new());
    };
    if edits.len() > MAX_EDITS {
        let n_edits = edits.len();
        return Err(format!(
            "the call has {n_edits} replacements, at most {MAX_EDITS} are judged"
        ));
    }
    let path = to_rind_path(path, event.folder.as_deref());
    let call = |edit: &Value| RindToolCall {
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

impl AgentFormat for PiFormat {
    fn parse_event(&self, point: GuardPoint, payload: &Value) -> Result<HookEvent, String> {
        parse_bridge_request(ROWS, split_edit_call, point, payload)
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
