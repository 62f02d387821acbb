//! Payloads for scripts in JSON, field for field those of `wit/payloads.wit`.
//!
//! Messages, calls and results are written as in events. A value that is JSON text in the contract
//! is JSON here, so that one `jq` reaches into it.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::message::{EffectClass, Message, Parts, ToolCall, Usage};
use crate::point::contract::types;
use crate::point::payload as p;

/// A payload that scripts are shown.
pub(in super::super) trait ShowJson {
    /// Type in JSON.
    type Shown: Serialize + JsonSchema;

    /// Copies the fields that scripts are shown.
    fn show(&self) -> Self::Shown;
}

macro_rules! as_is {
    ($($type:ty),*) => {$(
        impl ShowJson for $type {
            type Shown = $type;

            fn show(&self) -> $type {
                self.clone()
            }
        }
    )*};
}
as_is!(
    String,
    bool,
    u16,
    u32,
    u64,
    f64,
    Usage,
    Value,
    ToolCall,
    Parts,
    EffectClass,
    Message,
    p::Source,
    p::Decision,
    p::Tier,
    p::StopReason
);

impl<T: ShowJson> ShowJson for Option<T> {
    type Shown = Option<T::Shown>;

    fn show(&self) -> Self::Shown {
        self.as_ref().map(T::show)
    }
}

impl<T: ShowJson> ShowJson for Vec<T> {
    type Shown = Vec<T::Shown>;

    fn show(&self) -> Self::Shown {
        self.iter().map(T::show).collect()
    }
}

impl<T: ShowJson> ShowJson for Arc<T> {
    type Shown = T::Shown;

    fn show(&self) -> T::Shown {
        (**self).show()
    }
}

impl ShowJson for types::Usage {
    type Shown = Usage;

    fn show(&self) -> Usage {
        Usage {
            input_tokens: self.input_tokens,
            output_tokens: self.output_tokens,
            cache_read_tokens: self.cache_read_tokens,
            cache_write_tokens: self.cache_write_tokens,
            estimated: self.estimated,
        }
    }
}

