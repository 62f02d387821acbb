//! Tests of the reduction of schemas at each level.

use serde_json::{Value, json};

use super::*;

/// Reduces an object schema whose only property `x` has this `schema`, and returns the reduced
/// schema of `x`.
fn reduced_property(schema: &Value, level: JsonSchemaSubset) -> Value {
    let mut whole = json!({"type": "object", "properties": {"x": schema}});
    if let Some(definitions) = schema.get("$defs") {
        whole["$defs"] = definitions.clone();
    }
    reduce_schema(&whole, level)["properties"]["x"].clone()
}

#[test]
fn each_wire_gets_a_property_in_the_form_that_it_accepts() {
    let tree = json!({"type": "object", "description": "A node.", "properties": {
        "name": {"type": "string"}, "children": {"type": "array", "items": {"$ref": "#/$defs/Node"}}}});
    let node = json!({"type": "object", "description": "A node.", "properties": {
        "name": {"type": "string"},
        "children": {"type": "array", "items": {"type": "object", "description": "A node."}}}});
    let scalars = json!([
        {"type": "string", "nullable": true}, {"type": "number"}, {"type": "boolean"}, {"type": "object"},
    ]);
    let list_of = |items: &Value| json!({"type": "array", "items": {"anyOf": items}});
    let with_list = |items: &Value| {
        let mut anything = scalars.clone();
        anything.as_array_mut().unwrap().push(list_of(items));
        anything
    };
    let anything = with_list(&with_list(&scalars));
    // Each row: the original schema, the schema reduced for Gemini, and the schema for the other
    // APIs if it differs from the one for Gemini.
    let table: Vec<(Value, Value, Option<Value>)> = vec![
        (
            json!({"type": ["integer", "null"], "format": "uint32", "minimum": 0, "default": null}),
            json!({"type": "integer", "minimum": 0}),
            None,
        ),
        (
            json!({"type": "integer", "format": "int64", "exclusiveMinimum": 0, "exclusiveMaximum": 10, "multipleOf": 5}),
            json!({"type": "integer", "format": "int64", "minimum": 1, "maximum": 9}),
            None,
        ),
        (
            json!({"type": "number", "minimum": 0.5, "exclusiveMaximum": 2}),
            json!({"type": "number", "minimum": 0.5, "maximum": 2}),
            None,
        ),
        (
            json!({"anyOf": [{"type": "string", "title": "T"}, {"type": "null"}], "description": "D."}),
            json!({"type": "string", "description": "D."}),
            None,
        ),
        (
            json!({"type": "string", "pattern": "^a$", "minLength": 1, "format": "email", "examples": ["a"]}),
            json!({"type": "string"}),
            Some(json!({"type": "string", "minLength": 1})),
        ),
        (
            json!({"const": "a"}),
            json!({"type": "string", "enum": ["a"]}),
            None,
        ),
        (
            json!({"enum": ["a", "b", null]}),
            json!({"type": "string", "enum": ["a", "b"]}),
            None,
        ),
        (
            json!({"type": "integer", "enum": [1, 2], "description": "D."}),
            json!({"type": "integer", "description": "D.\nOne of: 1, 2"}),
            Some(json!({"type": "integer", "enum": [1, 2], "description": "D."})),
        ),
        (
            json!({"enum": ["", "a"]}),
            json!({"type": "string", "description": "One of: \"\", \"a\""}),
            None,
        ),
        (
            json!({"oneOf": [{"const": "a", "description": "First."}, {"const": "b"}], "description": "D."}),
            json!({"type": "string", "enum": ["a", "b"], "description": "D.\n\"a\": First."}),
            None,
        ),
        (
            json!({"type": ["string", "integer"], "description": "D."}),
            json!({"anyOf": [{"type": "string", "description": "D."}, {"type": "integer", "description": "D."}]}),
            Some(json!({"anyOf": [{"type": "string"}, {"type": "integer"}], "description": "D."})),
        ),
        (
            json!({"type": "array", "items": {"type": ["string", "null"]}, "uniqueItems": true, "maxItems": 3}),
            json!({"type": "array", "items": {"type": "string", "nullable": true}, "maxItems": 3}),
            Some(
                json!({"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "null"}]}, "maxItems": 3}),
            ),
        ),
        (
            json!({"type": "array"}),
            json!({"type": "array", "items": {"anyOf": anything}}),
            Some(json!({"type": "array"})),
        ),
        (
            json!({"description": "D."}),
            Value::Null,
            Some(json!({"description": "D."})),
        ),
        (
            json!({"type": "object", "properties": {}, "additionalProperties": {"type": "integer"}}),
            json!({"type": "object"}),
            Some(
                json!({"type": "object", "properties": {}, "additionalProperties": {"type": "integer"}}),
            ),
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": ["string", "null"]}}, "required": ["a", "b", "a"],
                "additionalProperties": false}),
            Value::Null,
            Some(
                json!({"type": "object", "required": ["a", "b"], "properties":
                {"a": {"anyOf": [{"type": "string"}, {"type": "null"}]}, "b": {}}}),
            ),
        ),
        (
            json!({"$ref": "#/$defs/Node", "$defs": {"Node": tree}}),
            node.clone(),
            Some({
                let mut node = node;
                node["properties"]["children"]["items"]["properties"] = json!({});
                node
            }),
        ),
        (
            json!({"allOf": [{"type": "string"}, {"minLength": 2}], "description": "D."}),
            json!({"type": "string", "description": "D."}),
            Some(json!({"type": "string", "minLength": 2, "description": "D."})),
        ),
        (
            json!({"$ref": "https://example.com/schema"}),
            Value::Null,
            Some(json!({})),
        ),
        (
            json!({"type": "null"}),
            json!({"type": "string", "nullable": true}),
            Some(json!({"type": "null"})),
        ),
    ];
    for (schema, gemini, common) in table {
        if !gemini.is_null() {
            assert_eq!(
                reduced_property(&schema, JsonSchemaSubset::Gemini),
                gemini,
                "{schema}"
            );
        }
        assert_eq!(
            reduced_property(&schema, JsonSchemaSubset::Common),
            common.unwrap_or(gemini),
            "{schema}"
        );
    }
}

