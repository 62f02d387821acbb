//! Payloads of hooks as cases write and compare them: TOML values with the names of the contract in snake case.
//!
//! Field for field with `wit/payloads.wit`. Fields that a case leaves out get the value of an ordinary turn; those that it
//! misspells are an error. Start from [`Shape`].

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::message::{
    Content, EffectClass, Message, Origin, Parts, Role, ToolCall, ToolResult, Usage,
};
use crate::point::contract::types;
use crate::point::outcome::VerdictChange;
use crate::point::payload::{
    Assessment, Decision, FailureReport, FinishedCall, ModelRequest, PromptContext, PromptPart,
    ProposedCall, Purpose, ReflectVerdict, Reflection, SessionInfo, Slice, Source, StopReason,
    SubagentInfo, TextDelta, Tier, TurnInput, TurnSummary, UsedTool, WireRequest, WireResponse,
};
use crate::tool::registry::ToolRegistry;

/// A value that a case can write, and compare with what became of it.
pub(super) trait Shape: Sized {
    /// Reads it. `tools` are those of the session.
    fn read(value: Value, tools: &ToolRegistry) -> Result<Self, String>;

    /// Reads it as the one at this index of a list.
    fn read_nth(value: Value, _index: usize, tools: &ToolRegistry) -> Result<Self, String> {
        Self::read(value, tools)
    }

    /// Shows it. What only the host sees is shown where hooks can change it.
    fn show(&self) -> Value;

    /// Returns the id of the tool call that it is about.
    fn call_id(&self) -> Option<&str> {
        None
    }
}

fn plain<T: DeserializeOwned>(value: Value) -> Result<T, String> {
    serde_json::from_value(value).map_err(|error| error.to_string())
}

fn shown(value: &impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

macro_rules! plain {
    ($($type:ty),*) => {$(
        impl Shape for $type {
            fn read(value: Value, _: &ToolRegistry) -> Result<Self, String> {
                plain(value)
            }

            fn show(&self) -> Value {
                shown(self)
            }
        }
    )*};
}
plain!(
    bool, u16, u32, u64, usize, f64, Source, Decision, Tier, StopReason, Usage
);

impl Shape for String {
    /// A payload that is a text may be left out.
    fn read(value: Value, _: &ToolRegistry) -> Result<Self, String> {
        if value.is_null() {
            Ok(Self::new())
        } else {
            plain(value)
        }
    }

    fn show(&self) -> Value {
        json!(self)
    }
}

impl<T: Shape> Shape for Option<T> {
    fn read(value: Value, tools: &ToolRegistry) -> Result<Self, String> {
        T::read(value, tools).map(Some)
    }

    fn show(&self) -> Value {
        self.as_ref().map_or(Value::Null, Shape::show)
    }
}

impl<T: Shape> Shape for Vec<T> {
    fn read(value: Value, tools: &ToolRegistry) -> Result<Self, String> {
        let all = match value {
            Value::Null => Vec::new(),
            value => plain::<Vec<Value>>(value)?,
        };
        let read = |(n, value)| T::read_nth(value, n, tools);
        all.into_iter().enumerate().map(read).collect()
    }

    fn show(&self) -> Value {
        self.iter().map(Shape::show).collect()
    }
}

impl<T: Shape> Shape for Arc<T> {
    fn read(value: Value, tools: &ToolRegistry) -> Result<Self, String> {
        T::read(value, tools).map(Self::new)
    }

    fn show(&self) -> Value {
        (**self).show()
    }

    fn call_id(&self) -> Option<&str> {
        (**self).call_id()
    }
}

fn owned(text: &str) -> String {
    text.to_owned()
}

/// Fields of a table that were not read yet.
struct Fields<'a> {
    left: Map<String, Value>,
    known: Vec<&'static str>,
    tools: &'a ToolRegistry,
}

impl<'a> Fields<'a> {
    fn of(value: Value, tools: &'a ToolRegistry) -> Result<Self, String> {
        let left = match value {
            Value::Null => Map::new(),
            Value::Object(fields) => fields,
            other => return Err(format!("expected a table, found {other}")),
        };
        Ok(Self {
            left,
            known: Vec::new(),
            tools,
        })
    }

    fn take<T: Shape>(&mut self, name: &'static str) -> Result<Option<T>, String> {
        self.known.push(name);
        let value = self.left.remove(name);
        let read = value.map(|value| T::read(value, self.tools));
        read.transpose()
            .map_err(|error| format!("`{name}`: {error}"))
    }

