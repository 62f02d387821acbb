//! Defines payloads that are tables, field by field.

use serde_json::{Value, json};

use super::{CaseShape, UnreadFields};
use rind_lib::message::Usage;
use rind_lib::point::contract::types;
use rind_lib::point::outcome::VerdictChange;
use rind_lib::point::payload::{
    Assessment, Decision, FailureReport, ModelRequest, PromptContext, PromptPart, Purpose,
    ReflectVerdict, Reflection, SessionInfo, SkillInfo, Slice, Source, StopReason, SubagentInfo,
    TextDelta, Tier, TurnInput, TurnSummary, UsedTool, WireRequest, WireResponse,
};
use rind_lib::tool::registry::ToolRegistry;

fn owned(text: &str) -> String {
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

/// Implements [`CaseShape`] for structs. Fields without a default are required. Fields after
/// `hidden` are set by the host and cannot be written in a case; those that are also listed after
/// `shown` can be compared.
macro_rules! records {
    ($($record:ty { $($field:ident $(as $name:literal)? $(= $default:expr)?),* $(; hidden $($hidden:ident = $value:expr),*)? $(; shown $($also:ident),*)? })*) => {$(
        impl CaseShape for $record {
            fn read(value: Value, tools: &ToolRegistry) -> Result<Self, String> {
                let mut fields = UnreadFields::fields_of(value, tools)?;
                let record = Self {
                    $($field: field!(fields, $field $(as $name)? $(= $default)?),)*
                    $($($hidden: $value,)*)?
                };
                fields.end_fields()?;
                Ok(record)
            }

            fn show(&self) -> Value {
                json!({
                    $(name!($field $(as $name)?): self.$field.show(),)*
                    $($(stringify!($also): self.$also.show(),)*)?
                })
            }
        }
    )*};
}

records! {
    SessionInfo { id = owned("case"), resumed = false, messages = 0_u32, provider = owned("scripted"), model = owned("test-model") }
    TurnInput { text, source = Source::Terminal }
    Assessment { input, decision = Decision::Direct, confidence = 1.0, reasons = Vec::new() }
    PromptPart { tier = Tier::Stable, key, source = owned("host"), text }
    PromptContext { model = owned("test-model"), tools = Vec::new(), decision = Decision::Direct; hidden parts = Vec::new(); shown parts }
    ModelRequest {
        purpose = Purpose::Step, provider = owned("scripted"), model = owned("test-model"), temperature = None, max_tokens = None,
        tools = Vec::new(), messages = 1_u32, usage = Usage::default().into()
    }
    TextDelta { before = owned(""), text, is_last = false; hidden keep = 0; shown keep }
    WireRequest { provider = owned("scripted"), body }
    WireResponse {
        purpose = Purpose::Step, provider = owned("scripted"), status = 200_u16, latency_ms = 0_u64, usage = Usage::default(), cost_usd = None,
        model = owned("test-model"), body = owned("")
    }
    UsedTool { name, is_error = false }
    Reflection {
        draft, input = owned(""), tools = Vec::new(), criteria = Vec::new(); hidden verdict = VerdictChange::Keep; shown verdict
    }
    ReflectVerdict { draft = owned(""), continue_because = None }
    TurnSummary {
        stop = StopReason::Done, steps = 1_u32, tool_calls = 0_u32, usage = Usage::default(), cost_usd = 0.0,
        unpriced_tokens = 0_u64, duration_ms = 0_u64, output = owned("")
    }
    Slice { reason = owned("token-threshold"), messages = Vec::new(), summary = owned("") }
    SubagentInfo { id = owned("subagent-1"), task, answer = owned(""), is_error = false }
    SkillInfo {
        id, trust = owned("user"), hash = owned(""), by = owned("model"), allow = None, deny = Vec::new(), reason = owned("")
    }
    FailureReport { where_ as "where", message, plugin = None }
    types::Usage {
        input_tokens = 0_u64, output_tokens = 0_u64, cache_read_tokens = 0_u64, cache_write_tokens = 0_u64, estimated = false
    }
}

impl CaseShape for Purpose {
    fn read(value: Value, tools: &ToolRegistry) -> Result<Self, String> {
        if value == "step" {
            return Ok(Self::Step);
        }
        let expected = "expected \"step\", { host = NAME } or { plugin = NAME }";
        let mut fields = UnreadFields::fields_of(value, tools).map_err(|_| expected.to_owned())?;
        let (host, plugin) = (fields.take_field("host")?, fields.take_field("plugin")?);
        fields.end_fields()?;
        match (host, plugin) {
            (Some(name), None) => Ok(Self::Host(name)),
            (None, Some(name)) => Ok(Self::Plugin(name)),
            _ => Err(expected.to_owned()),
        }
    }

    fn show(&self) -> Value {
        match self {
            Self::Step => json!("step"),
            Self::Host(name) => json!({ "host": name }),
            Self::Plugin(name) => json!({ "plugin": name }),
        }
    }
}

impl CaseShape for VerdictChange {
    fn read(_: Value, _: &ToolRegistry) -> Result<Self, String> {
        Err("hooks do not get this field".to_owned())
    }

    fn show(&self) -> Value {
        match self {
            Self::Keep => json!("keep"),
            Self::Done => json!("done"),
            Self::Again(why) => json!({ "again": why }),
        }
    }
}