#[test]
fn top_level_alternatives_of_a_parameter_schema_are_merged() {
    let schema = json!({"type": "object", "description": "D.", "oneOf": [
        {"properties": {"kind": {"const": "file"}, "path": {"type": "string"}}, "required": ["kind", "path"]},
        {"properties": {"kind": {"const": "url"}, "url": {"type": "string"}}, "required": ["kind"]},
    ]});
    let merged = json!({"type": "object", "description": "D.", "required": ["kind"], "properties": {
        "kind": {"type": "string", "enum": ["file", "url"]},
        "path": {"type": "string"},
        "url": {"type": "string"},
    }});
    for level in [
        JsonSchemaSubset::Full,
        JsonSchemaSubset::Common,
        JsonSchemaSubset::Gemini,
    ] {
        assert_eq!(reduce_schema(&schema, level), merged, "{level:?}");
    }
}

#[test]
fn a_wire_that_accepts_all_of_json_schema_gets_the_schema_unchanged() {
    let schema = json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Arguments",
        "type": "object", "properties": {"x": {"type": ["integer", "null"], "format": "uint32"}}});
    let mut whole = schema.clone();
    whole
        .as_object_mut()
        .unwrap()
        .retain(|name, _| name == "type" || name == "properties");
    assert_eq!(reduce_schema(&schema, JsonSchemaSubset::Full), whole);
    // Older drafts allow a list of schemas in `items`.
    let old = json!({"type": "object", "properties": {"x": {"type": "array", "items": [{"type": "string"}]}}});
    let cut_old = json!({"type": "object", "properties": {"x": {"type": "array"}}});
    assert_eq!(reduce_schema(&old, JsonSchemaSubset::Full), cut_old);
}

#[test]
fn the_schema_of_arguments_is_always_an_object_schema() {
    for odd in [
        json!(null),
        json!(true),
        json!([]),
        json!({}),
        json!({"type": "string"}),
        json!({"$ref": "#"}),
    ] {
        assert_eq!(
            reduce_schema(&odd, JsonSchemaSubset::Gemini),
            json!({"type": "object"}),
            "{odd}"
        );
        let common = json!({"type": "object", "properties": {}});
        assert_eq!(
            reduce_schema(&odd, JsonSchemaSubset::Common),
            common,
            "{odd}"
        );
    }
}

#[test]
fn schema_references_that_multiply_are_limited() {
    let mut definitions = serde_json::Map::new();
    for at in 0..20 {
        let next = json!({"$ref": format!("#/$defs/{}", at + 1)});
        let schema = json!({"type": "object", "properties": {"a": next, "b": next, "c": next}});
        definitions.insert(at.to_string(), schema);
    }
    let schema =
        json!({"type": "object", "properties": {"x": {"$ref": "#/$defs/0"}}, "$defs": definitions});
    for level in [JsonSchemaSubset::Common, JsonSchemaSubset::Gemini] {
        let cut = reduce_schema(&schema, level).to_string();
        assert!(cut.len() < 2_000_000, "{} bytes", cut.len());
    }
}
