//! Reads JSON from untrusted sources: parses it within limits, and measures its depth and number of
//! values.
//!
//! A parsed value takes up to 70 times the memory of its text, and checking, writing or dropping a
//! deeply nested value takes stack space. Therefore the length of a text is checked before it is
//! parsed, and the depth and size of a value before it is processed. The module must not know the
//! meaning of any value. Start from [`parse_json`].

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// Default maximum length of a text to parse, in bytes.
pub const DEFAULT_MAX_JSON_BYTES: usize = 1 << 20;

/// Maximum nesting depth. It is far below the 128 levels that `serde_json` accepts, because a
/// session stores a value inside further levels of nesting.
pub const MAX_JSON_NESTING_DEPTH: usize = 48;

/// Parses a text of at most `cap` bytes and [`MAX_JSON_NESTING_DEPTH`] levels. Rejects objects with
/// duplicate keys: of two equal keys with different values, neither may apply. The error is a
/// phrase without a subject, such as "is not JSON: …"; the caller names the text.
pub fn parse_json(text: &str, cap: usize) -> Result<Value, String> {
    if text.len() > cap {
        return Err(format!("has {} bytes, at most {cap} are read", text.len()));
    }
    let UniqueKeysJsonValue(value) = serde_json::from_str(text).map_err(|e| match e.is_data() {
        true => format!("is ambiguous JSON: {e}"),
        false => format!("is not JSON: {e}"),
    })?;
    if measure_nesting_depth(&value) > MAX_JSON_NESTING_DEPTH {
        return Err(format!(
            "is nested deeper than {MAX_JSON_NESTING_DEPTH} levels"
        ));
    }
    Ok(value)
}

/// Formats a value for display: a string without quotes, any other value as JSON.
pub fn format_value_for_display(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A value in which no object has duplicate keys. JSON parsers differ in which of two equal keys
/// they use, so one program could show a different value from the one that another program acts on.
pub struct UniqueKeysJsonValue(pub Value);

impl<'de> Deserialize<'de> for UniqueKeysJsonValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer
            .deserialize_any(UniqueKeysJsonVisitor)
            .map(Self)
    }
}

struct UniqueKeysJsonVisitor;

impl<'de> Visitor<'de> for UniqueKeysJsonVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value in JSON")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(UniqueKeysJsonValue(value)) = items.next_element()? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut values = Map::new();
        while let Some((key, UniqueKeysJsonValue(value))) =
            entries.next_entry::<String, UniqueKeysJsonValue>()?
        {
            if values.contains_key(&key) {
                let key = key.escape_debug();
                return Err(A::Error::custom(format!("duplicate key `{key}`")));
            }
            values.insert(key, value);
        }
        Ok(Value::Object(values))
    }
}

/// Returns the nesting depth of arrays and objects in a value; 1 for a scalar.
#[must_use]
pub fn measure_nesting_depth(value: &Value) -> usize {
    let mut deepest = 1;
    let mut open = vec![(value, 1)];
    while let Some((value, level)) = open.pop() {
        deepest = deepest.max(level);
        open.extend(child_values(value).map(|child| (child, level + 1)));
    }
    deepest
}

/// Counts a value and all values that are nested in it.
#[must_use]
pub fn count_json_values(value: &Value) -> usize {
    iter_all_values(value).count()
}

/// Iterates over `value` and all values nested in it, in no particular order.
pub fn iter_all_values(value: &Value) -> impl Iterator<Item = &Value> {
    let mut open = vec![value];
    std::iter::from_fn(move || {
        let value = open.pop()?;
        open.extend(child_values(value));
        Some(value)
    })
}

/// Iterates over the items of an array or the field values of an object.
pub fn child_values(value: &Value) -> impl Iterator<Item = &Value> {
    let (items, fields) = match value {
        Value::Array(items) => (Some(items.iter()), None),
        Value::Object(map) => (None, Some(map.values())),
        _ => (None, None),
    };
    items
        .into_iter()
        .flatten()
        .chain(fields.into_iter().flatten())
}

/// Removes the Markdown code fence around a JSON text. Models add such fences in spite of
/// instructions.
pub fn strip_code_fence(text: &str) -> &str {
    let Some(inner) = text.strip_prefix("```") else {
        return text;
    };
    let inner = inner.trim_start_matches(char::is_alphanumeric);
    inner.trim_end().strip_suffix("```").unwrap_or(inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_measured() {
        assert_eq!(
            (
                measure_nesting_depth(&json!(1)),
                count_json_values(&json!(1))
            ),
            (1, 1)
        );
        let value = json!({"a": [1, 2, {"b": 3}], "c": "x"});
        assert_eq!(
            (measure_nesting_depth(&value), count_json_values(&value)),
            (4, 7)
        );
    }

    #[test]
    fn what_is_too_long_too_deep_or_no_json_is_told_apart() {
        assert_eq!(
            parse_json("[1]", 2).unwrap_err(),
            "has 3 bytes, at most 2 are read"
        );
        let said = parse_json("[1", 9).unwrap_err();
        assert!(said.starts_with("is not JSON: "), "{said}");
        assert_eq!(said.matches("JSON").count(), 1, "{said}");
        let deep = "[".repeat(49) + &"]".repeat(49);
        assert_eq!(
            parse_json(&deep, 999).unwrap_err(),
            "is nested deeper than 48 levels"
        );
        assert!(parse_json(&deep[1..97], 999).is_ok());
    }

    #[test]
    fn of_a_key_that_stands_twice_neither_value_counts() {
        for text in [
            r#"{"verdict": {"block": "x"}, "verdict": "pass"}"#,
            r#"{"verdict": "pass", "\u0076erdict": {"block": "x"}}"#,
            r#"{"outcome": {"verdict": {"block": "x"}, "verdict": "pass"}}"#,
            r#"[{"a": 1, "a": 1}]"#,
        ] {
            let said = parse_json(text, 999).unwrap_err();
            assert!(
                said.starts_with("is ambiguous JSON: duplicate key `"),
                "{said}"
            );
        }
        assert!(parse_json(r#"[{"a": 1}, {"a": {"a": null}}]"#, 999).is_ok());
    }
}
