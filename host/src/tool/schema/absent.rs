//! Handling of `null` for optional properties.
//!
//! Models write `null` for an argument that they do not use, regardless of its type. It is read as
//! an absent property, so that schemas need not allow `null`, which Gemini and some grammars
//! refuse.

use serde_json::{Map, Value};

/// Removes `null` values of properties whose schema neither requires them nor allows `null`.
pub fn remove_optional_nulls(schema: &Value, arguments: &mut Value) {
    match arguments {
        Value::Object(given) => {
            let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
                return;
            };
            given.retain(|name, value| {
                let property = properties.get(name).filter(|_| value.is_null());
                property.is_none_or(|property| {
                    is_required_property(schema, name) || allows_null(property)
                })
            });
            for (name, value) in given.iter_mut() {
                if let Some(property) = properties.get(name) {
                    remove_optional_nulls(property, value);
                }
            }
        }
        Value::Array(items) => {
            let Some(schema) = schema.get("items").filter(|items| items.is_object()) else {
                return;
            };
            items
                .iter_mut()
                .for_each(|item| remove_optional_nulls(schema, item));
        }
        _ => {}
    }
}

/// Removes `null` from the types of all optional properties: schemas that are derived from `Option`
/// fields allow it.
pub(crate) fn remove_null_types(schema: &mut Value) {
    let required = schema.get("required").cloned().unwrap_or_default();
    let required = Value::Object(Map::from_iter([("required".to_owned(), required)]));
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        for (name, property) in properties {
            if !is_required_property(&required, name) {
                remove_null_type(property);
            }
            remove_null_types(property);
        }
    }
    if let Some(items) = schema.get_mut("items") {
        remove_null_types(items);
    }
}

fn remove_null_type(schema: &mut Value) {
    let Some(schema) = schema.as_object_mut() else {
        return;
    };
    if schema.get("default") == Some(&Value::Null) {
        schema.remove("default");
    }
    if let Some(values) = schema.get_mut("enum").and_then(Value::as_array_mut) {
        values.retain(|value| !value.is_null());
    }
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = &mut types[..] {
            let only = only.take();
            schema.insert("type".to_owned(), only);
        }
    }
    let Some(Value::Array(variants)) = schema.get_mut("anyOf") else {
        return;
    };
    variants.retain(|variant| variant.get("type").is_none_or(|name| name != "null"));
    if let [Value::Object(only)] = &mut variants[..] {
        let only = std::mem::take(only);
        schema.remove("anyOf");
        for (name, value) in only {
            schema.entry(name).or_insert(value);
        }
    }
}

fn is_required_property(schema: &Value, name: &str) -> bool {
    let required = schema.get("required").and_then(Value::as_array);
    required.is_some_and(|required| required.iter().any(|one| one == name))
}

/// Whether a schema may allow `null`. Only its own keywords are examined, not the schemas to which
/// it refers.
fn allows_null(schema: &Value) -> bool {
    let is_null_type = |name: &Value| match name {
        Value::Array(names) => names.iter().any(|name| name == "null"),
        name => name == "null",
    };
    let has_null = |values: &Value| {
        let values = values.as_array();
        values.is_none_or(|values| values.iter().any(Value::is_null))
    };
    schema.get("type").is_none_or(is_null_type) && schema.get("enum").is_none_or(has_null)
}
