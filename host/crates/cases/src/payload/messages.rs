//! Converts messages, tool calls and their results between the form in test cases and the host's
//! types.
//!
//! A message without an id gets one from its index, so that cases can refer to it and snapshots do
//! not change between runs.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{CaseConvertiblePayload, CaseTableReader, deserialize_json_value, serialize_value};
use rind_lib::message::{Content, EffectClass, Message, Origin, Parts, Role, ToolCall, ToolResult};
use rind_lib::point::payload::{FinishedCall, ProposedCall};
use rind_lib::tool::registry::ToolRegistry;

impl CaseConvertiblePayload for ToolCall {
    fn from_case_value(value: Value, tools: &ToolRegistry) -> Result<Self, String> {
        let mut fields = CaseTableReader::from_table(value, tools)?;
        let id = fields
            .take_field("id")?
            .unwrap_or_else(|| "call-1".to_owned());
        let name: Option<String> = fields.take_field("name")?;
        let arguments = fields.take_value("arguments").unwrap_or_else(|| json!({}));
        fields.reject_unknown_fields()?;
        let name = name.ok_or("`name` of the tool is missing")?;
        Ok(Self::new(id, name, arguments))
    }

    fn to_comparable_value(&self) -> Value {
        serialize_value(self)
    }
}

impl CaseConvertiblePayload for ToolResult {
    fn from_case_value(value: Value, tools: &ToolRegistry) -> Result<Self, String> {
        let mut fields = CaseTableReader::from_table(value, tools)?;
        let call: Option<String> = fields.take_field("call_id")?;
        let name: Option<String> = fields.take_field("name")?;
        let content = read_tool_result_content(&mut fields)?;
        let is_error = fields.take_field("is_error")?.unwrap_or(false);
        fields.reject_unknown_fields()?;
        let call = call.unwrap_or_else(|| "call-1".to_owned());
        let name = name.ok_or("`name` of the tool is missing")?;
        Ok(Self::new(call, name, content, is_error))
    }

    fn to_comparable_value(&self) -> Value {
        serialize_value(self)
    }
}

/// Reads the content of a tool result: a text, or a list of parts.
fn read_tool_result_content(fields: &mut CaseTableReader<'_>) -> Result<Parts, String> {
    let content = fields.take_value("content").unwrap_or_else(|| json!(""));
    deserialize_json_value(content)
        .map_err(|_| "`content`: expected a text or a list of parts".to_owned())
}

