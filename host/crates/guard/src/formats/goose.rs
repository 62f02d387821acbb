//! Hooks of goose, which can refuse a call but change nothing.
//!
//! goose reads the decision from standard output and treats any other output as a missing decision,
//! so the answer for a call that may run is an explicit `allow`.

use rind_lib::host::VerdictForExternalAgent;
use rind_lib::message::EffectClass;
use serde_json::{Value, json};

use super::{AgentFormat, HookCallFields, call_arguments, tool_result_event};
use crate::agent::AgentHookPoint;
use crate::answer::HookAnswer;
use crate::event::{
    AgentHookEvent, AgentHookEventKind, absolute_folder_field, required_id_or_tool_name,
};
use crate::tools::{AgentToRindToolMapping, to_rind_call};

/// Translates between the hook JSON of goose and Rind's events.
pub(crate) struct GooseHookFormat;

const GOOSE_TOOL_CALL_FIELDS: HookCallFields = HookCallFields {
    id: "tool_call_id",
    tool: "tool_name",
    input: "tool_input",
};

const GOOSE_TOOL_TRANSLATIONS: &[AgentToRindToolMapping] = &[
    AgentToRindToolMapping {
        theirs: "developer__shell",
        own: "bash",
        effect_class: EffectClass::Execute,
        arguments: &[("command", "command"), ("timeout_seconds", "timeout_secs")],
    },
    AgentToRindToolMapping {
        theirs: "developer__write",
        own: "write_file",
        effect_class: EffectClass::Write,
        arguments: &[("path", "path"), ("content", "content")],
    },
    AgentToRindToolMapping {
        theirs: "developer__edit",
        own: "edit_file",
        effect_class: EffectClass::Write,
        arguments: &[
            ("path", "path"),
            ("old_text", "before"),
            ("new_text", "after"),
        ],
    },
    AgentToRindToolMapping {
        theirs: "developer__tree",
        own: "list_files",
        effect_class: EffectClass::Read,
        arguments: &[("path", "path")],
    },
    AgentToRindToolMapping {
        theirs: "developer__read_image",
        own: "read_file",
        effect_class: EffectClass::Read,
        arguments: &[("path", "source")],
    },
];

impl AgentFormat for GooseHookFormat {
    fn parse_event(
        &self,
        point: AgentHookPoint,
        payload: &Value,
    ) -> Result<AgentHookEvent, String> {
        let folder = absolute_folder_field(payload, "working_dir");
        let tool = required_id_or_tool_name(payload, GOOSE_TOOL_CALL_FIELDS.tool)?;
        // goose before 1.48 sends no id.
        let id = match payload.get(GOOSE_TOOL_CALL_FIELDS.id) {
            None | Some(Value::Null) => format!("goose_{}", rind_lib::clock::new_uuid_v7()),
            Some(_) => required_id_or_tool_name(payload, GOOSE_TOOL_CALL_FIELDS.id)?,
        };
        let input = call_arguments(payload, &GOOSE_TOOL_CALL_FIELDS);
        let act = match point {
            AgentHookPoint::PreTool => AgentHookEventKind::Call {
                id,
                calls: vec![to_rind_call(
                    GOOSE_TOOL_TRANSLATIONS,
                    &tool,
                    input,
                    folder.as_deref(),
                )?],
            },
            AgentHookPoint::PostTool => {
                let event = payload.get("event").and_then(Value::as_str);
                let is_error = event == Some("PostToolUseFailure");
                let result = payload.get("tool_output").unwrap_or(&Value::Null);
                tool_result_event(
                    GOOSE_TOOL_TRANSLATIONS,
                    (id, &tool),
                    input,
                    result,
                    (is_error, folder.as_deref()),
                )?
            }
            AgentHookPoint::TurnStart => {
                return Err("goose does not let a hook judge prompts".to_owned());
            }
        };
        Ok(AgentHookEvent {
            session: required_id_or_tool_name(payload, "session_id")?,
            folder,
            act,
        })
    }

    fn write_verdict(
        &self,
        point: AgentHookPoint,
        payload: &Value,
        _: &AgentHookEvent,
        verdict: &VerdictForExternalAgent,
    ) -> HookAnswer {
        match point {
            AgentHookPoint::PreTool if verdict.changed.is_some() => {
                let why = "a plugin changes the arguments, and a hook of goose cannot; the call was not run";
                self.write_refusal(point, Some(payload), why)
            }
            AgentHookPoint::PreTool => HookAnswer::from_json(&json!({"decision": "allow"})),
            _ => HookAnswer::empty_answer(),
        }
    }

    fn write_refusal(&self, point: AgentHookPoint, _: Option<&Value>, why: &str) -> HookAnswer {
        match point {
            AgentHookPoint::PreTool => HookAnswer::from_refusal_reason(why),
            // A hook at this event cannot refuse: goose only logs an exit code other than 0.
            _ => HookAnswer::empty_answer(),
        }
    }
}
