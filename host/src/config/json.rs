//! Settings in JSON: `config.json` has the same meaning as `config.toml`, in another notation.
//!
//! A null counts as an absent value if the setting is optional, and is an error otherwise. Errors
//! name the line, as for TOML: `serde_json` gives no positions of values but only of errors, so the
//! parser raises an error at the value in question to find its line. The module must not know the
//! meaning of sections. Start from [`parse_table`].

use std::fmt;
use std::marker::PhantomData;

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

use super::Section;
use crate::json::UniqueKeysJsonValue;

/// Parses a JSON text to a TOML table. Nulls are left out.
pub(super) fn parse_table(text: &str) -> Result<toml::Table, serde_json::Error> {
    let UniqueKeysJsonValue(value) = serde_json::from_str(text)?;
    match json_to_toml_value(value)? {
        Some(toml::Value::Table(table)) => Ok(table),
        _ => Err(serde_json::Error::custom(
            "settings must be one JSON object",
        )),
    }
}

fn json_to_toml_value(value: Value) -> Result<Option<toml::Value>, serde_json::Error> {
    Ok(Some(match value {
        Value::Null => return Ok(None),
        Value::Bool(is) => toml::Value::Boolean(is),
        Value::String(text) => toml::Value::String(text),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => toml::Value::Integer(whole),
            (None, Some(float)) => toml::Value::Float(float),
            (None, None) => return Err(serde_json::Error::custom("a number is out of range")),
        },
        Value::Array(items) => {
            let mut array = Vec::with_capacity(items.len());
            for item in items {
                array.extend(json_to_toml_value(item)?);
            }
            toml::Value::Array(array)
        }
        Value::Object(fields) => {
            let mut table = toml::Table::new();
            for (key, value) in fields {
                table.extend(json_to_toml_value(value)?.map(|value| (key, value)));
            }
            toml::Value::Table(table)
        }
    }))
}

/// Parses one section to find its errors, which contain line numbers; the value is discarded.
pub(super) fn check_json_section<T: Section>(text: &str) -> Result<(), serde_json::Error> {
    let section = TopLevelFieldsVisitor {
        each: |key: &str| (key == T::NAME).then_some(TopLevelFieldRule::Read),
        read: PhantomData::<T>,
    };
    section.deserialize(&mut serde_json::Deserializer::from_str(text))
}

/// Rejects JSON settings whose outermost object has a field that is not in `known`.
pub(super) fn check_known_sections(text: &str, known: &[&str]) -> Result<(), serde_json::Error> {
    let all = TopLevelFieldsVisitor {
        each: |key: &str| (!known.contains(&key)).then_some(TopLevelFieldRule::Stray(known)),
        read: PhantomData::<IgnoredAny>,
    };
    all.deserialize(&mut serde_json::Deserializer::from_str(text))
}

/// Rule for a field of the outermost object. Fields without a rule are ignored.
enum TopLevelFieldRule<'a> {
    Read,
    /// The field is unknown and an error; contains the names of the known fields.
    Stray(&'a [&'a str]),
}

/// Visitor of the fields of the outermost object. It reads the fields one at a time, so that an
/// error has the position of its field.
struct TopLevelFieldsVisitor<F, T> {
    each: F,
    read: PhantomData<T>,
}

impl<'a, 'de, F, T> DeserializeSeed<'de> for TopLevelFieldsVisitor<F, T>
where
    F: Fn(&str) -> Option<TopLevelFieldRule<'a>>,
    T: serde::Deserialize<'de>,
{
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_map(self)
    }
}

impl<'a, 'de, F, T> Visitor<'de> for TopLevelFieldsVisitor<F, T>
where
    F: Fn(&str) -> Option<TopLevelFieldRule<'a>>,
    T: serde::Deserialize<'de>,
{
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of sections")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        while let Some(key) = fields.next_key::<String>()? {
            match (self.each)(&key) {
                None => drop(fields.next_value::<IgnoredAny>()?),
                Some(TopLevelFieldRule::Read) => drop(fields.next_value::<T>()?),
                Some(TopLevelFieldRule::Stray(known)) => {
                    return Err(A::Error::custom(super::unknown_section_text(&key, known)));
                }
            }
        }
        Ok(())
    }
}

/// Returns the line of the last key on this path of keys; `None` if the path does not exist.
pub(super) fn find_key_path_line(text: &str, keys: &[&str]) -> Option<usize> {
    let found = KeyPathFinder(keys).deserialize(&mut serde_json::Deserializer::from_str(text));
    found.err().map(|error| error.line().max(1))
}

/// Visitor that searches for a path of keys. It reports a match as an error, because only errors
/// have positions.
struct KeyPathFinder<'a>(&'a [&'a str]);

impl<'de> DeserializeSeed<'de> for KeyPathFinder<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for KeyPathFinder<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        while let Some(key) = fields.next_key::<String>()? {
            match self.0 {
                [last] if *last == key => return Err(A::Error::custom("here")),
                [first, rest @ ..] if *first == key => {
                    fields.next_value_seed(KeyPathFinder(rest))?
                }
                _ => drop(fields.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

/// Returns the message of an error without its position, which is reported separately.
pub(super) fn json_error_message_without_position(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    text.strip_suffix(&place).unwrap_or(&text).to_owned()
}
