//! Hooks of goose, which can refuse a call but change nothing.
//!
//! goose reads the decision from standard output and treats any other output as a missing decision,
//! so a pass is written explicitly as `allow`.

use rind_lib::host::ForeignVerdict;
use rind_lib::message::EffectClass;
use serde_json::{Value, json};

use super::{AgentFormat, CallFields, input_of, result_act};
use crate::agent::GuardPoint;
use crate::answer::HookAnswer;
use crate::event::{HookAct, HookEvent, folder_of, needed_name};
use crate::tools::{ToolRow, own_call};

/// Hook format of goose.
pub(crate) struct GooseFormat;

const FIELDS: CallFields = CallFields {
    id: "tool_call_id",
    tool: "tool_name",
    input: "tool_input",
};

const ROWS: &[ToolRow] = &[
    ToolRow {
        theirs: "developer__shell",
        own: "bash",
        effect_class: EffectClass::Execute,
        arguments: &[("command", "command"), ("timeout_seconds", "timeout_secs")],
    },
    ToolRow {
        theirs: "developer__write",
        own: "write_file",
        effect_class: EffectClass::Write,
        arguments: &[("path", "path"), ("content", "content")],
    },
    ToolRow {
        theirs: "developer__edit",
        own: "edit_file",
        effect_class: EffectClass::Write,
        arguments: &[
            ("path", "path"),
            ("old_text", "before"),
            ("new_text", "after"),
        ],
    },
    ToolRow {
        theirs: "developer__tree",
        own: "list_files",
        effect_class: EffectClass::Read,
        arguments: &[("path", "path")],
    },
    ToolRow {
        theirs: "developer__read_image",
        own: "read_file",
        effect_class: EffectClass::Read,
        arguments: &[("path", "source")],
    },
];

impl AgentFormat for GooseFormat {
    fn read(&self, point: GuardPoint, payload: &Value) -> Result<HookEvent, String> {
        let folder = folder_of(payload, "working_dir");
        let tool = needed_name(payload, FIELDS.tool)?;
        // goose before 1.48 sends no id.
        let id = match payload.get(FIELDS.id) {
            None | Some(Value::Null) => format!("goose_{}", rind_lib::clock::new_id()),
            Some(_) => needed_name(payload, FIELDS.id)?,
        };
        let input = input_of(payload, &FIELDS);
        let act = match point {
            GuardPoint::PreTool => HookAct::Call {
                id,
                calls: vec![own_call(ROWS, &tool, input, folder.as_deref())?],
            },
            GuardPoint::PostTool => {
                let event = payload.get("event").and_then(Value::as_str);
                let is_error = event == Some("PostToolUseFailure");
                let result = payload.get("tool_output").unwrap_or(&Value::Null);
                result_act(
                    ROWS,
                    (id, &tool),
                    input,
                    result,
                    (is_error, folder.as_deref()),
                )?
            }
            GuardPoint::TurnStart => {
                return Err("goose does not let a hook judge prompts".to_owned());
            }
        };
        Ok(HookEvent {
            session: needed_name(payload, "session_id")?,
            folder,
            act,
        })
    }

    fn write(
        &self,
        point: GuardPoint,
        payload: &Value,
        _: &HookEvent,
        verdict: &ForeignVerdict,
    ) -> HookAnswer {
        match point {
            GuardPoint::PreTool if verdict.changed.is_some() => {
                let why = "a plugin changes the arguments, and a hook of goose cannot; the call was not run";
                self.refuse(point, Some(payload), why)
            }
            GuardPoint::PreTool => HookAnswer::json(&json!({"decision": "allow"})),
            _ => HookAnswer::silent(),
        }
    }

    fn refuse(&self, point: GuardPoint, _: Option<&Value>, why: &str) -> HookAnswer {
        match point {
            GuardPoint::PreTool => HookAnswer::refusal(why),
            // A hook at this event cannot refuse, and goose would only log an exit code other than
            // 0.
            _ => HookAnswer::silent(),
        }
    }
}
