//! Reads and shows payloads of hooks as cases write them: TOML values with the contract's names in
//! snake case.
//!
//! The fields correspond to `wit/payloads.wit`. Fields that a case omits get the value of an
//! ordinary turn; an unknown field is an error. `records` defines the tables, `messages` the
//! messages and tool calls. Start from [`CaseShape`].

mod messages;
mod records;

use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use rind_lib::message::Usage;
use rind_lib::point::payload::{Decision, Source, StopReason, Tier};
use rind_lib::tool::registry::ToolRegistry;

pub(super) use messages::deserialize_messages;

/// Type of a payload, or a part of one, that cases can write and compare after the hooks ran.
pub(super) trait CaseShape: Sized {
    /// Reads the value from a case. `tools` are the tools of the session.
    fn read(value: Value, tools: &ToolRegistry) -> Result<Self, String>;

    /// Reads the value from a list; `_index` is the index in the list.
    fn read_nth(value: Value, _index: usize, tools: &ToolRegistry) -> Result<Self, String> {
        Self::read(value, tools)
    }

    /// Converts the value to the form in which a case compares it. Fields that a case cannot write
    /// are included if hooks can change them.
    fn show(&self) -> Value;

    /// Returns the id of the tool call that the payload is about, if any.
    fn call_id(&self) -> Option<&str> {
        None
    }
}

fn read_plain<T: DeserializeOwned>(value: Value) -> Result<T, String> {
    serde_json::from_value(value).map_err(|error| error.to_string())
}

fn show_value(value: &impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

macro_rules! plain {
    ($($type:ty),*) => {$(
        impl CaseShape for $type {
            fn read(value: Value, _: &ToolRegistry) -> Result<Self, String> {
                read_plain(value)
            }

            fn show(&self) -> Value {
                show_value(self)
            }
        }
    )*};
}
plain!(
    bool, u16, u32, u64, usize, f64, Source, Decision, Tier, StopReason, Usage
);

impl CaseShape for String {
    /// Reads a text; an absent text is empty.
    fn read(value: Value, _: &ToolRegistry) -> Result<Self, String> {
        if value.is_null() {
            Ok(Self::new())
        } else {
            read_plain(value)
        }
    }

    fn show(&self) -> Value {
        json!(self)
    }
}

impl<T: CaseShape> CaseShape for Option<T> {
    fn read(value: Value, tools: &ToolRegistry) -> Result<Self, String> {
        T::read(value, tools).map(Some)
    }

    fn show(&self) -> Value {
        self.as_ref().map_or(Value::Null, CaseShape::show)
    }
}

impl<T: CaseShape> CaseShape for Vec<T> {
    fn read(value: Value, tools: &ToolRegistry) -> Result<Self, String> {
        let all = match value {
            Value::Null => Vec::new(),
            value => read_plain::<Vec<Value>>(value)?,
        };
        let read = |(n, value)| T::read_nth(value, n, tools);
        all.into_iter().enumerate().map(read).collect()
    }

    fn show(&self) -> Value {
        self.iter().map(CaseShape::show).collect()
    }
}

impl<T: CaseShape> CaseShape for Arc<T> {
    fn read(value: Value, tools: &ToolRegistry) -> Result<Self, String> {
        T::read(value, tools).map(Self::new)
    }

    fn show(&self) -> Value {
        (**self).show()
    }

    fn call_id(&self) -> Option<&str> {
        (**self).call_id()
    }
}

/// Fields of a table that have not been read yet.
struct UnreadFields<'a> {
    left: Map<String, Value>,
    known: Vec<&'static str>,
    tools: &'a ToolRegistry,
}

impl<'a> UnreadFields<'a> {
    fn fields_of(value: Value, tools: &'a ToolRegistry) -> Result<Self, String> {
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

    fn take_field<T: CaseShape>(&mut self, name: &'static str) -> Result<Option<T>, String> {
        self.known.push(name);
        let value = self.left.remove(name);
        let read = value.map(|value| T::read(value, self.tools));
        read.transpose()
            .map_err(|error| format!("`{name}`: {error}"))
    }

    fn take_value(&mut self, name: &'static str) -> Option<Value> {
        self.known.push(name);
        self.left.remove(name)
    }

    fn end_fields(self) -> Result<(), String> {
        match self.left.keys().next() {
            None => Ok(()),
            Some(name) => Err(format!(
                "unknown field `{name}`; the fields are {}",
                self.known.join(", ")
            )),
        }
    }
}
