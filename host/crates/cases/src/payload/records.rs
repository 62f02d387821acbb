//! Defines how test cases write the payloads that are tables: with the fields of the contract, and
//! with the values of `defaults.toml` for fields that a case omits.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use super::{CaseConvertiblePayload, CaseTableReader};
use rind_lib::message::Usage;
use rind_lib::point::contract::types;
use rind_lib::point::outcome::VerdictChange;
use rind_lib::point::payload::Purpose;
use rind_lib::tool::registry::ToolRegistry;

/// Payload types of the host, under the names that the WIT contract uses.
mod p {
    pub(super) use rind_lib::point::payload::FailureReport as Failure;
    pub(super) use rind_lib::point::payload::*;
}

include!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../../wit/payloads.in"
));

/// Default values for the fields of payload records, by record and field.
static RECORD_FIELD_DEFAULTS: LazyLock<Map<String, Value>> =
    LazyLock::new(|| toml::from_str(include_str!("defaults.toml")).unwrap_or_default());

/// Returns the value of a field of a record that a case omits; `None` if the table has no row for
/// it.
fn default_record_field_value(record: &str, field: &str) -> Option<Value> {
    RECORD_FIELD_DEFAULTS.get(record)?.get(field).cloned()
}

macro_rules! name {
    ($field:ident) => {
        stringify!($field)
    };
    ($field:ident as $name:literal) => {
        $name
    };
}

/// Implements [`CaseConvertiblePayload`] for the records of the contract. Some have more fields in
/// the host, which the host sets and a case cannot write; `shown` are those of them that a case can
/// compare.
macro_rules! records {
    ($($(#[$doc:meta])* $record:ident { $($(#[$about:meta])* $field:ident $(as $name:literal)?: $type:ty,)* })*) => {
        $(records!(@record $record { $($field $(as $name)?,)* });)*
    };
    // Calls have another form in cases, which `messages` defines.
    (@record ProposedCall $fields:tt) => {};
    (@record FinishedCall $fields:tt) => {};
    (@record PromptContext $fields:tt) => { records!(@impl PromptContext $fields shown { parts = Vec::new() }); };
    (@record TextDelta $fields:tt) => { records!(@impl TextDelta $fields shown { keep = 0 }); };
    (@record Reflection $fields:tt) => { records!(@impl Reflection $fields shown { verdict = VerdictChange::Keep }); };
    (@record $record:ident $fields:tt) => { records!(@impl $record $fields shown {}); };
    (@impl $record:ident { $($field:ident $(as $name:literal)?,)* } shown { $($shown:ident = $value:expr)? }) => {
        impl CaseConvertiblePayload for p::$record {
            fn from_case_value(value: Value, tools: &ToolRegistry) -> Result<Self, String> {
                let mut fields = CaseTableReader::from_table(value, tools)?;
                let record = Self {
                    $($field: {
                        let name = name!($field $(as $name)?);
                        fields.take_field_or_default(name, default_record_field_value(stringify!($record), name))?
                    },)*
                    $($shown: $value,)?
                };
                fields.reject_unknown_fields()?;
                Ok(record)
            }

            fn to_comparable_value(&self) -> Value {
                json!({
                    $(name!($field $(as $name)?): self.$field.to_comparable_value(),)*
                    $(stringify!($shown): self.$shown.to_comparable_value(),)?
                })
            }
        }
    };
}
for_each_payload!(records);
for_each_handle!(records);

impl CaseConvertiblePayload for Usage {
    fn from_case_value(value: Value, tools: &ToolRegistry) -> Result<Self, String> {
        let mut fields = CaseTableReader::from_table(value, tools)?;
        let usage = Self {
            input_tokens: fields.take_field_or_default("input_tokens", None)?,
            output_tokens: fields.take_field_or_default("output_tokens", None)?,
            cache_read_tokens: fields.take_field_or_default("cache_read_tokens", None)?,
            cache_write_tokens: fields.take_field_or_default("cache_write_tokens", None)?,
            estimated: fields.take_field_or_default("estimated", None)?,
        };
        fields.reject_unknown_fields()?;
        Ok(usage)
    }

    fn default_if_omitted() -> Option<Self> {
        Some(Self::default())
    }

    fn to_comparable_value(&self) -> Value {
        json!(self)
    }
}

impl CaseConvertiblePayload for types::Usage {
    fn from_case_value(value: Value, tools: &ToolRegistry) -> Result<Self, String> {
        Usage::from_case_value(value, tools).map(Into::into)
    }

    fn default_if_omitted() -> Option<Self> {
        Some(Usage::default().into())
    }

    fn to_comparable_value(&self) -> Value {
        Usage::from(*self).to_comparable_value()
    }
}

impl CaseConvertiblePayload for Purpose {
    fn from_case_value(value: Value, tools: &ToolRegistry) -> Result<Self, String> {
        if value == "step" {
            return Ok(Self::Step);
        }
        let expected = "expected \"step\", { host = NAME } or { plugin = NAME }";
        let mut fields =
            CaseTableReader::from_table(value, tools).map_err(|_| expected.to_owned())?;
        let (host, plugin) = (fields.take_field("host")?, fields.take_field("plugin")?);
        fields.reject_unknown_fields()?;
        match (host, plugin) {
            (Some(name), None) => Ok(Self::Host(name)),
            (None, Some(name)) => Ok(Self::Plugin(name)),
            _ => Err(expected.to_owned()),
        }
    }

    fn to_comparable_value(&self) -> Value {
        match self {
            Self::Step => json!("step"),
            Self::Host(name) => json!({ "host": name }),
            Self::Plugin(name) => json!({ "plugin": name }),
        }
    }
}

impl CaseConvertiblePayload for VerdictChange {
    fn from_case_value(_: Value, _: &ToolRegistry) -> Result<Self, String> {
        Err("this field cannot be set, because hooks do not get it".to_owned())
    }

    fn to_comparable_value(&self) -> Value {
        match self {
            Self::Keep => json!("keep"),
            Self::Done => json!("done"),
            Self::Again(why) => json!({ "again": why }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Collects the names of the records and of their fields.
    macro_rules! names {
        ($($(#[$doc:meta])* $record:ident { $($(#[$about:meta])* $field:ident $(as $name:literal)?: $type:ty,)* })*) => {
            [$((stringify!($record), vec![$(name!($field $(as $name)?)),*])),*]
        };
    }

    #[test]
    fn every_default_is_of_a_field_and_can_be_read() {
        let records = [
            for_each_payload!(names).to_vec(),
            for_each_handle!(names).to_vec(),
        ]
        .concat();
        assert!(!RECORD_FIELD_DEFAULTS.is_empty(), "the table can be read");
        for (record, fields) in &*RECORD_FIELD_DEFAULTS {
            let known = records.iter().find(|(name, _)| name == record);
            let (_, known) = known.unwrap_or_else(|| panic!("no payload is named {record}"));
            for field in fields.as_object().into_iter().flat_map(Map::keys) {
                assert!(
                    known.contains(&field.as_str()),
                    "{record} has no field {field}"
                );
            }
        }
        let read = |value: Value| p::TurnSummary::from_case_value(value, &ToolRegistry::default());
        let summary = read(Value::Null).unwrap();
        assert_eq!((summary.steps, summary.stop), (1, p::StopReason::Done));
        let error = read(json!({ "usage": { "input": 3 } })).unwrap_err();
        assert!(
            error.starts_with("`usage`: unknown field `input`"),
            "{error}"
        );
        let text = p::TurnInput::from_case_value(Value::Null, &ToolRegistry::default());
        assert_eq!(text.unwrap_err(), "`text` is missing");
    }
}
