//! Payloads, from our types to those that guests see.

use wasmtime::component::Lower;

use super::super::bindings::rind::plugin::{payloads as wp, types as wt};
use crate::message::{Content, EffectClass, Message, Origin, Role, ToolCall, ToolResult, Usage};
use crate::point::payload as p;

pub(in super::super) fn message(message: &Message) -> wt::Message {
    let role = match message.role {
        Role::User => wt::Role::User,
        Role::Assistant => wt::Role::Assistant,
        Role::Tool => wt::Role::Tool,
    };
    wt::Message {
        id: message.id.clone(),
        role,
        origin: origin(message),
        content: message.content.iter().map(content).collect(),
    }
}

fn origin(message: &Message) -> wt::Origin {
    match (message.origin, &message.plugin, message.role) {
        (Some(Origin::Summary), _, _) => wt::Origin::Summary,
        (Some(Origin::Reflection), _, _) => wt::Origin::Reflection,
        (Some(Origin::Agent), _, _) => wt::Origin::Agent,
        (None, Some(plugin), _) => wt::Origin::Plugin(plugin.clone()),
        (None, None, Role::User) => wt::Origin::User,
        (None, None, Role::Assistant) => wt::Origin::Model,
        (None, None, Role::Tool) => wt::Origin::Tools,
    }
}

fn content(part: &Content) -> wt::Content {
    match part {
        Content::Text { text } => wt::Content::Text(text.clone()),
        Content::Thinking { text, .. } => wt::Content::Thinking(text.clone()),
        Content::Blob(blob) => wt::Content::Text(blob.to_string()),
        Content::ToolCall(call) => wt::Content::ToolCall(tool_call(call)),
        Content::ToolResult(result) => wt::Content::ToolResult(tool_result(result)),
    }
}

pub(in super::super) fn tool_call(call: &ToolCall) -> wt::ToolCall {
    wt::ToolCall {
        id: call.id.clone(),
        name: call.name.clone(),
        arguments: call.arguments.to_string(),
    }
}

fn tool_result(result: &ToolResult) -> wt::ToolResult {
    wt::ToolResult {
        call_id: result.call_id.clone(),
        name: result.name.clone(),
        content: result.content.to_string(),
        is_error: result.is_error,
    }
}

pub(in super::super) fn usage(usage: Usage) -> wt::Usage {
    wt::Usage {
        input_tokens: usage.input_tokens,
        output_tokens: usage.output_tokens,
        cache_read_tokens: usage.cache_read_tokens,
        cache_write_tokens: usage.cache_write_tokens,
        estimated: usage.estimated,
    }
}

pub(in super::super) fn effect_class_from(class: wt::EffectClass) -> EffectClass {
    match class {
        wt::EffectClass::Read => EffectClass::Read,
        wt::EffectClass::Write => EffectClass::Write,
        wt::EffectClass::Execute => EffectClass::Execute,
        wt::EffectClass::External => EffectClass::External,
    }
}

/// A payload, or a part of one, as guests see it.
pub(in super::super) trait ToWit {
    /// The generated type.
    type Wit;
    /// Copies it over.
    fn to_wit(&self) -> Self::Wit;
}

/// Clones types that are generated already.
impl<T: Lower + Clone> ToWit for T {
    type Wit = T;
    fn to_wit(&self) -> T {
        self.clone()
    }
}

impl ToWit for Message {
    type Wit = wt::Message;
    fn to_wit(&self) -> wt::Message {
        message(self)
    }
}

impl ToWit for ToolCall {
    type Wit = wt::ToolCall;
    fn to_wit(&self) -> wt::ToolCall {
        tool_call(self)
    }
}

impl ToWit for Usage {
    type Wit = wt::Usage;
    fn to_wit(&self) -> wt::Usage {
        usage(*self)
    }
}

impl ToWit for Vec<p::PromptPart> {
    type Wit = Vec<wp::PromptPart>;
    fn to_wit(&self) -> Self::Wit {
        self.iter().map(ToWit::to_wit).collect()
    }
}

impl ToWit for p::Purpose {
    type Wit = wp::Purpose;
    fn to_wit(&self) -> wp::Purpose {
        match self {
            Self::Step => wp::Purpose::Step,
            Self::Host(about) => wp::Purpose::Host((*about).to_owned()),
            Self::Plugin(name) => wp::Purpose::Plugin(name.clone()),
        }
    }
}

macro_rules! enums {
    ($($ours:ty => $wit:ty { $($case:ident),* })*) => {$(
        impl ToWit for $ours {
            type Wit = $wit;
            fn to_wit(&self) -> $wit {
                match self {
                    $(Self::$case => <$wit>::$case,)*
                }
            }
        }
    )*};
}
enums! {
    EffectClass => wt::EffectClass { Read, Write, Execute, External }
    p::Source => wp::Source { Terminal, Http, Mcp, LoopPlugin, Agent }
    p::Decision => wp::Decision { Direct, AskFirst, Delegate, Plan, Parallelize }
    p::Tier => wp::Tier { Stable, Context, Volatile }
    p::StopReason => wp::StopReason { Done, MaxSteps, Blocked, Cancelled, Failed }
}

/// Field for field; what a host's type has besides, guests do not see.
macro_rules! records {
    ($($record:ident { $($field:ident),* })*) => {$(
        impl ToWit for p::$record {
            type Wit = wp::$record;
            fn to_wit(&self) -> wp::$record {
                wp::$record {
                    $($field: self.$field.to_wit(),)*
                }
            }
        }
    )*};
}
records! {
    TurnInput { text, source }
    Assessment { input, decision, confidence, reasons }
    PromptPart { tier, key, source, text }
    PromptContext { model, tools, decision }
    ModelRequest { purpose, provider, model, temperature, max_tokens, tools, messages, usage }
    TextDelta { before, text, is_last }
    ProposedCall { call, effect_class, plugin }
    Reflection { draft, input, tools, criteria }
    ReflectVerdict { draft, continue_because }
    TurnSummary { stop, steps, tool_calls, usage, cost_usd, unpriced_tokens, duration_ms, output }
}
