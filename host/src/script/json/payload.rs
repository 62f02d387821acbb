//! Converts payloads to the JSON that scripts receive. The JSON has the fields that
//! `wit/payloads.wit` declares.
//!
//! Messages, calls and results have the same format as in events. A value that is a string with
//! JSON text in the WIT contract is nested JSON here, so that a single `jq` filter can read it.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::message::{EffectClass, Message, Parts, ToolCall, Usage};
use crate::point::contract::types;
use crate::point::payload::for_each_payload;

/// Payload types of the host, under the names that the WIT contract uses.
mod p {
    pub(super) use crate::point::payload::FailureReport as Failure;
    pub(super) use crate::point::payload::*;
}

/// Payload type of the host that can be converted to the JSON that scripts receive.
pub(in super::super) trait ToScriptJson {
    /// Type that is serialized.
    type Shown: Serialize + JsonSchema;

    /// Converts the payload to the type that is serialized.
    fn show(&self) -> Self::Shown;
}

macro_rules! as_is {
    ($($type:ty),*) => {$(
        impl ToScriptJson for $type {
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

impl<T: ToScriptJson> ToScriptJson for Option<T> {
    type Shown = Option<T::Shown>;

    fn show(&self) -> Self::Shown {
        self.as_ref().map(T::show)
    }
}

impl<T: ToScriptJson> ToScriptJson for Vec<T> {
    type Shown = Vec<T::Shown>;

    fn show(&self) -> Self::Shown {
        self.iter().map(T::show).collect()
    }
}

impl<T: ToScriptJson> ToScriptJson for Arc<T> {
    type Shown = T::Shown;

    fn show(&self) -> T::Shown {
        (**self).show()
    }
}

impl ToScriptJson for types::Usage {
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

/// Defines the serialized type of each record of the WIT contract.
macro_rules! records {
    ($($(#[$doc:meta])* $name:ident {
        $($(#[$about:meta])* $field:ident $(as $json:literal)?: $type:ty $(= $($from:ident).+)?,)*
    })*) => {$(
        $(#[$doc])*
        #[derive(Serialize, JsonSchema)]
        pub(in super::super) struct $name {
            $($(#[$about])* $(#[serde(rename = $json)])? $field: <$type as ToScriptJson>::Shown,)*
        }

        impl ToScriptJson for p::$name {
            type Shown = $name;

            fn show(&self) -> $name {
                $name { $($field: records!(@value self $field $($($from).+)?).show(),)* }
            }
        }
    )*};
    (@value $self:ident $field:ident) => { $self.$field };
    (@value $self:ident $field:ident $($from:ident).+) => { $self.$($from).+ };
}
for_each_payload!(records);

// Plugins receive these payloads as resource handles; scripts receive the complete data as JSON.
records! {
    /// A tool call that ended or was refused.
    FinishedCall {
        /// The call with its final arguments.
        call: ToolCall,
        /// Content of the result: a text, or a list of parts.
        content: Parts = result.content,
        /// Whether the call failed, was refused or was cancelled.
        is_error: bool = result.is_error,
        /// Whether the tool did not run: the call was refused, skipped, or names no tool.
        is_refused: bool,
        /// Run time of the tool in milliseconds; 0 if the call was refused.
        duration_ms: u64,
        /// Name of the plugin that provides the tool; null for a built-in tool.
        plugin: Option<String>,
    }
    /// Part of a conversation that is about to be compacted or archived, or just was.
    Slice {
        /// Reason: `token-threshold`, `max-steps`, `tool-calls`, or `asked`.
        reason: String,
        /// Messages in order, oldest first.
        messages: Vec<Message>,
        /// Summary that replaces the messages; empty before it is written.
        summary: String,
    }
    /// A provider's answer after its stream has ended.
    WireResponse {
        /// Purpose of the request.
        purpose: p::Purpose,
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
        /// Raw answer of the server.
        body: String,
    }
}

/// Purpose of a request to the model.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(in super::super) enum Purpose {
    /// A step of the conversation.
    Step,
    /// A request of the host itself, without tools: `reflect`, `archive` or `query`.
    Host(String),
    /// A request of the plugin with this name, without tools.
    Plugin(String),
}

impl ToScriptJson for p::Purpose {
    type Shown = Purpose;

    fn show(&self) -> Purpose {
        match self {
            Self::Step => Purpose::Step,
            Self::Host(name) => Purpose::Host(name.clone()),
            Self::Plugin(name) => Purpose::Plugin(name.clone()),
        }
    }
}

/// A request in the provider's own format, before it is sent.
#[derive(Serialize, JsonSchema)]
pub(in super::super) struct WireRequest {
    /// Name of the provider.
    provider: String,
    /// The body, in the provider's own format.
    body: Value,
}

impl ToScriptJson for p::WireRequest {
    type Shown = WireRequest;

    fn show(&self) -> WireRequest {
        WireRequest {
            provider: self.provider.clone(),
            body: parse_value(&self.body),
        }
    }
}

/// Parses a text as JSON; a text that is not JSON becomes a JSON string.
fn parse_value(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}