    fn value(&mut self, name: &'static str) -> Option<Value> {
        self.known.push(name);
        self.left.remove(name)
    }

    fn end(self) -> Result<(), String> {
        match self.left.keys().next() {
            None => Ok(()),
            Some(name) => Err(format!(
                "unknown field `{name}`; the fields are {}",
                self.known.join(", ")
            )),
        }
    }
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
        $fields.take(name)?.ok_or_else(|| format!("`{name}` is missing"))?
    }};
    ($fields:ident, $field:ident $(as $name:literal)? = $default:expr) => {
        $fields.take(name!($field $(as $name)?))?.unwrap_or_else(|| $default)
    };
}

/// A field without a default is required. `hidden` fields are the host's own; of these, `shown` ones can be compared.
macro_rules! records {
    ($($record:ty { $($field:ident $(as $name:literal)? $(= $default:expr)?),* $(; hidden $($hidden:ident = $value:expr),*)? $(; shown $($also:ident),*)? })*) => {$(
        impl Shape for $record {
            fn read(value: Value, tools: &ToolRegistry) -> Result<Self, String> {
                let mut fields = Fields::of(value, tools)?;
                let record = Self {
                    $($field: field!(fields, $field $(as $name)? $(= $default)?),)*
                    $($($hidden: $value,)*)?
                };
                fields.end()?;
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
        provider = owned("scripted"), status = 200_u16, latency_ms = 0_u64, usage = Usage::default(), cost_usd = None,
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
    FailureReport { where_ as "where", message, plugin = None }
    types::Usage {
        input_tokens = 0_u64, output_tokens = 0_u64, cache_read_tokens = 0_u64, cache_write_tokens = 0_u64, estimated = false
    }
}

impl Shape for Purpose {
    fn read(value: Value, tools: &ToolRegistry) -> Result<Self, String> {
        if value == "step" {
            return Ok(Self::Step);
        }
        let expected = "expected \"step\", { host = NAME } or { plugin = NAME }";
        let mut fields = Fields::of(value, tools).map_err(|_| expected.to_owned())?;
        let (host, plugin) = (fields.take("host")?, fields.take("plugin")?);
        fields.end()?;
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

impl Shape for VerdictChange {
    fn read(_: Value, _: &ToolRegistry) -> Result<Self, String> {
        Err("hooks are not shown this".to_owned())
    }

    fn show(&self) -> Value {
        match self {
            Self::Keep => json!("keep"),
            Self::Done => json!("done"),
            Self::Again(why) => json!({ "again": why }),
        }
    }
}

impl Shape for ToolCall {
    fn read(value: Value, tools: &ToolRegistry) -> Result<Self, String> {
        let mut fields = Fields::of(value, tools)?;
        let id = fields.take("id")?.unwrap_or_else(|| "call-1".to_owned());
        let name: Option<String> = fields.take("name")?;
        let arguments = fields.value("arguments").unwrap_or_else(|| json!({}));
        fields.end()?;
        let name = name.ok_or("`name` of the tool is missing")?;
        Ok(Self::new(id, name, arguments))
    }

    fn show(&self) -> Value {
        shown(self)
    }
}

impl Shape for ToolResult {
    fn read(value: Value, tools: &ToolRegistry) -> Result<Self, String> {
        let mut fields = Fields::of(value, tools)?;
        let call: Option<String> = fields.take("call_id")?;
        let name: Option<String> = fields.take("name")?;
        let content = content(&mut fields)?;
        let is_error = fields.take("is_error")?.unwrap_or(false);
        fields.end()?;
        let call = call.unwrap_or_else(|| "call-1".to_owned());
        let name = name.ok_or("`name` of the tool is missing")?;
        Ok(Self::new(call, name, content, is_error))
    }

    fn show(&self) -> Value {
        shown(self)
    }
}

/// Takes the content of a result: a text, or a list of parts.
fn content(fields: &mut Fields<'_>) -> Result<Parts, String> {
    let content = fields.value("content").unwrap_or_else(|| json!(""));
    plain(content).map_err(|_| "`content`: expected a text or a list of parts".to_owned())
}

impl Shape for ProposedCall {
    /// Effect class and plugin are those of the session's tool of this name, where it has one.
    fn read(value: Value, tools: &ToolRegistry) -> Result<Self, String> {
        let mut fields = Fields::of(value, tools)?;
        let call: Option<ToolCall> = fields.take("call")?;
        let class = fields.value("effect_class");
        let plugin: Option<String> = fields.take("plugin")?;
        fields.end()?;
        let call = call.ok_or("`call` is missing")?;
        let known = tools.get(&call.name);
        let class = class.map(plain::<EffectClass>).transpose();
        let class = class.map_err(|error| format!("`effect_class`: {error}"))?;
        let class = class.or_else(|| known.map(|tool| tool.spec.effect_class));
        let effect_class = class.ok_or_else(|| {
            format!(
                "the host of the case has no tool `{}`: give `effect_class`",
                call.name
            )
        })?;
        let check = known.map(|tool| tool.check.clone());
        Ok(Self {
            effect_class,
            plugin: plugin.or_else(|| known.and_then(|tool| tool.spec.plugin.clone())),
            check: check.unwrap_or_else(|| Arc::new(|_| Ok(()))),
            call,
        })
    }

    fn show(&self) -> Value {
        json!({
            "call": self.call.show(),
            "effect_class": shown(&self.effect_class),
            "plugin": self.plugin,
        })
    }

    fn call_id(&self) -> Option<&str> {
        Some(&self.call.id)
    }
}

impl Shape for FinishedCall {
    /// The content of the result stands beside the call that it answers.
    fn read(value: Value, tools: &ToolRegistry) -> Result<Self, String> {
        let mut fields = Fields::of(value, tools)?;
        let call: Option<ToolCall> = fields.take("call")?;
        let content = content(&mut fields)?;
        let is_error = fields.take("is_error")?.unwrap_or(false);
        let duration_ms = fields.take("duration_ms")?.unwrap_or(0);
        fields.end()?;
        let call = call.ok_or("`call` is missing")?;
        Ok(Self {
            result: call.result(content, is_error),
            call,
            duration_ms,
        })
    }

    fn show(&self) -> Value {
        json!({
            "call": self.call.show(),
            "content": shown(&self.result.content),
            "is_error": self.result.is_error,
            "duration_ms": self.duration_ms,
        })
    }

    fn call_id(&self) -> Option<&str> {
        Some(&self.call.id)
    }
}

/// Whether the host made an id for a message that was added. It is another one in every run and says nothing.
fn is_fresh(id: &str) -> bool {
    id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Reads the messages of a conversation.
pub(super) fn messages<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<Message>, D::Error> {
    let value = Value::deserialize(deserializer)?;
    Vec::read(value, &ToolRegistry::default()).map_err(serde::de::Error::custom)
}

impl Shape for Message {
    fn read(value: Value, tools: &ToolRegistry) -> Result<Self, String> {
        Self::read_nth(value, 0, tools)
    }

    /// Ids are numbers in the list, so that a case can name them and every run has the same.
    fn read_nth(value: Value, index: usize, tools: &ToolRegistry) -> Result<Self, String> {
        let mut fields = Fields::of(value, tools)?;
        let id: Option<String> = fields.take("id")?;
        let role = fields.value("role").map(plain::<Role>).transpose();
        let role = role.map_err(|error| format!("`role`: {error}"))?;
        let text: Option<String> = fields.take("text")?;
        let calls: Vec<ToolCall> = fields.take("tool_calls")?.unwrap_or_default();
        let results: Vec<ToolResult> = fields.take("tool_results")?.unwrap_or_default();
        let plugin = fields.take("plugin")?;
        let origin = fields.value("origin").map(plain::<Origin>).transpose();
        let origin = origin.map_err(|error| format!("`origin`: {error}"))?;
        fields.end()?;
        let text = text.map(Content::text).into_iter();
        let calls = calls.into_iter().map(Content::ToolCall);
        let results = results.into_iter().map(Content::ToolResult);
        Ok(Self {
            id: id.unwrap_or_else(|| format!("message-{}", index + 1)),
            role: role.unwrap_or(Role::Assistant),
            content: text.chain(calls).chain(results).collect(),
            plugin,
            origin,
        })
    }

    fn show(&self) -> Value {
        let calls: Vec<Value> = self.tool_calls().map(Shape::show).collect();
        let results: Vec<Value> = self.tool_results().map(Shape::show).collect();
        let mut fields = Map::new();
        if !is_fresh(&self.id) {
            fields.insert("id".to_owned(), json!(self.id));
        }
        fields.insert("role".to_owned(), shown(&self.role));
        fields.insert("text".to_owned(), json!(self.joined_text()));
        for (name, all) in [("tool_calls", calls), ("tool_results", results)] {
            if !all.is_empty() {
                fields.insert(name.to_owned(), Value::Array(all));
            }
        }
        Value::Object(fields)
    }
}
