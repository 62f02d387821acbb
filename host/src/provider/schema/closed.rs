//! Recognizes closed schemas: schemas whose objects must have all listed properties and no others.

use serde_json::{Map, Value};

/// JSON Schema keywords whose value is one schema.
const SINGLE_SCHEMA_KEYWORDS: [&str; 3] = ["items", "not", "contains"];

/// JSON Schema keywords whose value is a list of schemas.
const SCHEMA_LIST_KEYWORDS: [&str; 4] = ["anyOf", "oneOf", "allOf", "prefixItems"];

/// Keywords of JSON Schema whose value maps names to schemas.
const SCHEMA_MAP_VALUED_KEYWORDS: [&str; 3] = ["properties", "$defs", "definitions"];

/// Whether every object in a schema requires all its properties and allows no other, as OpenAI
/// (`strict`) and Anthropic demand of the schema of an answer.
#[must_use]
pub fn is_strict_schema(schema: &Value) -> bool {
    let Value::Object(keys) = schema else {
        return false;
    };
    let closed = |name: &&str| keys.get(*name).is_none_or(is_strict_schema);
    let all_closed = |name: &&str| match keys.get(*name) {
        None => true,
        Some(Value::Array(list)) => list.iter().all(is_strict_schema),
        Some(_) => false,
    };
    let named_closed = |name: &&str| match keys.get(*name) {
        None => true,
        Some(Value::Object(named)) => named.values().all(is_strict_schema),
        Some(_) => false,
    };
    requires_all_and_only_its_properties(keys)
        && SINGLE_SCHEMA_KEYWORDS.iter().all(closed)
        && SCHEMA_LIST_KEYWORDS.iter().all(all_closed)
        && SCHEMA_MAP_VALUED_KEYWORDS.iter().all(named_closed)
}

fn requires_all_and_only_its_properties(keys: &Map<String, Value>) -> bool {
    let is_object = keys.get("type").is_some_and(|kind| *kind == "object");
    let properties = keys.get("properties").and_then(Value::as_object);
    if !is_object && properties.is_none() {
        return true;
    }
    let required = keys.get("required").and_then(Value::as_array);
    let is_required = |name: &String| {
        required.is_some_and(|names| names.iter().any(|one| one.as_str() == Some(name)))
    };
    keys.get("additionalProperties") == Some(&Value::Bool(false))
        && properties.is_some_and(|properties| properties.keys().all(is_required))
}

#[test]
fn only_schemas_that_list_all_they_allow_are_closed() {
    use serde_json::json;
    let closed = json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"],
        "additionalProperties": false});
    for (schema, expected) in [
        (json!({"type": "string"}), true),
        (closed.clone(), true),
        (json!({"type": "array", "items": closed}), true),
        (json!({"anyOf": [closed, {"type": "null"}]}), true),
        (json!({"type": "object"}), false),
        (
            json!({"type": "array", "items": {"type": "object", "properties": {}}}),
            false,
        ),
        (
            json!({"type": "object", "properties": {"a": {}}, "required": [], "additionalProperties": false}),
            false,
        ),
        (
            json!({"$defs": {"d": {"type": "object"}}, "$ref": "#/$defs/d"}),
            false,
        ),
        (json!(true), false),
        (json!({"properties": 1, "anyOf": 1}), false),
    ] {
        assert_eq!(is_strict_schema(&schema), expected, "{schema}");
    }
}
