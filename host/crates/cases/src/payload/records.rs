//! Defines, field by field, how test cases write the payloads that are tables.

use serde_json::{Value, json};

use super::{CasePayload, UnreadTableFields};
use rind_lib::message::Usage;
use rind_lib::point::contract::types;
use rind_lib::point::outcome::VerdictChange;
use rind_lib::point::payload::{
    Assessment, Decision, FailureReport, ModelRequest, PromptContext, PromptPart, Purpose,
    ReflectVerdict, Reflection, SessionInfo, SkillInfo, Slice, Source, StopReason, SubagentInfo,
    TextDelta, Tier, TurnInput, TurnSummary, UsedTool, WireRequest, WireResponse,
};
use rind_lib::tool::registry::ToolRegistry;

fn to_owned_text(text: &str) -> String {
    text.to_owned()
}

macro_rules! name {
    ($field:ident) => {
        stringify!($field)
    };
    ($field:ident as $name:literal) => {
        $name
    };
}

macro_rules! field {
    ($fields:ident, $field:ident $(as $name:literal)?) => {{
        let name = name!($field $(as $name)?);
        $fields.take_field(name)?.ok_or_else(|| format!("`{name}` is missing"))?
    }};
    ($fields:ident, $field:ident $(as $name:literal)? = $default:expr) => {
        $fields.take_field(name!($field $(as $name)?))?.unwrap_or_else(|| $default)
    };
}

/// Implements [`CasePayload`] for structs. Fields without a default are required. Fields after
/// `hidden` are set by the host: a case cannot write them. A case can compare those of them that
/// are also listed after `shown`.
macro_rules! records {
    ($($record:ty { $($field:ident $(as $name:literal)? $(= $default:expr)?),* $(; hidden $($hidden:ident = $value:expr),*)? $(; shown $($also:ident),*)? })*) => {$(
        impl CasePayload for $record {
            fn from_case_value(value: Value, tools: &ToolRegistry) -> Result<Self, String> {
                let mut fields = UnreadTableFields::from_table(value, tools)?;
                let record = Self {
                    $($field: field!(fields, $field $(as $name)? $(= $default)?),)*
                    $($($hidden: $value,)*)?
                };
                fields.reject_unknown_fields()?;
                Ok(record)
            }

            fn to_case_value(&self) -> Value {
                json!({
                    $(name!($field $(as $name)?): self.$field.to_case_value(),)*
                    $($(stringify!($also): self.$also.to_case_value(),)*)?
                })
            }
        }
    )*};
}

records! {
    SessionInfo { id = to_owned_text("case"), resumed = false, messages = 0_u32, provider = to_owned_text("scripted"), model = to_owned_text("test-model") }
    TurnInput { text, source = Source::Terminal }
    Assessment { input, decision = Decision::Direct, confidence = 1.0, reasons = Vec::new() }
    PromptPart { tier = Tier::Stable, key, source = to_owned_text("host"), text }
    PromptContext { model = to_owned_text("test-model"), tools = Vec::new(), decision = Decision::Direct; hidden parts = Vec::new(); shown parts }
    ModelRequest {
        purpose = Purpose::Step, provider = to_owned_text("scripted"), model = to_owned_text("test-model"), temperature = None, max_tokens = None,
        tools = Vec::new(), messages = 1_u32, usage = Usage::default().into()
    }
    TextDelta { before = to_owned_text(""), text, is_last = false; hidden keep = 0; shown keep }
    WireRequest { provider = to_owned_text("scripted"), body }
    WireResponse {
        purpose = Purpose::Step, provider = to_owned_text("scripted"), status = 200_u16, latency_ms = 0_u64, usage = Usage::default(), cost_usd = None,
        model = to_owned_text("test-model"), body = to_owned_text("")
    }
    UsedTool { name, is_error = false }
    Reflection {
        draft, input = to_owned_text(""), tools = Vec::new(), criteria = Vec::new(); hidden verdict = VerdictChange::Keep; shown verdict
    }
    ReflectVerdict { draft = to_owned_text(""), continue_because = None }
    TurnSummary {
        stop = StopReason::Done, steps = 1_u32, tool_calls = 0_u32, usage = Usage::default(), cost_usd = 0.0,
        unpriced_tokens = 0_u64, duration_ms = 0_u64, output = to_owned_text("")
    }
    Slice { reason = to_owned_text("token-threshold"), messages = Vec::new(), summary = to_owned_text("") }
    SubagentInfo { id = to_owned_text("subagent-1"), task, answer = to_owned_text(""), is_error = false }
    SkillInfo {
        id, trust = to_owned_text("user"), hash = to_owned_text(""), by = to_owned_text("model"), allow = None, deny = Vec::new(), reason = to_owned_text("")
    }
    FailureReport { where_ as "where", message, plugin = None }
    types::Usage {
        input_tokens = 0_u64, output_tokens = 0_u64, cache_read_tokens = 0_u64, cache_write_tokens = 0_u64, estimated = false
    }
}

impl CasePayload for Purpose {
    fn from_case_value(value: Value, tools: &ToolRegistry) -> Result<Self, String> {
        if value == "step" {
            return Ok(Self::Step);
        }
        let expected = "expected \"step\", { host = NAME } or { plugin = NAME }";
        let mut fields =
            UnreadTableFields::from_table(value, tools).map_err(|_| expected.to_owned())?;
        let (host, plugin) = (fields.take_field("host")?, fields.take_field("plugin")?);
        fields.reject_unknown_fields()?;
        match (host, plugin) {
            (Some(name), None) => Ok(Self::Host(name)),
            (None, Some(name)) => Ok(Self::Plugin(name)),
            _ => Err(expected.to_owned()),
        }
    }

    fn to_case_value(&self) -> Value {
        match self {
            Self::Step => json!("step"),
            Self::Host(name) => json!({ "host": name }),
            Self::Plugin(name) => json!({ "plugin": name }),
        }
    }
}

impl CasePayload for VerdictChange {
    fn from_case_value(_: Value, _: &ToolRegistry) -> Result<Self, String> {
        Err("hooks do not get this field".to_owned())
    }

    fn to_case_value(&self) -> Value {
        match self {
            Self::Keep => json!("keep"),
            Self::Done => json!("done"),
            Self::Again(why) => json!({ "again": why }),
        }
    }
}
