//! Converts payloads of hooks from and to the form in test cases: TOML values with the contract's
//! names in snake case.
//!
//! The fields are those of `wit/payloads.wit`. A field that a case omits gets the value that it has
//! in an ordinary turn (`defaults.toml`). An unknown field is an error. `records` defines the tables,
//! `messages` the messages and tool calls. Start from [`CaseConvertiblePayload`].

mod messages;
mod records;

use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use rind_lib::point::payload::{Decision, Source, StopReason, Tier};
use rind_lib::tool::registry::ToolRegistry;

pub(super) use messages::deserialize_messages;

/// A payload or a part of one, which test cases can write and compare with the payload after the
/// hooks ran.
pub(super) trait CaseConvertiblePayload: Sized {
    /// Reads the value from a case. `tools` are the tools of the session.
    fn from_case_value(value: Value, tools: &ToolRegistry) -> Result<Self, String>;

    /// Reads the value from an item of a list; `_index` is the index of the item.
    fn from_case_list_item(
        value: Value,
        _index: usize,
        tools: &ToolRegistry,
    ) -> Result<Self, String> {
        Self::from_case_value(value, tools)
    }

    /// Returns the value of a field of this type that a case omits; `None` if a case must write it.
    fn default_if_omitted() -> Option<Self> {
        None
    }

    /// Converts the value to the form in which cases compare it. Fields that a case cannot write
    /// are included if hooks can change them.
    fn to_comparable_value(&self) -> Value;

    /// Returns the id of the tool call that the payload is about, if any.
    fn call_id(&self) -> Option<&str> {
        None
    }
}

fn deserialize_json_value<T: DeserializeOwned>(value: Value) -> Result<T, String> {
    serde_json::from_value(value).map_err(|error| error.to_string())
}

fn serialize_value(value: &impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

macro_rules! plain {
    ($($type:ty $(= $absent:literal)?),*) => {$(
        impl CaseConvertiblePayload for $type {
            fn from_case_value(value: Value, _: &ToolRegistry) -> Result<Self, String> {
                deserialize_json_value(value)
            }

            $(fn default_if_omitted() -> Option<Self> {
                Some($absent)
            })?

            fn to_comparable_value(&self) -> Value {
                serialize_value(self)
            }
        }
    )*};
}
plain!(
    bool = false,
    u16 = 0,
    u32 = 0,
    u64 = 0,
    usize = 0,
    f64 = 0.0,
    Source,
    Decision,
    Tier,
    StopReason
);

impl CaseConvertiblePayload for String {
    /// Reads a text from a test case; an absent text is empty.
    fn from_case_value(value: Value, _: &ToolRegistry) -> Result<Self, String> {
        if value.is_null() {
            Ok(Self::new())
        } else {
            deserialize_json_value(value)
        }
    }

    fn to_comparable_value(&self) -> Value {
        json!(self)
    }
}

impl<T: CaseConvertiblePayload> CaseConvertiblePayload for Option<T> {
    fn from_case_value(value: Value, tools: &ToolRegistry) -> Result<Self, String> {
        T::from_case_value(value, tools).map(Some)
    }

    fn default_if_omitted() -> Option<Self> {
        Some(None)
    }

    fn to_comparable_value(&self) -> Value {
        self.as_ref()
            .map_or(Value::Null, CaseConvertiblePayload::to_comparable_value)
    }
}

impl<T: CaseConvertiblePayload> CaseConvertiblePayload for Vec<T> {
    fn from_case_value(value: Value, tools: &ToolRegistry) -> Result<Self, String> {
        let all = match value {
            Value::Null => Vec::new(),
            value => deserialize_json_value::<Vec<Value>>(value)?,
        };
        let read = |(n, value)| T::from_case_list_item(value, n, tools);
        all.into_iter().enumerate().map(read).collect()
    }

    fn default_if_omitted() -> Option<Self> {
        Some(Vec::new())
    }

    fn to_comparable_value(&self) -> Value {
        self.iter()
            .map(CaseConvertiblePayload::to_comparable_value)
            .collect()
    }
}

impl<T: CaseConvertiblePayload> CaseConvertiblePayload for Arc<T> {
    fn from_case_value(value: Value, tools: &ToolRegistry) -> Result<Self, String> {
        T::from_case_value(value, tools).map(Self::new)
    }

    fn to_comparable_value(&self) -> Value {
        (**self).to_comparable_value()
    }

    fn call_id(&self) -> Option<&str> {
        (**self).call_id()
    }
}

/// Fields of a table that have not been read yet. Fields that are left at the end are unknown.
struct CaseTableReader<'a> {
    left: Map<String, Value>,
    known: Vec<&'static str>,
    tools: &'a ToolRegistry,
}

impl<'a> CaseTableReader<'a> {
    fn from_table(value: Value, tools: &'a ToolRegistry) -> Result<Self, String> {
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

    fn take_field<T: CaseConvertiblePayload>(
        &mut self,
        name: &'static str,
    ) -> Result<Option<T>, String> {
        self.known.push(name);
        let value = self.left.remove(name);
        let read = value.map(|value| T::from_case_value(value, self.tools));
        read.transpose()
            .map_err(|error| format!("`{name}`: {error}"))
    }

    /// Takes a field that is required unless it has a default: the value `default`, or the type's
    /// value of a field that is absent.
    fn take_field_or_default<T: CaseConvertiblePayload>(
        &mut self,
        name: &'static str,
        default: Option<Value>,
    ) -> Result<T, String> {
        if let Some(default) = default.filter(|_| !self.left.contains_key(name)) {
            self.left.insert(name.to_owned(), default);
        }
        let value = self.take_field(name)?.or_else(T::default_if_omitted);
        value.ok_or_else(|| format!("`{name}` is missing"))
    }

    fn take_value(&mut self, name: &'static str) -> Option<Value> {
        self.known.push(name);
        self.left.remove(name)
    }

    fn reject_unknown_fields(self) -> Result<(), String> {
        match self.left.keys().next() {
            None => Ok(()),
            Some(name) => Err(format!(
                "unknown field `{name}`; the fields are {}",
                self.known.join(", ")
            )),
        }
    }
}
