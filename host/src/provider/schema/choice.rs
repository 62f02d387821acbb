//! Simplifies alternatives: lists of schemas (`anyOf`) that accept a value if one of the schemas
//! does.
//!
//! Owns the form of alternatives in each wire: without duplicates, with string enums joined and
//! object schemas merged. The resulting schema must accept every value that an alternative accepts.
//! Must not know references; `node` reduces each alternative first. Start from
//! [`build_any_of_schema`].

use serde_json::{Map, Value, json};

use super::JsonSchemaSubset;

/// Builds a schema for values that match any of `variants`; `None` if `variants` is empty.
pub(super) fn build_any_of_schema(
    variants: Vec<Map<String, Value>>,
    description: Option<&str>,
    level: JsonSchemaSubset,
) -> Option<Map<String, Value>> {
    let mut all: Vec<Map<String, Value>> = Vec::new();
    for variant in variants {
        for one in split_alternatives(variant) {
            if !all.contains(&one) {
                all.push(one);
            }
        }
    }
    // A variant without a type accepts every value, so the other variants add nothing.
    let untyped = |one: &&Map<String, Value>| !one.contains_key("type");
    if let Some(any) = all.iter().find(untyped) {
        return Some(any.clone());
    }
    if all.len() > 1
        && let Some(names) = merge_enums(&all, description)
    {
        return Some(names);
    }
    if all.len() <= 1 {
        return all.pop();
    }
    let mut schema = Map::new();
    schema.insert("anyOf".to_owned(), json!(all));
    add_schema_description(&mut schema, description, level);
    Some(schema)
}

/// Returns the alternatives in `anyOf` of a reduced schema, or the schema itself if it has none.
fn split_alternatives(mut schema: Map<String, Value>) -> Vec<Map<String, Value>> {
    match schema.remove("anyOf") {
        Some(Value::Array(variants)) => {
            let maps = variants.into_iter().filter_map(|variant| match variant {
                Value::Object(variant) => Some(variant),
                _ => None,
            });
            maps.collect()
        }
        _ => vec![schema],
    }
}

/// Merges string enums into one enum, whose description has a line for each of them; `None` if a
/// schema is not a string enum. Rust enums whose variants have docs generate such schemas.
fn merge_enums(
    variants: &[Map<String, Value>],
    description: Option<&str>,
) -> Option<Map<String, Value>> {
    let mut names: Vec<Value> = Vec::new();
    let mut lines: Vec<String> = description.map(str::to_owned).into_iter().collect();
    for variant in variants {
        let mut keys = variant.keys();
        if !keys.all(|key| matches!(&**key, "type" | "enum" | "description"))
            || variant["type"] != "string"
        {
            return None;
        }
        let of_one = variant.get("enum")?.as_array()?;
        if let Some(Value::String(about)) = variant.get("description") {
            let told: Vec<String> = of_one.iter().map(ToString::to_string).collect();
            lines.push(format!("{}: {about}", told.join(", ")));
        }
        names.extend(of_one.iter().cloned());
    }
    let mut unique: Vec<Value> = Vec::new();
    names.retain(|name| {
        let is_new = !unique.contains(name);
        unique.push(name.clone());
        is_new
    });
    let mut schema = Map::new();
    schema.insert("type".to_owned(), json!("string"));
    schema.insert("enum".to_owned(), json!(names));
    if !lines.is_empty() {
        schema.insert("description".to_owned(), json!(lines.join("\n")));
    }
    Some(schema)
}

/// Merges object schemas into one that accepts every object that any of `variants` accepts. It has
/// all properties that occur and requires those that every variant requires. `None` if one is not
/// an object schema.
pub(super) fn merge_object_schema_variants(
    variants: Vec<Map<String, Value>>,
    level: JsonSchemaSubset,
) -> Option<Map<String, Value>> {
    let mut merged: Option<(Map<String, Value>, Vec<Value>)> = None;
    for variant in variants {
        if variant.get("type")? != "object" {
            return None;
        }
        let list = |name: &str| variant.get(name).and_then(Value::as_array).cloned();
        let required = list("required").unwrap_or_default();
        let properties = variant.get("properties").and_then(Value::as_object);
        let properties = properties.cloned().unwrap_or_default();
        let Some((all, in_all)) = &mut merged else {
            merged = Some((properties, required));
            continue;
        };
        in_all.retain(|name| required.contains(name));
        for (name, property) in properties {
            let joined = match (all.get(&name), &property) {
                (Some(Value::Object(known)), Value::Object(property)) => {
                    let both = vec![known.clone(), property.clone()];
                    build_any_of_schema(both, None, level).map(Value::Object)
                }
                _ => None,
            };
            all.insert(name, joined.unwrap_or(property));
        }
    }
    let (properties, required) = merged?;
    let mut schema = Map::new();
    schema.insert("type".to_owned(), json!("object"));
    if level != JsonSchemaSubset::Gemini || !properties.is_empty() {
        schema.insert("properties".to_owned(), Value::Object(properties));
    }
    if !required.is_empty() {
        schema.insert("required".to_owned(), Value::Array(required));
    }
    Some(schema)
}

/// Adds a description to a schema. Gemini accepts no other keyword next to `anyOf`, so there each
/// alternative gets the description.
pub(super) fn add_schema_description(
    schema: &mut Map<String, Value>,
    description: Option<&str>,
    level: JsonSchemaSubset,
) {
    let Some(description) = description.filter(|text| !text.is_empty()) else {
        return;
    };
    match schema.get_mut("anyOf") {
        Some(Value::Array(variants)) if level == JsonSchemaSubset::Gemini => {
            for variant in variants.iter_mut().filter_map(Value::as_object_mut) {
                add_schema_description(variant, Some(description), level);
            }
        }
        _ => {
            let told = match schema.get("description").and_then(Value::as_str) {
                Some(own) if own.contains(description) => own.to_owned(),
                Some(own) => format!("{description}\n{own}"),
                None => description.to_owned(),
            };
            schema.insert("description".to_owned(), json!(told));
        }
    }
}

/// Extends a schema to accept `null`.
pub(super) fn allow_null(
    mut schema: Map<String, Value>,
    level: JsonSchemaSubset,
) -> Map<String, Value> {
    if level == JsonSchemaSubset::Gemini {
        match schema
            .get_mut("anyOf")
            .and_then(|variants| variants.get_mut(0))
        {
            Some(first) => first["nullable"] = json!(true),
            None => {
                schema.insert("nullable".to_owned(), json!(true));
            }
        }
        return schema;
    }
    if !schema.contains_key("type") && !schema.contains_key("anyOf") {
        return schema;
    }
    let description = schema.remove("description");
    let mut variants: Vec<Value> = split_alternatives(schema)
        .into_iter()
        .map(Value::Object)
        .collect();
    variants.push(json!({"type": "null"}));
    let mut schema = Map::new();
    if let Some(description) = description {
        schema.insert("description".to_owned(), description);
    }
    schema.insert("anyOf".to_owned(), Value::Array(variants));
    schema
}
