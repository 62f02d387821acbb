//! Converts tool schemas to the form that each wire accepts.
//!
//! A tool may declare its arguments in any JSON Schema, but no API accepts all of it: Gemini
//! refuses a whole request if one tool has a list of types or a reference. So a schema is reduced
//! before it is sent: references are inlined, alternatives are simplified, and unsupported keywords
//! are dropped. The reduced schema is wider than the original, never narrower, and arguments are
//! validated against the original. Three constructs are read more strictly than JSON Schema does,
//! as authors mean them: a schema with `properties` is an object schema, `null` for an optional
//! property means that it is absent, and an object alternative has the properties that it
//! describes.
//!
//! Owns the reduction: `flat` resolves references and joins `allOf`, `node` reduces one schema,
//! `choice` simplifies alternatives. Pure; it must not know tools or requests. Start from
//! [`reduce_schema`].

mod choice;
mod closed;
mod flat;
mod node;

use serde_json::Value;

pub use closed::is_strict_schema;

/// Subset of JSON Schema that a wire format accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonSchemaSubset {
    /// JSON Schema 2020-12 without `oneOf`, `anyOf` or `allOf` at the root (Anthropic).
    Full,
    /// The subset that all OpenAI-compatible servers accept, including Gemini and the grammars of
    /// llama.cpp.
    Common,
    /// The OpenAPI subset of Gemini (<https://ai.google.dev/api/caching#Schema>).
    Gemini,
}

/// Keywords that Anthropic refuses at the root of a schema.
const ANTHROPIC_REFUSED_ROOT_KEYWORDS: [&str; 3] = ["allOf", "anyOf", "oneOf"];

/// Returns the schema of a tool's arguments, reduced to the subset of JSON Schema that `level`
/// accepts. The returned schema is always an object schema.
#[must_use]
pub fn reduce_schema(schema: &Value, level: JsonSchemaSubset) -> Value {
    if level == JsonSchemaSubset::Full
        && let Some(whole) = strip_schema_metadata(schema)
    {
        return whole;
    }
    node::reduce_root(schema, level)
}

/// Returns the schema without metadata, or `None` if [`JsonSchemaSubset::Full`] does not accept all
/// of it.
fn strip_schema_metadata(schema: &Value) -> Option<Value> {
    let mut schema = schema.as_object()?.clone();
    let is_plain = schema.get("type")? == "object"
        && !ANTHROPIC_REFUSED_ROOT_KEYWORDS
            .iter()
            .any(|name| schema.contains_key(*name));
    // Remove metadata: it would cost tokens in every request.
    schema.remove("$schema");
    schema.remove("title");
    let schema = Value::Object(schema);
    (is_plain && jsonschema::draft202012::meta::is_valid(&schema)).then_some(schema)
}

#[cfg(test)]
mod tests;
