//! Schemas of tools as each wire takes them.
//!
//! A tool declares its arguments in any JSON Schema, and no API takes all of it: Gemini refuses a
//! request in which one tool has a list of types or a reference. So a schema is cut down before it
//! is sent: references are inlined, alternatives are made plain, and keywords that a wire refuses
//! are left out. A cut schema is wider than its original, never narrower, and arguments are checked
//! with the original. Three things are read more strictly than JSON Schema has it, as authors mean
//! them: a schema with `properties` is for objects, `null` for a property that may be left out means
//! that it is left out, and an alternative for objects has the properties that it describes.
//!
//! Owns the cutting: `flat` resolves references and joins `allOf`, `node` cuts one schema, `choice`
//! cuts alternatives. Pure; it must not know tools or requests. Start from [`cut`].

mod choice;
mod flat;
mod node;

use serde_json::Value;

/// The part of JSON Schema that a wire takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// JSON Schema 2020-12 without alternatives at the root: Anthropic.
    Full,
    /// The part that every server behind an API of OpenAI takes, Gemini and the grammars of
    /// llama.cpp among them.
    Common,
    /// The OpenAPI subset of Gemini (<https://ai.google.dev/api/caching#Schema>).
    Gemini,
}

/// Keywords at the root that Anthropic refuses.
const CHOICES: [&str; 3] = ["allOf", "anyOf", "oneOf"];

/// Returns a schema of a tool's arguments, cut down to `level`. The result is always an object
/// schema.
#[must_use]
pub fn cut(schema: &Value, level: Level) -> Value {
    if level == Level::Full
        && let Some(whole) = whole(schema)
    {
        return whole;
    }
    node::root(schema, level)
}

/// A schema that needs no cutting where all of JSON Schema is taken.
fn whole(schema: &Value) -> Option<Value> {
    let mut schema = schema.as_object()?.clone();
    let is_plain =
        schema.get("type")? == "object" && !CHOICES.iter().any(|name| schema.contains_key(*name));
    // Words about the schema itself; every request would carry them.
    schema.remove("$schema");
    schema.remove("title");
    let schema = Value::Object(schema);
    (is_plain && jsonschema::draft202012::meta::is_valid(&schema)).then_some(schema)
}

#[cfg(test)]
mod tests;
