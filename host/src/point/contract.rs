//! Payloads and outcomes of hooks as the contract defines them, generated from `wit/payloads.wit`
//! and `wit/outcomes.wit`.
//!
//! A payload that needs additional data in the host, such as a check or a field hidden from guests,
//! has a type of the same name in [`super::payload`], and `plugin` converts between the two types.
//! This module holds data only.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::message::Usage;

#[allow(missing_docs, reason = "generated; the contract has the docs")]
mod generated {
    wasmtime::component::bindgen!({
        path: "../wit",
        inline: "package rind:host; world data { import rind:plugin/outcomes@0.1.1; }",
        additional_derives: [PartialEq],
        trappable_error_type: { "rind:plugin/types.error" => crate::point::handle::HostFunctionError },
    });
}

pub use generated::rind::plugin::{outcomes, payloads, types};

/// Implements serialization for enums of the contract, with their names in events and session
/// entries. Their docs in the contract become part of the JSON Schema of the events.
macro_rules! named {
    ($($(#[$doc:meta])* $module:ident::$name:ident { $($(#[$case_doc:meta])* $case:ident,)* })*) => {$(
        const _: () = {
            $(#[$doc])*
            #[derive(Serialize, Deserialize, JsonSchema)]
            #[serde(rename_all = "kebab-case")]
            enum $name { $($(#[$case_doc])* $case,)* }

            impl Serialize for $module::$name {
                fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                    let named = match self { $(Self::$case => $name::$case,)* };
                    named.serialize(serializer)
                }
            }

            impl<'de> Deserialize<'de> for $module::$name {
                fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                    let named = $name::deserialize(deserializer)?;
                    Ok(match named { $($name::$case => Self::$case,)* })
                }
            }

            impl JsonSchema for $module::$name {
                fn schema_name() -> Cow<'static, str> {
                    $name::schema_name()
                }

                fn json_schema(generator: &mut SchemaGenerator) -> Schema {
                    $name::json_schema(generator)
                }
            }
        };
    )*};
}
include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../wit/enums.in"));
for_each_enum!(named);

impl From<Usage> for types::Usage {
    fn from(usage: Usage) -> Self {
        Self {
            input_tokens: usage.input_tokens,
            output_tokens: usage.output_tokens,
            cache_read_tokens: usage.cache_read_tokens,
            cache_write_tokens: usage.cache_write_tokens,
            estimated: usage.estimated,
        }
    }
}

impl From<types::Usage> for Usage {
    fn from(usage: types::Usage) -> Self {
        Self {
            input_tokens: usage.input_tokens,
            output_tokens: usage.output_tokens,
            cache_read_tokens: usage.cache_read_tokens,
            cache_write_tokens: usage.cache_write_tokens,
            estimated: usage.estimated,
        }
    }
}