macro_rules! records {
    ($($(#[$doc:meta])* $record:ty as $name:ident {
        $($(#[$about:meta])* $field:ident: $type:ty $(= $($from:ident).+)?,)*
    })*) => {$(
        $(#[$doc])*
        #[derive(Serialize, JsonSchema)]
        pub(in super::super) struct $name { $($(#[$about])* $field: <$type as ShowJson>::Shown,)* }

        impl ShowJson for $record {
            type Shown = $name;

            fn show(&self) -> $name {
                $name { $($field: records!(@value self $field $($($from).+)?).show(),)* }
            }
        }
    )*};
    (@value $self:ident $field:ident) => { $self.$field };
    (@value $self:ident $field:ident $($from:ident).+) => { $self.$($from).+ };
}
records! {
    /// A session that starts or ends.
    p::SessionInfo as SessionInfo {
        /// Session id.
        id: String,
        /// Whether it goes on from an earlier run.
        resumed: bool,
        /// Number of messages in it.
        messages: u32,
        /// Name of the provider.
        provider: String,
        /// Name of the model.
        model: String,
    }
    /// Text that came in.
    p::TurnInput as TurnInput {
        /// Text as it came in.
        text: String,
        /// Source of the input.
        source: p::Source,
    }
    /// Assessment of the input.
    p::Assessment as Assessment {
        /// The input it judged.
        input: String,
        /// Decision on how to handle the turn.
        decision: p::Decision,
        /// Confidence in it, from 0 to 1.
        confidence: f64,
        /// Reasons, in short phrases.
        reasons: Vec<String>,
    }
    /// One part of the system prompt.
    p::PromptPart as PromptPart {
        /// Tier of the part.
        tier: p::Tier,
        /// Unique within the prompt.
        key: String,
        /// Author of the part: `host`, a file, or the name of a plugin or script.
        source: String,
        /// Text of the part.
        text: String,
    }
    /// Context of a hook that adds to the system prompt.
    p::PromptContext as PromptContext {
        /// Name of the model.
        model: String,
        /// Names of the tools that are active.
        tools: Vec<String>,
        /// Decision on how to handle the turn.
        decision: p::Decision,
    }
    /// A request to the model that is about to be made. The messages are at the point `context`.
    p::ModelRequest as ModelRequest {
        /// Purpose of the request.
        purpose: p::Purpose,
        /// Name of the provider.
        provider: String,
        /// Name of the model.
        model: String,
        /// Sampling temperature; null leaves it to the provider.
        temperature: Option<f64>,
        /// Maximum number of tokens the model may write; null leaves it to the provider.
        max_tokens: Option<u32>,
        /// Names of the tools that are active.
        tools: Vec<String>,
        /// Number of messages in the request.
        messages: u32,
        /// Tokens used so far in this turn.
        usage: types::Usage,
    }
    /// Text of an answer that is being written.
    p::TextDelta as TextDelta {
        /// The end of the text that was shown already.
        before: String,
        /// Text that has not been shown.
        text: String,
        /// Whether nothing follows.
        is_last: bool,
    }
    /// A tool call about to be made.
    p::ProposedCall as ProposedCall {
        /// Call with its arguments.
        call: ToolCall,
        /// Class of the tool's effects.
        effect_class: EffectClass,
        /// Name of the plugin the tool is from; null for a built-in tool.
        plugin: Option<String>,
    }
    /// A tool call that was made, or refused.
    p::FinishedCall as FinishedCall {
        /// The call with its final arguments.
        call: ToolCall,
        /// Content of the result: a text, or a list of parts.
        content: Parts = result.content,
        /// Whether the call failed, was refused or was cancelled.
        is_error: bool = result.is_error,
        /// Milliseconds that the tool ran; 0 when it was refused.
        duration_ms: u64,
        /// Name of the plugin the tool is from; null for a built-in tool.
        plugin: Option<String>,
    }
    /// A tool that ran in a turn.
    p::UsedTool as UsedTool {
        /// Name of the tool.
        name: String,
        /// Whether the call failed or was refused.
        is_error: bool,
    }
    /// A turn about to end.
    p::Reflection as Reflection {
        /// The answer as it stands.
        draft: String,
        /// The input that the turn answers.
        input: String,
        /// Tool calls of the turn in order.
        tools: Vec<p::UsedTool>,
        /// Criteria for a good answer; hooks add to them.
        criteria: Vec<String>,
    }
    /// Verdict of reflection.
    p::ReflectVerdict as ReflectVerdict {
        /// The answer as it stands.
        draft: String,
        /// Null when the turn is done; otherwise why another step is needed.
        continue_because: Option<String>,
    }
    /// A turn that has ended.
    p::TurnSummary as TurnSummary {
        /// Reason for the end.
        stop: p::StopReason,
        /// Steps made.
        steps: u32,
        /// Tool calls made.
        tool_calls: u32,
        /// Tokens used.
        usage: Usage,
        /// Cost in US dollars, as far as prices are known.
        cost_usd: f64,
        /// Tokens whose model has no known price.
        unpriced_tokens: u64,
        /// Milliseconds from input to end.
        duration_ms: u64,
        /// Output shown to the user.
        output: String,
    }
    /// Part of a conversation that is about to be compacted or archived, or just was.
    p::Slice as Slice {
        /// Reason: `token-threshold`, `max-steps`, `tool-calls`, or `asked`.
        reason: String,
        /// Messages in order, oldest first.
        messages: Vec<Message>,
        /// Summary that replaces them; empty before it is made.
        summary: String,
    }
    /// A subagent that starts or has ended.
    p::SubagentInfo as SubagentInfo {
        /// Id of the subagent.
        id: String,
        /// Task of the subagent.
        task: String,
        /// Answer of the subagent; empty at the start.
        answer: String,
        /// Whether it failed.
        is_error: bool,
    }
    /// A skill that became active or ended.
    p::SkillInfo as SkillInfo {
        /// Id of the skill.
        id: String,
        /// Trust in its source.
        trust: String,
        /// Digest of the file that it was read from.
        hash: String,
        /// Maker of the call: `user`, `model`, or `plugin NAME`.
        by: String,
        /// Tools that its allow list names; null without one.
        allow: Option<Vec<String>>,
        /// Tools that it denies.
        deny: Vec<String>,
        /// Reason for the end; empty when it became active.
        reason: String,
    }
    /// A provider's answer after its stream has ended.
    p::WireResponse as WireResponse {
        /// Name of the provider.
        provider: String,
        /// HTTP status; 0 for a provider that is not reached over HTTP.
        status: u16,
        /// Milliseconds from sending the request to the end of the stream.
        latency_ms: u64,
        /// Tokens used.
        usage: Usage,
        /// Cost in US dollars; null when no price is known.
        cost_usd: Option<f64>,
        /// Name of the model that answered.
        model: String,
        /// The answer as it came over the wire.
        body: String,
    }
    /// Report of a failure.
    p::FailureReport as Failure {
        /// Place: a point, a tool, `provider` or `session`.
        #[serde(rename = "where")]
        where_: String,
        /// Message.
        message: String,
        /// The plugin that failed, if one did.
        plugin: Option<String>,
    }
}

/// Purpose of a request to the model.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(in super::super) enum Purpose {
    /// A step of the conversation.
    Step,
    /// A question of the host's own, without tools: `reflect`, `archive` or `query`.
    Host(String),
    /// A question of the plugin of this name, without tools.
    Plugin(String),
}

impl ShowJson for p::Purpose {
    type Shown = Purpose;

    fn show(&self) -> Purpose {
        match self {
            Self::Step => Purpose::Step,
            Self::Host(name) => Purpose::Host(name.clone()),
            Self::Plugin(name) => Purpose::Plugin(name.clone()),
        }
    }
}

/// A request as it will go over the wire.
#[derive(Serialize, JsonSchema)]
pub(in super::super) struct WireRequest {
    /// Name of the provider.
    provider: String,
    /// The body, in the provider's own format.
    body: Value,
}

impl ShowJson for p::WireRequest {
    type Shown = WireRequest;

    fn show(&self) -> WireRequest {
        WireRequest {
            provider: self.provider.clone(),
            body: parse_value(&self.body),
        }
    }
}

/// Parses JSON text; any other text becomes a JSON string.
fn parse_value(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}
