//! Converts payloads to the JSON that scripts receive. The JSON has the fields that
//! `wit/payloads.wit` declares, and the contents of the handles in `wit/handles.wit`.
//!
//! Messages, calls and results have the same format as in events. A value that is a string with
//! JSON text in the WIT contract is nested JSON here, so that a single `jq` filter can read it.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::message::{EffectClass, Message, Parts, ToolCall, Usage};
use crate::point::contract::types;
use crate::point::payload::{for_each_handle, for_each_payload};

/// Payload types of the host, under the names that the WIT contract uses.
mod p {
    pub(super) use crate::point::payload::FailureReport as Failure;
    pub(super) use crate::point::payload::*;
}

/// Payload type of the host that can be converted to the JSON that scripts receive.
pub(in super::super) trait ToScriptJson {
    /// Type whose serialized form scripts receive.
    type SerializablePayload: Serialize + JsonSchema;

    /// Converts the payload to the type that is serialized.
    fn to_serializable_payload(&self) -> Self::SerializablePayload;
}

macro_rules! as_is {
    ($($type:ty),*) => {$(
        impl ToScriptJson for $type {
            type SerializablePayload = $type;

            fn to_serializable_payload(&self) -> $type {
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
    type SerializablePayload = Option<T::SerializablePayload>;

    fn to_serializable_payload(&self) -> Self::SerializablePayload {
        self.as_ref().map(T::to_serializable_payload)
    }
}

impl<T: ToScriptJson> ToScriptJson for Vec<T> {
    type SerializablePayload = Vec<T::SerializablePayload>;

    fn to_serializable_payload(&self) -> Self::SerializablePayload {
        self.iter().map(T::to_serializable_payload).collect()
    }
}

impl<T: ToScriptJson> ToScriptJson for Arc<T> {
    type SerializablePayload = T::SerializablePayload;

    fn to_serializable_payload(&self) -> T::SerializablePayload {
        (**self).to_serializable_payload()
    }
}

impl ToScriptJson for types::Usage {
    type SerializablePayload = Usage;

    fn to_serializable_payload(&self) -> Usage {
        (*self).into()
    }
}

/// Defines the serialized type of each payload of the WIT contract. Plugins read some of them through
/// handles; scripts receive the complete data.
macro_rules! records {
    ($($(#[$doc:meta])* $name:ident {
        $($(#[$about:meta])* $field:ident $(as $json:literal)?: $type:ty,)*
    })*) => {$(
        $(#[$doc])*
        #[derive(Serialize, JsonSchema)]
        pub(in super::super) struct $name {
            $($(#[$about])* $(#[serde(rename = $json)])? $field: <$type as ToScriptJson>::SerializablePayload,)*
        }

        impl ToScriptJson for p::$name {
            type SerializablePayload = $name;

            fn to_serializable_payload(&self) -> $name {
                $name { $($field: records!(@value self $name $field).to_serializable_payload(),)* }
            }
        }
    )*};
    (@value $self:ident FinishedCall content) => { $self.result.content };
    (@value $self:ident FinishedCall is_error) => { $self.result.is_error };
    (@value $self:ident WireRequest body) => { parse_value(&$self.body) };
    (@value $self:ident $name:ident $field:ident) => { $self.$field };
}
for_each_payload!(records);
for_each_handle!(records);

/// Purpose of a request to the model.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(in super::super) enum Purpose {
    /// Request for a step of the conversation.
    Step,
    /// A request of the host itself, without tools: `reflect`, `archive` or `query`.
    Host(String),
    /// A request of the plugin with this name, without tools.
    Plugin(String),
}

impl ToScriptJson for p::Purpose {
    type SerializablePayload = Purpose;

    fn to_serializable_payload(&self) -> Purpose {
        match self {
            Self::Step => Purpose::Step,
            Self::Host(name) => Purpose::Host(name.clone()),
            Self::Plugin(name) => Purpose::Plugin(name.clone()),
        }
    }
}

/// Parses a text as JSON; a text that is not JSON becomes a JSON string.
fn parse_value(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}
