//! Converts the result of a component's function to the output of a tool.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Number, Value};
use wasmtime::component::Val;

use super::super::sanitize::GuestTextSanitizer;
use crate::json::DEFAULT_MAX_JSON_BYTES;
use crate::message::{Blob, Part};
use crate::tool::ToolOutput;

/// Converts the result of a call: a text, an image, or a JSON value. A `result` that is `err`
/// becomes an error of the tool.
pub(super) fn convert_call_results(
    results: Vec<Val>,
    sanitizer: GuestTextSanitizer<'_>,
) -> ToolOutput {
    let (value, is_error) = match results.into_iter().next() {
        Some(Val::Result(Ok(value))) => (value.map(|value| *value), false),
        Some(Val::Result(Err(value))) => (value.map(|value| *value), true),
        value => (value, false),
    };
    let mut output = match value {
        None if is_error => ToolOutput::ok("it failed, without a reason"),
        None => ToolOutput::ok("done"),
        Some(Val::String(text)) => ToolOutput::ok(sanitizer.text("result", text)),
        Some(value) => {
            match byte_list_to_bytes(&value).filter(|bytes| Blob::from_bytes(bytes, "").is_image())
            {
                Some(image) => ToolOutput::from_bytes(image, ""),
                None => json_tool_output(value, sanitizer),
            }
        }
    };
    output.is_error |= is_error;
    output
}

fn json_tool_output(value: Val, sanitizer: GuestTextSanitizer<'_>) -> ToolOutput {
    let text = value_to_json(value).to_string();
    if text.len() > DEFAULT_MAX_JSON_BYTES {
        let why = format!(
            "the result has {} bytes, at most {DEFAULT_MAX_JSON_BYTES} are accepted",
            text.len()
        );
        return ToolOutput::from_fault_content(why);
    }
    let text = sanitizer.json("result", text);
    match serde_json::from_str(&text) {
        Ok(value) => ToolOutput::ok(vec![Part::Json { value }]),
        Err(_) => ToolOutput::ok(text),
    }
}

/// Returns the bytes of a value that is a list of bytes. `None` for an empty list, because only an
/// element shows the list's type.
fn byte_list_to_bytes(value: &Val) -> Option<Vec<u8>> {
    let Val::List(items) = value else {
        return None;
    };
    if items.is_empty() {
        return None;
    }
    let bytes = items.iter().map(|item| match item {
        Val::U8(byte) => Some(*byte),
        _ => None,
    });
    bytes.collect()
}

/// Converts a result value of a component's function to JSON.
fn value_to_json(value: Val) -> Value {
    if let Some(bytes) = byte_list_to_bytes(&value) {
        return Value::String(STANDARD.encode(bytes));
    }
    let boxed = |value: Option<Box<Val>>| value.map_or(Value::Null, |value| value_to_json(*value));
    match value {
        Val::Bool(value) => value.into(),
        Val::S8(value) => value.into(),
        Val::U8(value) => value.into(),
        Val::S16(value) => value.into(),
        Val::U16(value) => value.into(),
        Val::S32(value) => value.into(),
        Val::U32(value) => value.into(),
        Val::S64(value) => value.to_string().into(),
        Val::U64(value) => value.to_string().into(),
        Val::Float32(value) => number_to_json(value.into()),
        Val::Float64(value) => number_to_json(value),
        Val::Char(value) => value.to_string().into(),
        Val::String(value) | Val::Enum(value) => value.into(),
        Val::List(items) | Val::Tuple(items) | Val::FixedLengthList(items) => {
            items.into_iter().map(value_to_json).collect()
        }
        Val::Record(fields) => {
            let fields = fields
                .into_iter()
                .map(|(name, value)| (name, value_to_json(value)));
            Value::Object(fields.collect())
        }
        Val::Variant(tag, value) => {
            let mut object = Map::new();
            object.insert("tag".to_owned(), tag.into());
            if let Some(value) = value {
                object.insert("val".to_owned(), value_to_json(*value));
            }
            Value::Object(object)
        }
        Val::Flags(names) => names.into(),
        Val::Option(None) => Value::Null,
        Val::Option(Some(value)) => match *value {
            value @ Val::Option(_) => build_single_field_object("some", value_to_json(value)),
            value => value_to_json(value),
        },
        Val::Result(Ok(value)) => build_single_field_object("ok", boxed(value)),
        Val::Result(Err(value)) => build_single_field_object("err", boxed(value)),
        // Functions with these types are not offered as tools, so these values do not occur.
        Val::Map(_) | Val::Resource(_) | Val::Future(_) | Val::Stream(_) | Val::ErrorContext(_) => {
            Value::Null
        }
    }
}

fn build_single_field_object(name: &str, value: Value) -> Value {
    Value::Object(Map::from_iter([(name.to_owned(), value)]))
}

/// Converts a number to JSON. Infinite numbers and NaN, which JSON does not have, become text.
fn number_to_json(value: f64) -> Value {
    match Number::from_f64(value) {
        Some(number) => number.into(),
        None if value.is_nan() => "NaN".into(),
        None if value > 0.0 => "Infinity".into(),
        None => "-Infinity".into(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_have_one_json_form_each() {
        let boxed = |value: Val| Some(Box::new(value));
        for (value, expected) in [
            (Val::U64(u64::MAX), json!("18446744073709551615")),
            (Val::S64(i64::MIN), json!("-9223372036854775808")),
            (Val::Float64(f64::NAN), json!("NaN")),
            (Val::Float32(0.5), json!(0.5)),
            (Val::Char('é'), json!("é")),
            (Val::List(vec![Val::U8(0), Val::U8(255)]), json!("AP8=")),
            (Val::List(vec![Val::U16(1)]), json!([1])),
            (Val::Option(None), json!(null)),
            (Val::Option(boxed(Val::Bool(true))), json!(true)),
            (Val::Option(boxed(Val::Option(None))), json!({"some": null})),
            (Val::Variant("a".to_owned(), None), json!({"tag": "a"})),
            (
                Val::Variant("b".to_owned(), boxed(Val::U8(1))),
                json!({"tag": "b", "val": 1}),
            ),
            (Val::Result(Ok(None)), json!({"ok": null})),
            (Val::Flags(vec!["x".to_owned()]), json!(["x"])),
            (
                Val::Record(vec![("f".to_owned(), Val::Tuple(vec![Val::S8(-1)]))]),
                json!({"f": [-1]}),
            ),
        ] {
            assert_eq!(value_to_json(value), expected);
        }
    }
}
