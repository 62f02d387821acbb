//! Messages of a conversation, and tool calls before and after they ran.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Fields, Shape, plain, shown};
use crate::message::{Content, EffectClass, Message, Origin, Parts, Role, ToolCall, ToolResult};
use crate::point::payload::{FinishedCall, ProposedCall};
use crate::tool::registry::ToolRegistry;

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
            // The contract does not tell it to plugins.
            plugin: None,
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
pub(in super::super) fn messages<'de, D: serde::Deserializer<'de>>(
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
            plugin,
            origin,
            ..Self::new(
                role.unwrap_or(Role::Assistant),
                text.chain(calls).chain(results).collect(),
            )
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
