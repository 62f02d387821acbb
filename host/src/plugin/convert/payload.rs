//! Payloads, from our types to those that guests see.

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

fn effect_class(class: EffectClass) -> wt::EffectClass {
    match class {
        EffectClass::Read => wt::EffectClass::Read,
        EffectClass::Write => wt::EffectClass::Write,
        EffectClass::Execute => wt::EffectClass::Execute,
        EffectClass::External => wt::EffectClass::External,
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

fn decision(decision: p::Decision) -> wp::Decision {
    match decision {
        p::Decision::Direct => wp::Decision::Direct,
        p::Decision::AskFirst => wp::Decision::AskFirst,
        p::Decision::Delegate => wp::Decision::Delegate,
        p::Decision::Plan => wp::Decision::Plan,
        p::Decision::Parallelize => wp::Decision::Parallelize,
    }
}

/// A payload as guests see it.
pub(in super::super) trait ToWit {
    /// The generated type.
    type Wit;
    /// Copies it over.
    fn to_wit(&self) -> Self::Wit;
}

impl ToWit for String {
    type Wit = String;
    fn to_wit(&self) -> String {
        self.clone()
    }
}

impl ToWit for Message {
    type Wit = wt::Message;
    fn to_wit(&self) -> wt::Message {
        message(self)
    }
}

impl<T: ToWit> ToWit for Vec<T> {
    type Wit = Vec<T::Wit>;
    fn to_wit(&self) -> Self::Wit {
        self.iter().map(ToWit::to_wit).collect()
    }
}

impl ToWit for p::SessionInfo {
    type Wit = wp::SessionInfo;
    fn to_wit(&self) -> Self::Wit {
        wp::SessionInfo {
            id: self.id.clone(),
            resumed: self.resumed,
            messages: self.messages,
            provider: self.provider.clone(),
            model: self.model.clone(),
        }
    }
}

impl ToWit for p::TurnInput {
    type Wit = wp::TurnInput;
    fn to_wit(&self) -> Self::Wit {
        let source = match self.source {
            p::Source::Terminal => wp::Source::Terminal,
            p::Source::Http => wp::Source::Http,
            p::Source::Mcp => wp::Source::Mcp,
            p::Source::LoopPlugin => wp::Source::LoopPlugin,
            p::Source::Agent => wp::Source::Agent,
        };
        wp::TurnInput {
            text: self.text.clone(),
            source,
        }
    }
}

impl ToWit for p::Assessment {
    type Wit = wp::Assessment;
    fn to_wit(&self) -> Self::Wit {
        wp::Assessment {
            input: self.input.clone(),
            decision: decision(self.decision),
            confidence: self.confidence,
            reasons: self.reasons.clone(),
        }
    }
}

impl ToWit for p::PromptPart {
    type Wit = wp::PromptPart;
    fn to_wit(&self) -> Self::Wit {
        let tier = match self.tier {
            p::Tier::Stable => wp::Tier::Stable,
            p::Tier::Context => wp::Tier::Context,
            p::Tier::Volatile => wp::Tier::Volatile,
        };
        wp::PromptPart {
            tier,
            key: self.key.clone(),
            source: self.source.clone(),
            text: self.text.clone(),
        }
    }
}

impl ToWit for p::PromptContext {
    type Wit = wp::PromptContext;
    fn to_wit(&self) -> Self::Wit {
        wp::PromptContext {
            model: self.model.clone(),
            tools: self.tools.clone(),
            decision: decision(self.decision),
        }
    }
}

impl ToWit for p::ModelRequest {
    type Wit = wp::ModelRequest;
    fn to_wit(&self) -> Self::Wit {
        wp::ModelRequest {
            purpose: match &self.purpose {
                p::Purpose::Step => wp::Purpose::Step,
                p::Purpose::Host(about) => wp::Purpose::Host((*about).to_owned()),
                p::Purpose::Plugin(name) => wp::Purpose::Plugin(name.clone()),
            },
            provider: self.provider.clone(),
            model: self.model.clone(),
            temperature: self.temperature,
            max_tokens: self.max_tokens,
            tools: self.tools.clone(),
            messages: self.messages,
            usage: usage(self.usage),
        }
    }
}

impl ToWit for p::TextDelta {
    type Wit = wp::TextDelta;
    fn to_wit(&self) -> wp::TextDelta {
        wp::TextDelta {
            before: self.before.clone(),
            text: self.text.clone(),
            is_last: self.is_last,
        }
    }
}

impl ToWit for p::ProposedCall {
    type Wit = wp::ProposedCall;
    fn to_wit(&self) -> Self::Wit {
        wp::ProposedCall {
            call: tool_call(&self.call),
            effect_class: effect_class(self.effect_class),
            plugin: self.plugin.clone(),
        }
    }
}

impl ToWit for p::Reflection {
    type Wit = wp::Reflection;
    fn to_wit(&self) -> Self::Wit {
        let tools = self
            .tools
            .iter()
            .map(|tool| wp::UsedTool {
                name: tool.name.clone(),
                is_error: tool.is_error,
            })
            .collect();
        wp::Reflection {
            draft: self.draft.clone(),
            input: self.input.clone(),
            tools,
            criteria: self.criteria.clone(),
        }
    }
}

impl ToWit for p::ReflectVerdict {
    type Wit = wp::ReflectVerdict;
    fn to_wit(&self) -> Self::Wit {
        wp::ReflectVerdict {
            draft: self.draft.clone(),
            continue_because: self.continue_because.clone(),
        }
    }
}

impl ToWit for p::TurnSummary {
    type Wit = wp::TurnSummary;
    fn to_wit(&self) -> Self::Wit {
        let stop = match self.stop {
            p::StopReason::Done => wp::StopReason::Done,
            p::StopReason::MaxSteps => wp::StopReason::MaxSteps,
            p::StopReason::Blocked => wp::StopReason::Blocked,
            p::StopReason::Cancelled => wp::StopReason::Cancelled,
            p::StopReason::Failed => wp::StopReason::Failed,
        };
        wp::TurnSummary {
            stop,
            steps: self.steps,
            tool_calls: self.tool_calls,
            usage: usage(self.usage),
            cost_usd: self.cost_usd,
            unpriced_tokens: self.unpriced_tokens,
            duration_ms: self.duration_ms,
            output: self.output.clone(),
        }
    }
}

impl ToWit for p::SubagentInfo {
    type Wit = wp::SubagentInfo;
    fn to_wit(&self) -> Self::Wit {
        wp::SubagentInfo {
            id: self.id.clone(),
            task: self.task.clone(),
            answer: self.answer.clone(),
            is_error: self.is_error,
        }
    }
}

impl ToWit for p::FailureReport {
    type Wit = wp::Failure;
    fn to_wit(&self) -> Self::Wit {
        wp::Failure {
            where_: self.place.clone(),
            message: self.message.clone(),
            plugin: self.plugin.clone(),
        }
    }
}