impl CaseConvertiblePayload for ProposedCall {
    /// Reads a tool call from a test case. If its effect class or plugin is absent, that of the
    /// session's tool with the same name is used.
    fn from_case_value(value: Value, tools: &ToolRegistry) -> Result<Self, String> {
        let mut fields = CaseTableReader::from_table(value, tools)?;
        let call: Option<ToolCall> = fields.take_field("call")?;
        let class = fields.take_value("effect_class");
        let plugin: Option<String> = fields.take_field("plugin")?;
        fields.reject_unknown_fields()?;
        let call = call.ok_or("`call` is missing")?;
        let known = tools.get(&call.name);
        let class = class.map(deserialize_json_value::<EffectClass>).transpose();
        let class = class.map_err(|error| format!("`effect_class`: {error}"))?;
        let class = class.or_else(|| known.map(|tool| tool.spec.effect_class));
        let effect_class = class.ok_or_else(|| {
            format!(
                "the host of the case has no tool `{}`: state the class of its effects as `effect_class`",
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

    fn to_comparable_value(&self) -> Value {
        json!({
            "call": self.call.to_comparable_value(),
            "effect_class": serialize_value(&self.effect_class),
            "plugin": self.plugin,
        })
    }

    fn call_id(&self) -> Option<&str> {
        Some(&self.call.id)
    }
}

impl CaseConvertiblePayload for FinishedCall {
    /// Reads a finished call from one table, which has the content of the result next to the field
    /// `call`.
    fn from_case_value(value: Value, tools: &ToolRegistry) -> Result<Self, String> {
        let mut fields = CaseTableReader::from_table(value, tools)?;
        let call: Option<ToolCall> = fields.take_field("call")?;
        let content = read_tool_result_content(&mut fields)?;
        let is_error = fields.take_field("is_error")?.unwrap_or(false);
        let is_refused = fields.take_field("is_refused")?.unwrap_or(false);
        let duration_ms = fields.take_field("duration_ms")?.unwrap_or(0);
        let plugin = fields.take_field("plugin")?;
        fields.reject_unknown_fields()?;
        let call = call.ok_or("`call` is missing")?;
        Ok(Self {
            result: call.create_result(content, is_error),
            call,
            is_refused,
            duration_ms,
            plugin,
        })
    }

    fn to_comparable_value(&self) -> Value {
        json!({
            "call": self.call.to_comparable_value(),
            "content": serialize_value(&self.result.content),
            "is_error": self.result.is_error,
            "is_refused": self.is_refused,
            "duration_ms": self.duration_ms,
            "plugin": self.plugin,
        })
    }

    fn call_id(&self) -> Option<&str> {
        Some(&self.call.id)
    }
}

/// Whether an id was generated by the host, for a message that a hook added. Such ids differ in
/// every run, so they are not compared.
fn is_generated_message_id(id: &str) -> bool {
    id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Deserializes the messages of a conversation in a test case.
pub(in super::super) fn deserialize_messages<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<Message>, D::Error> {
    let value = Value::deserialize(deserializer)?;
    Vec::from_case_value(value, &ToolRegistry::default()).map_err(serde::de::Error::custom)
}

impl CaseConvertiblePayload for Message {
    fn from_case_value(value: Value, tools: &ToolRegistry) -> Result<Self, String> {
        Self::from_case_list_item(value, 0, tools)
    }

    /// Reads a message. Its index in the list determines its default id, so that cases can refer to
    /// the message and the id is the same in every run.
    fn from_case_list_item(
        value: Value,
        index: usize,
        tools: &ToolRegistry,
    ) -> Result<Self, String> {
        let mut fields = CaseTableReader::from_table(value, tools)?;
        let id: Option<String> = fields.take_field("id")?;
        let role = fields
            .take_value("role")
            .map(deserialize_json_value::<Role>)
            .transpose();
        let role = role.map_err(|error| format!("`role`: {error}"))?;
        let text: Option<String> = fields.take_field("text")?;
        let calls: Vec<ToolCall> = fields.take_field("tool_calls")?.unwrap_or_default();
        let results: Vec<ToolResult> = fields.take_field("tool_results")?.unwrap_or_default();
        let plugin = fields.take_field("plugin")?;
        let origin = fields
            .take_value("origin")
            .map(deserialize_json_value::<Origin>)
            .transpose();
        let origin = origin.map_err(|error| format!("`origin`: {error}"))?;
        fields.reject_unknown_fields()?;
        let text = text.map(Content::from_text).into_iter();
        let calls = calls.into_iter().map(Content::ToolCall);
        let results = results.into_iter().map(Content::ToolResult);
        Ok(Self {
            id: id.unwrap_or_else(|| format!("message-{}", index + 1)),
            plugin,
            origin,
            ..Self::new(
                role.unwrap_or(Role::Assistant),
                text.chain(calls).chain(results).collect(),
            )
        })
    }

    fn to_comparable_value(&self) -> Value {
        let calls: Vec<Value> = self
            .tool_calls()
            .map(CaseConvertiblePayload::to_comparable_value)
            .collect();
        let results: Vec<Value> = self
            .tool_results()
            .map(CaseConvertiblePayload::to_comparable_value)
            .collect();
        let mut fields = Map::new();
        if !is_generated_message_id(&self.id) {
            fields.insert("id".to_owned(), json!(self.id));
        }
        fields.insert("role".to_owned(), serialize_value(&self.role));
        fields.insert("text".to_owned(), json!(self.joined_text()));
        for (name, all) in [("tool_calls", calls), ("tool_results", results)] {
            if !all.is_empty() {
                fields.insert(name.to_owned(), Value::Array(all));
            }
        }
        Value::Object(fields)
    }
}
